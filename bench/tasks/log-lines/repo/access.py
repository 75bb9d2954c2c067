"""Lines of a web server's access log (combined format)."""

import re
from collections import Counter

LINE = re.compile(r'(\d+\.\d+\.\d+\.\d+) - - \[(.+)\] "(\w+) (.+) HTTP/1.1" (\d+) (\d+)')


def parse(line):
    """(address, method, path, status, bytes) of a line; None when it is not one."""
    found = LINE.match(line)
    if not found:
        return None
    address, _, method, path, status, size = found.groups()
    return address, method, path, int(status), int(size)


def errors_by_path(lines):
    """How often each path (without its query) was answered with 500 or above; the most frequent first."""
    counts = Counter(entry[2] for entry in map(parse, lines) if entry and entry[3] > 500)
    return counts.most_common()
