"""Recorded threads for the Python API: lists, searches, one thread with its turns. Reads files."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime
from itertools import islice
from typing import TYPE_CHECKING, Any, cast

import msgspec

from spindle.api.door import OpenThread
from spindle.api.recorded_calls import call_item, texts_of
from spindle.api.shown import Item, Match, Page, ThreadRecord, TurnRecord, shown_item
from spindle.api.thread_items import external_message, user_message
from spindle.errors import ThreadError
from spindle.protocol.quote import shell_join
from spindle.thread.entry import Record
from spindle.thread.history import History
from spindle.thread.listing import ThreadFilter, ThreadSummary
from spindle.thread.private_files import open_regular
from spindle.thread.store import ThreadRef, ThreadStore
from spindle.thread.view import TurnView, preview, transcript

if TYPE_CHECKING:
    from spindle.thread.reading import RolloutData

_SNIPPET_BEFORE, _SNIPPET_AFTER = 60, 140
_PAGE = 100
_HEAD = 1 << 14
_PLAIN_WORD = re.compile(r"[a-z0-9]+")
MAX_LIST = 1000


def folder_of(cwd: Any) -> str | None:
    """The folder whose threads are wanted; it may be gone."""
    if cwd is None:
        return None
    try:
        return os.path.realpath(os.path.expanduser(os.fspath(cwd)))
    except (TypeError, ValueError) as error:
        raise ValueError(f"cwd {cwd!r} is not a folder") from error


def list_threads(
    store: ThreadStore, *, cwd: str | None, archived: bool, search: str | None, limit: int, cursor: str | None
) -> Page:
    """A part of the list, newest first."""
    if type(limit) is not int or not 1 <= limit <= MAX_LIST:
        raise ValueError(f"limit is a number between 1 and {MAX_LIST}, not {limit!r}")
    if not isinstance(search, str | None):
        raise ValueError(f"search is a text, not {search!r}")
    which = ThreadFilter(cwds=(cwd,) if cwd is not None else (), archived=bool(archived), search=search or None)
    try:
        page = store.list(which, limit=limit, cursor=cursor)
    except (ThreadError, TypeError) as error:
        raise ValueError(f"cursor {cursor!r} was not made by this list") from error
    return Page(data=[_of_summary(thread) for thread in page.threads], next_cursor=page.next_cursor)


def search_threads(store: ThreadStore, text: str, limit: int) -> list[Match]:
    """Where a text was said, in threads of every folder, newest thread first; one match for each turn."""
    if not isinstance(text, str) or not text.strip():
        raise ValueError("there is nothing to search for: the text is empty")
    if type(limit) is not int or limit < 1:
        raise ValueError(f"limit is a number of 1 or more, not {limit!r}")
    return [*islice(each_match(store, [text.strip()]), limit)]


def each_match(store: ThreadStore, texts: Sequence[str]) -> Iterator[Match]:
    """The turns in which all of these texts were said; each with the words around the first of them."""
    for summary in _all_threads(store):
        yield from _matches(store, summary, texts)


def snippet_of(store: ThreadStore, summary: ThreadSummary, text: str) -> str:
    """The words around the first place of a listed thread where a text was said; else how the thread begins."""
    found = _matches(store, summary, [text])
    return found[0].snippet if found else _shortened(summary.preview)


def _shortened(text: str) -> str:
    cut = " ".join(text[:_SNIPPET_AFTER].split())
    return cut + ("…" if len(text) > _SNIPPET_AFTER else "")


def _all_threads(store: ThreadStore) -> Iterable[ThreadSummary]:
    for archived in (False, True):
        cursor = None
        while True:
            page = store.list(ThreadFilter(archived=archived), limit=_PAGE, cursor=cursor)
            yield from page.threads
            if (cursor := page.next_cursor) is None:
                break


def _matches(store: ThreadStore, summary: ThreadSummary, texts: Sequence[str]) -> list[Match]:
    found: list[Match] = []
    for turn in _turns_that_may_have(store, summary, texts):
        said = [words for item in turn.items for words in texts_of(item)]
        if (snippet := _snippet_of_all(said, texts)) is not None:
            found.append(Match(thread_id=summary.id, turn_id=turn.id, snippet=snippet))
    if not found and (snippet := _snippet_of_all([summary.name or ""], texts)) is not None:
        found.append(Match(thread_id=summary.id, turn_id=None, snippet=snippet))
    return found


def _turns_that_may_have(store: ThreadStore, summary: ThreadSummary, texts: Sequence[str]) -> list[TurnView]:
    """The turns of a thread, unless a look at its file shows that the texts cannot be in it."""
    if not summary.path.endswith(".zst") and not _may_have(summary.path, texts):
        return []
    try:
        data = store.read(ThreadRef(id=summary.id, path=summary.path, archived=summary.archived))
    except ThreadError:
        return []  # it went away, or was damaged, since it was listed
    return transcript(data.records, with_calls=True)


def _may_have(path: str, texts: Sequence[str]) -> bool:
    try:
        with open_regular(path) as file:
            raw = file.read().lower()
    except OSError:
        return False
    # A word of plain letters is written the same in every form of JSON.
    longest = (max(_PLAIN_WORD.findall(text.lower()), key=len, default="") for text in texts)
    # What a fork has from its parents may be in their files.
    return b'"forked_from_id"' in raw[:_HEAD] or all(word.encode() in raw for word in longest)


def _snippet_of_all(said: Sequence[str], texts: Sequence[str]) -> str | None:
    """The words around the first text, if all of them are there."""
    snippets = [next((cut for words in said if (cut := _snippet(words, text)) is not None), None) for text in texts]
    return None if None in snippets else snippets[0]


def _snippet(said: str, text: str) -> str | None:
    """The words around the first place; None where it is not said."""
    place = said.lower().find(text.lower())
    if place < 0:
        return None
    start, end = max(0, place - _SNIPPET_BEFORE), place + len(text) + _SNIPPET_AFTER
    cut = " ".join(said[start:end].split())
    return ("…" if start else "") + cut + ("…" if end < len(said) else "")


def read_thread(store: ThreadStore, id_or_name: str, *, include_turns: bool) -> ThreadRecord:
    """One recorded thread."""
    ref = store.get(id_or_name)
    return recorded_thread(store, ref, store.read(ref), include_turns=include_turns)


def recorded_thread(store: ThreadStore, ref: ThreadRef, data: RolloutData, *, include_turns: bool) -> ThreadRecord:
    context = History.replay(data).last_turn_context or {}
    record = ThreadRecord(
        id=data.thread_id,
        name=store.names.all().get(data.thread_id),
        cwd=str(context.get("cwd") or data.meta.get("cwd") or ""),
        model=model if isinstance(model := context.get("model"), str) else None,
        created_at=_unix_time(data.meta.get("timestamp")),
        updated_at=0.0,
        path=ref.path,
        archived=ref.archived,
    )
    return _with_records(record, data.records, include_turns=include_turns)


def live_record(door: OpenThread, name: str | None, *, include_turns: bool) -> ThreadRecord:
    """The same of a thread that is open."""
    record = ThreadRecord(
        id=door.id,
        name=name,
        cwd=door.settings.cwd,
        model=door.settings.model,
        created_at=_unix_time(door.meta.get("timestamp")),
        updated_at=0.0,
        path=door.path,
    )
    return _with_records(record, door.records, include_turns=include_turns)


def fork_point(data: RolloutData, at: str | int | None) -> str | int | None:
    """Where to branch off, as the store takes it: a response, or how many inputs of the person are kept.

    `at` is a turn id, a response id, or a number of turns.
    """
    if at is None:
        return None
    turns = transcript(data.records)
    if type(at) is int and at >= 0:
        return sum(_inputs(turn) for turn in turns[:at])
    if isinstance(at, str):
        for count, turn in enumerate(turns, 1):
            if turn.id == at:
                return sum(_inputs(turn) for turn in turns[:count])
        if any(at.encode() in record.raw and record.payload.get("response_id") == at for record in data.records):
            return at
    raise ValueError(f"at={at!r} is neither a turn nor a response of thread {data.thread_id}, nor a number of turns")


def turns_that_ended(records: Iterable[Record]) -> int:
    """How many turns there are without the one that runs."""
    return sum(turn.status != "in_progress" for turn in transcript(records))


def inputs_of_last(records: Iterable[Record], count: int) -> int:
    """How many inputs the last turns had; what was steered in counts too, and what had no input is no turn here."""
    return sum([inputs for turn in transcript(records) if (inputs := _inputs(turn))][-count:])


def _inputs(turn: TurnView) -> int:
    return sum(item["type"] == "UserMessage" for item in turn.items)


# ---- one thread ------------------------------------------------------------------------------------


def _with_records(record: ThreadRecord, records: Sequence[Record], *, include_turns: bool) -> ThreadRecord:
    """The thread with what its lines say."""
    last = next((line.timestamp for line in reversed(records) if line.timestamp), None)
    return msgspec.structs.replace(
        record,
        updated_at=_unix_time(last) or record.created_at,
        preview=preview(records) or "",
        turns=_turns(records, record.cwd) if include_turns else [],
    )


def _of_summary(summary: ThreadSummary) -> ThreadRecord:
    return ThreadRecord(
        id=summary.id,
        name=summary.name,
        cwd=summary.cwd,
        model=summary.model,
        created_at=summary.created_at,
        updated_at=summary.updated_at,
        preview=summary.preview,
        path=summary.path,
        archived=summary.archived,
    )


def _unix_time(timestamp: Any) -> float:
    try:
        return datetime.fromisoformat(str(timestamp)).timestamp()
    except ValueError:
        return 0.0


def _turns(records: Iterable[Record], cwd: str) -> list[TurnRecord]:
    turns = []
    count = 0
    for turn in transcript(records, with_calls=True):
        items: list[Item] = []
        for shown in turn.items:
            if (item := _item(shown, f"item_{count}", cwd)) is not None:
                items.append(item)
                count += 1
        turns.append(TurnRecord(id=turn.id, status=cast(Any, turn.status), items=items))
    return turns


def _item(shown: dict[str, Any], number: str, cwd: str) -> Item | None:
    """A recorded item in the form of a live one; None for what has no such form."""
    item: dict[str, Any] = {"id": number}
    match shown["type"]:
        case "Call":
            if (call := call_item(shown, cwd)) is None:
                return None
            item |= call
        case "UserMessage":
            item = user_message(number, shown["content"])
        case "FunctionCallOutput" if isinstance(shown.get("name"), str):
            item = external_message(number, shown)
        case "AgentMessage":
            text = "".join(str(part.get("text") or "") for part in shown["content"])
            item |= {"type": "agent_message", "text": text, "phase": shown.get("phase")}
        case "Reasoning":
            item |= {"type": "reasoning", "text": "\n\n".join(map(str, shown.get("summary_text") or ()))}
        case "Plan":
            item |= {"type": "plan", "text": str(shown.get("text") or "")}
        case "CommandExecution":
            command = shown.get("command") or ""
            item |= {
                "type": "command_execution",
                "command": shell_join(map(str, command)) if isinstance(command, list) else str(command),
                "aggregated_output": shown.get("aggregated_output") or "",
                "exit_code": shown.get("exit_code"),
                "status": shown.get("status") or "completed",
            }
        case "FileChange":
            changes = shown.get("changes")
            kinds = {path: change.get("type") for path, change in changes.items()} if isinstance(changes, dict) else {}
            changed = [{"path": path, "kind": kind} for path, kind in kinds.items()]
            item |= {"type": "file_change", "changes": changed, "status": shown.get("status") or "completed"}
        case "WebSearch":
            item |= {"type": "web_search", "query": str(shown.get("query") or ""), "action": shown.get("action")}
        case _:
            return None
    return shown_item(item)
