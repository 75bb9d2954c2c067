"""Records as rows: JSON lines, CSV, and a table for people."""

from __future__ import annotations

import csv
import io
from collections.abc import Callable, Collection, Iterator
from types import UnionType
from typing import Any, Union, get_args, get_origin, get_type_hints

import msgspec

from spindle.errors import UsageError
from spindle.fleet.exchange import STATUSES
from spindle.fleet.folder import RunFolder
from spindle.fleet.record import Record
from spindle.protocol.quote import readable, visible, without_terminal_codes

_FORMULAS = ("=", "+", "-", "@", "\t", "\r", "\n", "＝", "＋", "－", "＠")
"""What a spreadsheet takes for a formula if a cell begins with it."""


def chosen_statuses(given: str | None) -> frozenset[str]:
    """`--status S,…`; all of them where it is not given. Raises UsageError."""
    if given is None:
        return frozenset(STATUSES)
    names = [name.strip() for name in given.split(",") if name.strip()]
    unknown = [name for name in names if name not in STATUSES]
    if unknown or not names:
        what = f"no status is called {visible(unknown[0])!r}" if unknown else "--status names no status"
        raise UsageError(f"{what}; there are {', '.join(STATUSES)}")
    return frozenset(names)


def chosen_records(folder: RunFolder, statuses: Collection[str] = STATUSES) -> Iterator[Record]:
    """In the order of the list."""
    return (record for record in folder.records() if record.status in statuses)


# ---- JSON ----------------------------------------------------------------------------------------------


def json_lines(folder: RunFolder, statuses: Collection[str] = STATUSES) -> Iterator[bytes]:
    return (msgspec.json.encode(record) + b"\n" for record in chosen_records(folder, statuses))


# ---- CSV -----------------------------------------------------------------------------------------------


def columns(kind: type[msgspec.Struct] = Record, prefix: str = "") -> list[str]:
    """A column a field; those of nested records as `usage.input_tokens`."""
    found: list[str] = []
    for name, hint in get_type_hints(kind).items():
        inner = _struct_in(hint)
        found += [prefix + name] if inner is None else columns(inner, f"{prefix}{name}.")
    return found


def _struct_in(hint: Any) -> type[msgspec.Struct] | None:
    options = get_args(hint) if get_origin(hint) in (Union, UnionType) else (hint,)
    structs = [kind for kind in options if isinstance(kind, type) and issubclass(kind, msgspec.Struct)]
    return structs[0] if structs and msgspec.UnsetType not in options else None


def csv_text(folder: RunFolder, statuses: Collection[str] = STATUSES) -> Iterator[str]:
    """The table, row by row."""
    names = columns()
    paths = [name.split(".") for name in names]
    yield _row(names)
    for record in chosen_records(folder, statuses):
        yield _row([_cell(_value(record, path)) for path in paths])


def _row(cells: list[str]) -> str:
    buffer = io.StringIO()
    csv.writer(buffer).writerow(cells)
    return buffer.getvalue()


def _value(record: Any, path: list[str]) -> Any:
    for name in path:
        if record is None:
            return None
        record = getattr(record, name)
    return record


def _cell(value: Any) -> str:
    """As a spreadsheet shows it. Numbers are ours and stay numbers; text that would be a formula gets a quote."""
    if value is None or value is msgspec.UNSET:
        return ""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int | float):
        return str(value)
    text = value if isinstance(value, str) else msgspec.json.encode(value).decode()
    text = readable(without_terminal_codes(text))
    return f"'{text}" if text.startswith(_FORMULAS) else text


# ---- for people ----------------------------------------------------------------------------------------


def table_lines(folder: RunFolder, statuses: Collection[str] = STATUSES, width: int = 100) -> Iterator[str]:
    """A line a task: what it is called, how it ended, how long, how much, and the first words about it."""
    widest = max((len(task) for task in folder.statuses), default=4)
    longest = min(max(4, widest), max(12, width // 3))
    yield f"{'task':<{longest}}  {'status':<14}  {'time':>8}  {'cost':>9}  {'tokens':>9}  "
    for record in chosen_records(folder, statuses):
        name = record.id if len(record.id) <= longest else record.id[: longest - 1] + "…"
        tokens = amount(record.usage.input_tokens + record.usage.output_tokens)
        row = f"{name:<{longest}}  {record.status:<14}  {duration(record.duration_s):>8}  "
        row += f"{money(record.cost_usd):>9}  {tokens:>9}  "
        yield (row + first_words(said_of(record), max(10, width - len(row)))).rstrip()


def said_of(record: Record) -> str:
    """What there is to say about a task: why it did not go well, else the model's last words."""
    return record.error.message if record.error is not None else record.final_message


def first_words(text: str, most: int) -> str:
    """The beginning of a text in one line, safe to be shown anywhere."""
    line = visible(" ".join(without_terminal_codes(text[: 8 * most]).split()))
    return line if len(line) <= most else line[: most - 1] + "…"


def duration(seconds: float) -> str:
    if seconds < 10:
        return f"{seconds:.1f} s"
    if seconds < 60:
        return f"{seconds:.0f} s"
    minutes, rest = divmod(round(seconds), 60)
    if minutes < 60:
        return f"{minutes}:{rest:02d} min"
    return f"{minutes // 60}:{minutes % 60:02d} h"


def brief(value: float, said: Callable[[float], str]) -> str:
    """A value on an axis, where neighbours say the rest; `said` is how it is written elsewhere."""
    if not value:
        return "0"
    if said is money:
        return f"${value:.4f}".rstrip("0").rstrip(".")
    if said is not duration:
        return said(value).replace(".0 ", " ")
    for size, unit in ((3600, "h"), (60, "min")):
        if value >= size:
            return f"{value / size:.1f} {unit}".replace(".0 ", " ")
    return f"{value:.1f} s".replace(".0 ", " ")


def money(dollars: float | None) -> str:
    if dollars is None:
        return "–"
    if dollars >= 1000:
        return f"${dollars:,.0f}"
    return f"${dollars:.2f}" if dollars >= 1 or dollars == 0 else f"${dollars:.4f}"


def amount(number: float) -> str:
    """A count in three digits or so."""
    for size, unit in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if number >= size:
            scaled = number / size
            return f"{scaled:.0f} {unit}" if scaled >= 100 else f"{scaled:.1f} {unit}"
    return f"{number:.0f}"
