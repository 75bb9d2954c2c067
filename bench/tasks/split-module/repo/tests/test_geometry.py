import unittest

import geometry


class Shapes(unittest.TestCase):
    def test_there_and_back(self):
        self.assertEqual(geometry.to_json(geometry.from_json(geometry.to_json(geometry.Box(2, 3)))), '{"height": 3, "kind": "box", "width": 2}')

    def test_total(self):
        self.assertEqual(geometry.total_area([geometry.Box(2, 3), geometry.Box(1, 1)]), 7)


if __name__ == "__main__":
    unittest.main()
