"""How the interface looks and listens: `/theme`, `/statusline`, `/title`, `/vim`, `/keymap`. What is chosen is kept."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TypeVar

from spindle.errors import SpindleError
from spindle.frontends.options import nearest
from spindle.frontends.tui.commands.help import keymap_of
from spindle.frontends.tui.commands.lines import clean
from spindle.frontends.tui.commands.saving import save_keys
from spindle.frontends.tui.desk import Desk
from spindle.frontends.tui.key_list import key_lines
from spindle.frontends.tui.keys import Key
from spindle.frontends.tui.shown import BLANK, Line, Span, line
from spindle.frontends.tui.status_line import (
    DEFAULT_ITEMS,
    DEFAULT_TITLE,
    ITEM_WORDS,
    ITEMS,
    TITLE_ITEMS,
    items_from,
    title_items_from,
    title_text,
)
from spindle.frontends.tui.status_line import (
    status_line as shown_status,
)
from spindle.frontends.tui.text import theme as themes
from spindle.frontends.tui.views.list import ListView, Row

T = TypeVar("T")
_TITLE_WORDS = {
    **ITEM_WORDS,
    "activity": "a mark while it works, another while it waits for you",
    "app-name": "the word spindle",
    "project-name": "name of the repository's folder, or of the working folder",
    "current-dir": "name of the working folder",
}
_PRESETS = {
    "codex": "the keys of Codex",
    "claude": "with what users of Claude Code expect",
    "pi": "with what users of pi expect",
    "vim": "vi keys in the composer",
}


class PreviewList(ListView[T]):
    """A list that shows at once what the highlighted row would look like."""

    def __init__(self, title: str, rows: Iterable[Row[T]], *, preview: Callable[[T], None], note: str = "") -> None:
        super().__init__(title, rows, note=note)
        self._preview = preview
        self._previewed: T | None = None

    def key(self, key: Key) -> None:
        super().key(key)
        row = self.highlighted
        if not self.answer.done() and row is not None and row.value != self._previewed:
            self._previewed = row.value
            self._preview(row.value)


async def theme(desk: Desk, argument: str) -> None:
    """Choose a theme; moving through the list shows each. Leaving it brings the old one back."""
    current = desk.config.tui.theme
    if argument:
        if not themes.is_known(argument):
            near = nearest(argument.lower(), themes.names())
            hint = f"did you mean {near}?" if near else f"there are {', '.join(themes.names())}"
            raise SpindleError(f"unknown theme {clean(argument)!r}; {hint}")
        chosen: str | None = argument
    else:
        rows = [
            Row(value=name, name=name, about=about, is_current=name == (current or "default"))
            for name, about in themes.names().items()
        ]
        view = PreviewList("Theme", rows, preview=lambda name: desk.use_setting("tui.theme", name))
        chosen = await desk.ask(view)
    if chosen is None:
        desk.use_setting("tui.theme", current)
        return
    desk.use_setting("tui.theme", chosen)
    desk.say(f"Theme {chosen} from now on; {await save_keys(desk.config, {'tui.theme': chosen})}.")


# ---- lists of items ------------------------------------------------------------------------------------


class Ticks(ListView[str]):
    """Items to tick and to bring into an order; Enter takes them (`chosen`). None is the answer of who leaves it."""

    def __init__(
        self, title: str, words: Mapping[str, str], chosen: Sequence[str], sample: Callable[[list[str]], Line]
    ) -> None:
        self._order = [*chosen, *(item for item in words if item not in chosen)]
        self._ticked = set(chosen)
        self._words = words
        self._sample = sample
        super().__init__(title, self._made(), hint="Space ticks · ← → move · Enter keeps · Esc leaves it as it was")

    @property
    def chosen(self) -> list[str]:
        return [item for item in self._order if item in self._ticked]

    def _made(self) -> list[Row[str]]:
        return [
            Row(value=item, name=f"[{'x' if item in self._ticked else ' '}] {item}", about=self._words[item])
            for item in self._order
        ]

    def key(self, key: Key) -> None:
        row = self.highlighted
        if row is None or key.name not in ("space", "left", "right"):
            super().key(key)
            return
        if key.name == "space":
            self._ticked ^= {row.value}
        else:
            at = self._order.index(row.value)
            to = max(0, min(len(self._order) - 1, at + (1 if key.name == "right" else -1)))
            self._order.insert(to, self._order.pop(at))
        self.replace(self._made())

    def choose_number(self, number: int) -> bool:
        """Tick that row; Enter alone keeps what is ticked."""
        if 1 <= number <= len(self._order):
            self._ticked ^= {self._order[number - 1]}
            self.replace(self._made())
        return True

    def lines(self, width: int, height: int) -> list[Line]:
        sample = [BLANK, self._sample(self.chosen)] if height > 8 else []
        return [*super().lines(width, height - len(sample)), *sample]


def _named(argument: str, known: Iterable[str], what: str) -> list[str]:
    """Items that were given in words: separated by blanks or commas."""
    items = argument.replace(",", " ").split()
    if unknown := [item for item in items if item not in known]:
        near = nearest(unknown[0], known)
        hint = f"did you mean {near}?" if near else f"/{what} alone lists them"
        raise SpindleError(f"unknown item {clean(unknown[0])!r}; {hint}")
    return items


async def _choose_items(
    desk: Desk, key: str, view: Ticks, argument: str, known: Iterable[str], usual: list[str]
) -> None:
    what = "statusline" if key == "tui.status_line" else "title"
    if argument in ("default", "reset"):
        chosen: list[str] | None = None
    elif argument:
        chosen = _named(argument, known, what)
    elif await desk.ask(view) is None:
        return
    else:
        chosen = view.chosen
    value = None if chosen is None or chosen == usual else chosen
    desk.use_setting(key, value)
    shown = ", ".join(chosen) if chosen else "the usual items" if chosen is None else "nothing"
    saved = await save_keys(desk.config, {key: value})
    desk.say(f"The {'status line' if what == 'statusline' else 'title'} shows {shown}; {saved}.")


async def status_line(desk: Desk, argument: str) -> None:
    facts, width = desk.facts, desk.size[0]
    now = [item for item in items_from(desk.config.tui.status_line) if item in ITEM_WORDS]
    view = Ticks("Status line", ITEM_WORDS, now, lambda items: shown_status(facts, width, items))
    await _choose_items(desk, "tui.status_line", view, argument, ITEMS, [*DEFAULT_ITEMS])


async def title(desk: Desk, argument: str) -> None:
    facts = desk.facts
    now = [item for item in title_items_from(desk.config.tui.terminal_title) if item in _TITLE_WORDS]
    view = Ticks(
        "Title of the terminal", _TITLE_WORDS, now, lambda items: line("  ", Span(title_text(facts, items), "dim"))
    )
    await _choose_items(desk, "tui.terminal_title", view, argument, TITLE_ITEMS, [*DEFAULT_TITLE])


# ---- keys ----------------------------------------------------------------------------------------------


async def vim(desk: Desk, argument: str) -> None:
    """vi keys in the composer, on or off."""
    is_on = {"on": True, "off": False}.get(argument.lower(), not desk.config.tui.vim_mode_default)
    desk.use_setting("tui.vim_mode_default", is_on)
    saved = await save_keys(desk.config, {"tui.vim_mode_default": is_on or None})
    desk.say(f"vi keys are {'on' if is_on else 'off'}; {saved}.")


async def keymap(desk: Desk, argument: str) -> None:
    """What each key does; with a name, whose keys to use."""
    if not argument:
        lines = [line(Span(f"Keys of the preset {desk.config.tui.keys}; /keymap NAME takes another.", "dim")), line()]
        await desk.page("Keys", [*lines, *key_lines(keymap_of(desk))])
        return
    name = argument.lower()
    if name not in _PRESETS:
        near = nearest(name, _PRESETS)
        hint = f"did you mean {near}?" if near else f"there are {', '.join(_PRESETS)}"
        raise SpindleError(f"unknown set of keys {clean(argument)!r}; {hint}")
    desk.use_setting("spindle.tui.keys", name)
    saved = await save_keys(desk.config, {"spindle.tui.keys": name})
    desk.say(f"Keys: {_PRESETS[name]}; {saved}.")
