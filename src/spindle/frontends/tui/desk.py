"""What a slash command, a view or the composer may use of the interface. `app.py` is the one that does it all."""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Iterable, Mapping, Sequence
from typing import Any, NamedTuple, Protocol, TypeVar

from spindle.api.door import OpenThread, SessionRequest
from spindle.api.hearing import Hearing
from spindle.config.schema import Config
from spindle.frontends.tui.shown import Line
from spindle.frontends.tui.status_line import StatusFacts
from spindle.frontends.tui.view import View
from spindle.protocol.clock import Clock
from spindle.protocol.events import Msg
from spindle.protocol.ops import Op

T = TypeVar("T")


class BackgroundCommand(NamedTuple):
    """A command that runs on although the call that started it has returned."""

    process_id: str
    command: str
    seconds: float
    """How long it has been running."""
    last_line: str = ""
    """What it printed last."""


class AgentSeen(NamedTuple):
    """A sub-agent, as its events tell of it."""

    thread_id: str
    parent_id: str
    role: str
    state: str
    """"running", "completed", "errored", …"""
    doing: str = ""
    """Its task, or what it last did."""
    tokens: int = 0


class Seen(Protocol):
    """What the events of the thread have told so far. The conversation (`cells/`) knows it."""

    @property
    def last_answer(self) -> str | None:
        """The last whole message of the model, as it was written."""
        ...

    @property
    def warnings(self) -> Sequence[str]: ...

    @property
    def background(self) -> Sequence[BackgroundCommand]: ...

    @property
    def agents(self) -> Sequence[AgentSeen]: ...

    @property
    def servers(self) -> Mapping[str, str]:
        """MCP servers by name: "starting", "ready", "cancelled", or "failed: REASON"."""
        ...


class Desk(Protocol):
    """The interface, as seen from one of its parts. Everything runs on one event loop."""

    # ---- what there is -------------------------------------------------------------------------

    @property
    def config(self) -> Config: ...

    @property
    def request(self) -> SessionRequest:
        """With what the present thread was opened, or is being opened."""
        ...

    def config_for(self, cwd: str) -> Config:
        """The configuration for a session in another folder, with the same options. Raises ConfigError."""
        ...

    @property
    def thread(self) -> OpenThread | None:
        """The open thread; None as long as it is being opened."""
        ...

    @property
    def hearing(self) -> Hearing | None: ...

    @property
    def is_working(self) -> bool:
        """A turn runs, or was handed in."""
        ...

    @property
    def queued(self) -> list[str]:
        """Messages that wait for the end of the turn."""
        ...

    @property
    def size(self) -> tuple[int, int]:
        """Columns and rows."""
        ...

    @property
    def clock(self) -> Clock: ...

    @property
    def facts(self) -> StatusFacts:
        """What the status line is made of."""
        ...

    @property
    def seen(self) -> Seen: ...

    # ---- showing things ------------------------------------------------------------------------

    def say(self, *lines: Line | str) -> None:
        """Print lines into the scrollback, once. A string is a line of our own words (cleaned all the same)."""
        ...

    def warn(self, sentence: str) -> None:
        """Print a warning cell (`⚠`)."""
        ...

    def fail(self, sentence: str) -> None:
        """Print an error cell (`■`): what is wrong and what to do."""
        ...

    async def ask(self, view: View[T]) -> T:
        """Show a view in the place of the composer until it is answered. Views wait for each other."""
        ...

    async def page(self, title: str, lines: Iterable[Line]) -> None:
        """Show lines in the pager until the person closes it."""
        ...

    def clear_screen(self) -> None:
        """Push what is on the screen up, out of sight; it stays in the scrollback."""
        ...

    def redraw(self) -> None:
        """Something that is shown has changed; painted with the next frame."""
        ...

    # ---- doing things --------------------------------------------------------------------------

    def send(self, text: str) -> None:
        """Send a message as if the person had entered it: it starts a turn, or steers the running one."""
        ...

    def submit(self, op: Op) -> None:
        """Hand an op to the thread, when it is open."""
        ...

    async def call(self, op: Op) -> Msg:
        """Hand in an op and wait for its answer. Raises SpindleError."""
        ...

    def set_draft(self, text: str) -> None:
        """Put text into the composer."""
        ...

    def begin_draft(self, text: str) -> None:
        """Put text into the composer, before what was typed while the person waited for it."""
        ...

    async def switch(self, change: Callable[[SessionRequest], SessionRequest]) -> None:
        """Open another thread in the place of this one (`/new`, `/resume`, `/fork`); what was said there is printed."""
        ...

    def set_mode(self, mode: str) -> None:
        """Go to a mode of the Shift-Tab cycle: "default", "plan" or "auto-edit"."""
        ...

    def use_setting(self, key: str, value: Any) -> None:
        """A setting of the interface was changed: use it from now on. Keys as in `config.toml`: `tui.theme`,
        `tui.status_line`, `tui.terminal_title`, `spindle.tui.keys`, …; None = as if it was not set."""
        ...

    def copy(self, text: str) -> None:
        """Ask the terminal to put a text into the clipboard (OSC 52)."""
        ...

    def spawn(self, work: Coroutine[Any, Any, None]) -> None:
        """Do something beside; an error becomes an error cell."""
        ...

    def quit(self) -> None: ...
