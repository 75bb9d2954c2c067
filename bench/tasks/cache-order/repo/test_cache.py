import unittest

from cache import Cache


class Caching(unittest.TestCase):
    def test_the_oldest_is_forgotten(self):
        cache = Cache(2)
        for key in "abc":
            cache.put(key, key)
        self.assertIsNone(cache.get("a"))
        self.assertEqual(cache.get("c"), "c")


if __name__ == "__main__":
    unittest.main()
