"""What customers ordered, paid and owe."""

QUERY = """
SELECT customers.name, SUM(orders.cents), SUM(payments.cents)
FROM customers
JOIN orders ON orders.customer_id = customers.id
JOIN payments ON payments.order_id = orders.id
GROUP BY customers.name
ORDER BY customers.name
"""


def balances(connection):
    """Rows (name, ordered, paid, owed) in cents, of every customer, by name."""
    return [(name, ordered, paid, ordered - paid) for name, ordered, paid in connection.execute(QUERY)]
