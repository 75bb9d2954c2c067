python3 -m unittest -q && python3 - <<'EOF'
from durations import parse, show

good = {"90": 90, "90s": 90, "1m": 60, "2d 4h": 187200, "1W": 604800, " 1h 1s ": 3601, "0": 0, "0s": 0, "1w1d1h1m1s": 694861}
for text, seconds in good.items():
    assert parse(text) == seconds, (text, parse(text))
for text in ("", " ", "h", "1x", "1m1h", "1h1h", "-1s", "1.5h", "1h30", "s1", "1 0s", "1h-3m"):
    try:
        parse(text)
    except ValueError as error:
        assert text in str(error), (text, str(error))
    else:
        raise AssertionError(text)
for seconds, text in {0: "0s", 59: "59s", 60: "1m", 3600: "1h", 86400: "1d", 604800: "1w", 694861: "1w1d1h1m1s", 3601: "1h1s"}.items():
    assert show(seconds) == text, (seconds, show(seconds))
for seconds in (*range(0, 5000, 7), 10**6, 10**7 + 3):
    assert parse(show(seconds)) == seconds
EOF
