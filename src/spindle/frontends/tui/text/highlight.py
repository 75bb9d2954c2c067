"""Programs in colour, a line at a time: a line that was shown never changes by what follows it.

The words are found by Pygments. Its lexers read whole files; here their state is carried from line to line, so that a
string or a comment of several lines is coloured as such, and the work is in proportion to the text.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from typing import Any

from spindle.frontends.tui.shown import Line, Span
from spindle.frontends.tui.text.clean import safe
from spindle.frontends.tui.text.layout import expanded

TAB = 4
MOST_LINES = 3_000
"""Beyond this a block stays plain: nobody reads that far in a terminal, and finding words is slow."""
_LONGEST_LINE = 500
_DEEPEST = 200
"""States of a lexer, one within the other."""
_EXTENSIONS = {"h": "c", "m": "objective-c", "mjs": "js", "cjs": "js", "pyi": "python", "yml": "yaml", "htm": "html"}


def code(text: str, language: str) -> list[Line]:
    """A program as lines, verbatim."""
    highlighter = Highlighter(language)
    return [Line(highlighter.line(line), (), True) for line in safe(text).removesuffix("\n").split("\n")]


def language_of(path: str) -> str:
    """The language that a file is written in, as its name tells; empty if it does not."""
    name = path.rpartition("/")[2].lower()
    stem, dot, extension = name.rpartition(".")
    if dot and stem:
        return _EXTENSIONS.get(extension, extension)
    return {"makefile": "make", "gnumakefile": "make", "dockerfile": "docker", "containerfile": "docker"}.get(name, "")


class Highlighter:
    """One block of code. Lines are given in their order."""

    def __init__(self, language: str) -> None:
        self._lexer = lexer_for(language)
        self._stack: list[str] = ["root"]
        self._in_comment = False
        self._seen = 0

    def copy(self) -> Highlighter:
        other = Highlighter("")
        other._lexer, other._stack = self._lexer, list(self._stack)
        other._in_comment, other._seen = self._in_comment, self._seen
        return other

    def line(self, text: str) -> tuple[Span, ...]:
        """The spans of the next line, which has no line end and has been cleaned."""
        self._seen += 1
        if not text:
            return ()
        if self._lexer is None or len(text) > _LONGEST_LINE or self._seen > MOST_LINES:
            return expanded((Span(text),), TAB)
        return expanded(_merged(self._tokens(text)), TAB)

    def _tokens(self, text: str) -> Iterator[tuple[str, str]]:
        if self._in_comment:
            end = text.find("*/")
            if end < 0:
                yield "comment", text
                return
            self._in_comment = False
            yield "comment", text[: end + 2]
            text = text[end + 2 :]
        opened = text.rfind("/*")
        is_open = opened >= 0 and text.find("*/", opened + 2) < 0 and _has_comments(self._lexer)
        start = 0
        for style, piece in _lexed(self._lexer, text, self._stack):
            start += len(piece)
            if is_open and start > opened:
                # Outside of strings and other comments it begins one that goes on; the state stays as it is here.
                if style != "string" and (style != "comment" or piece.startswith("/*")):
                    yield style, piece[: len(piece) - (start - opened)]
                    yield "comment", text[opened:]
                    self._in_comment = True
                    return
                is_open = False
            yield style, piece


def _merged(tokens: Iterator[tuple[str, str]]) -> list[Span]:
    spans: list[Span] = []
    for style, piece in tokens:
        if not piece:
            continue
        if spans and (spans[-1].style == style or piece.isspace()):
            spans[-1] = Span(spans[-1].text + piece, spans[-1].style)
        else:
            spans.append(Span(piece, style))
    return spans


def _lexed(lexer: Any, text: str, stack: list[str]) -> Iterator[tuple[str, str]]:
    """The words of one line, from the state that the lines before it left; the state is kept in `stack`."""
    if not _has_states(type(lexer)):
        found = lexer.get_tokens_unprocessed(text + "\n")
        yield from ((_style_of(kind), piece.rstrip("\n")) for _, kind, piece in found)
        return
    text += "\n"
    place = 0
    steps = 10 * len(text) + 200
    while place < len(text):
        steps -= 1
        if steps < 0 or len(stack) > _DEEPEST:  # a text that was made to keep the lexer busy
            del stack[1:]
            yield "", text[place:].rstrip("\n")
            return
        for match, action, new_state in lexer._tokens[stack[-1]]:
            found = match(text, place)
            if found is None:
                continue
            if isinstance(action, tuple):  # the type of a token
                yield _style_of(action), found[0].rstrip("\n")
            elif action is not None:
                yield from ((_style_of(kind), piece.rstrip("\n")) for _, kind, piece in action(lexer, found))
            place = found.end()
            _change(stack, new_state)
            break
        else:
            if text[place] == "\n":
                del stack[1:]
            else:
                yield "", text[place]
            place += 1


def _change(stack: list[str], new_state: Any) -> None:
    """What a lexer's rule says of the state: names to push, how many to leave, or `#push` and `#pop`."""
    if new_state is None:
        return
    if isinstance(new_state, int):
        del stack[max(1, len(stack) + new_state) :]
        return
    for state in (new_state,) if isinstance(new_state, str) else new_state:
        if state == "#pop":
            del stack[max(1, len(stack) - 1) :]
        else:
            stack.append(stack[-1] if state == "#push" else state)


