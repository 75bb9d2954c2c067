"""Records → what people see: the messages replayed on resume, previews, and a transcript by turns.

Both generations of rollout files become the same form, protocol v1: legacy events are passed on, the items that the
current generation records instead are translated, and a file that holds only model items is read from those. Turns
that were rolled back are not shown; turns that a compaction replaced are, since they did happen.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

import msgspec

from spindle.protocol.items import call_id_of, is_call, is_external, is_output, is_user_input, item_text
from spindle.thread.entry import Record
from spindle.thread.history import History

if TYPE_CHECKING:
    from spindle.thread.reading import RolloutData

Event = dict[str, Any]
"""A message of protocol v1 in its wire form."""

_ALIASES = {"turn_started": "task_started", "turn_complete": "task_complete"}
_PASSED_ON = frozenset(
    (
        "task_started",
        "user_message",
        "agent_message",
        "agent_reasoning",
        "agent_reasoning_raw_content",
        "token_count",
        "context_compacted",
        "entered_review_mode",
        "exited_review_mode",
        "turn_aborted",
        "undo_completed",
        "task_complete",
        "warning",
        "error",
    )
)


_LOCAL_IMAGES = ("local_image", "localImage")
_MARK_OF_PICTURE = re.compile(r"<image( .*)?>|</image>")
_PICTURE = "[Image]"
"""What stands for a message of pictures alone."""
_ENTERED_REVIEW, _GOAL, _HEAD = b'"entered_review_mode"', b'"thread_goal_updated"', 60


class TurnView(msgspec.Struct, kw_only=True):
    """One turn of a transcript. `items` are tagged in PascalCase, as in `item_completed`."""

    id: str
    root_id: str = ""
    """The turn that this one was started for, if another one; empty when unknown."""
    status: str = "completed"
    """"completed", "failed", "interrupted", or "in_progress" when the record ends inside it."""
    error: dict[str, Any] | None = None
    """Why it failed: message, codex_error_info."""
    started_at: str = ""
    """The time of the line, `2026-11-15T18:16:43.951Z`; empty when unknown."""
    completed_at: str = ""
    items: list[dict[str, Any]] = []


class _Shown:
    """One thing a person saw: the events that said it, and the item it is in a transcript."""

    __slots__ = ("events", "item", "timestamp")

    def __init__(self, events: list[Event], item: dict[str, Any] | None, timestamp: str) -> None:
        self.events = events
        self.item = item
        self.timestamp = timestamp


def initial_messages(records: Iterable[Record]) -> list[Event]:
    """The events to replay when a thread is resumed."""
    return [event for shown in _all_shown(list(records)) for event in shown.events]


def moments(records: Iterable[Record]) -> list[tuple[list[Event], dict[str, Any] | None, str]]:
    """Everything that a person saw, in order: the events that say it, its item, and the time of its line.

    A call of the model that no event tells of is an event `call` with an item as in `transcript(with_calls=True)`; a
    command that the person ran is an event `user_command` with the item `{"type": "UserCommand", "text"}`.
    """
    return [(shown.events, shown.item, shown.timestamp) for shown in _all_shown(list(records), with_calls=True)]


def preview(records: Iterable[Record]) -> str | None:
    """The first message a person wrote, or the first review or goal they asked for; None when there is none."""
    return next((text for record in records if (text := asked_text(record)) is not None), None)


def asked_text(record: Record) -> str | None:
    """What a person wanted, if this record is about that: their own words, a review, or a goal."""
    if record.kind == "event_msg" and _ENTERED_REVIEW in record.raw[:_HEAD]:
        return f"Review: {record.payload.get('user_facing_hint') or ''}".rstrip(": ")
    if record.kind == "event_msg" and _GOAL in record.raw[:_HEAD]:
        goal = record.payload.get("goal")
        return f"Goal: {goal.get('objective') or ''}".rstrip(": ") if isinstance(goal, dict) else None
    return user_text(record)


def last_settings(data: RolloutData) -> dict[str, Any] | None:
    """What the last turn that still counts ran with, as recorded; None when there was no turn."""
    return History.replay(data).last_turn_context


def user_text(record: Record) -> str | None:
    """What a person wrote, if this record is about that."""
    if record.kind == "response_item" and b'"user"' in record.raw:
        item = record.payload
        return _own_words(item) if is_user_input(item) else None
    if record.kind == "event_msg" and (b'"user_message"' in record.raw or b'"UserMessage"' in record.raw):
        event = record.payload
        if event.get("type") == "user_message":
            return str(event.get("message") or "")
        for shown in _translate(event):
            if shown.events[0]["type"] == "user_message":
                return shown.events[0]["message"]
    return None


def _own_words(item: dict[str, Any]) -> str:
    """What a person wrote in a message, without the marks that stand around its pictures for the model."""
    content = item.get("content")
    parts = [part for part in content if isinstance(part, dict)] if isinstance(content, list) else []
    if not any(part.get("type") == "input_image" for part in parts):
        return item_text(item)
    texts = [part["text"] for part in parts if isinstance(part.get("text"), str)]
    return "".join(text for text in texts if not _MARK_OF_PICTURE.fullmatch(text)) or _PICTURE


def spoken_texts(records: Iterable[Record]) -> list[str]:
    """Everything the person and the assistant said, for searching."""
    texts = []
    for event in initial_messages(records):
        if event["type"] in ("user_message", "agent_message"):
            texts.append(event["message"])
    return texts


def transcript(records: Iterable[Record], *, with_calls: bool = False) -> list[TurnView]:
    """The thread by turns. Items that carry no id of their own are numbered `item-1`, `item-2`, …

    `with_calls` adds what the model asked tools for where no event tells of it, as `{"type": "Call", call, output}`.
    """
    turns: list[TurnView] = []
    open_turn: TurnView | None = None
    count = 0
    for shown in _all_shown(list(records), with_calls=with_calls):
        event = shown.events[0]
        if event["type"] == "task_started":
            open_turn = TurnView(
                id=str(event.get("turn_id") or f"turn-{len(turns) + 1}"),
                root_id=_root_of(event),
                status="in_progress",
                started_at=shown.timestamp,
                items=[],
            )
            turns.append(open_turn)
        elif event["type"] in ("task_complete", "turn_aborted"):
            if open_turn is not None:
                error = event.get("error")
                open_turn.error = error if isinstance(error, dict) else None
                ended_well = "completed" if open_turn.error is None else "failed"
                open_turn.status = ended_well if event["type"] == "task_complete" else "interrupted"
                open_turn.completed_at = shown.timestamp
            open_turn = None
        elif shown.item is not None:
            count += 1
            if open_turn is None:
                # A file without turn events: every message of the person begins a turn.
                if shown.item["type"] == "UserMessage" or not turns:
                    turns.append(TurnView(id=f"turn-{len(turns) + 1}", started_at=shown.timestamp, items=[]))
                turns[-1].completed_at = shown.timestamp
            (open_turn or turns[-1]).items.append({**shown.item, "id": shown.item.get("id") or f"item-{count}"})
    return turns


def _root_of(started: Event) -> str:
    said = started.get("turn_attribution")
    root = said.get("root_turn_id") if isinstance(said, dict) else None
    return root if isinstance(root, str) else ""


# ---- folding ---------------------------------------------------------------------------------------


def _all_shown(records: list[Record], *, with_calls: bool = False) -> list[_Shown]:
    shown: list[_Shown] = []
    calls: dict[str, dict[str, Any]] = {}
    marks: dict[str, tuple[list[_Shown], int]] = {}
    for segment in _segments(records):
        from_items = _kinds_without_events(segment)
        has_calls = with_calls and not _says(segment, _SIGNS_OF_CALLS)
        has_searches = with_calls and not _says(segment, _SIGNS_OF_SEARCHES)
        for record in segment:
            if record.kind == "response_item":
                shown += _from_item(record, from_items)
                if has_calls:
                    shown += _from_call(record, calls)
                if has_searches and b'"web_search_call"' in record.raw:
                    shown += _from_search(record)
                continue
            if record.kind not in ("event_msg", "compacted", "spindle_bookmark"):
                continue
            if record.kind == "compacted" and b'"spindle_bookmark"' not in record.raw[-200:]:
                continue
            payload = record.payload
            mark = marks.get(str(payload.get("spindle_bookmark")))
            if mark is not None:
                # A new list, so that other bookmarks keep what they point to.
                shown = mark[0][: mark[1]]
            elif payload.get("type") == "thread_rolled_back":
                shown = _without_last_turns(shown, payload.get("num_turns"))
            elif record.kind == "event_msg":
                shown += _translate(payload, record.timestamp)
            if isinstance(payload.get("response_id"), str):
                marks[payload["response_id"]] = (shown, len(shown))
    return shown


def _segments(records: list[Record]) -> list[list[Record]]:
    """The records, cut before every message that a person wrote."""
    segments: list[list[Record]] = [[]]
    for record in records:
        if record.kind == "response_item" and b'"user"' in record.raw and is_user_input(record.payload):
            segments.append([])
        segments[-1].append(record)
    return segments


def _kinds_without_events(segment: list[Record]) -> set[str]:
    """What must be read from the model's items because no event of the segment says it."""
    missing = {"user", "external", "assistant", "reasoning"}
    for record in segment:
        if record.kind != "event_msg":
            continue
        for kind, signs in _SIGNS.items():
            if kind in missing and any(sign in record.raw for sign in signs):
                missing.discard(kind)
    return missing


