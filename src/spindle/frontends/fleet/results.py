"""`spindle fleet results`: the records of a run."""

from __future__ import annotations

import sys
from collections.abc import Iterator

import msgspec

from spindle.errors import UsageError
from spindle.fleet.folder import RunFolder
from spindle.fleet.options import STATUSES
from spindle.fleet.record import Record
from spindle.frontends.options import Parsed
from spindle.protocol.quote import visible

_MESSAGE = 100


def run(parsed: Parsed, words: list[str]) -> int:
    if parsed.flag("json") and parsed.flag("csv"):
        raise UsageError("--json does not go with --csv")
    folder, wanted = RunFolder(words[0]), _wanted(parsed.value("status"))
    if parsed.flag("csv"):
        from spindle.fleet.report.table import write_csv  # one form or the other

        write_csv(_records(folder, wanted), sys.stdout)
        return 0
    for record in _records(folder, wanted):
        line = msgspec.json.encode(record).decode() if parsed.flag("json") else text_of(record)
        sys.stdout.write(f"{line}\n")
    return 0


def _wanted(text: str | None) -> set[str] | None:
    if text is None:
        return None
    names = {name.strip() for name in text.split(",") if name.strip()}
    if unknown := sorted(names.difference(STATUSES)):
        raise UsageError(f"--status: there is no status {unknown[0]!r}; use some of {', '.join(STATUSES)}")
    return names


def _records(folder: RunFolder, wanted: set[str] | None) -> Iterator[Record]:
    return (record for record in folder.records() if wanted is None or record.status in wanted)


def text_of(record: Record) -> str:
    said = record.error.message if record.error is not None else record.final_message
    first = visible(said.strip().partition("\n")[0][:_MESSAGE])
    cost = "" if record.cost_usd is None else f" ${record.cost_usd:.2f}"
    return f"{record.id}  {record.status}  {record.duration_s:.0f} s{cost}{f'  {first}' if first else ''}"
