"""What a session does at this moment, for the status row: a few words, and since when."""

from __future__ import annotations

import math
import re
from typing import NamedTuple

from spindle.frontends.fit import counted
from spindle.frontends.tui.cells.cell import one_line
from spindle.frontends.tui.cells.messages import Headline
from spindle.protocol.events import StreamError

WORKING = "Working"
_ATTEMPT = re.compile(r"Reconnecting\W*(\d+)/(\d+)")


class Activity(NamedTuple):
    """One row: `what`, and the seconds since `since_s` on the clock that the conversation was given."""

    what: str
    since_s: float
    retry: str = ""
    """Why the model is asked again, and when: shown in place of `what`."""


class Doing:
    """Follows the events of a turn as far as the status row needs."""

    def __init__(self) -> None:
        self._begun_s: float | None = None
        self._headline = ""
        self._thinking: Headline | None = None
        self._starting: dict[str, None] = {}
        self.waiting: set[str] = set()
        """Questions that a person has not answered yet, by call."""
        self.agents = 0
        self.hook = ""
        self._retry: tuple[StreamError, float] | None = None
        """Why the model is asked again, and since when that is known."""

    @property
    def is_working(self) -> bool:
        return self._begun_s is not None

    @property
    def begun_s(self) -> float | None:
        return self._begun_s

    def begin(self, now_s: float) -> None:
        self._begun_s = now_s
        self._reset()

    def end(self) -> None:
        self._begun_s = None
        self._reset()

    def _reset(self) -> None:
        self._headline, self._thinking, self._retry, self.hook, self.agents = "", None, None, "", 0
        self.waiting.clear()

    # ---- reasoning -----------------------------------------------------------------------------

    def think(self, delta: str) -> None:
        self._retry = None
        self._thinking = self._thinking or Headline()
        self._thinking.feed(delta)
        self._headline = self._thinking.text or self._headline

    def new_section(self) -> None:
        if self._thinking is not None:
            self._thinking.section()

    def thought(self, texts: list[str]) -> None:
        """The whole of it, which may have come without any pieces before."""
        if self._thinking is None and texts:
            self.think(texts[-1])
        self._thinking = None

    def speak(self) -> None:
        """The answer begins, or the next request: what was thought before is of the past."""
        self._headline, self._thinking, self._retry = "", None, None

    # ---- what else goes on ---------------------------------------------------------------------

    def reconnect(self, msg: StreamError, now_s: float) -> None:
        self._retry = (msg, now_s)

    def server(self, name: str, state: str) -> None:
        """An MCP server is being started, or that has ended."""
        if state == "starting":
            self._starting[name] = None
        else:
            self._starting.pop(name, None)

    def now(self, now_s: float) -> Activity | None:
        """None when nothing goes on."""
        if self._begun_s is None:
            return None
        if self.waiting:
            what = "Waiting for your answer"
        elif self._headline:
            what = self._headline
        elif self.hook:
            what = self.hook
        elif self.agents:
            what = f"Waiting for {counted(self.agents, 'agent')}"
        elif self._starting:
            what = f"Starting {counted(len(self._starting), 'MCP server')}: {', '.join(map(one_line, self._starting))}"
        else:
            what = WORKING
        retry = "" if self._retry is None else retry_words(self._retry[0], now_s - self._retry[1])
        return Activity(what, self._begun_s, retry)


def retry_words(msg: StreamError, waited_s: float) -> str:
    """`Reconnecting 2/5 in 3 s: connection reset`; the seconds that are left of the wait."""
    attempt = _ATTEMPT.search(msg.message)
    if attempt is None:
        return one_line(msg.message)
    left_s = math.ceil(msg.delay_s - waited_s) if isinstance(msg.delay_s, float) else 0
    delay = f" in {left_s} s" if left_s > 0 else ""
    reason = one_line(msg.additional_details or "")
    return f"Reconnecting {attempt[1]}/{attempt[2]}{delay}" + (f": {reason}" if reason else "")