@cache
def _has_states(lexer: type[Any]) -> bool:
    """Whether it is one of the plain kind, driven by a table of states."""
    from pygments.lexer import RegexLexer  # only for the first code that is shown

    return issubclass(lexer, RegexLexer) and lexer.get_tokens_unprocessed is RegexLexer.get_tokens_unprocessed


@cache
def lexer_for(language: str) -> Any:
    """The lexer for a language as a fence names it (`python`, `py`, `C++`); None if there is none."""
    name = language.strip().lower()
    found = _languages().get(name) if name else None
    if found is None:
        return None
    from pygments.lexers import find_lexer_class  # only for the first code that is shown

    lexer = find_lexer_class(found)
    return lexer() if lexer is not None else None


@cache
def _languages() -> dict[str, str]:
    """Every name that a language goes by, and what Pygments calls it. Plugins of others are not asked."""
    from pygments.lexers._mapping import LEXERS  # only for the first code that is shown

    found: dict[str, str] = {}
    for _, called, aliases, _, _ in LEXERS.values():
        for alias in aliases:
            found.setdefault(alias.lower(), called)
    # A name goes before an extension that another language has too.
    for _, called, _, patterns, _ in LEXERS.values():
        for pattern in patterns:
            if pattern.startswith("*.") and pattern[2:].isalnum():
                found.setdefault(pattern[2:].lower(), called)
    return found


@cache
def _has_comments(lexer: Any) -> bool:
    """Whether `/* … */` is a comment."""
    return {style for style, piece in _lexed(lexer, "/* a */", ["root"]) if piece} == {"comment"}


_KINDS = {
    "Comment": "comment",
    "Keyword.Type": "type",
    "Keyword": "keyword",
    "Literal.String.Interpol": "",
    "Literal.String": "string",
    "Literal.Number": "number",
    "Name.Class": "type",
    "Name.Exception": "type",
    "Name.Function": "name",
    "Name.Tag": "name",
    "Name.Decorator": "name",
    "Name.Attribute": "type",
    "Name.Builtin": "type",
    "Operator.Word": "keyword",
    "Operator": "operator",
    "Generic.Heading": "heading",
    "Generic.Subheading": "hunk",
    "Generic.Inserted": "added",
    "Generic.Deleted": "removed",
}


@cache
def _style_of(kind: tuple[str, ...]) -> str:
    for length in range(len(kind), 0, -1):
        style = _KINDS.get(".".join(kind[:length]))
        if style is not None:
            return style
    return ""