_SIGNS = {
    "user": (b'"type":"user_message"', b'"type":"UserMessage"', b'"type": "user_message"'),
    "external": (b'"type":"FunctionCallOutput"',),
    "assistant": (b'"type":"agent_message"', b'"type":"AgentMessage"', b'"type":"Plan"', b'"type": "agent_message"'),
    "reasoning": (b'"type":"agent_reasoning', b'"type":"Reasoning"', b'"type": "agent_reasoning'),
}


_SIGNS_OF_CALLS = (
    b'"type":"CommandExecution"',
    b'"type":"FileChange"',
    b'"type":"exec_command_end"',
    b'"type":"patch_apply_end"',
)
_SIGNS_OF_SEARCHES = (b'"type":"WebSearch"', b'"type":"web_search_end"')


def _says(segment: list[Record], signs: tuple[bytes, ...]) -> bool:
    """Does an event of the segment tell of such a thing?"""
    return any(sign in record.raw for record in segment if record.kind == "event_msg" for sign in signs)


def _without_last_turns(shown: list[_Shown], num_turns: Any) -> list[_Shown]:
    starts = [index for index, entry in enumerate(shown) if entry.events[0]["type"] == "user_message"]
    if not isinstance(num_turns, int) or num_turns <= 0 or not starts:
        return shown
    cut = starts[-num_turns] if num_turns <= len(starts) else starts[0]
    while cut and shown[cut - 1].events[0]["type"] == "task_started":
        cut -= 1
    return shown[:cut]


