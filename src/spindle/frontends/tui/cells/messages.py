"""What is said: messages of the person, answers while they stream and after, reasoning, proposed plans."""

from __future__ import annotations

from typing import TYPE_CHECKING

from spindle.frontends.fit import counted
from spindle.frontends.tui.cells.cell import INDENT, Cell, Look, Streaming, one_line
from spindle.frontends.tui.shown import BLANK, Line, Span, line
from spindle.frontends.tui.text.clean import safe

if TYPE_CHECKING:
    from spindle.frontends.tui.cells.as_written import Source
    from spindle.frontends.tui.text.markdown import Markdown

USER_SIGN = Span("›", "bold user")
ANSWER_SIGN = Span("•", "dim")
_FOLDED_FROM = 200
"""A message of more lines than this is a paste or a file: its head and tail are shown, the transcript has it all."""
_FOLDED_HEAD = 40
_FOLDED_TAIL = 10


class UserMessage(Cell):
    """What the person sent, whole; of something very long the beginning and the end."""

    __slots__ = ("pictures", "text")

    def __init__(self, text: str, pictures: int = 0) -> None:
        self.text = text
        self.pictures = pictures

    def lines(self, look: Look) -> list[Line]:
        rows = [line(Span(row)) for row in safe(self.text).rstrip("\n").split("\n")] if self.text else []
        missing = len(rows) - _FOLDED_HEAD - _FOLDED_TAIL
        if len(rows) > _FOLDED_FROM and not look.is_whole:
            note = line(Span(f"… {counted(missing, 'line')} more, all of them sent", "dim"))
            rows = [*rows[:_FOLDED_HEAD], note, *rows[-_FOLDED_TAIL:]]
        rows += [line(Span(f"[Image #{number + 1}]", "accent")) for number in range(self._pictures_left_out())]
        return look.block(USER_SIGN, "You", rows or [BLANK])

    def _pictures_left_out(self) -> int:
        """Those that the text does not name at their place."""
        return 0 if "[Image #1]" in self.text else self.pictures


class Answer(Streaming):
    """What the model says, in markdown. Finished blocks go to the scrollback while the rest still arrives."""

    __slots__ = ("_final", "_has_begun", "_is_given", "_markdown", "is_abandoned", "item_id")

    sign, word, title = ANSWER_SIGN, "Agent", ""

    def __init__(self, item_id: str = "", text: str | None = None) -> None:
        self.item_id = item_id
        self._final = text
        self._markdown: Markdown | Source | None = self._stream() if text is None else None
        self._has_begun = False
        """Some of it has been given away."""
        self._is_given = False
        self.is_abandoned = False

    def _stream(self) -> Markdown | Source:
        from spindle.frontends.tui.text.markdown import Markdown  # with the first words of the model

        return Markdown()

    def _render(self, text: str, width: int) -> list[Line]:
        from spindle.frontends.tui.text.markdown import render  # with the first words of the model

        return render(text, width)

    # ---- while it streams ----------------------------------------------------------------------

    def feed(self, delta: str) -> None:
        if self._markdown is not None and self._final is None:
            self._markdown.feed(delta)

    def finish(self, text: str | None = None) -> None:
        """The whole text is known; None: there is nothing but what came so far."""
        if self._final is None:
            self._final = self.text if text is None else text

    def abandon(self) -> None:
        """The request failed, and is made again: none of this counts."""
        self.finish()
        self.is_abandoned = True

    @property
    def is_open(self) -> bool:
        return self._final is None

    @property
    def is_shown(self) -> bool:  # pyright: ignore[reportIncompatibleVariableOverride]
        """An answer that was abandoned before anything of it stood in the scrollback is not shown at all."""
        return self._has_begun or not (self.is_abandoned or (self._final is not None and not self._final.strip()))

    @property
    def text(self) -> str:
        if self._final is None:
            return "" if self._markdown is None else self._markdown.text
        return self._final

    def take_finished(self, look: Look) -> list[Line]:
        if self._is_given:
            return []
        if self._markdown is None:
            self._is_given = True
            return self.lines(look)
        if self._final is None:
            return self._given(self._markdown.take_finished(look.room), look)
        self._is_given = True
        markdown, self._markdown = self._markdown, None
        if self.is_abandoned:
            note = "The connection broke: the words above do not count, the answer begins again."
            return [*self._given([], look), line(Span(f"{INDENT}⚠ {note}", "warning"), hang=INDENT * 2)]
        rest = markdown.finish(self._final, look.room)
        if isinstance(rest, list):
            return self._given(rest, look)
        note = line(Span("The whole message differs from what was shown above. It reads:", "warning"))
        self._has_begun = True
        return [BLANK, *look.block(Span("⚠", "warning"), "Note", [note]), BLANK, *self.lines(look)]

    def _given(self, lines: list[Line], look: Look) -> list[Line]:
        if not lines:
            return []
        shown = self._behind_sign(lines, look)
        self._has_begun = True
        return shown

    def tail(self, look: Look) -> list[Line]:
        if self._markdown is None or self._final is not None:
            return []
        return self._behind_sign(self._markdown.tail(look.room), look)

    @property
    def has_begun(self) -> bool:
        """Some of it stands in the scrollback already."""
        return self._has_begun

    def _behind_sign(self, lines: list[Line], look: Look) -> list[Line]:
        return self._further(lines) if self._has_begun else self._whole(lines, look)

    def _further(self, lines: list[Line]) -> list[Line]:
        return [_indented(each) for each in lines]

    # ---- when it is done -----------------------------------------------------------------------

    def lines(self, look: Look) -> list[Line]:
        shown = self._whole(self._render(self.text, look.room), look)
        if self.is_abandoned:
            shown.append(line(Span(f"{INDENT}(abandoned: the request failed and was made again)", "dim")))
        return shown

    def _whole(self, lines: list[Line], look: Look) -> list[Line]:
        return look.block(self.sign, self.word, lines)


