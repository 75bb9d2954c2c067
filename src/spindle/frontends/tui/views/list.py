"""A numbered list to choose from: the form that nearly every question of the interface has.

    chosen = await desk.ask(ListView("Model", [Row(value=m, name=m.name, about=m.about) for m in models]))

None is the answer of a person who pressed Esc. Rows may be added while the list is shown (`add`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Generic, TypeVar

import msgspec

from spindle.frontends.fit import cells, cut
from spindle.frontends.tui.keys import Key
from spindle.frontends.tui.shown import BLANK, Line, Span, line
from spindle.frontends.tui.text.clean import safe
from spindle.frontends.tui.view import View
from spindle.frontends.tui.views.rows import prose, words

T = TypeVar("T")

POINTER = "› "
WIDE = 60
"""From this width on, what is said about a row stands beside its name."""


class Row(msgspec.Struct, Generic[T], frozen=True, kw_only=True):
    """One choice."""

    value: T
    name: str
    about: str = ""
    """What a person should know of it; may have several lines."""
    is_current: bool = False
    """It is what holds now."""
    key: str = ""
    """A key that chooses it at once; shown in brackets."""
    why_not: str = ""
    """Why it cannot be chosen; then it cannot."""
    also: str = ""
    """Further words that the search finds it by."""


class ListView(View[T | None]):
    """The list as a view. `answer` is the value of the chosen row, None when the person left it."""

    def __init__(
        self,
        title: str,
        rows: Iterable[Row[T]] = (),
        *,
        note: str = "",
        has_search: bool = False,
        highlighted: int | None = None,
        hint: str = "",
        other_keys: Mapping[str, Callable[[Row[T] | None], None]] | None = None,
    ) -> None:
        super().__init__()
        self.title = title
        self.note = note
        """Said below the title."""
        self.hint = hint
        """Said at the end, instead of the usual keys."""
        self.other_keys = dict(other_keys or {})
        """What further keys do; each is told the highlighted row."""
        self.is_loading = False
        """More rows are on their way."""
        self.empty = "nothing to choose from"
        self.search = "" if has_search else None
        self._rows: list[Row[T]] = []
        self._found: list[int] = []
        """Which rows are shown, by their place in `_rows`."""
        self._at = 0
        """Which of the shown ones is highlighted."""
        self._top = 0
        self._page = 5
        self._widest: int | None = None
        """How wide the widest label is; None = not measured yet."""
        self._cursor: tuple[int, int] | None = None
        self.add(rows)
        current = next((place for place, row in enumerate(self._rows) if row.is_current), 0)
        self._at = self._usable(current if highlighted is None else highlighted, 1)

    # ---- rows ----------------------------------------------------------------------------------

    @property
    def rows(self) -> Sequence[Row[T]]:
        return self._rows

    @property
    def highlighted(self) -> Row[T] | None:
        return self._rows[self._found[self._at]] if self._found else None

    def add(self, rows: Iterable[Row[T]]) -> None:
        """Further rows, at the end. What is highlighted stays so."""
        start = len(self._rows)
        self._rows += rows
        self._widest = None
        self._found += [place for place in range(start, len(self._rows)) if self._is_found(self._rows[place])]
        self._at = self._usable(self._at, 1)

    def replace(self, rows: Iterable[Row[T]]) -> None:
        """Other rows in the place of these; the highlight stays on the same value, or else on the same place."""
        before = self.highlighted
        self._rows = list(rows)
        self._filter()
        if before is not None:
            same = [at for at, place in enumerate(self._found) if self._rows[place].value == before.value]
            self._at = same[0] if same else self._at
        self._at = self._usable(self._at, 1)

    def _filter(self) -> None:
        self._found = [place for place, row in enumerate(self._rows) if self._is_found(row)]
        self._widest = None

    def _is_found(self, row: Row[T]) -> bool:
        if not self.search:
            return True
        text = f"{row.name}\n{row.about}\n{row.also}".casefold()
        return all(word in text for word in self.search.casefold().split())

    def _usable(self, at: int, step: int) -> int:
        """The nearest place that can be chosen, looking in the direction of `step` first."""
        last = len(self._found) - 1
        if last < 0:
            return 0
        at = max(0, min(at, last))
        for places in (range(at, last + 1), range(at, -1, -1))[:: 1 if step >= 0 else -1]:
            for place in places:
                if not self._rows[self._found[place]].why_not:
                    return place
        return at

    # ---- keys ----------------------------------------------------------------------------------

    def key(self, key: Key) -> None:
        if (action := self.other_keys.get(key.name)) is not None:
            action(self.highlighted)
        elif key.name in ("esc", "ctrl-c"):
            self.leave()
        elif key.name == "enter":
            if (row := self.highlighted) is not None:
                self._choose(row)
        elif not self._moved(key.name):
            if self.search is not None:
                self._typed(key)
            else:
                self._letter(key.name)

    def leave(self) -> None:
        """The person wants none of them."""
        self.settle(None)

    def choose(self, value: T) -> None:
        """A row was chosen; the answer is its value."""
        self.settle(value)

    def _choose(self, row: Row[T]) -> None:
        if not row.why_not:
            self.choose(row.value)

    def _moved(self, name: str) -> bool:
        if self.search is None:
            name = {"k": "up", "j": "down"}.get(name, name) if not self._row_with_key(name) else name
        match name:
            case "up" | "ctrl-p" | "shift-tab":
                self._go(self._at - 1, -1, wraps=True)
            case "down" | "ctrl-n" | "tab":
                self._go(self._at + 1, 1, wraps=True)
            case "pgup":
                self._go(self._at - self._page, -1)
            case "pgdn":
                self._go(self._at + self._page, 1)
            case "home":
                self._go(0, 1)
            case "end":
                self._go(len(self._found) - 1, -1)
            case _:
                return False
        return True

    def _go(self, at: int, step: int, *, wraps: bool = False) -> None:
        count = len(self._found)
        if not count:
            return
        if wraps and not 0 <= at < count:
            at %= count
        new = self._usable(at, step)
        if wraps and (new - self._at) * step <= 0 and count > 1 and 0 <= self._at + step < count:
            new = self._usable(0 if step > 0 else count - 1, step)
        self._at = new

    def _letter(self, name: str) -> None:
        if (row := self._row_with_key(name)) is not None:
            self._choose(row)
        elif name.isascii() and name.isdigit():
            self.choose_number(int(name))

    def choose_number(self, number: int) -> bool:
        if 1 <= number <= len(self._found):
            self._at = number - 1
            self._choose(self._rows[self._found[self._at]])
        return True

    def _row_with_key(self, name: str) -> Row[T] | None:
        return next((row for row in self._rows if row.key and row.key == name), None)

    def _typed(self, key: Key) -> None:
        assert self.search is not None
        before = self.search
        if key.name in ("backspace", "ctrl-h"):
            self.search = self.search[:-1]
        elif key.name == "ctrl-u":
            self.search = ""
        elif key.name in ("ctrl-w", "alt-backspace"):
            head, _, _ = self.search.rstrip().rpartition(" ")
            self.search = head + " " if head else ""
        elif key.text and key.text.isprintable():
            self.search += key.text
        if self.search != before:
            self._searched()

    def paste(self, text: str) -> None:
        if self.search is not None:
            self.search += "".join(char for char in " ".join(text.split()) if char.isprintable())
            self._searched()

    def _searched(self) -> None:
        self._filter()
        self._at = self._top = 0
        self._at = self._usable(0, 1)

    # ---- what is seen --------------------------------------------------------------------------

    def lines(self, width: int, height: int) -> list[Line]:
        width, height = max(4, width), max(1, height)
        head, tail = self._head(width), self._tail(width)
        fewest = min(3, max(1, len(self._found)))
        # Where room is scarce, the hint goes first, then what is said below the title.
        if len(head) + len(tail) + fewest > height:
            tail = []
        if len(head) + fewest > height:
            head = self._short_head(head, max(0, height - fewest))
        body = self._body(width, max(1, height - len(head) - len(tail)))
        self._cursor = None
        if self.search is not None and head:
            self._cursor = len(head) - 1, min(width - 1, cells(_SEARCH) + cells(self._search_shown(width)))
        return [*head, *body, *tail]

    def cursor(self) -> tuple[int, int] | None:
        return self._cursor

    def _head(self, width: int) -> list[Line]:
        made = words(safe(self.title), width, "bold") if self.title else []
        if self.note:
            made += words(safe(self.note), width, "dim")
        if self.search is not None:
            found = f"  {len(self._found)} of {len(self._rows)}" + (" …" if self.is_loading else "")
            shown = self._search_shown(width)
            room = width - cells(_SEARCH) - cells(shown)
            made.append(line(Span(_SEARCH, "dim"), shown, Span(found, "dim") if cells(found) < room else ""))
        elif made:
            made.append(BLANK)
        return made

    def _short_head(self, head: list[Line], room: int) -> list[Line]:
        """The beginning of it, and the line that is searched in."""
        if self.search is None:
            return head[:room]
        return [*head[: room - 1], head[-1]] if room else []

    def _search_shown(self, width: int) -> str:
        """The end of what was typed: there the cursor is."""
        shown = safe(self.search or "")
        while shown and cells(_SEARCH) + cells(shown) >= width:
            shown = shown[1:]
        return shown

    def _tail(self, width: int) -> list[Line]:
        keys = "Enter chooses · Esc leaves" if self.search is not None else "↑↓ Enter or a number · Esc leaves"
        hint = self.hint or keys
        return [BLANK, line(Span(cut(hint, width), "dim"))]

    def _body(self, width: int, room: int) -> list[Line]:
        if not self._found:
            said = "looking …" if self.is_loading else "no match" if self.search else self.empty
            return [line(Span(cut("  " + said, width), "dim"))]
        if (short := self._short_body(width, room)) is not None:
            return short
        self._top = max(0, min(self._top, self._at))
        blocks = {self._at: self._block(self._at, width)}
        self._scroll(blocks, width, room)
        made: list[Line] = []
        place = self._top
        while place < len(self._found) and len(made) < room:
            block = blocks.get(place) or self._block(place, width)
            made += block[: room - len(made)]
            place += 1
        self._page = max(1, place - self._top - 1)
        return made

    def _short_body(self, width: int, room: int) -> list[Line] | None:
        """A few choices that are too long for the room: all of their names, and what is said about the highlighted one
        as far as it fits. None when they fit as they are, or not even so."""
        if len(self._found) > room:
            return None
        blocks = [self._block(at, width) for at in range(len(self._found))]
        if sum(map(len, blocks)) <= room:
            return None
        names = [self._name(at, width) for at in range(len(self._found))]
        left = room - sum(map(len, names))
        if left < 0:
            return None
        self._top, self._page = 0, len(names)
        about = self._about(self._at)
        names[self._at] += words(about, width, "dim", indent=min(5, width // 4))[:left] if about else []
        return [row for name in names for row in name]

    def _scroll(self, blocks: dict[int, list[Line]], width: int, room: int) -> None:
        """Move the top row so that the highlighted one is seen whole, and no room is left empty below the last."""
        used, first = len(blocks[self._at]), self._at
        while first > self._top:
            blocks[first - 1] = self._block(first - 1, width)
            if used + len(blocks[first - 1]) > room:
                break
            first -= 1
            used += len(blocks[first])
        self._top = first
        last = self._at
        while used < room and last + 1 < len(self._found):
            last += 1
            blocks[last] = self._block(last, width)
            used += len(blocks[last])
        while self._top > 0:
            block = self._block(self._top - 1, width)
            if used + len(block) > room:
                break
            self._top -= 1
            blocks[self._top] = block
            used += len(block)

    def _names_width(self, width: int) -> int:
        """How wide the column of names is; 0 when what is said about them stands below."""
        if width < WIDE:
            return 0
        if self._widest is None:
            self._widest = max(cells(self._label(at)) for at in range(len(self._found)))
        return self._widest if self._widest <= width // 2 else 0

    def _label(self, at: int) -> str:
        row = self._rows[self._found[at]]
        key = f" ({row.key})" if row.key else ""
        number = f"{at + 1}.".rjust(len(f"{len(self._found)}."))
        return f"{number} {' '.join(safe(row.name).split())}{key}{' (current)' if row.is_current else ''}"

    def _style(self, at: int) -> str:
        return "dim" if self._rows[self._found[at]].why_not else "accent bold" if at == self._at else ""

    def _about(self, at: int) -> str:
        row = self._rows[self._found[at]]
        return safe("\n".join(filter(None, (row.about, row.why_not and f"not now: {row.why_not}"))))

    def _name(self, at: int, width: int) -> list[Line]:
        pointer, style = POINTER if at == self._at else "  ", self._style(at)
        return prose([Span(pointer, style), Span(self._label(at), style)], width, 5)

    def _block(self, at: int, width: int) -> list[Line]:
        """One row of the list, in as many rows of the screen as it needs."""
        about = self._about(at)
        names = self._names_width(width) if about else 0
        if not names:
            return self._name(at, width) + (words(about, width, "dim", indent=min(5, width // 4)) if about else [])
        pointer, label = POINTER if at == self._at else "  ", self._label(at)
        column = len(pointer) + names + 2
        beside = words(about, width - column, "dim")
        gap = " " * (column - len(pointer) - cells(label))
        start = line(Span(pointer + label, self._style(at)), gap, *beside[0].spans)
        return [start, *(line(" " * column, *each.spans) for each in beside[1:])]


_SEARCH = "Search: "
