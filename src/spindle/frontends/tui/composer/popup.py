"""The list that opens below the draft while a word is typed: commands after `/`, files after `@`, skills after `$`."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Literal, NamedTuple, Protocol

from spindle.frontends.fit import cells, cut
from spindle.frontends.tui.composer.fuzzy import matched_places, rank_name
from spindle.frontends.tui.keys import Key
from spindle.frontends.tui.shown import Line, Span
from spindle.frontends.tui.text import clean

if TYPE_CHECKING:
    from spindle.frontends.tui.composer.editing import Editor
    from spindle.frontends.tui.composer.files import FileSearch

MOST_ROWS = 8
_LONGEST_WORD = 1_024
Kind = Literal["command", "file", "skill"]
_SKILL = re.compile(r"\$[A-Za-z0-9_-]*\Z")


class Command(Protocol):
    """A slash command, as the list needs to know it."""

    @property
    def name(self) -> str: ...
    @property
    def aliases(self) -> Sequence[str]: ...
    @property
    def summary(self) -> str: ...


class Skill(Protocol):
    @property
    def name(self) -> str: ...
    @property
    def description(self) -> str: ...


class Token(NamedTuple):
    """The word at the cursor that a list is opened for."""

    kind: Kind
    start: int
    end: int
    query: str


class Choice(NamedTuple):
    shown: str
    detail: str
    inserted: str


def find_token(text: str, cursor: int) -> Token | None:
    """The word at the cursor, if it begins as one that has a list."""
    start = cursor
    while start > 0 and not text[start - 1].isspace():
        start -= 1
        if cursor - start > _LONGEST_WORD:
            return None
    end = cursor
    while end < len(text) and not text[end].isspace() and end - cursor <= _LONGEST_WORD:
        end += 1
    word = text[start:cursor]
    if start == 0 and word.startswith("/"):
        # A path, such as /usr/bin/env, is no command.
        return Token("command", start, end, word[1:]) if "/" not in text[1:end] else None
    if word.startswith("@"):
        return Token("file", start, end, word[1:].removeprefix('"'))
    if _SKILL.match(word):
        return Token("skill", start, end, word[1:])
    return None


def _question(token: Token) -> tuple[Kind, int, str]:
    """What a list was opened for; what stands behind the cursor does not matter."""
    return token.kind, token.start, token.query


def quoted_path(path: str) -> str:
    """A path as it is put into a message: in quotes where a blank would end it."""
    if not any(char.isspace() or char in "\"'" for char in path):
        return path
    return '"' + path.replace("\\", "\\\\").replace('"', '\\"') + '"'


class Popup:
    """Follows the word at the cursor. Closed with Esc, it stays closed until the word is another one."""

    def __init__(
        self,
        commands: Callable[[], Sequence[Command]],
        skills: Callable[[], Sequence[Skill]],
        files: Callable[[], FileSearch | None],
    ) -> None:
        self._commands = commands
        self._skills = skills
        self._make_files = files
        self._files: FileSearch | None = None
        self._token: Token | None = None
        self._dismissed: tuple[Kind, int, str] | None = None
        self._choices: list[Choice] = []
        self._chosen = 0
        self._top = 0

    # ---- what there is -------------------------------------------------------------------------

    @property
    def is_open(self) -> bool:
        return self._token is not None and (bool(self._choices) or self._is_searching)

    @property
    def token(self) -> Token | None:
        return self._token

    @property
    def _is_searching(self) -> bool:
        return self._token is not None and self._token.kind == "file" and bool(self._files and self._files.is_busy)

    @property
    def choice(self) -> Choice | None:
        return self._choices[self._chosen] if self.is_open and self._choices else None

    # ---- what happens --------------------------------------------------------------------------

    def follow(self, text: str, cursor: int) -> None:
        """The text or the cursor has changed."""
        token = find_token(text, cursor)
        if token is not None and self._dismissed == _question(token):
            token = None
        elif token is None or self._dismissed is None or self._dismissed[:2] != (token.kind, token.start):
            self._dismissed = None
        if token == self._token:
            return
        before, self._token = self._token, token
        if token is not None and before is not None and _question(token) == _question(before):
            return
        self._chosen = self._top = 0
        self._choices = []
        if token is None:
            return
        if token.kind == "file":
            self._files = self._files or self._make_files()
            if self._files is not None:
                self._files.look(token.query)
                self.files_found()
        else:
            self._choices = self._named(token)

    def files_found(self) -> None:
        """The search has something new to show."""
        if self._token is None or self._token.kind != "file" or self._files is None:
            return
        chosen = self.choice
        self._choices = [Choice(clean.name(path), "", quoted_path(path)) for path in self._files.results]
        is_still_there = chosen is not None and chosen in self._choices and self._chosen > 0
        self._chosen = self._choices.index(chosen) if is_still_there and chosen is not None else 0

    def _named(self, token: Token) -> list[Choice]:
        query = token.query.lower()
        ranked: list[tuple[int, int, Choice]] = []
        if token.kind == "command":
            for number, command in enumerate(self._commands()):
                rank = rank_name((command.name, *command.aliases), query) if query else 0
                if rank is not None:
                    aliases = (
                        f" (also {', '.join('/' + alias for alias in command.aliases)})" if command.aliases else ""
                    )
                    choice = Choice(f"/{command.name}", clean.name(command.summary) + aliases, f"/{command.name}")
                    ranked.append((rank, number, choice))
        else:
            for number, skill in enumerate(self._skills()):
                rank = rank_name((skill.name,), query) if query else 0
                if rank is not None:
                    detail = clean.name(" ".join(skill.description.split()))
                    ranked.append((rank, number, Choice(f"${clean.name(skill.name)}", detail, f"${skill.name}")))
        return [choice for *_, choice in sorted(ranked)]

    def close(self) -> None:
        if self._files is not None:
            self._files.close()

    def dismiss(self) -> None:
        if self._token is not None:
            self._dismissed = _question(self._token)
        self._token = None

    def close_for(self, editor: Editor) -> None:
        """No list for the word at the cursor, until it is another one."""
        self.follow(editor.text, editor.cursor)
        self.dismiss()

    def key(self, key: Key, action: str) -> bool:
        """Take a key of the composer's keymap; False if it is none for the list."""
        if action in ("move_up", "move_down"):
            self.move(-1 if action == "move_up" else 1)
        elif key.name == "esc":
            self.dismiss()
        else:
            return action == "queue"  # Tab completes; as long as there is nothing to complete with, it does nothing
        return True

    def choose(self, editor: Editor, *, is_run: bool) -> bool:
        """Put what is chosen into the text. Says whether it is to be run at once: a command, with Enter."""
        choice, token = self.choice, self._token
        if choice is None or token is None:
            return False
        is_run = is_run and token.kind == "command"
        is_followed = editor.text[token.end : token.end + 1].isspace()
        editor.replace(token.start, token.end, choice.inserted + ("" if is_run or is_followed else " "))
        if is_followed and not is_run:
            editor.act("move_right")
        self.close_for(editor)
        return is_run

    def move(self, step: int) -> None:
        """Go up or down in the list; from its end to its beginning."""
        if self._choices:
            self._chosen = (self._chosen + step) % len(self._choices)

    # ---- what is seen --------------------------------------------------------------------------

    def lines(self, width: int, height: int) -> list[Line]:
        room = min(MOST_ROWS, height)
        if not self.is_open or room < 1:
            return []
        if not self._choices:
            return [Line((Span("  looking for files …", "dim"),), is_verbatim=True)]
        self._top = max(0, min(self._top, self._chosen, len(self._choices) - room), self._chosen - room + 1)
        rows = self._choices[self._top : self._top + room]
        column = min(max(cells(choice.shown) for choice in rows) + 2, max(1, width // 2))
        return [self._line(number + self._top, choice, column, width) for number, choice in enumerate(rows)]

    def _line(self, number: int, choice: Choice, column: int, width: int) -> Line:
        is_chosen = number == self._chosen
        mark = Span("› " if is_chosen else "  ", "bold accent" if is_chosen else "")
        room = max(1, width - 3)
        if not choice.detail:
            return Line((mark, *self._name(cut_start(choice.shown, room), is_chosen)), is_verbatim=True)
        name = cut(choice.shown, min(column - 1, room))
        spans = [mark, *self._name(name, is_chosen)]
        if room - column > 8:
            spans.append(Span(" " * (column - cells(name))))
            spans.append(Span(cut(choice.detail, room - column), "dim"))
        return Line(tuple(spans), is_verbatim=True)

    def _name(self, name: str, is_chosen: bool) -> list[Span]:
        """A name with the letters that were typed in bold."""
        style = "accent" if is_chosen else ""
        places = matched_places(name, self._token.query if self._token is not None else "")
        spans: list[Span] = []
        for place, char in enumerate(name):
            look = f"bold {style}".strip() if place in places else style
            if spans and spans[-1].style == look:
                spans[-1] = Span(spans[-1].text + char, look)
            else:
                spans.append(Span(char, look))
        return spans


def cut_start(text: str, width: int) -> str:
    """The end of a path that is too long: that is where files differ."""
    if cells(text) <= width:
        return text
    while text and cells(text) > width - 1:
        text = text[max(1, (cells(text) - width) // 2) :]
    return "…" + text