class ProposedPlan(Answer):
    """A plan that the model proposes in plan mode: under a title of its own."""

    __slots__ = ()

    sign, word = Span("•", "bold accent"), "Proposed plan"

    def _whole(self, lines: list[Line], look: Look) -> list[Line]:
        if look.words:
            return look.block(self.sign, self.word, lines)
        title = look.head(self.sign, self.word, Span("Proposed plan", "bold"))
        return [title, BLANK, *(_indented(each) for each in lines)]


class Reasoning(Cell):
    """What the model thought, as far as it is shown: whole, and only in the transcript."""

    __slots__ = ("raw", "summary")

    is_shown = False

    def __init__(self, summary: list[str], raw: list[str]) -> None:
        self.summary = summary
        self.raw = raw

    def lines(self, look: Look) -> list[Line]:
        from spindle.frontends.tui.text.markdown import render  # only a transcript shows it

        text = "\n\n".join((*self.summary, *self.raw))
        shown = [Line(_dimmed(each.spans), each.hang, each.is_verbatim) for each in render(text, look.room)]
        return look.block(Span("•", "dim"), "Thinking", shown)


class Headline:
    """The newest line of a reasoning summary while it arrives. Keeps no more than the line it needs."""

    _MOST = 400

    def __init__(self) -> None:
        self._bold = ""
        self._line = ""

    def feed(self, delta: str) -> None:
        *whole, rest = (self._line + delta).rsplit("\n", 1)
        self._line = rest[-self._MOST :]
        for text in (*whole, rest):
            begin = text.rfind("**", 0, max(0, text.rfind("**")))
            if begin >= 0:
                self._bold = text[begin + 2 : text.rfind("**")][: self._MOST]

    def section(self) -> None:
        self._line = ""

    @property
    def text(self) -> str:
        """The last words in bold, which models use as a headline; else the line that is being written."""
        return one_line(self._bold or self._line.replace("*", ""))


def _indented(each: Line) -> Line:
    """Further lines of a text. An empty one stays empty."""
    if not each.spans:
        return each
    indent = Span(INDENT)
    return Line((indent, *each.spans), (indent, *each.hang), each.is_verbatim)


def _dimmed(spans: tuple[Span, ...]) -> tuple[Span, ...]:
    return tuple(Span(span.text, f"{span.style} dim".strip()) for span in spans)
