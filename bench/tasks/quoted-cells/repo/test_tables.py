import unittest

from invoice import export
from tables import read_rows, write_rows


class Tables(unittest.TestCase):
    def test_there_and_back(self):
        rows = [["a", "b"], ["1", "2"]]
        self.assertEqual(read_rows(write_rows(rows)), rows)

    def test_an_invoice(self):
        self.assertEqual(export([("tea", 2, 350)]), "item,count,price\r\ntea,2,3.50\r\n")


if __name__ == "__main__":
    unittest.main()
