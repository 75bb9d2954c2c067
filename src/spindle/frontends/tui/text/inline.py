"""What stands in a paragraph: emphasis, code, links, images. Every word of the text is kept, addresses too.

Parsed by markdown-it, which is loaded with the first text that has a sign of such things in it. HTML stays text.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from functools import cache
from typing import TYPE_CHECKING, Any

from spindle.frontends.tui.shown import Span
from spindle.frontends.tui.text.clean import safe

if TYPE_CHECKING:
    from markdown_it import MarkdownIt
    from markdown_it.rules_inline import StateInline
    from markdown_it.token import Token

LONGEST = 8_000
"""A longer text is shown as it stands. No one writes such paragraphs, and some are made to be slow to parse."""
Rows = list[list[Span]]

_SIGNS = re.compile(r"[*_`\[<&\\~]|://")
_STYLES = {"strong": "bold", "em": "italic", "s": "strike"}
_SCHEME = re.compile(r"(?:^|[^A-Za-z0-9])(https?|ftp|file)$")
_ADDRESS = re.compile(r"://[^\s<>\"`\[\]|\\、。，；：！？）」』】》]+")
_NAME_BEFORE = frozenset("./\\")
_DUNDER = re.compile(r"__\w+?__")


def rows(text: str, references: Mapping[str, Any], style: str = "") -> Rows:
    """The spans of each line of the text."""
    if len(text) > LONGEST or not _SIGNS.search(text):
        return [[Span(line, style)] if line else [] for line in safe(text).split("\n")]
    tokens = _parser().parseInline(text, {"references": dict(references)})
    writer = _Writer(style)
    writer.write(tokens[0].children or [])
    return writer.rows


class _Writer:
    def __init__(self, style: str = "") -> None:
        self.rows: Rows = [[]]
        self._styles: list[str] = [style] if style else []
        self._links: list[tuple[str, str, int]] = []
        """Of links that are open: address, title, and how many characters were written before."""
        self._written: list[str] = []

    def write(self, tokens: Sequence[Token]) -> None:
        for token in tokens:
            kind = token.type
            if kind in ("text", "text_special"):
                self._add(token.content)
            elif kind in ("softbreak", "hardbreak"):
                self.rows.append([])
                self._written.append(" ")
            elif kind == "code_inline":
                self._add(token.content, "code")
            elif kind == "address":
                self._add(token.content, "link")
            elif kind == "image":
                self._image(token)
            elif kind == "link_open":
                self._links.append((*_target(token, "href"), len(self._written)))
                self._styles.append("link" if token.markup == "autolink" else "")
            elif kind == "link_close":
                self._close_link()
            elif kind.endswith("_open"):
                self._styles.append(_STYLES.get(kind.removesuffix("_open"), ""))
            elif kind.endswith("_close") and self._styles:
                self._styles.pop()
            else:
                self._add(token.content)

    def _add(self, text: str, style: str = "") -> None:
        if not text:
            return
        self._written.append(text)
        full = " ".join(dict.fromkeys(part for part in (*self._styles, style) if part))
        first, *others = safe(text).split("\n")
        self._append(first, full)
        for other in others:
            self.rows.append([])
            self._append(other, full)

    def _append(self, text: str, style: str) -> None:
        row = self.rows[-1]
        if row and row[-1].style == style:
            row[-1] = Span(row[-1].text + text, style)
        elif text:
            row.append(Span(text, style))

    def _close_link(self) -> None:
        self._styles.pop()
        address, title, start = self._links.pop()
        self._name_address("".join(self._written[start:]), address, title)

    def _image(self, token: Token) -> None:
        start = len(self._written)
        self.write(token.children or [])
        address, title = _target(token, "src")
        self._name_address("".join(self._written[start:]), address, title)

    def _name_address(self, said: str, address: str, title: str) -> None:
        """The address behind the words of a link, unless they are the address."""
        told = f' "{title}"' if title else ""
        if said == address or f"mailto:{said}" == address:
            self._add(f" ({title})" if title else "")
        elif not said:
            self._add(address + told, "link")
        elif address or told:
            self._add(" (")
            self._add(address, "link")
            self._add(f"{told})")


def _target(token: Token, name: str) -> tuple[str, str]:
    return str(token.attrs.get(name) or ""), str(token.attrs.get("title") or "")


@cache
def _parser() -> MarkdownIt:
    from markdown_it import MarkdownIt  # 40 ms, for the first text that has such signs

    parser = MarkdownIt("zero", {"maxNesting": 10})
    parser.enable(
        ["newline", "escape", "backticks", "strikethrough", "emphasis", "link", "image", "autolink", "entity"]
    )
    parser.enable(["balance_pairs", "fragments_join"])
    parser.inline.ruler.before("newline", "address", _address)
    parser.inline.ruler.before("emphasis", "dunder", _dunder)
    # Addresses are shown, never opened by us: they stay as they were written.
    parser.normalizeLink = _as_written  # pyright: ignore[reportAttributeAccessIssue]
    parser.validateLink = bool  # pyright: ignore[reportAttributeAccessIssue]
    return parser


def normal_label(label: str) -> str:
    """The label of a reference as definitions and uses are compared."""
    return re.sub(r"\s+", " ", label.strip()).lower().upper()


def _as_written(address: str) -> str:
    return address


def _address(state: StateInline, silent: bool) -> bool:
    """An address in the text: signs of emphasis within it are its own."""
    place = state.pos
    if state.src[place] != ":" or not (found := _ADDRESS.match(state.src, place, state.posMax)):
        return False
    scheme = _SCHEME.search(state.src[max(0, place - 6) : place])
    if scheme is None:
        return False
    rest = _without_ending(found[0])
    if len(rest) <= 3:
        return False
    if not silent:
        if not state.pending.endswith(scheme[1]):
            return False
        state.pending = state.pending[: -len(scheme[1])]
        state.push("address", "", 0).content = scheme[1] + rest
    state.pos += len(rest)
    return True


def _without_ending(address: str) -> str:
    """An address without the signs of the sentence around it."""
    while address:
        if address[-1] in ".,;:!?'*_~" or (address[-1] == ")" and address.count(")") > address.count("(")):
            address = address[:-1]
        else:
            break
    return address


def _dunder(state: StateInline, silent: bool) -> bool:
    """`src/__init__.py` and `x.__name__`: part of a name, not emphasis."""
    place = state.pos
    if state.src[place] != "_" or not (found := _DUNDER.match(state.src, place, state.posMax)):
        return False
    before = state.src[place - 1] if place else " "
    after = state.src[found.end() : found.end() + 2]
    is_name = before in _NAME_BEFORE or after[:1] == "(" or (after[:1] in (".", "/") and after[1:].isalnum())
    if not is_name:
        return False
    if not silent:
        state.pending += found[0]
    state.pos = found.end()
    return True
