import unittest

from durations import parse, show


class Durations(unittest.TestCase):
    def test_parts_add_up(self):
        self.assertEqual(parse("1h30m"), 5400)

    def test_shown_in_the_largest_units(self):
        self.assertEqual(show(5400), "1h30m")


if __name__ == "__main__":
    unittest.main()
