python3 -m unittest -q && python3 - <<'EOF'
from pager import page, page_count

letters = list("abcdefg")
assert [page_count(n, 3) for n in (0, 1, 3, 4, 7)] == [0, 1, 1, 2, 3]
assert [page(letters, n, 3) for n in (1, 2, 3)] == [list("abc"), list("def"), ["g"]]
for entries, number in ((letters, 0), (letters, 4), (letters, -1), ([], 1)):
    try:
        page(entries, number, 3)
    except IndexError:
        continue
    raise AssertionError((entries, number))
EOF
