"""`spindle undo`: take back what turns did to files and to the conversation.

Exit codes: 0 done · 1 nothing was done: a conflict, nothing to undo, a running turn · 2 bad arguments.
"""

from __future__ import annotations

import asyncio
import os
import sys
from typing import Any

import msgspec

from spindle.api.undoing import undo_list, undo_recorded
from spindle.errors import SpindleError, ThreadNotFound, UsageError
from spindle.frontends.launch import config_from
from spindle.frontends.options import Parsed, whole_number
from spindle.frontends.plain_text import printable
from spindle.protocol.clock import SystemClock
from spindle.protocol.items import encode_payload
from spindle.protocol.ops import Undo
from spindle.protocol.undo import UndoReport
from spindle.thread.store import ThreadRef, ThreadStore
from spindle.thread.view import last_settings

_MOST_PROMPT = 72


def run(parsed: Parsed, words: list[str]) -> int:
    op = _op(parsed)
    config = config_from(parsed, headless=True)
    store = ThreadStore(config.home, SystemClock())
    is_json = parsed.flag("json")
    ref = None
    try:
        ref = _thread(store, words[0] if words else None, config.cwd)
        if parsed.flag("list"):
            return _show_list(store, ref, is_json=is_json)
        # The record may have been made in another folder than the present one.
        recorded = (last_settings(store.read(ref)) or {}).get("cwd")
        if isinstance(recorded, str) and os.path.isdir(recorded):
            config = msgspec.structs.replace(config, cwd=os.path.realpath(recorded))
        answer = asyncio.run(undo_recorded(config, ref.id, op, _warn))
    except SpindleError as error:
        if not is_json:
            raise
        thread_id = ref.id if ref is not None else words[0] if words else None
        _print_json(msgspec.to_builtins(UndoReport(status="nothing", thread_id=thread_id, message=str(error))))
        print(f"error: {printable(str(error))}", file=sys.stderr)
        return 1
    if is_json:
        _print_json(answer.report)
    else:
        _print_report(answer.report, answer.diff)
    return 0 if answer.success else 1


def _op(parsed: Parsed) -> Undo:
    given_turns = parsed.value("turns")
    turns = None if given_turns is None else whole_number(given_turns)
    if given_turns is not None and not turns:
        raise UsageError(f"--turns takes a number of 1 or more, not {given_turns!r}")
    given = [name for name in ("turns", "to", "redo", "list") if parsed.values.get(name)]
    if len(given) > 1:
        raise UsageError(f"--{given[0]} and --{given[1]} cannot be given together")
    only = [name for name in ("files", "conversation") if parsed.flag(name)]
    if len(only) > 1:
        raise UsageError("--files and --conversation cannot be given together; without either, both are undone")
    return Undo(
        turns=turns,
        to=parsed.value("to"),
        files=only != ["conversation"],
        conversation=only != ["files"],
        keep_mine=parsed.flag("keep_mine"),
        dry_run=parsed.flag("dry_run"),
        redo=parsed.flag("redo"),
    )


def _thread(store: ThreadStore, given: str | None, cwd: str) -> ThreadRef:
    ref = store.choose(given) if given is not None else store.latest(cwd)
    if ref is None:
        raise SpindleError("there is nothing to undo: no thread was recorded in this folder")
    if ref.archived:
        raise ThreadNotFound(f"thread {ref.id} is archived; `spindle unarchive {ref.id}` brings it back")
    return ref


def _warn(text: str) -> None:
    print(f"warning: {printable(text)}", file=sys.stderr)


def _print_json(value: Any) -> None:
    sys.stdout.buffer.write(encode_payload(value) + b"\n")
    sys.stdout.buffer.flush()


def _show_list(store: ThreadStore, ref: ThreadRef, *, is_json: bool) -> int:
    turns = undo_list(store, ref)
    if is_json:
        _print_json({"thread_id": ref.id, "turns": turns})
        return 0
    if not turns:
        print("no turns")
    for turn in turns:
        prompt = " ".join(printable(turn["prompt"]).split())
        print(f"{turn['id']}  {prompt if len(prompt) <= _MOST_PROMPT else prompt[:_MOST_PROMPT] + '…'}")
        for change in turn["changes"]:
            print(f"    {change['kind']:<6}  {printable(change['path'])}")
    return 0


def _print_report(report: dict[str, Any], diff: str | None) -> None:
    if diff:
        sys.stdout.write(printable(diff))
    is_done = report["status"] in ("undone", "redone", "dry_run")
    out = sys.stdout if is_done else sys.stderr
    print(printable(report["message"]), file=out)
    for one in report["restored"] if report["status"] != "conflict" else ():
        print(f"  {one['action']:<8} {printable(one['path'])}", file=out)
    for one in report["conflicts"]:
        saved = f"; the older version is saved as {one['saved_as']}" if one["saved_as"] else ""
        print(f"  conflict {printable(one['path'])}: {one['reason']}{printable(saved)}", file=out)
    for one in report["skipped"]:
        print(f"  skipped  {printable(one['path'])}: {printable(one['reason'])}", file=out)
