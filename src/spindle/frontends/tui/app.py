"""The interface itself: holds its parts together, and is the `Desk` that they use.

Events of the thread go to `turns.py`, the conversation (`cells/`) and `asking.py`; keys come from `input.py` and end in
the composer, a view or `deeds.py`; `frames.py` says when `showing.py` paints. Everything runs on one event loop.
"""

from __future__ import annotations

import asyncio
import signal
from collections.abc import AsyncIterator, Callable, Coroutine, Iterable
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any, TypeVar

import msgspec

from spindle.api.door import OpenThread, SessionRequest
from spindle.api.hearing import Hearing
from spindle.config.schema import Config
from spindle.errors import SpindleError, reason_of
from spindle.frontends.tui import leaving
from spindle.frontends.tui.asking import Asking
from spindle.frontends.tui.attention import Attention
from spindle.frontends.tui.cells.conversation import Conversation
from spindle.frontends.tui.composer.composer import Composer
from spindle.frontends.tui.composer.draft import Draft
from spindle.frontends.tui.deeds import Deeds
from spindle.frontends.tui.frames import Frames
from spindle.frontends.tui.input import Keyboard
from spindle.frontends.tui.keys import Reply
from spindle.frontends.tui.modes import Modes
from spindle.frontends.tui.opening import Opening
from spindle.frontends.tui.shown import Line, line
from spindle.frontends.tui.showing import Showing
from spindle.frontends.tui.status_line import StatusFacts
from spindle.frontends.tui.text.clean import safe
from spindle.frontends.tui.turns import Turns
from spindle.frontends.tui.view import View
from spindle.protocol.clock import Clock, SystemClock
from spindle.protocol.events import TERMINAL, Error, Event, Msg, TaskComplete, Warning
from spindle.protocol.ops import Compact, Op, OverrideTurnContext, StartOver, UserInput, UserTurn

if TYPE_CHECKING:
    from spindle.frontends.tui.launching import Launch
    from spindle.frontends.tui.screen.stage import Stage

T = TypeVar("T")


