"""The blocks of a Markdown text, found line by line as the text arrives.

Each line is looked at once. It continues the open blocks, closes some and opens others, as CommonMark describes it;
what is closed can no longer change and is handed out at once: a paragraph at its end, code line by line, a table as a
whole. So a text that arrives in pieces is shown exactly like one that is there from the beginning.

Two things differ from CommonMark, because nothing can be taken back: a link by reference is resolved only if its
definition came before it (definitions are shown as well, so no address is lost), and whether there is a blank line
between two blocks is decided by the text, not by the looseness of a whole list.
"""

from __future__ import annotations

import re

from spindle.frontends.tui.shown import Line, Span
from spindle.frontends.tui.text import inline
from spindle.frontends.tui.text.clean import safe
from spindle.frontends.tui.text.highlight import Highlighter
from spindle.frontends.tui.text.parts import Block, Container, Leaf
from spindle.frontends.tui.text.signs import (
    ATX,
    BLANK,
    DEFINITION,
    FENCE,
    MARKER,
    alignments_of,
    behind_quote_sign,
    cells_of,
    dedented,
    html_end,
    indented,
    is_rule,
    may_interrupt,
    trimmed,
)
from spindle.frontends.tui.text.tables import Table

DEEPEST = 16
"""Quotes and lists within each other; what is nested deeper is text."""
_MOST_REFERENCES = 500
_MOST_COLUMNS = 100
"""What has more is no table that anyone can read, and laying it out again with each piece would take long."""

_BULLETS = "•◦▪"


