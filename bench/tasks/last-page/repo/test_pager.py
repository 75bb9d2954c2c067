import unittest

from pager import page, page_count


class Pages(unittest.TestCase):
    def test_first_page(self):
        self.assertEqual(page(list("abcdef"), 1, 2), ["a", "b"])


if __name__ == "__main__":
    unittest.main()
