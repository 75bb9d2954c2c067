"""Prices, in cents."""

DISCOUNT_FROM = 10_000


def get_total(items):
    """The sum of all items, with the discount for large orders."""
    total = sum(price * count for price, count in items)
    return total * 95 // 100 if total >= DISCOUNT_FROM else total