# ---- one record ------------------------------------------------------------------------------------


def _from_item(record: Record, wanted: set[str]) -> list[_Shown]:
    if not wanted:
        return []
    item = record.payload
    if item.get("type") == "reasoning" and "reasoning" in wanted:
        parts = item.get("summary") or ()
        texts = [part["text"] for part in parts if isinstance(part, dict) and isinstance(part.get("text"), str)]
        return [_reasoning(texts, [], item.get("id"), record.timestamp)] if texts else []
    if is_external(item) and "external" in wanted:
        shown = {**item, "type": "FunctionCallOutput"}
        event = {"type": "item_completed", "thread_id": "", "turn_id": "", "item": shown}
        return [_Shown([event], shown, record.timestamp)]
    role = item.get("role")
    if item.get("type") != "message" or not isinstance(role, str) or role not in wanted:
        return []
    if role == "user":
        said = {
            "type": "user_message",
            "message": _own_words(item),
            "images": [],
            "local_images": [],
            "text_elements": [],
        }
        return [_user(said, None, record.timestamp)] if is_user_input(item) else []
    text = item_text(item)
    return [_agent(text, item.get("id"), record.timestamp)] if text else []


def _from_call(record: Record, calls: dict[str, dict[str, Any]]) -> list[_Shown]:
    """A call that no event tells of; what came back is added to it when it comes."""
    item = record.payload
    if is_call(item):
        call = calls[call_id_of(item)] = {"type": "Call", "call": item, "output": None}
        return [_Shown([{"type": "call"}], call, record.timestamp)]
    if is_output(item) and (call := calls.pop(call_id_of(item), None)) is not None:
        call["output"] = item
    elif item.get("role") == "user" and (text := item_text(item)).startswith("<user_shell_command>"):
        return [_Shown([{"type": "user_command"}], {"type": "UserCommand", "text": text}, record.timestamp)]
    return []


