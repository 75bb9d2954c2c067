"""Small tables as CSV text (RFC 4180)."""


def write_rows(rows):
    """The rows as CSV text, lines ended by CRLF."""
    return "".join(",".join(str(cell) for cell in row) + "\r\n" for row in rows)


def read_rows(text):
    """The rows of a CSV text as lists of strings."""
    return [line.split(",") for line in text.splitlines()]
