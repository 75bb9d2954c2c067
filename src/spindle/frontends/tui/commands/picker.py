"""The list of recorded threads to choose from: search as you type, this folder or all, what was said first.

Used by `/resume` and by `spindle resume` alike: `pick_thread` asks, and says what the person wants.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Literal, NamedTuple

from spindle.frontends.fit import cells, cut, wrap
from spindle.frontends.tui.commands.lines import clean
from spindle.frontends.tui.desk import Desk
from spindle.frontends.tui.keys import Key
from spindle.frontends.tui.shown import BLANK, Line, Span, line
from spindle.frontends.tui.status_line import folder_words
from spindle.frontends.tui.view import View
from spindle.thread.listing import ThreadFilter, ThreadOrder, ThreadSummary
from spindle.thread.store import ThreadStore

MOST = 1000
"""How many threads are offered at once; a search looks at all of them."""
_PREVIEW_ROWS = 4
_FIRST_ROWS_S = 0.5
_SEARCH = "Search: "


class Picked(NamedTuple):
    """What the person wants: a thread, a new one (Esc), or to leave (Ctrl-C)."""

    kind: Literal["thread", "new", "quit"]
    thread: ThreadSummary | None = None


class Wanted(NamedTuple):
    """What the list is to hold."""

    is_everywhere: bool
    search: str


Read = Callable[[Wanted], Awaitable[Sequence[ThreadSummary]]]


def age_words(seconds: float) -> str:
    """`now`, `5 min`, `3 h`, `12 d`, `2 y`."""
    for size, word in ((31_536_000, "y"), (86_400, "d"), (3_600, "h"), (60, "min")):
        if seconds >= size:
            return f"{int(seconds // size)} {word}"
    return "now"


class ThreadPicker(View[Picked]):
    """The list as a view. Threads are read beside; what is there already can be chosen at any time."""

    def __init__(
        self,
        read: Read,
        *,
        now: float,
        home: str,
        verb: str,
        leaves: str,
        is_everywhere: bool,
        redraw: Callable[[], None],
    ) -> None:
        super().__init__()
        self._read = read
        self._now = now
        self._home = home
        self._verb = verb
        self._redraw = redraw
        self._hint = f"Enter opens · Tab other folders · {leaves}"
        self._is_everywhere = is_everywhere
        self._search = ""
        self._threads: Sequence[ThreadSummary] | None = None
        """Those of the folder, or all; None = not read yet."""
        self._found: list[ThreadSummary] = []
        self._at = self._top = 0
        self._page = 5
        self._is_reading = False
        self._reading: asyncio.Task[None] | None = None
        self._cursor: tuple[int, int] | None = None
        self._start_reading()

    # ---- what is listed ------------------------------------------------------------------------

    def _start_reading(self) -> None:
        """Read for the present folder and search; what was being read is no longer wanted."""
        if self._reading is not None:
            self._reading.cancel()
        self._is_reading = True
        self._reading = asyncio.ensure_future(self._fill())

    async def _fill(self) -> None:
        if self._threads is None:
            self._threads = await self._read(Wanted(self._is_everywhere, ""))
            self._filter()
            self._redraw()
        if self._search:
            # What was said anywhere in a thread is found only in the record; titles are searched at once.
            found = await self._read(Wanted(self._is_everywhere, self._search))
            known = {thread.id for thread in self._found}
            self._found += [thread for thread in found if thread.id not in known]
        self._is_reading = False
        self._redraw()

    def _filter(self) -> None:
        words = self._search.casefold().split()
        self._found = [thread for thread in self._threads or () if _holds(thread, words)]
        self._at = min(self._at, max(0, len(self._found) - 1))

    # ---- keys ----------------------------------------------------------------------------------

    def key(self, key: Key) -> None:
        match key.name:
            case "esc":
                self._settle(Picked("new"))
            case "ctrl-c" | "ctrl-d":
                self._settle(Picked("quit"))
            case "enter":
                if self._found:
                    self._settle(Picked("thread", self._found[self._at]))
            case "tab":
                self._is_everywhere = not self._is_everywhere
                self._threads, self._found, self._at = None, [], 0
                self._start_reading()
            case "up" | "ctrl-p" | "shift-tab":
                self._go(self._at - 1)
            case "down" | "ctrl-n":
                self._go(self._at + 1)
            case "pgup":
                self._go(self._at - self._page)
            case "pgdn":
                self._go(self._at + self._page)
            case "home":
                self._go(0)
            case "end":
                self._go(len(self._found) - 1)
            case _:
                self._type(key)

    def choose_number(self, number: int) -> bool:
        if 1 <= number <= len(self._found):
            self._settle(Picked("thread", self._found[number - 1]))
        return True

    async def filled(self, within_s: float) -> None:
        """Wait a moment for the first rows, so that the list does not begin empty."""
        if self._reading is not None:
            await asyncio.wait([self._reading], timeout=within_s)

    def _settle(self, picked: Picked) -> None:
        if self._reading is not None:
            self._reading.cancel()
        self.settle(picked)

    def cancel(self) -> None:
        if self._reading is not None:
            self._reading.cancel()
        super().cancel()

    def _go(self, at: int) -> None:
        self._at = max(0, min(at, len(self._found) - 1))

    def _type(self, key: Key) -> None:
        before = self._search
        if key.name in ("backspace", "ctrl-h"):
            self._search = self._search[:-1]
        elif key.name in ("ctrl-u", "ctrl-w", "alt-backspace"):
            self._search = "" if key.name == "ctrl-u" else self._search.rstrip().rpartition(" ")[0]
        elif key.text and key.text.isprintable():
            self._search += key.text
        if self._search != before:
            self._searched()

    def paste(self, text: str) -> None:
        self._search += "".join(char for char in " ".join(text.split()) if char.isprintable())
        self._searched()

    def _searched(self) -> None:
        self._at = self._top = 0
        self._filter()
        self._start_reading()

    # ---- what is seen --------------------------------------------------------------------------

    def lines(self, width: int, height: int) -> list[Line]:
        head = self._head(width)
        preview = self._preview(width) if height >= len(head) + 5 + _PREVIEW_ROWS else []
        tail = [BLANK, line(Span(cut(self._hint, width), "dim"))] if height >= len(head) + 5 else []
        room = max(1, height - len(head) - len(preview) - len(tail))
        return [*head, *self._rows(width, room), *preview, *tail][:height]

    def cursor(self) -> tuple[int, int] | None:
        return self._cursor

    def _head(self, width: int) -> list[Line]:
        where = "all folders" if self._is_everywhere else "this folder"
        title = f"{self._verb} a thread"
        count = "…" if self._is_reading and not self._found else str(len(self._found))
        shown = clean(self._search)
        while shown and cells(_SEARCH) + cells(shown) >= width:
            shown = shown[1:]
        self._cursor = 1, min(width - 1, cells(_SEARCH) + cells(shown))
        return [
            line(Span(cut(f"{title} · {where} · {count}", width), "bold")),
            line(Span(_SEARCH, "dim"), shown),
        ]

    def _rows(self, width: int, room: int) -> list[Line]:
        if not self._found:
            said = "looking …" if self._is_reading else "no match" if self._search else "no threads here"
            return [line(Span(cut(f"  {said}", width), "dim"))]
        self._page = max(1, room - 1)
        self._top = max(0, min(self._top, self._at, max(0, len(self._found) - room)))
        self._top = max(self._top, self._at - room + 1)
        return [self._row(place, width) for place in range(self._top, min(self._top + room, len(self._found)))]

    def _row(self, place: int, width: int) -> Line:
        thread = self._found[place]
        is_chosen = place == self._at
        start = f"{'› ' if is_chosen else '  '}{place + 1}. {age_words(self._now - thread.updated_at):>6}  "
        title = clean(thread.name or thread.preview) or "(nothing was said)"
        branch = clean(str((thread.git or {}).get("branch") or ""))
        folder = folder_words(thread.cwd, self._home) if self._is_everywhere else branch
        about = f"  {cut(folder, width // 3)}" if folder and width >= 60 else ""
        words = cut(title, max(1, width - cells(start) - cells(about)))
        style = "accent bold" if is_chosen else ""
        return line(
            Span(cut(start, width) if cells(start) >= width else start, style), Span(words, style), Span(about, "dim")
        )

    def _preview(self, width: int) -> list[Line]:
        """What the chosen thread is about."""
        if not self._found:
            return []
        thread = self._found[self._at]
        facts = [folder_words(thread.cwd, self._home), clean(thread.model or ""), thread.id]
        text = wrap(clean(thread.preview), max(8, width - 2))[: _PREVIEW_ROWS - 2]
        made = [line(Span(cut(" · ".join(fact for fact in facts if fact), width), "dim"))]
        return [BLANK, *made, *(line("  ", Span(each, "dim")) for each in text)]


def _holds(thread: ThreadSummary, words: list[str]) -> bool:
    if not words:
        return True
    branch = str((thread.git or {}).get("branch") or "")
    text = f"{thread.name or ''}\n{thread.preview}\n{thread.cwd}\n{branch}\n{thread.id}".casefold()
    return all(word in text for word in words)


async def pick_thread(desk: Desk, *, is_everywhere: bool = False, verb: str = "Resume") -> Picked:
    """Let the person choose a recorded thread. Works before a thread is open, too."""
    store = ThreadStore(desk.config.home, desk.clock)
    cwd = desk.config.cwd

    def read_now(wanted: Wanted) -> Sequence[ThreadSummary]:
        which = ThreadFilter(
            cwds=None if wanted.is_everywhere else [cwd], subagents=False, search=wanted.search or None
        )
        return store.list(which, order=ThreadOrder(key="updated_at"), limit=MOST).threads

    async def read(wanted: Wanted) -> Sequence[ThreadSummary]:
        return await asyncio.to_thread(read_now, wanted)

    picker = ThreadPicker(
        read,
        now=desk.clock.now(),
        home=desk.facts.home,
        verb=verb,
        is_everywhere=is_everywhere,
        redraw=desk.redraw,
        leaves="Esc new thread · Ctrl-C quits" if desk.thread is None else "Esc stays here",
    )
    await picker.filled(_FIRST_ROWS_S)
    return await desk.ask(picker)
