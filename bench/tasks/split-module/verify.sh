[ ! -e geometry.py ] && python3 -m unittest -q tests.test_geometry && python3 - <<'EOF'
import subprocess
import sys

code = "import sys, geometry.shapes as s; s.Circle(1); print('json' in sys.modules and 'json' not in before)"
done = subprocess.run([sys.executable, "-c", "import sys; before = set(sys.modules)\n" + code], capture_output=True, text=True)
assert done.stdout == "False\n", done
import geometry
from geometry.shapes import Box, Circle, Triangle
from geometry.storage import from_json, to_json

assert geometry.Circle is Circle and geometry.Box is Box and geometry.Triangle is Triangle
assert geometry.from_json is from_json and geometry.to_json is to_json and set(geometry.KINDS) == {"circle", "box", "triangle"}
assert abs(Triangle(3, 4, 5).area() - 6) < 1e-9
assert to_json(from_json(to_json(Triangle(3, 4, 5)))) == to_json(Triangle(3, 4, 5))
assert geometry.total_area([Box(1, 2)]) == 2
for sides in ((1, 2, 3), (0, 1, 1), (1, 1, 5), (-3, 4, 5)):
    try:
        Triangle(*sides)
    except ValueError:
        continue
    raise AssertionError(sides)
EOF
