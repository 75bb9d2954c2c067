"""What the drawn and the plain interface share: the thread, what is on its way to it, what it tells and asks.

Events of the thread go to `turns.py`, the conversation (`cells/`) and `asking.py`. How things are shown and how a
person answers is up to `app.py` (drawn) and `plain.py` (line by line); both are the `Desk` that all other parts use.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Coroutine, Iterable
from typing import Any, TypeVar

import msgspec

from spindle.api.door import OpenThread, SessionRequest
from spindle.api.hearing import Hearing
from spindle.config.schema import Config
from spindle.errors import SpindleError, reason_of
from spindle.frontends.launch import kept_options
from spindle.frontends.tui import leaving
from spindle.frontends.tui.asking import Asking
from spindle.frontends.tui.attention import Attention
from spindle.frontends.tui.cells.conversation import Conversation
from spindle.frontends.tui.commands import running
from spindle.frontends.tui.composer.draft import Draft
from spindle.frontends.tui.facts import Facts
from spindle.frontends.tui.launching import Launch
from spindle.frontends.tui.modes import Modes
from spindle.frontends.tui.opening import Opening
from spindle.frontends.tui.shown import Line, line
from spindle.frontends.tui.start import is_practice
from spindle.frontends.tui.status_line import StatusFacts
from spindle.frontends.tui.text.clean import safe
from spindle.frontends.tui.turns import Turns
from spindle.frontends.tui.view import View
from spindle.protocol.clock import Clock, SystemClock
from spindle.protocol.events import TERMINAL, Error, Event, Msg, TaskComplete
from spindle.protocol.ops import Compact, Op, OverrideTurnContext, StartOver, UserInput, UserTurn

T = TypeVar("T")


class Interface:
    """One run of the interface, however it is shown. `run` gives the exit code."""

    speaks_plainly = False
    """Words in place of signs."""

    def __init__(self, launch: Launch, notify: Callable[[str], None]) -> None:
        self.config: Config = launch.config
        self._asked_with = launch.parsed
        self.clock: Clock = SystemClock()
        self.thread: OpenThread | None = None
        self.hearing: Hearing | None = None
        self.view: View[Any] | None = None
        """The question that is shown."""
        self.attention = Attention(self.config.tui, notify)
        self.modes = Modes(self.config)
        self.turns = Turns(self.give_back, self.enter, self.messages_changed)
        self.asking = Asking(self)
        self.opening = Opening(self, launch)
        self.conversation: Conversation = self.opening.new_conversation()
        self.folder = Facts(self)
        self.last_words: list[str] = []
        """Said when the terminal is the shell's again."""
        self._waiting_ops: list[Op] = []
        """Handed in before the thread was open."""
        self._tasks: set[asyncio.Task[None]] = set()
        self._end: asyncio.Future[int] = asyncio.get_running_loop().create_future()
        self._was_said = False
        """Whether there is something to come back to."""

    # ---- from the beginning to the end -----------------------------------------------------------

    async def run(self) -> int:
        asyncio.get_running_loop().set_exception_handler(self._callback_failed)
        leaving.catch_signals(self.end_by)
        self.listen()
        self.spawn(self.opening.begin())
        try:
            return await self._end
        finally:
            await self._leave()

    async def _leave(self) -> None:
        if not self.was_left:
            self.turns.closed()  # what was entered and never got into the thread is kept with the draft
        self.stop_listening()
        self.asking.withdraw()
        if (thread := self.thread) is not None:
            problem = await leaving.close(thread)
            is_there = thread.path is not None and os.path.exists(thread.path)
            way_back = thread.id if self._was_said and is_there and not is_practice(self.config) else None
            options = kept_options(self._asked_with, self.config, thread.settings.model)
            words = leaving.farewell(self.conversation.spending.total, way_back, options)
            self.last_words = [*words, *self.last_words, *([f"error: {problem}"] if problem else [])]
        for task in self._tasks:
            task.cancel()
        if self._tasks:  # an editor is ended, a file for a moment is removed
            await asyncio.wait(self._tasks, timeout=leaving.TASKS_S)

    @property
    def is_leaving(self) -> bool:
        return self._end.done()

    def end_by(self, number: int) -> None:
        """A signal ends it."""
        self._finish(128 + number)

    def quit(self) -> None:
        self._finish(0)

    def give_up(self, sentence: str) -> None:
        """It cannot go on: leave, and say why."""
        if not self._end.done():
            self.last_words.append(f"error: {sentence}")
            self._finish(1)

    @property
    def was_left(self) -> bool:
        """The person has ended it, no signal and no error."""
        return self._end.done() and not self._end.cancelled() and self._end.result() == 0

    def _finish(self, code: int) -> None:
        if not self._end.done():
            self._end.set_result(code)

    def _callback_failed(self, _: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        error = context.get("exception")
        if not isinstance(error, Exception):
            return
        sentence = f"internal error: {type(error).__name__}: {error}"
        if "handle" in context:
            self.give_up(sentence)  # it may be the painting itself, which would fail again and again
        else:
            self.fail(sentence)

    # ---- how it is shown: for those that show it ---------------------------------------------------

    def listen(self) -> None:
        """Take keys from now on."""
        raise NotImplementedError

    def stop_listening(self) -> None:
        raise NotImplementedError

    def redraw(self) -> None:
        raise NotImplementedError

    async def ask(self, view: View[T]) -> T:
        raise NotImplementedError

    async def page(self, title: str, lines: Iterable[Line]) -> None:
        raise NotImplementedError

    def clear_screen(self) -> None:
        raise NotImplementedError

    def give_back(self, drafts: list[Draft]) -> None:
        """Put messages that did not get into the thread where the person can send them again."""
        raise NotImplementedError

    def messages_changed(self) -> None:
        """Other messages than before are on their way into the thread."""

    def set_draft(self, text: str) -> None:
        raise NotImplementedError

    def begin_draft(self, text: str) -> None:
        self.set_draft(text)

    def suggest(self, text: str) -> None:
        """Put text into the composer, unless something was typed already."""
        self.set_draft(text)

    def copy(self, text: str) -> None:
        raise NotImplementedError

    def ready(self) -> None:
        """The thread is open, and there is time for what was put off."""

    def settings_changed(self) -> None:
        """The settings of the interface are other ones now."""

    # ---- what there is -------------------------------------------------------------------------

    @property
    def is_working(self) -> bool:
        return self.turns.is_working

    @property
    def queued(self) -> list[str]:
        return [draft.text for draft in self.turns.queued]

    @property
    def size(self) -> tuple[int, int]:
        raise NotImplementedError

    @property
    def cwd(self) -> str:
        return self.thread.settings.cwd if self.thread is not None else self.config.cwd

    @property
    def facts(self) -> StatusFacts:
        return self.folder.now()

    @property
    def seen(self) -> Conversation:
        return self.conversation

    def agent_name(self, thread_id: str | None) -> str:
        """What a sub-agent is called; empty for the thread itself."""
        if thread_id is None:
            return ""
        return self.conversation.agents.name_of(thread_id)

    # ---- showing things ------------------------------------------------------------------------

    def say(self, *lines: Line | str) -> None:
        made = [each if isinstance(each, Line) else line(safe(row)) for each in lines for row in _rows(each)]
        self.conversation.say(made)
        self.redraw()

    def warn(self, sentence: str) -> None:
        self.conversation.warn(sentence)
        self.redraw()

    def fail(self, sentence: str) -> None:
        self.conversation.fail(sentence)
        self.redraw()

    # ---- doing things --------------------------------------------------------------------------

    def send(self, text: str) -> None:
        self.turns.send(Draft(text=text, shown=text))
        self.redraw()

    def submit(self, op: Op) -> None:
        if isinstance(op, OverrideTurnContext):
            self.modes.notice(op)
        self._hand_in(op)

    def _hand_in(self, op: Op) -> None:
        if self.thread is None:
            self._waiting_ops.append(op)
        elif isinstance(op, UserTurn | UserInput | Compact | StartOver):
            self.turns.start(op, takes_no_input=not isinstance(op, UserTurn | UserInput))
        else:
            self.thread.submit(op)
        self.redraw()

    async def call(self, op: Op) -> Msg:
        if self.hearing is None:
            raise SpindleError("the session is not open yet")
        return await self.hearing.ask(op)

    def enter(self, draft: Draft) -> None:
        """A draft that a person entered: a command, a command for the shell, or a message."""
        if draft.is_blank:
            return
        if not draft.images and (command := running.read(draft.text)) is not None:
            if self.thread is None and command.name not in running.AT_ANY_TIME:
                self.turns.enter_later(draft)
            elif (problem := running.problem_with(draft.text, is_working=self.is_working)) is not None:
                self.fail(problem)
                self.give_back([draft])
            else:
                self.spawn(self._run_slash_then_go_on(draft.text))
                return
        elif (script := draft.shell_command) is not None:
            if script:
                self.turns.run_command(draft, script)
        else:
            self.turns.send(draft)
        self.turns.go_on()  # most commands start no turn whose end would bring the next queued message
        self.redraw()

    def run_slash(self, text: str) -> None:
        self.spawn(running.run(self, text))

    async def _run_slash_then_go_on(self, text: str) -> None:
        await running.run(self, text)
        self.turns.go_on()
        self.redraw()

    @property
    def request(self) -> SessionRequest:
        return self.opening.request

    def config_for(self, cwd: str) -> Config:
        return self.opening.config_for(cwd)

    def enter_first(self, draft: Draft) -> None:
        """The prompt of the command line: a message, whatever it begins with."""
        self.turns.send(draft)
        self.redraw()

    async def switch(self, change: Callable[[SessionRequest], SessionRequest]) -> None:
        await self.opening.switch(change)

    def set_mode(self, mode: str) -> None:
        self._hand_in(self.modes.change(mode))

    def use_setting(self, key: str, value: Any) -> None:
        """A setting of the interface was changed: use it from now on."""
        name = key.removeprefix("spindle.").removeprefix("tui.")
        fields = {field.name: field for field in msgspec.structs.fields(self.config.tui)}
        if name not in fields:
            return
        given = fields[name].default if value is None else tuple(value) if isinstance(value, list) else value
        tui = msgspec.structs.replace(self.config.tui, **{name: given})
        self.config = msgspec.structs.replace(self.config, tui=tui)
        self.attention.settings = tui
        self.conversation.is_raw = tui.raw_output_mode
        self.settings_changed()

    def spawn(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.ensure_future(work)
        self._tasks.add(task)
        task.add_done_callback(self._spawned)

    def _spawned(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if task.cancelled() or (error := task.exception()) is None:
            return
        if isinstance(error, SpindleError | OSError):
            self.fail(reason_of(error))
        else:
            self.fail(f"internal error: {type(error).__name__}: {error}")

    # ---- the thread ------------------------------------------------------------------------------

    def opened(self, thread: OpenThread, hearing: Hearing) -> None:
        """Another thread is open: everything is about it from now on."""
        self.thread, self.hearing = thread, hearing
        settings = thread.settings
        waiting, self._waiting_ops = self._waiting_ops, []
        for op in waiting:
            thread.submit(op)
        if not waiting:
            self.modes.opened(settings.approval_policy, settings.sandbox, settings.collaboration_mode.mode)
        self.folder.look()
        self.turns.opened(thread, hearing)
        self.redraw()

    def closed(self) -> None:
        """The thread is being left for another."""
        self.asking.withdraw()
        self.turns.closed()
        self.thread = self.hearing = None

    def hear(self, event: Event) -> None:
        """Something happened in the thread."""
        if not self.turns.hear(event):
            return
        self.conversation.take(event)
        self.asking.hear(event)
        match event.msg:
            case msg if isinstance(msg, TERMINAL):
                self._was_said = True
                self.folder.look()
                if isinstance(msg, TaskComplete) and not self.is_working:
                    self.attention.call("agent-turn-complete", msg.last_agent_message or "the turn is done")
            case Error() if not self.is_working:
                self.attention.call("agent-turn-complete", event.msg.message)
            case _:
                pass


def _rows(text: Line | str) -> list[Any]:
    return [text] if isinstance(text, Line) else text.split("\n")
