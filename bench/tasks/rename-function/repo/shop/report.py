"""Reports by the name of the function that computes them."""

import shop.prices

REPORTS = {"total": "get_total"}


def report(name, items):
    return getattr(shop.prices, REPORTS[name])(items)
