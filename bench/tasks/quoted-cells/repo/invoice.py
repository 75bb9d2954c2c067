"""Invoices as tables."""

from tables import write_rows

HEAD = ["item", "count", "price"]


def export(lines):
    """An invoice as CSV text; `lines` are (item, count, price in cents)."""
    return write_rows([HEAD, *([item, count, f"{cents / 100:.2f}"] for item, count, cents in lines)])
