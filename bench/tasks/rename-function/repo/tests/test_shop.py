import unittest

from shop.cart import Cart


class Totals(unittest.TestCase):
    def test_a_cart(self):
        cart = Cart()
        cart.add(250, 2)
        self.assertEqual(cart.total(), 500)


if __name__ == "__main__":
    unittest.main()
