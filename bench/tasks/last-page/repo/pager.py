"""Lists in pages."""


def page_count(total, size):
    """How many pages `total` entries fill."""
    if size < 1:
        raise ValueError("a page has at least one entry")
    return total // size


def page(entries, number, size):
    """The entries of one page, counted from 1. Asking for a page that is not there is an IndexError."""
    if not 1 <= number <= page_count(len(entries), size):
        raise IndexError(f"there is no page {number}")
    start = number * size
    return entries[start : start + size]
