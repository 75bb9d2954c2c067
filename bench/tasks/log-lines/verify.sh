python3 -m unittest -q test_access && python3 - <<'EOF'
from access import errors_by_path, parse

lines = open("sample.log").read().splitlines()
assert [parse(line) for line in lines] == [
    ("203.0.113.9", "GET", "/index.html", 200, 512),
    ("2001:db8::7", "POST", "/orders?id=7", 500, 0),
    ("203.0.113.9", "GET", "/orders", 503, 19),
    ("203.0.113.9", "", "", 400, 150),
], [parse(line) for line in lines]
assert parse("nonsense") is None and parse("") is None
assert parse('::1 - - [x] "GET /a b HTTP/1.1" 200 1 "-" "-"') == ("::1", "GET", "/a b", 200, 1)
assert errors_by_path(lines) == [("/orders", 2)]
more = ['1.1.1.1 - - [x] "GET /%s HTTP/1.1" %d 1 "-" "-"' % pair for pair in (("b", 500), ("a?q", 599), ("c", 502), ("c?x=1", 500), ("d", 499))]
assert errors_by_path(more) == [("/c", 2), ("/a", 1), ("/b", 1)], errors_by_path(more)
EOF