class Blocks:
    """Takes lines, gives blocks (`done`)."""

    def __init__(self) -> None:
        self.done: list[Block] = []
        self._containers: list[Container] = []
        self._leaf: Leaf | None = None
        self._references: dict[str, dict[str, str]] = {}
        self._numbers: dict[int, tuple[str, int]] = {}
        """By depth: the sign and the next number of the list whose item came last there."""
        self._was_blank = False
        self._last_kind = ""
        self._last_containers: list[Container] = []

    def copy(self) -> Blocks:
        """The state without what is done, to look at what is unfinished without finishing it."""
        other = Blocks()
        copies = {id(each): each.copy() for each in (*self._containers, *self._last_containers)}
        other._containers = [copies[id(each)] for each in self._containers]
        other._last_containers = [copies[id(each)] for each in self._last_containers]
        other._leaf = self._leaf.copy() if self._leaf else None
        other._references = dict(self._references)
        other._numbers = dict(self._numbers)
        other._was_blank, other._last_kind = self._was_blank, self._last_kind
        return other

    # ---- one line -------------------------------------------------------------------------------

    def line(self, line: str) -> None:
        """Take the next line, without its end."""
        rest, column, matched = self._within(line)
        is_inside = matched == len(self._containers)
        leaf = self._leaf
        if leaf is not None and leaf.kind in ("fence", "html"):
            if is_inside:
                self._verbatim_line(leaf, rest)
                if self._leaf is leaf or leaf.kind == "fence" or rest.strip():
                    return
            else:
                self._close_leaf()
        if not rest.strip():
            self._blank_line(is_inside, matched)
            return
        self._start(rest, column, matched)

    def finish(self) -> None:
        self._close_to(0)

    def _within(self, line: str) -> tuple[str, int, int]:
        """The line behind the signs of the containers that it continues, its column, and how many those are."""
        rest, column = line, 0
        for number, container in enumerate(self._containers):
            indent, body = indented(rest, column)
            if container.indent < 0:
                if indent > 3 or body[:1] != ">":
                    return rest, column, number
                rest, column = behind_quote_sign(body, column + indent)
            elif not body:
                if container.is_empty:
                    return rest, column, number
                rest = ""
            elif indent >= container.indent:
                rest, column = dedented(rest, column, container.indent), column + container.indent
            else:
                return rest, column, number
        return rest, column, len(self._containers)

    def _verbatim_line(self, leaf: Leaf, rest: str) -> None:
        """A line within a fence or HTML, or the one that ends it."""
        if leaf.kind == "html":
            if leaf.end is BLANK and not rest.strip():
                self._close_leaf()
                return
            self._hand_out("html", [[Span(safe(rest))]])
            if leaf.end is not BLANK and leaf.end.search(rest):
                self._close_leaf()
            return
        indent, body = indented(rest, 0)
        stripped = body.rstrip(" \t")
        if indent <= 3 and len(stripped) >= len(leaf.fence) and stripped == leaf.fence[0] * len(stripped):
            self._close_leaf()
            return
        self._code_line(leaf, dedented(rest, 0, min(indent, leaf.indent)))

    def _code_line(self, leaf: Leaf, text: str) -> None:
        assert leaf.highlighter is not None
        self._hand_out("code", [list(leaf.highlighter.line(safe(text)))], is_verbatim=True, joins=leaf.size > 0)
        leaf.size += 1

    def _blank_line(self, is_inside: bool, matched: int) -> None:
        leaf = self._leaf
        if leaf is not None and leaf.kind == "indented" and is_inside:
            leaf.blanks += 1
            return
        self._close_to(matched)
        self._was_blank = True

    def _start(self, rest: str, column: int, matched: int) -> None:
        """Open what a line with text opens; what remains of it is text."""
        is_new = False
        while True:
            indent, body = indented(rest, column)
            leaf = self._leaf
            is_inside = is_new or matched == len(self._containers)
            paragraph = leaf if leaf is not None and leaf.kind == "paragraph" else None
            if indent >= 4:
                if paragraph is None:
                    self._indented_code(rest, column, matched if not is_new else len(self._containers))
                    return
                break
            if leaf is not None and leaf.kind == "indented":
                self._close_leaf()
            depth = len(self._containers) if is_new else matched
            if body[0] == ">" and depth < DEEPEST:
                self._close_to(depth)
                self._forget_lists(depth)
                self._enter(Container((Span("│ ", "quote"),), (Span("│ ", "quote"),)))
                rest, column = behind_quote_sign(body, column + indent)
                is_new = True
                if not rest.strip():
                    self._was_blank = True
                    return
                continue
            if self._single_line(body, indent, depth, is_inside, paragraph):
                return
            item = MARKER.match(body) if depth < DEEPEST else None
            if item is None or (paragraph is not None and is_inside and not may_interrupt(item, body)):
                break
            rest, column = self._item(item, body, indent, column, depth)
            is_new = True
            if not rest.strip():
                return
        self._text(rest, body, matched, is_new)

    def _single_line(self, body: str, indent: int, depth: int, is_inside: bool, paragraph: Leaf | None) -> bool:
        """Whether the line is a heading, a fence, a rule, the head of a table or the beginning of HTML; opens it."""
        heading = ATX.match(body)
        if heading is not None:
            self._close_to(depth)
            text = re.sub(r"(?:^|[ \t]+)#+$", "", body[heading.end() :].rstrip())
            self._heading(len(heading[1]), text.strip())
            return True
        fence = FENCE.match(body)
        if fence is not None:
            self._close_to(depth)
            self._open_fence(fence, indent)
            return True
        if paragraph is not None and is_inside and not paragraph.is_flowing:
            stripped = body.rstrip()
            if set(stripped) in ({"="}, {"-"}):
                self._leaf = None
                self._paragraph(paragraph, level=1 if stripped[0] == "=" else 2)
                return True
            if self._table_head(paragraph, body):
                return True
        if is_rule(body):
            self._close_to(depth)
            self._hand_out("rule", [], is_rule=True)
            return True
        return body[0] == "<" and self._open_html(body, indent, depth, is_free=paragraph is None)

    # ---- what is opened -------------------------------------------------------------------------

    def _item(self, found: re.Match[str], body: str, indent: int, column: int, depth: int) -> tuple[str, int]:
        """Open an item of a list; gives the rest of the line and its column."""
        self._close_to(depth)
        sign = found[3] or found[1]
        known = self._numbers.get(depth)
        if found[2] is not None:
            number = known[1] if known is not None and known[0] == sign else int(found[2])
            marker = f"{number}{sign} "
        else:
            number = 0
            level = sum(each.indent >= 0 for each in self._containers)
            marker = f"{_BULLETS[level % len(_BULLETS)]} "
        self._forget_lists(depth)
        self._numbers[depth] = (sign, number + 1)
        width = len(found[1])
        behind, text = indented(body[width:], column + indent + width)
        is_blank = not text
        # Five blanks or more: one belongs to the bullet, and code begins.
        blanks = 1 if is_blank or behind > 4 else behind
        container = Container((Span(marker, "accent"),), (Span(" " * len(marker)),), indent + width + blanks)
        self._enter(container)
        rest = "" if is_blank else dedented(body[width:], column + indent + width, blanks)
        return rest, column + indent + width + blanks

    def _indented_code(self, rest: str, column: int, depth: int) -> None:
        leaf = self._leaf
        if leaf is None or leaf.kind != "indented" or depth < len(self._containers):
            self._close_to(depth)
            leaf = self._open("indented")
            leaf.highlighter = Highlighter("")
        for _ in range(leaf.blanks):
            self._code_line(leaf, "")
        leaf.blanks = 0
        self._code_line(leaf, dedented(rest, column, 4))

    def _open_fence(self, found: re.Match[str], indent: int) -> None:
        leaf = self._open("fence")
        leaf.fence, leaf.indent = found[1] or found[3], indent
        words = (found[2] or found[4] or "").strip()
        language = re.split(r"[\s,{:]", words, maxsplit=1)[0]
        leaf.highlighter = Highlighter(language)
        if words:
            self._hand_out("code", [[Span(safe(words), "dim")]])
            leaf.size = 1

    def _open_html(self, body: str, indent: int, depth: int, *, is_free: bool) -> bool:
        end = html_end(body, is_free=is_free)
        if end is None:
            return False
        self._close_to(depth)
        leaf = self._open("html")
        leaf.end = end
        self._verbatim_line(leaf, " " * indent + body)
        return True

    def _table_head(self, paragraph: Leaf, body: str) -> bool:
        """Whether this line is the rule under the head of a table; the last line of the paragraph is the head."""
        alignments = alignments_of(body)
        if alignments is None or len(alignments) > _MOST_COLUMNS:
            return False
        head = paragraph.lines[-1]
        if len(cells_of(head)) != len(alignments) or ("|" not in head and "|" not in body):
            return False
        paragraph.lines.pop()
        self._leaf = None
        if paragraph.lines:
            self._paragraph(paragraph)
        leaf = self._open("table")
        leaf.lines, leaf.alignments = [head], alignments
        return True

    def _text(self, rest: str, body: str, matched: int, is_new: bool) -> None:
        """A line of a paragraph or a table, new or open."""
        leaf = self._leaf
        if leaf is not None and leaf.kind == "paragraph" and not is_new:
            self._add_to_paragraph(leaf, body)
            return
        if (
            leaf is not None
            and leaf.kind == "table"
            and not is_new
            and matched == len(self._containers)
            and "|" in rest
        ):
            leaf.lines.append(body)
            return
        self._close_to(len(self._containers) if is_new else matched)
        self._add_to_paragraph(self._open("paragraph"), body)

    def _add_to_paragraph(self, leaf: Leaf, body: str) -> None:
        leaf.lines.append(body.rstrip(" \t"))
        leaf.size += len(body) + 1
        if leaf.size > inline.LONGEST:
            # It will be shown as it stands anyway, so nothing has to wait for its end.
            self._hand_out("paragraph", [[Span(safe(line))] for line in leaf.lines], joins=leaf.is_flowing)
            leaf.is_flowing, leaf.lines = True, []

    def _enter(self, container: Container) -> None:
        self._fill()
        self._containers.append(container)

    def _fill(self) -> None:
        for container in self._containers:
            container.is_empty = False

    def _open(self, kind: str) -> Leaf:
        self._fill()
        self._leaf = Leaf(kind)
        return self._leaf

    # ---- what is closed -------------------------------------------------------------------------

    def _close_to(self, depth: int) -> None:
        """Close the leaf, and the containers beyond this depth."""
        self._close_leaf()
        while len(self._containers) > depth:
            if not self._containers[-1].is_begun and self._containers[-1].indent >= 0:
                self._hand_out("empty", [[]])
            self._containers.pop()

    def _close_leaf(self) -> None:
        leaf, self._leaf = self._leaf, None
        if leaf is None:
            return
        if leaf.kind == "paragraph" and leaf.lines:
            self._paragraph(leaf)
        elif leaf.kind == "table":
            self._table(leaf)
        elif leaf.kind == "indented" and leaf.blanks:
            self._was_blank = True

    def _paragraph(self, leaf: Leaf, level: int = 0) -> None:
        if leaf.is_flowing:
            self._hand_out("paragraph", [[Span(safe(line))] for line in leaf.lines], joins=True)
            return
        lines = leaf.lines
        while lines and not level and (found := DEFINITION.match(lines[0])) is not None:
            self._definition(found, lines[0])
            lines = lines[1:]
        if not lines:
            return
        text = "\n".join(lines)
        if level:
            self._heading(level, text)
        else:
            self._hand_out("paragraph", inline.rows(text, self._references))

    def _definition(self, found: re.Match[str], line: str) -> None:
        label = inline.normal_label(found[1])
        address = found[2][1:-1] if found[2].startswith("<") else found[2]
        if label not in self._references and len(self._references) < _MOST_REFERENCES:
            self._references[label] = {"href": address, "title": (found[3] or "")[1:-1]}
        start = found.start(2)
        row = [Span(safe(line[:start])), Span(safe(found[2]), "link"), Span(safe(line[found.end(2) :]))]
        self._hand_out("paragraph", [[span for span in row if span.text]])

    def _heading(self, level: int, text: str) -> None:
        style = "heading underline" if level == 1 else "heading" if level == 2 else "heading italic"
        self._hand_out("heading", inline.rows(text, self._references, style))

    def _table(self, leaf: Leaf) -> None:
        head, *body = [[inline.rows(cell, self._references) for cell in cells_of(line)] for line in leaf.lines]
        self._hand_out("table", [], table=Table(head, body, leaf.alignments))

    def _forget_lists(self, depth: int) -> None:
        for known in [known for known in self._numbers if known >= depth]:
            del self._numbers[known]

    def _hand_out(
        self,
        kind: str,
        rows: list[list[Span]],
        *,
        table: Table | None = None,
        is_rule: bool = False,
        is_verbatim: bool = False,
        joins: bool = False,
    ) -> None:
        """Put rows behind the signs of their containers, after a blank line where one belongs."""
        if kind != "empty":
            self._forget_lists(len(self._containers))
        lines: list[Line] = []
        if self._last_kind and not joins and self._wants_blank(kind):
            lines.append(Line(trimmed(self._common_prefix())))
        first = tuple(span for each in self._containers for span in (each.rest if each.is_begun else each.first))
        rest = tuple(span for each in self._containers for span in each.rest)
        lines += [
            Line((*(rest if number else first), *row), rest, is_verbatim)
            if row
            else Line(trimmed(rest if number else first), (), is_verbatim)
            for number, row in enumerate(rows)
        ]
        self.done.append(Block(lines, table, first, rest, is_rule))
        self._was_blank, self._last_kind = False, kind
        self._last_containers = list(self._containers)
        for container in self._containers:
            container.is_begun, container.is_empty = True, False

    def _wants_blank(self, kind: str) -> bool:
        stands_apart = ("code", "table", "rule")
        if kind == self._last_kind == "html":
            return self._was_blank
        return self._was_blank or kind == "heading" or kind in stands_apart or self._last_kind in stands_apart

    def _common_prefix(self) -> tuple[Span, ...]:
        """What a blank line begins with: the signs of the containers around both of its neighbours."""
        spans: list[Span] = []
        for before, now in zip(self._last_containers, self._containers, strict=False):
            if before is not now:
                break
            spans += before.rest
        return tuple(spans)
