"""A cache of a fixed size that forgets what was used least recently."""


class Cache:
    def __init__(self, size):
        self.size = size
        self.entries = {}
        self.hits = 0
        self.misses = 0

    def get(self, key, default=None):
        if key in self.entries:
            self.hits += 1
            return self.entries[key]
        self.misses += 1
        return default

    def put(self, key, value):
        if len(self.entries) >= self.size:
            oldest = next(iter(self.entries))
            del self.entries[oldest]
        self.entries[key] = value

    def __len__(self):
        return len(self.entries)
