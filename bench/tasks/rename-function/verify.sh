python3 -W error::DeprecationWarning -m unittest -q tests.test_shop && python3 - <<'EOF'
import re
import subprocess
import sys
import warnings

import shop
import shop.prices
from shop.cart import Cart
from shop.report import report

items = [(10_000, 1)]
with warnings.catch_warnings():
    warnings.simplefilter("error")
    assert shop.total_cents(items) == shop.prices.total_cents(items) == report("total", items) == 9500
    cart = Cart()
    cart.add(10_000)
    assert cart.total() == 9500
    done = subprocess.run([sys.executable, "-W", "error", "tools/quote.py", "3x2"], capture_output=True, text=True)
    assert done.stdout == "6\n", done
for source in ("import shop; shop.get_total(i)", "from shop.prices import get_total; get_total(i)"):
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        exec(compile(source, "theirs.py", "exec"), {"i": items})
    assert any(w.category is DeprecationWarning and "total_cents" in str(w.message) and w.filename == "theirs.py" for w in seen), source
for name in ("shop/cart.py", "shop/report.py", "tools/quote.py"):
    assert not re.search(r"get_total", open(name).read()), name
EOF