def _from_search(record: Record) -> list[_Shown]:
    """A search that the server made, of which no event tells."""
    item = record.payload
    if item.get("type") != "web_search_call":
        return []
    action = item.get("action")
    about = action if isinstance(action, dict) else {}
    query = str(about.get("query") or about.get("url") or "")
    search = {"type": "WebSearch", "id": item.get("id"), "query": query, "action": about}
    return _from_thread_item(search, {}, record.timestamp)


def _translate(event: Event, timestamp: str = "") -> list[_Shown]:
    """A recorded event as what it showed; nothing for an event that showed nothing."""
    kind = str(event.get("type"))
    kind = _ALIASES.get(kind, kind)
    if kind == "item_completed":
        item = event.get("item")
        return _from_thread_item(item, event, timestamp) if isinstance(item, dict) else []
    if kind not in _PASSED_ON:
        return []
    if kind == "user_message":
        said = {"type": kind, "message": str(event.get("message") or "")}
        lists = {name: _list(event, name) for name in ("images", "local_images", "text_elements")}
        more = _beside(_list(event, "mentions"), event.get("client_id"))
        return [_user({**said, **lists, **more}, None, timestamp)]
    if kind == "agent_message":
        return [_agent(str(event.get("message") or ""), None, timestamp)]
    if kind == "agent_reasoning":
        return [_reasoning([str(event.get("text") or "")], [], None, timestamp)]
    return [_Shown([{**event, "type": kind}], event_item(kind, event), timestamp)]


def event_item(kind: str, event: Event) -> dict[str, Any] | None:
    """What an event that is passed on is in a transcript."""
    match kind:
        case "context_compacted":
            return {"type": "ContextCompaction"}
        case "entered_review_mode":
            return {"type": "EnteredReviewMode", "review": str(event.get("user_facing_hint") or "")}
        case "exited_review_mode":
            return {"type": "ExitedReviewMode", "review": _review_text(event.get("review_output"))}
        case _:
            return None


def _review_text(output: Any) -> str:
    """A report as people read it, also of a review that was cut short."""
    from spindle.protocol.review_output import form_of, render  # few threads have one

    return render(form_of(output if isinstance(output, dict) else {}))


def _list(event: Event, name: str) -> list[Any]:
    found = event.get(name)
    return found if isinstance(found, list) else []


