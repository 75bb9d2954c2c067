import sqlite3
import unittest

from report import balances


class Balances(unittest.TestCase):
    def test_one_order_one_payment(self):
        connection = sqlite3.connect(":memory:")
        connection.executescript(open("schema.sql").read())
        connection.execute("INSERT INTO customers VALUES (1, 'Ada')")
        connection.execute("INSERT INTO orders VALUES (1, 1, 500)")
        connection.execute("INSERT INTO payments VALUES (1, 1, 200)")
        self.assertEqual(balances(connection), [("Ada", 500, 200, 300)])


if __name__ == "__main__":
    unittest.main()
