python3 -m unittest -q && python3 - <<'EOF'
from invoice import export
from tables import read_rows, write_rows

assert export([("Screws, 4 mm", 1, 5)]) == 'item,count,price\r\n"Screws, 4 mm",1,0.05\r\n'
assert write_rows([['say "hi"', "two\nlines", "plain", 7]]) == '"say ""hi""","two\nlines",plain,7\r\n'
for rows in ([["a,b", 'c"d', "e\r\nf", ""]], [["", ""]], [["\u00e4", "\u2028"]], [[" x "]], [['"'], ['""']]):
    assert read_rows(write_rows(rows)) == rows, rows
assert read_rows("a,b\nc,d") == [["a", "b"], ["c", "d"]]
assert read_rows("") == []
try:
    read_rows('a,"b')
except ValueError:
    pass
else:
    raise AssertionError("an open quote was accepted")
EOF