class App:
    """One run of the interface. `run` gives the exit code."""

    def __init__(self, launch: Launch, stage: Stage) -> None:
        self.config: Config = launch.config
        self.clock: Clock = SystemClock()
        self.thread: OpenThread | None = None
        self.hearing: Hearing | None = None
        self.effort: str | None = None
        """The reasoning effort that was asked for last."""
        self.warnings: list[str] = []
        self.composer = Composer(stage.keymap, changed=self._draft_changed)
        self.showing = Showing(self, stage.terminal, stage.painter)
        self.frames = Frames(self.showing.paint)
        self.deeds = Deeds(self)
        self.keyboard = Keyboard(self, stage.decoder, early=stage.early)
        self.attention = Attention(self.config.tui, stage.terminal.notify)
        self.modes = Modes(self.config)
        self.turns = Turns(self.give_back, self.deeds.enter)
        self.asking = Asking(self)
        self.opening = Opening(self, launch)
        self.conversation: Conversation = self.opening.new_conversation()
        self._views: list[View[Any]] = []
        """The first is shown, the others wait."""
        self._waiting_ops: list[Op] = []
        """Handed in before the thread was open."""
        self._tasks: set[asyncio.Task[None]] = set()
        self._end: asyncio.Future[int] = asyncio.get_running_loop().create_future()
        self._last_words: list[str] = []
        self._was_said = False
        """Whether there is something to come back to."""

    # ---- from the beginning to the end -----------------------------------------------------------

    async def run(self) -> int:
        loop = asyncio.get_running_loop()
        loop.set_exception_handler(self._callback_failed)
        leaving.catch_signals(self.end_by)
        loop.add_signal_handler(signal.SIGWINCH, self._resized)
        loop.add_signal_handler(signal.SIGTSTP, self.suspend)
        self.keyboard.listen()
        self.spawn(self.opening.begin())
        try:
            return await self._end
        finally:
            await self._leave()

    async def _leave(self) -> None:
        self.keyboard.stop()
        self.frames.stop()
        self.asking.withdraw()
        if self.thread is not None:
            problem = await leaving.close(self.thread)
            self._last_words = leaving.farewell(self.conversation.usage, self.thread.id if self._was_said else None)
            if problem:
                self._last_words.append(f"error: {problem}")
        for task in self._tasks:
            task.cancel()

    @property
    def last_words(self) -> list[str]:
        return self._last_words

    def end_by(self, number: int) -> None:
        """A signal ends it."""
        self._finish(128 + number)

    def quit(self) -> None:
        self._finish(0)

    def give_up(self, sentence: str) -> None:
        """It cannot go on: leave, and say why."""
        self._last_words.append(f"error: {sentence}")
        self._finish(1)

    def _finish(self, code: int) -> None:
        if not self._end.done():
            self._end.set_result(code)

    def _callback_failed(self, _: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        error = context.get("exception")
        if isinstance(error, Exception):
            self.give_up(f"internal error: {type(error).__name__}: {error}")

    # ---- what there is -------------------------------------------------------------------------

    @property
    def is_working(self) -> bool:
        return self.turns.is_working

    @property
    def is_asking_first(self) -> bool:
        """Something has to be asked, or chosen, before there is a composer."""
        return self.opening.is_asking_first

    @property
    def queued(self) -> list[str]:
        return [draft.text for draft in self.turns.queued]

    @property
    def size(self) -> tuple[int, int]:
        return self.showing.terminal.size

    @property
    def cwd(self) -> str:
        return self.thread.settings.cwd if self.thread is not None else self.config.cwd

    @property
    def facts(self) -> StatusFacts:
        return self.showing.facts()

    @property
    def seen(self) -> Conversation:
        return self.conversation

    @property
    def view(self) -> View[Any] | None:
        return self._views[0] if self._views else None

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
        self.warnings.append(sentence)
        self.conversation.warn(sentence)
        self.redraw()

    def fail(self, sentence: str) -> None:
        self.conversation.fail(sentence)
        self.redraw()

    async def ask(self, view: View[T]) -> T:
        self._views.append(view)
        if len(self._views) == 1:
            self.keyboard.view_appeared(view)
        self._tell_waiting()
        self.redraw()
        try:
            return await view.answer
        finally:
            was_shown = self.view is view
            self._views.remove(view)
            if was_shown and self.view is not None:
                self.keyboard.view_appeared(self.view)
            self._tell_waiting()
            self.redraw()

    def _tell_waiting(self) -> None:
        for number, view in enumerate(self._views):
            view.waiting = len(self._views) - number - 1

    async def page(self, title: str, lines: Iterable[Line]) -> None:
        await self.showing.page(title, lines)

    def clear_screen(self) -> None:
        self.showing.painter.push_up(self.size)
        self.frames.now()

    def redraw(self) -> None:
        self.frames.soon()

    # ---- doing things --------------------------------------------------------------------------

    def send(self, text: str) -> None:
        self.turns.send(Draft(text=text, shown=text))
        self.redraw()

    def submit(self, op: Op) -> None:
        if isinstance(op, OverrideTurnContext):
            self.modes.notice(op)
            self.effort = op.effort if isinstance(op.effort, str) else self.effort
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

    def set_draft(self, text: str) -> None:
        self.composer.set_text(text)
        self.redraw()

    def give_back(self, drafts: list[Draft]) -> None:
        """Put messages into the composer, before what stands there."""
        self.composer.restore(drafts)
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
        self.showing.use_settings(tui)
        self.redraw()

    def copy(self, text: str) -> None:
        self.showing.terminal.copy(text)

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
        self.showing.look_at_folder()
        self.turns.opened(thread, hearing)
        self.redraw()

    def closed(self) -> None:
        """The thread is being left for another."""
        self.asking.withdraw()
        self.turns.closed()
        self.thread = self.hearing = None
        self.effort = None

    def hear(self, event: Event) -> None:
        """Something happened in the thread."""
        if not self.turns.hear(event):
            return
        self.conversation.take(event)
        self.asking.hear(event)
        match event.msg:
            case Warning(message=message):
                self.warnings.append(message)
            case msg if isinstance(msg, TERMINAL):
                self._was_said = True
                self.showing.look_at_folder()
                if isinstance(msg, TaskComplete) and not self.is_working:
                    self.attention.call("agent-turn-complete", msg.last_agent_message or "the turn is done")
            case Error() if not self.is_working:
                self.attention.call("agent-turn-complete", event.msg.message)
            case _:
                pass

    # ---- the terminal ----------------------------------------------------------------------------

    def _resized(self) -> None:
        self.showing.terminal.measure()
        self.frames.now()

    def suspend(self) -> None:
        """Ctrl-Z: give the terminal to the shell until `fg`."""
        self.frames.pause()
        self.showing.painter.clear_live()
        self.showing.terminal.suspend()
        self.frames.go_on()

    @asynccontextmanager
    async def lent_terminal(self) -> AsyncIterator[None]:
        """Another program has the terminal meanwhile: the editor."""
        self.keyboard.stop()
        self.frames.pause()
        self.showing.painter.clear_live()
        self.showing.terminal.leave()
        try:
            yield
        finally:
            self.showing.terminal.enter()
            self.keyboard.listen()
            self.frames.go_on()

    def terminal_said(self, reply: Reply) -> None:
        self.showing.terminal.take_reply(reply)

    def _draft_changed(self) -> None:
        self.opening.keep_draft()


def _rows(text: Line | str) -> list[Any]:
    return [text] if isinstance(text, Line) else text.split("\n")
