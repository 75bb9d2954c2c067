python3 -m unittest -q && python3 - <<'EOF'
import random
from collections import OrderedDict

from cache import Cache

for seed in range(200):
    chance = random.Random(seed)
    size = chance.randrange(0, 5)
    cache, model, hits, misses = Cache(size), OrderedDict(), 0, 0
    for _ in range(60):
        key = chance.choice("abcdefg")
        if chance.random() < 0.5:
            value = chance.choice([None, 1, 2])
            cache.put(key, value)
            if size:
                model[key] = value
                model.move_to_end(key)
                if len(model) > size:
                    model.popitem(last=False)
        else:
            got = cache.get(key, "none")
            assert got == model.get(key, "none"), (seed, key)
            if key in model:
                model.move_to_end(key)
                hits += 1
            else:
                misses += 1
        assert len(cache) == len(model), seed
    assert (cache.hits, cache.misses) == (hits, misses)
try:
    Cache(-1)
except ValueError:
    pass
else:
    raise AssertionError("a negative size was taken")
EOF
grep -c "def test" test_cache.py | { read -r n; [ "$n" -ge 3 ]; }
