"""`spindle threads`, `archive`, `unarchive`, `delete`: the recorded threads of the home."""

from __future__ import annotations

import sys
from datetime import UTC, datetime

import msgspec

from spindle.errors import SpindleError, ThreadError, UsageError
from spindle.frontends.fit import cells, cut
from spindle.frontends.launch import home_from, working_folder
from spindle.frontends.options import Parsed, whole_number
from spindle.frontends.plain_text import printable
from spindle.frontends.terminal import STDOUT, columns_of
from spindle.frontends.when import local_time
from spindle.protocol.clock import SystemClock
from spindle.protocol.quote import visible
from spindle.thread.listing import ThreadFilter, ThreadOrder, ThreadPage, ThreadSummary
from spindle.thread.store import ThreadRef, ThreadStore

_TITLE_CELLS = 72
_ID_START = 13


def run(parsed: Parsed, words: list[str]) -> int:
    store = ThreadStore(home_from(), SystemClock())
    name = parsed.command[0]
    if name == "threads":
        return show_list(store, parsed)
    ref = store.choose(words[0])
    match name:
        case "archive":
            print(f"archived {ref.id}: {store.archive(ref.id).path}")
        case "unarchive":
            print(f"restored {ref.id}: {store.unarchive(ref.id).path}")
        case _:
            return _delete(store, ref, force=parsed.flag("force"))
    return 0


def _delete(store: ThreadStore, ref: ThreadRef, *, force: bool) -> int:
    """Only a person who has seen what goes, or --force, deletes for good."""
    if not force and not _is_agreed(store, ref):
        print("nothing was deleted", file=sys.stderr)
        return 1
    from spindle.api.undoing import delete_thread  # seldom, and it knows the store of checkpoints

    delete_thread(store, ref.id)
    print(f"deleted {ref.id}")
    return 0


def _is_agreed(store: ThreadStore, ref: ThreadRef) -> bool:
    if not (sys.stdin.isatty() and sys.stderr.isatty()):
        raise SpindleError(
            f"without a terminal to ask on, nothing is deleted: `spindle delete --force {ref.id}` does it for good, "
            f"`spindle archive {ref.id}` puts the thread away"
        )
    try:
        title = " ".join(printable(store.title_of(ref)).split())[:72]
    except ThreadError:
        title = "(it cannot be read)"  # no reason to keep it
    print(f"{ref.id}  {title}\nDelete this thread for good? [y/N] ", end="", file=sys.stderr, flush=True)
    return sys.stdin.readline().strip().lower() in ("y", "yes")


def show_list(store: ThreadStore, parsed: Parsed) -> int:
    which = ThreadFilter(
        archived=parsed.flag("archived"),
        cwds=None if parsed.flag("all") else [working_folder(parsed.value("cd"))],
        subagents=False,
        search=parsed.value("find"),
    )
    page = store.list(which, order=ThreadOrder(key="updated_at"), limit=_limit(parsed.value("limit")))
    for path, reason in page.left_out.items():
        print(f"warning: {visible(path)} is left out, it cannot be read: {visible(reason)}", file=sys.stderr)
    if parsed.flag("json"):
        for thread in page.threads:
            sys.stdout.buffer.write(msgspec.json.encode(thread) + b"\n")
        return 0
    _print_table(page, parsed)
    return 0


def _limit(text: str | None) -> int:
    if text is None:
        return 25
    number = whole_number(text)
    if number is None or not 1 <= number <= 1000:
        raise UsageError(f"--limit takes a number from 1 to 1000, not {text!r}")
    return number


def _print_table(page: ThreadPage, parsed: Parsed) -> None:
    if not page.threads:
        print("no threads" if parsed.flag("all") else "no threads in this folder (--all shows those of others)")
        return
    width = columns_of(STDOUT)
    for thread in page.threads:
        print(_row(thread, width))
    if page.next_cursor is not None:
        print(f"… and more; --limit {len(page.threads) * 2} shows twice as many")


def _row(thread: ThreadSummary, width: int | None) -> str:
    """The id whole, the time where the person is, as much of the title as fits; below each other where it is narrow."""
    when = local_time(datetime.fromtimestamp(thread.updated_at, UTC))
    title = " ".join(printable(thread.name or thread.preview).split())
    if thread.forked_from_id is not None:
        # Both begin with the same words: the beginning of an id is its time, which tells forks and their origin apart.
        title = f"(fork of {visible(thread.forked_from_id)[:_ID_START]}) {title}"
    start = f"{thread.id}  {when}"
    if width is None:
        return f"{start}  {cut(title, _TITLE_CELLS)}"
    if (room := width - cells(start) - 2) >= _TITLE_CELLS // 2:
        return f"{start}  {cut(title, room)}"
    lines = [start] if cells(start) <= width else [thread.id, f"  {when}"]
    return "\n".join([*lines, f"  {cut(title, max(8, width - 2))}"])
