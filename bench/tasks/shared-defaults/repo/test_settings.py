import unittest

from settings import merge


class Merging(unittest.TestCase):
    def test_later_layers_win(self):
        self.assertEqual(merge({"width": 100}, {"width": 120})["width"], 120)


if __name__ == "__main__":
    unittest.main()
