import unittest

from order import build_order


class Order(unittest.TestCase):
    def test_what_is_needed_comes_first(self):
        self.assertEqual(build_order({"app": ["lib"], "lib": []}), ["lib", "app"])


if __name__ == "__main__":
    unittest.main()
