"""`spindle threads repair`: mends the files of recorded threads, and says what that took."""

from __future__ import annotations

import sys
from collections.abc import Iterator

import msgspec

from spindle.errors import ThreadLocked, UsageError
from spindle.frontends.launch import home_from
from spindle.frontends.options import Parsed
from spindle.protocol.clock import SystemClock
from spindle.protocol.quote import visible
from spindle.thread.repair import Change, Report, repair
from spindle.thread.store import ThreadStore

_SHOWN_CHANGES = 20


def run(parsed: Parsed, words: list[str]) -> int:
    if bool(words) == parsed.flag("all"):
        raise UsageError(
            "say which thread to repair, or --all" if not words else "name a thread or use --all, not both"
        )
    store = ThreadStore(home_from(), SystemClock())
    dry_run = parsed.flag("dry_run")
    counts = {"sound": 0, "repaired": 0, "lost": 0, "in use": 0}
    for report in _reports(store, words, dry_run=dry_run):
        counts["in use" if report is None else report.status] += 1
        if report is None:
            continue
        if parsed.flag("json"):
            sys.stdout.buffer.write(msgspec.json.encode(report) + b"\n")
            sys.stdout.buffer.flush()
        elif words or report.status != "sound":
            _show(report, dry_run=dry_run)
    if not words and not parsed.flag("json"):
        print(_summary(counts, dry_run=dry_run))
    is_well = not counts["lost"] and not counts["in use"] and not (dry_run and counts["repaired"])
    return 0 if is_well else 1


def _reports(store: ThreadStore, words: list[str], *, dry_run: bool) -> Iterator[Report | None]:
    """One for each thread; None for one that is open elsewhere, when it is one of many."""
    if words:
        yield repair(store.choose(words[0]).path, dry_run=dry_run)
        return
    for ref in [*store.files()]:
        try:
            yield repair(ref.path, dry_run=dry_run)
        except ThreadLocked as error:
            print(f"warning: not looked at: {error}", file=sys.stderr)
            yield None


def _show(report: Report, *, dry_run: bool) -> None:
    name = report.thread_id or visible(report.path)
    match report.status:
        case "sound":
            print(f"{name}: sound")
        case "repaired":
            kept = f"; the file as it was: {visible(report.backup)}" if report.backup else ""
            print(f"{name}: {'would be repaired' if dry_run else 'repaired'}{kept}")
        case "lost":
            print(f"{name}: cannot be saved: {visible(str(report.reason))} ({visible(report.path)})")
    _show_changes(report.dropped, "dropped")
    _show_changes(report.added, "added")


def _show_changes(changes: list[Change], what: str) -> None:
    for change in changes[:_SHOWN_CHANGES]:
        where = f"line {change.line}" if change.line else "at the beginning"
        print(f"  {what}, {where}: {visible(change.reason)}")
    if (rest := len(changes) - _SHOWN_CHANGES) > 0:
        print(f"  {what}: {rest} more")


def _summary(counts: dict[str, int], *, dry_run: bool) -> str:
    repaired = "would be repaired" if dry_run else "repaired"
    parts = [f"{counts['sound']} sound", f"{counts['repaired']} {repaired}"]
    parts += [
        f"{counts[name]} {words}" for name, words in (("lost", "cannot be saved"), ("in use", "in use")) if counts[name]
    ]
    return ", ".join(parts)
