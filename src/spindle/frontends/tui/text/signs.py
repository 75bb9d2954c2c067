"""The signs by which a line of Markdown tells what it is, and its blanks by columns. Every check is linear."""

from __future__ import annotations

import re

from spindle.frontends.tui.shown import Span

ATX = re.compile(r"(#{1,6})(?:[ \t]+|$)")
FENCE = re.compile(r"(`{3,})([^`]*)$|(~{3,})(.*)$")
MARKER = re.compile(r"([-+*]|(\d{1,9})([.)]))([ \t]+|$)")
DEFINITION = re.compile(
    r"\[((?:[^\[\]\\]|\\.){1,999})\]:\s*(<[^<>]*>|[^\s<]\S*)(?:\s+(\"[^\"]*\"|'[^']*'|\([^()]*\)))?\s*$"
)
BLANK = re.compile(r"\s*$")
HTML = (
    (
        re.compile(r"<(?:script|pre|style|textarea)(?:\s|>|$)", re.I),
        re.compile(r"</(?:script|pre|style|textarea)>", re.I),
    ),
    (re.compile(r"<!--"), re.compile(r"-->")),
    (re.compile(r"<\?"), re.compile(r"\?>")),
    (re.compile(r"<![A-Za-z]"), re.compile(r">")),
    (re.compile(r"<!\[CDATA\["), re.compile(r"\]\]>")),
)
HTML_TAG = re.compile(
    r"</?(?:address|article|aside|base|blockquote|body|caption|center|col|colgroup|dd|details|dialog|dir|div|dl|dt|fieldset|"
    r"figcaption|figure|footer|form|frame|frameset|h[1-6]|head|header|hr|html|iframe|legend|li|link|main|menu|menuitem|nav|"
    r"noframes|ol|optgroup|option|p|param|search|section|summary|table|tbody|td|tfoot|th|thead|title|tr|track|ul)"
    r"(?:\s|/?>|$)",
    re.I,
)
ANY_TAG = re.compile(r"</?[A-Za-z][A-Za-z0-9-]*(?:\s[^<>]*)?/?>\s*$")


def html_end(body: str, *, is_free: bool) -> re.Pattern[str] | None:
    """What ends the HTML that a line begins with, `BLANK` for a blank line; None if it is no HTML. Tags of any name
    count only where no paragraph is open."""
    for begin, until in HTML:
        if begin.match(body):
            return until
    return BLANK if HTML_TAG.match(body) or (is_free and ANY_TAG.match(body)) else None


def indented(text: str, column: int) -> tuple[int, str]:
    """How many columns a text is indented, and what follows. Tabs lead to every fourth column."""
    body = text.lstrip(" \t")
    blanks = text[: len(text) - len(body)]
    if "\t" not in blanks:
        return len(blanks), body
    place = column
    for blank in blanks:
        place += 4 - place % 4 if blank == "\t" else 1
    return place - column, body


def dedented(text: str, column: int, columns: int) -> str:
    """The text without so many columns of blanks at its beginning."""
    if text[:columns].count(" ") == columns:
        return text[columns:]
    indent, body = indented(text, column)
    if indent == 0:
        return text
    blanks = text[: len(text) - len(body)]
    place, taken = column, 0
    for number, blank in enumerate(blanks):
        if taken >= columns:
            return " " * (taken - columns) + blanks[number:] + body
        step = 4 - place % 4 if blank == "\t" else 1
        place += step
        taken += step
    return " " * max(0, taken - columns) + body


def behind_quote_sign(body: str, column: int) -> tuple[str, int]:
    """What follows `>` and the blank that belongs to it, and its column."""
    rest, column = body[1:], column + 1
    if rest[:1] == " ":
        return rest[1:], column + 1
    if rest[:1] == "\t":
        return dedented(rest, column, 1), column + 1
    return rest, column


def may_interrupt(item: re.Match[str], body: str) -> bool:
    """Whether an item may begin directly below a line of a paragraph: `1.` and bullets may, with text behind them."""
    return bool(body[item.end() :].strip()) and (item[2] is None or item[2] == "1")


def is_rule(body: str) -> bool:
    signs = body.replace(" ", "").replace("\t", "")
    return len(signs) >= 3 and signs[0] in "-*_" and signs == signs[0] * len(signs)


def alignments_of(body: str) -> list[str] | None:
    """The alignments that the second line of a table tells; None if it is no such line."""
    if body.strip(" \t|:-"):
        return None
    found: list[str] = []
    for cell in cells_of(body):
        dashes = cell.strip(":")
        if not dashes or dashes.strip("-") or len(cell) - len(dashes) > 2:
            return None
        right, left = cell.endswith(":"), cell.startswith(":")
        found.append("center" if left and right else "right" if right else "left")
    return found


def cells_of(line: str) -> list[str]:
    """The cells of a row of a table. A bar that is escaped belongs to the text."""
    line = line.strip(" \t")
    line = line.removeprefix("|")
    parts = re.split(r"(?<!\\)\|", line)
    if len(parts) > 1 and not parts[-1].strip():
        parts.pop()
    return [part.strip(" \t").replace("\\|", "|").replace("\t", " ") for part in parts]


def trimmed(spans: tuple[Span, ...]) -> tuple[Span, ...]:
    """The spans without the blanks at their end."""
    kept = list(spans)
    while kept and not kept[-1].text.strip():
        kept.pop()
    if kept:
        kept[-1] = Span(kept[-1].text.rstrip(), kept[-1].style)
    return tuple(kept)
