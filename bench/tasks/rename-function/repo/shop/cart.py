"""What a customer has chosen."""

from shop import prices


class Cart:
    def __init__(self):
        self.items = []

    def add(self, price, count=1):
        self.items.append((price, count))

    def total(self):
        return prices.get_total(self.items)
