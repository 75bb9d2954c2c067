python3 -m unittest -q && python3 - <<'EOF'
import sqlite3

from report import balances

connection = sqlite3.connect(":memory:")
connection.executescript(open("schema.sql").read())
connection.executemany("INSERT INTO customers VALUES (?, ?)", [(1, "Bo"), (2, "Ada"), (3, "Ada"), (4, "Cy")])
connection.executemany("INSERT INTO orders VALUES (?, ?, ?)", [(1, 1, 500), (2, 1, 300), (3, 2, 100), (4, 3, 50)])
connection.executemany("INSERT INTO payments VALUES (?, ?, ?)", [(1, 1, 200), (2, 1, 100), (3, 2, 300), (4, 4, 50)])
expected = [("Ada", 100, 0, 100), ("Ada", 50, 50, 0), ("Bo", 800, 600, 200), ("Cy", 0, 0, 0)]
assert balances(connection) == expected, balances(connection)
seen = []
connection.set_trace_callback(seen.append)
balances(connection)
assert len([text for text in seen if "SELECT" in text.upper() and not text.startswith("--")]) <= 3, seen
EOF