def _from_thread_item(item: dict[str, Any], event: Event, timestamp: str) -> list[_Shown]:
    """An item of the current generation, said with the events of protocol v1."""
    match item.get("type"):
        case "UserMessage":
            parts = [part for part in item.get("content") or () if isinstance(part, dict)]
            texts = [part for part in parts if part.get("type") == "text"]
            said = {
                "type": "user_message",
                "message": "".join(str(part.get("text") or "") for part in texts),
                "images": [part.get("image_url") or part.get("url") for part in parts if part.get("type") == "image"],
                "local_images": [part.get("path") for part in parts if part.get("type") in _LOCAL_IMAGES],
                "text_elements": [element for part in texts for element in part.get("text_elements") or ()],
                **_beside(parts, item.get("client_id")),
            }
            return [_user(said, item.get("id"), timestamp)]
        case "AgentMessage":
            parts = [part for part in item.get("content") or () if isinstance(part, dict)]
            return [_agent("".join(str(part.get("text") or "") for part in parts), item.get("id"), timestamp)]
        case "Reasoning":
            summary, raw = item.get("summary_text") or [], item.get("raw_content") or []
            return [_reasoning(summary, raw, item.get("id"), timestamp)] if summary or raw else []
        case "CommandExecution":
            item = {**item, "cwd": str(item.get("cwd") or "").removeprefix("file://")}
            return [_Shown([_command_end(item, event)], item, timestamp)]
        case "FileChange":
            return [_Shown([_patch_end(item, event)], item, timestamp)]
        case "WebSearch":
            end = {"type": "web_search_end", "call_id": item.get("id"), "query": item.get("query", "")}
            return [_Shown([{**end, "action": item.get("action")}], item, timestamp)]
        case "ContextCompaction":
            return [_Shown([{"type": "context_compacted"}], item, timestamp)]
        case "Plan" | "FunctionCallOutput":
            return [_Shown([event], item, timestamp)]
        case "EnteredReviewMode" | "ExitedReviewMode" as kind:
            named = "entered_review_mode" if kind == "EnteredReviewMode" else "exited_review_mode"
            told = {**item, "type": named}
            return [_Shown([told], {**(event_item(named, told) or {}), "id": item.get("id")}, timestamp)]
        case _:
            return []


def _beside(parts: list[Any], client_id: Any) -> dict[str, Any]:
    """What a person's message may have beside its text and its pictures."""
    mentions = [part for part in parts if isinstance(part, dict) and part.get("type") in ("skill", "mention")]
    return {
        **({"mentions": mentions} if mentions else {}),
        **({"client_id": client_id} if isinstance(client_id, str) else {}),
    }


def _user(event: Event, item_id: str | None, timestamp: str) -> _Shown:
    pictures: list[dict[str, Any]] = [{"type": "image", "image_url": url} for url in event["images"]]
    pictures += [{"type": "local_image", "path": path} for path in event["local_images"]]
    content: list[dict[str, Any]] = [*event.get("mentions", []), *pictures]
    if event["message"] or not content:
        # An input of pictures alone has no words; one without anything is shown as what it was, an empty text.
        content.insert(0, {"type": "text", "text": event["message"], "text_elements": event["text_elements"]})
    if "client_id" in event:
        content[0] = {**content[0], "client_id": event["client_id"]}
    return _Shown([event], {"type": "UserMessage", "id": item_id, "content": content}, timestamp)


def _agent(text: str, item_id: str | None, timestamp: str) -> _Shown:
    item = {"type": "AgentMessage", "id": item_id, "content": [{"type": "Text", "text": text}]}
    return _Shown([{"type": "agent_message", "message": text}], item, timestamp)


def _reasoning(summary: list[str], raw: list[str], item_id: str | None, timestamp: str) -> _Shown:
    events = [{"type": "agent_reasoning", "text": text} for text in summary]
    events += [{"type": "agent_reasoning_raw_content", "text": text} for text in raw]
    return _Shown(events, {"type": "Reasoning", "id": item_id, "summary_text": summary, "raw_content": raw}, timestamp)


def _command_end(item: dict[str, Any], event: Event) -> Event:
    output = item.get("aggregated_output") or ""
    return {
        "type": "exec_command_end",
        "call_id": item.get("id"),
        "turn_id": event.get("turn_id"),
        "process_id": item.get("process_id"),
        "command": item.get("command") or [],
        "cwd": item["cwd"],
        "parsed_cmd": item.get("parsed_cmd") or [],
        "source": item.get("source") or "agent",
        "stdout": output,
        "stderr": "",
        "aggregated_output": output,
        "exit_code": -1 if item.get("exit_code") is None else item["exit_code"],
        "duration": item.get("duration") or {"secs": 0, "nanos": 0},
        "formatted_output": output,
    }


def _patch_end(item: dict[str, Any], event: Event) -> Event:
    return {
        "type": "patch_apply_end",
        "call_id": item.get("id"),
        "turn_id": event.get("turn_id"),
        "stdout": item.get("stdout") or "",
        "stderr": item.get("stderr") or "",
        "success": item.get("status") == "completed",
        "changes": item.get("changes") or {},
    }
