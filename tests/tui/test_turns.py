"""Messages on their way in, told by events alone: which are still ours, and what becomes of them."""

from __future__ import annotations

from typing import Any

from spindle.frontends.tui.composer.draft import Draft
from spindle.frontends.tui.turns import Turns
from spindle.protocol.events import Error, Event, Msg, TaskComplete, TaskStarted, TurnAborted, UserMessage, Warning
from spindle.protocol.ops import Interrupt, Op, RunUserShellCommand, UserInput


class Thread:
    """A thread that only counts ops."""

    def __init__(self) -> None:
        self.ops: list[Op] = []
        self.is_running = False

    def submit(self, op: Op) -> str:
        self.ops.append(op)
        return f"s{len(self.ops)}"


class Hearing:
    def __init__(self, thread: Thread) -> None:
        self.thread = thread
        self.active_turn: str | None = None

    def start_turn(self, op: Op, *, takes_no_input: bool = False) -> str:
        self.active_turn = self.thread.submit(op)
        return self.active_turn


class Told:
    """Turns, with what they gave back."""

    def __init__(self, *, is_open: bool = True) -> None:
        self.thread = Thread()
        self.hearing: Any = Hearing(self.thread)
        self.back: list[str] = []
        self.turns = Turns(lambda drafts: self.back.extend(draft.text for draft in drafts), self.enter)
        if is_open:
            self.open()

    def open(self) -> None:
        self.turns.opened(self.thread, self.hearing)  # pyright: ignore[reportArgumentType]

    def enter(self, draft: Draft) -> None:
        if (command := draft.shell_command) is not None:
            self.turns.run_command(draft, command)
        else:
            self.turns.send(draft)

    def say(self, text: str) -> None:
        self.enter(Draft(text=text))

    def queue(self, text: str) -> None:
        self.turns.queue(Draft(text=text))

    def hear(self, sub_id: str, msg: Msg) -> bool:
        return self.turns.hear(Event(sub_id, msg))

    def begin(self, sub_id: str) -> None:
        self.hearing.active_turn, self.thread.is_running = sub_id, True
        self.hear(sub_id, TaskStarted(turn_id=sub_id, model_context_window=None))

    def end(self, sub_id: str, *, goes_on: bool = False) -> None:
        self.hearing.active_turn, self.thread.is_running = None, goes_on
        self.hear(sub_id, TaskComplete(turn_id=sub_id, last_agent_message=None))

    def abort(self, sub_id: str) -> None:
        self.hearing.active_turn, self.thread.is_running = None, False
        self.hear(sub_id, TurnAborted(turn_id=sub_id, reason="interrupted"))

    @property
    def sent(self) -> list[str]:
        return [
            op.items[-1]["text"] if isinstance(op, UserInput) else op.command
            for op in self.thread.ops
            if isinstance(op, UserInput | RunUserShellCommand)
        ]


def test_a_message_that_is_steered_too_late_is_the_next_turn_and_queued_ones_wait_for_that() -> None:
    told = Told()
    told.say("one")
    told.begin("s1")
    told.hear("s1", UserMessage(message="one"))
    told.say("two")
    told.queue("three")
    told.end("s1", goes_on=True)  # the session has started a turn with "two" by itself
    assert told.sent == ["one", "two"] and [draft.text for draft in told.turns.waiting] == ["two"]
    told.begin("s2")
    told.hear("s2", UserMessage(message="two"))
    assert told.turns.waiting == [] and told.back == []
    told.end("s2")
    assert told.sent == ["one", "two", "three"]


def test_what_a_hook_refuses_comes_back_and_its_warning_is_shown() -> None:
    told = Told()
    told.say("one")
    told.begin("s1")
    assert told.hear("s1", Warning(message="refused"))
    told.end("s1")
    assert told.back == ["one"]


def test_a_dropped_message_comes_back_in_silence_before_the_queue() -> None:
    told = Told()
    told.say("one")
    told.begin("s1")
    told.hear("s1", UserMessage(message="one"))
    told.say("two")
    told.queue("three")
    assert told.turns.interrupt() and isinstance(told.thread.ops[-1], Interrupt) and told.turns.is_stopping
    assert not told.hear("s2", Warning(message="dropped"))
    told.abort("s1")
    assert told.back == ["two", "three"] and not told.turns.is_stopping and told.turns.queued == []


def test_a_message_that_could_not_begin_comes_back() -> None:
    told = Told()
    told.say("one")
    told.hearing.active_turn = None
    told.hear("s1", Error(message="no"))
    assert told.back == ["one"]


def test_a_failed_turn_sends_nothing_that_was_queued() -> None:
    told = Told()
    told.say("one")
    told.begin("s1")
    told.hear("s1", UserMessage(message="one"))
    told.queue("two")
    told.hear("s1", Error(message="server down"))
    told.end("s1")
    assert told.back == ["two"] and told.sent == ["one"]


def test_what_is_entered_before_the_thread_is_open_is_sent_then_and_can_be_taken_back() -> None:
    told = Told(is_open=False)
    told.say("one")
    told.say("!ls")
    assert told.turns.is_working and told.sent == []
    told.open()
    assert told.sent == ["one"] and [draft.text for draft in told.turns.queued] == ["!ls"]
    told = Told(is_open=False)
    told.say("one")
    assert told.turns.interrupt() and told.back == ["one"] and not told.turns.is_working


def test_two_equal_messages_are_two() -> None:
    told = Told()
    told.say("same")
    told.begin("s1")
    told.say("same")
    told.hear("s1", UserMessage(message="same"))
    assert [draft.text for draft in told.turns.waiting] == ["same"]
    told.hear("s1", UserMessage(message="same"))
    assert told.turns.waiting == []
