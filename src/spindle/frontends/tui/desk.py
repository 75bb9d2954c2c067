"""What a slash command, a view or the composer may use of the interface. `app.py` is the one that does it all."""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Iterable
from typing import Any, Protocol, TypeVar

from spindle.api.door import OpenThread, SessionRequest
from spindle.api.hearing import Hearing
from spindle.config.schema import Config
from spindle.frontends.tui.shown import Line
from spindle.frontends.tui.view import View
from spindle.protocol.events import Msg
from spindle.protocol.ops import Op

T = TypeVar("T")


class Desk(Protocol):
    """The interface, as seen from one of its parts. Everything runs on one event loop."""

    # ---- what there is -------------------------------------------------------------------------

    @property
    def config(self) -> Config: ...

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

    async def switch(self, change: Callable[[SessionRequest], SessionRequest]) -> None:
        """Open another thread in the place of this one (`/new`, `/resume`, `/fork`); what was said there is printed."""
        ...

    def spawn(self, work: Coroutine[Any, Any, None]) -> None:
        """Do something beside; an error becomes an error cell."""
        ...

    def quit(self) -> None: ...
