"""`spindle fleet results`: the records of a run."""

from __future__ import annotations

import sys

from spindle.errors import UsageError
from spindle.fleet.folder import RunFolder
from spindle.fleet.report import rows
from spindle.frontends.options import Parsed
from spindle.frontends.terminal import STDOUT, terminal_size


def run(parsed: Parsed, words: list[str]) -> int:
    if parsed.flag("json") and parsed.flag("csv"):
        raise UsageError("--json does not go with --csv")
    folder, statuses = RunFolder(words[0]), rows.chosen_statuses(parsed.value("status"))
    if parsed.flag("json"):
        for line in rows.json_lines(folder, statuses):
            sys.stdout.buffer.write(line)
        sys.stdout.buffer.flush()
        return 0
    if parsed.flag("csv"):
        pieces = rows.csv_text(folder, statuses)
    else:
        pieces = (f"{line}\n" for line in rows.table_lines(folder, statuses, terminal_size(STDOUT)[0]))
    for piece in pieces:
        sys.stdout.write(piece)
    return 0
