"""A conversation as tests hold it: events in, the text of its lines out."""

from __future__ import annotations

from typing import Any

from spindle.frontends.tui.cells.conversation import Conversation, Options
from spindle.frontends.tui.shown import Line, plain
from spindle.policy.commands import parse_command
from spindle.protocol import events as v1
from spindle.protocol.clock import FixedClock
from spindle.protocol.events import Duration, Event, Msg

CWD = "/repo/here"


class Told:
    """A conversation that is told events, with a clock that stands still."""

    def __init__(self, width: int = 80, **options: Any) -> None:
        self.clock = FixedClock()
        self.width = width
        self.conversation = Conversation(Options(clock=self.clock, **{"cwd": CWD, **options}))

    def take(self, *msgs: Msg, sub_id: str = "t1") -> list[str]:
        """Tell these events; gives what went into the scrollback with them, without empty lines."""
        for msg in msgs:
            self.conversation.take(Event(sub_id, msg))
        return self.finished()

    def finished(self) -> list[str]:
        return [text for text in map(plain, self.lines()) if text.strip()]

    def lines(self) -> list[Line]:
        return self.conversation.take_finished(self.width)

    def live(self, height: int = 40) -> list[str]:
        return [text for text in map(plain, self.conversation.live(self.width, height)) if text.strip()]

    def whole(self) -> list[str]:
        """The transcript."""
        return [text for text in map(plain, self.conversation.transcript(self.width)) if text.strip()]

    def begin_turn(self) -> None:
        self.take(v1.TaskStarted(turn_id="t1", model_context_window=100_000))

    def doing(self) -> str:
        activity = self.conversation.activity
        return "" if activity is None else activity.retry or activity.what


def shell(script: str) -> list[str]:
    return ["/bin/bash", "-lc", script]


def begin(script: str, call_id: str = "c1", **fields: Any) -> v1.ExecCommandBegin:
    command = shell(script)
    known = {"command": command, "cwd": CWD, "parsed_cmd": parse_command(command)}
    return v1.ExecCommandBegin(call_id=call_id, turn_id="t1", **{**known, **fields})


def end(
    script: str, output: str = "", exit_code: int = 0, call_id: str = "c1", *, took_s: float = 0.2, **fields: Any
) -> v1.ExecCommandEnd:
    command = shell(script)
    known = {"command": command, "cwd": CWD, "parsed_cmd": parse_command(command)}
    said = {"stdout": output, "aggregated_output": output, "formatted_output": output}
    rest = {**known, **said, "exit_code": exit_code, "duration": Duration.of(took_s), **fields}
    return v1.ExecCommandEnd(call_id=call_id, turn_id="t1", **rest)


def printed(text: str | bytes, call_id: str = "c1") -> v1.ExecCommandOutputDelta:
    chunk = text.encode() if isinstance(text, str) else text
    return v1.ExecCommandOutputDelta(call_id=call_id, stream="stdout", chunk=chunk)


def delta(text: str, item_id: str = "m1") -> v1.AgentMessageContentDelta:
    return v1.AgentMessageContentDelta(thread_id="th", turn_id="t1", item_id=item_id, delta=text)


def item(kind: str, item_id: str, **fields: Any) -> v1.ItemCompleted:
    return v1.ItemCompleted(thread_id="th", turn_id="t1", item={"type": kind, "id": item_id, **fields})


def said(text: str, item_id: str = "m1") -> v1.ItemCompleted:
    return item("AgentMessage", item_id, content=[{"type": "Text", "text": text}])


def done() -> v1.TaskComplete:
    return v1.TaskComplete(turn_id="t1", last_agent_message=None)


def tokens(fresh: int, cached: int = 0, out: int = 0, window: int = 100_000) -> v1.TokenCount:
    total = fresh + cached + out
    usage = {
        "input_tokens": fresh + cached,
        "cached_input_tokens": cached,
        "output_tokens": out,
        "total_tokens": total,
    }
    return v1.TokenCount(info={"total_token_usage": usage, "last_token_usage": usage, "model_context_window": window})
