python3 -m unittest -q && timeout 30 python3 - <<'EOF'
import heapq
import random

from order import build_order

assert build_order({}) == [] and build_order({"b": [], "a": []}) == ["a", "b"]
assert build_order({"a": ["z"], "b": []}) == ["b", "z", "a"]
for seed in range(100):
    chance = random.Random(seed)
    names = [f"n{i:02d}" for i in range(chance.randrange(1, 15))]
    chance.shuffle(names)
    needs = {name: chance.sample(names[:i], chance.randrange(0, min(i, 3) + 1)) for i, name in enumerate(names)}
    waiting = {name: set(needed) for name, needed in needs.items()}
    expected = []
    while waiting:
        name = min(n for n, needed in waiting.items() if not needed)
        del waiting[name]
        expected.append(name)
        for needed in waiting.values():
            needed.discard(name)
    assert build_order(needs) == expected, (seed, needs)
for needs, circle in (({"b": ["c"], "c": ["a"], "a": ["b"], "x": ["b"]}, "a -> b -> c -> a"), ({"a": ["a"]}, "a -> a")):
    try:
        build_order(needs)
    except ValueError as error:
        assert circle in str(error), str(error)
    else:
        raise AssertionError(needs)
chain = {f"n{i:06d}": [f"n{i - 1:06d}"] if i else [] for i in range(100_000)}
order = build_order(dict(reversed(chain.items())))
assert order == sorted(chain)
EOF
