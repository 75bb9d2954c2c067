"""A desk for tests of views and slash commands: a real thread with a scripted model behind it, and no terminal.

What was said is in `said` (plain text, line by line), what was asked for is answered by the keys in `hands`, what went
to the clipboard, the pager, the composer is kept under these names.
"""

from __future__ import annotations

import asyncio
import dataclasses
from collections.abc import Callable, Coroutine, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

import msgspec

from spindle.api.door import OpenThread, SessionRequest, open_thread
from spindle.api.hearing import Hearing
from spindle.config.load import load_config
from spindle.config.schema import Config
from spindle.frontends.tui.desk import AgentSeen, BackgroundCommand
from spindle.frontends.tui.shown import Line, Span, plain
from spindle.frontends.tui.status_line import StatusFacts
from spindle.frontends.tui.view import View
from spindle.model.scripted import ScriptedModel
from spindle.protocol.clock import Clock, FixedClock
from spindle.protocol.events import Msg
from spindle.protocol.ops import Op, UserTurn
from tui.hands import press, shown, write

T = TypeVar("T")


@dataclasses.dataclass
class FakeSeen:
    last_answer: str | None = None
    warnings: Sequence[str] = ()
    background: Sequence[BackgroundCommand] = ()
    agents: Sequence[AgentSeen] = ()
    servers: Mapping[str, str] = dataclasses.field(default_factory=dict)


class FakeDesk:
    """Everything a `Desk` can do."""

    def __init__(self, request: SessionRequest, model: ScriptedModel) -> None:
        self.request = msgspec.structs.replace(request, client=model)
        self.model = model
        self.thread: OpenThread | None = None
        self.hearing: Hearing | None = None
        self.is_working = False
        self.queued: list[str] = []
        self.size: tuple[int, int] = (80, 24)
        self.facts = StatusFacts(state="idle", cwd=request.config.cwd)
        self.seen = FakeSeen()
        self.clock: Clock = request.clock
        self.lines: list[Line] = []
        self.warned: list[str] = []
        self.failed: list[str] = []
        self.sent: list[str] = []
        self.submitted: list[Op] = []
        self.hands: list[Sequence[str]] = []
        """The keys that answer each view that comes, in order."""
        self.views: list[list[str]] = []
        """What each view looked like when it came."""
        self.pages: list[tuple[str, list[Line]]] = []
        self.draft = ""
        self.copied: list[str] = []
        self.mode = "default"
        self.used: dict[str, Any] = {}
        self.cleared = 0
        self.has_quit = False
        self.spawned: list[asyncio.Future[None]] = []
        self.typed = ""
        """Written into the next view, once it has something to show for it."""

    @staticmethod
    def moved(request: SessionRequest, cwd: Path, **fields: Any) -> SessionRequest:
        """The same request in another folder."""
        return msgspec.structs.replace(request, config=msgspec.structs.replace(request.config, cwd=str(cwd)), **fields)

    @classmethod
    async def open(cls, home: Path, cwd: Path, config: str = "", **fields: Any) -> FakeDesk:
        """A desk with an open thread. `config` is the text of the user's config.toml."""
        home.mkdir(exist_ok=True)
        (home / "config.toml").write_text(config)
        desk = cls(_request(home, cwd, **fields), ScriptedModel())
        await desk.reopen()
        return desk

    async def reopen(self) -> None:
        if self.thread is not None:
            await self.thread.close()
        self.thread = await open_thread(self.request)
        self.hearing = Hearing(self.thread)
        self.thread.begin()

    async def close(self) -> None:
        if self.thread is not None:
            await self.thread.close()

    async def turn(self, text: str, *steps: Any) -> None:
        """A whole turn with the scripted model."""
        assert self.hearing is not None
        self.model.script(*steps)
        self.hearing.start_turn(UserTurn(items=[{"type": "text", "text": text}]))
        await asyncio.wait_for(self.hearing.turn_end(), 20)

    @property
    def said(self) -> list[str]:
        return [plain(each) for each in self.lines]

    @property
    def text(self) -> str:
        return "\n".join(self.said)

    # ---- the desk ------------------------------------------------------------------------------

    @property
    def config(self) -> Config:
        return self.request.config

    def config_for(self, cwd: str) -> Config:
        return load_config(cwd=cwd, env={"CODEX_HOME": self.config.home, "HOME": self.config.home})

    def say(self, *lines: Line | str) -> None:
        self.lines += [each if isinstance(each, Line) else Line((Span(each),)) for each in lines]

    def warn(self, sentence: str) -> None:
        self.warned.append(sentence)

    def fail(self, sentence: str) -> None:
        self.failed.append(sentence)

    async def ask(self, view: View[T]) -> T:
        self.views.append(shown(view, *self.size))
        if self.typed:
            return await self._find(view)
        assert self.hands, f"nobody answers: {self.views[-1]}"
        for name in self.hands.pop(0):
            press(view, name)
            await asyncio.sleep(0)
        return await asyncio.wait_for(view.answer, 5)

    async def _find(self, view: View[T]) -> T:
        """Search in a list that fills itself, and take what is found."""
        typed, self.typed = self.typed, ""
        async with asyncio.timeout(10):
            while not any(typed in row for row in shown(view, *self.size)):
                await asyncio.sleep(0.01)
        write(view, typed)
        press(view, "enter")
        return await asyncio.wait_for(view.answer, 5)

    async def page(self, title: str, lines: Iterable[Line]) -> None:
        self.pages.append((title, list(lines)))

    def clear_screen(self) -> None:
        self.cleared += 1

    def redraw(self) -> None:
        pass

    def send(self, text: str) -> None:
        self.sent.append(text)

    def submit(self, op: Op) -> None:
        self.submitted.append(op)
        assert self.thread is not None
        self.thread.submit(op)

    async def call(self, op: Op) -> Msg:
        self.submitted.append(op)
        assert self.hearing is not None
        return await asyncio.wait_for(self.hearing.ask(op), 20)

    def set_draft(self, text: str) -> None:
        self.draft = text

    def begin_draft(self, text: str) -> None:
        self.draft = text + self.draft

    async def switch(self, change: Callable[[SessionRequest], SessionRequest]) -> None:
        self.request = change(self.request)
        await self.reopen()

    def set_mode(self, mode: str) -> None:
        self.mode = mode

    def use_setting(self, key: str, value: Any) -> None:
        self.used[key] = value

    def copy(self, text: str) -> None:
        self.copied.append(text)

    def spawn(self, work: Coroutine[Any, Any, None]) -> None:
        self.spawned.append(asyncio.ensure_future(work))

    def quit(self) -> None:
        self.has_quit = True


def _request(home: Path, cwd: Path, *, environment: Mapping[str, str] | None = None, **fields: Any) -> SessionRequest:
    config = load_config(cwd=str(cwd), env={"CODEX_HOME": str(home), "HOME": str(home), **(environment or {})})
    given: dict[str, Any] = {"source": "cli", "originator": "spindle_test", "clock": FixedClock(), **fields}
    return SessionRequest(config=config, **given)
