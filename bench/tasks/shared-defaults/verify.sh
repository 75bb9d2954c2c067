python3 -m unittest -q && python3 - <<'EOF'
import copy

import settings
from settings import merge

builtin = copy.deepcopy(settings.DEFAULTS)
layers = [{"editor": {"name": "ed", "new": {"a": 1}}, "paths": ["x"]}, {"colour": False, "width": 0, "paths": [], "own": {"k": [1]}}, {"editor": {"options": None}, "none": None}]
kept = copy.deepcopy(layers)
got = merge(*layers)
assert got == {"colour": False, "width": 0, "paths": [], "editor": {"name": "ed", "new": {"a": 1}}, "own": {"k": [1]}}, got
got["own"]["k"].append(2)
got["editor"]["new"]["a"] = 2
got["paths"].append("y")
assert layers == kept and settings.DEFAULTS == builtin
assert merge() == builtin and merge() is not settings.DEFAULTS
merge()["paths"].append("z")
assert settings.DEFAULTS == builtin
assert merge({"width": {"a": 1}})["width"] == {"a": 1} and merge({"editor": "vi"})["editor"] == "vi"
assert "editor" not in merge({"editor": None}) and "name" not in merge({"editor": {"name": None}})["editor"]
EOF
grep -c "def test" test_settings.py | { read -r n; [ "$n" -ge 4 ]; }
