"""The draft as data: its text, and what is folded in it.

In the text that is edited, a folded paste or an image is one character of a private range, so every editing command
treats it as one: a single Backspace deletes it, undo brings it back, and the cursor never stands inside. `Folds` knows
what each stands for. A character of that range that a person pastes is folded itself, so none is ever mistaken.
"""

from __future__ import annotations

import re
from typing import NamedTuple

import msgspec

FIRST, LAST = 0x100000, 0x10FFFD
MARKS = re.compile(f"[{chr(FIRST)}-{chr(LAST)}]")
PASTE_CHARACTERS = 1_000
PASTE_LINES = 20
_MOST_SINGLES = 20
DRAFT_CHARACTERS = 200_000
"""Text that is put into the composer and is longer than this is folded as a whole."""


class Draft(msgspec.Struct, frozen=True, kw_only=True):
    """What was entered."""

    text: str = ""
    """Exactly what is sent: pastes in full, an image as `[Image #1]`."""
    shown: str = ""
    """The same with its pastes folded, as it stood in the composer."""
    images: tuple[str, ...] = ()
    """Image files, in the order of their numbers."""
    raw: str = ""
    """The text of the editor, for `Composer.put_back`; empty if it does not come from there."""

    @property
    def is_blank(self) -> bool:
        return not self.text.strip()

    @property
    def shell_command(self) -> str | None:
        """The command of a draft that begins with `!`; None for every other draft."""
        text = self.text.lstrip()
        return text[1:].strip() if text.startswith("!") else None


class Fold(NamedTuple):
    """Something that stands in the text as one character."""

    label: str
    text: str
    image: str = ""
    """The path, if it is an image."""
    is_paste: bool = False


class Folds:
    """What is folded in a draft, and in the drafts of this session that can be recalled."""

    def __init__(self) -> None:
        self._folds: dict[str, Fold] = {}
        self._singles: dict[str, str] = {}
        self._wholes: dict[str, str] = {}
        self._pastes = 0
        self._images = 0

    def __getitem__(self, mark: str) -> Fold:
        return self._folds[mark]

    def get(self, mark: str) -> Fold | None:
        return self._folds.get(mark)

    def paste(self, text: str) -> str:
        """The mark for a paste."""
        self._pastes += 1
        lines = text.count("\n") + (not text.endswith("\n"))
        size = f"{lines:,} lines" if lines > 1 else f"{len(text):,} characters"
        return self._add(Fold(f"[Pasted #{self._pastes}: {size}]", text, is_paste=True))

    def whole(self, text: str) -> str:
        """The mark for a message that is too long to be edited; the same one whenever it comes up."""
        if text not in self._wholes:
            self._wholes[text] = self.paste(text)
        return self._wholes[text]

    def image(self, path: str) -> str:
        """The mark for an image file."""
        self._images += 1
        label = f"[Image #{self._images}]"
        return self._add(Fold(label, label, path))

    def start_over(self) -> None:
        """The next draft counts from 1 again. What was folded before stays known: it may be recalled."""
        self._pastes = self._images = 0

    def _add(self, fold: Fold) -> str:
        mark = chr(FIRST + len(self._folds))
        self._folds[mark] = fold
        return mark

    def _single(self, char: str) -> str:
        """The mark for a character of the private range; one for all its occurrences."""
        if char not in self._singles:
            self._singles[char] = self._add(Fold(f"⟨U+{ord(char):X}⟩", char))
        return self._singles[char]

    def exact(self, text: str) -> str:
        """The text with everything unfolded."""
        return MARKS.sub(lambda found: self._folds[found[0]].text, text) if not text.isascii() else text

    def labelled(self, text: str) -> str:
        """The text with the labels of what is folded."""
        return MARKS.sub(lambda found: self._folds[found[0]].label, text) if not text.isascii() else text

    def fit(self, text: str) -> str:
        """Text of others as it may stand in a draft: its own characters of the private range are folded."""
        if text.isascii() or not (own := set(MARKS.findall(text))):
            return text
        if len(own) > _MOST_SINGLES:
            return self.paste(text)
        return MARKS.sub(lambda found: self._single(found[0]), text)

    def nearest_paste(self, text: str, cursor: int) -> int | None:
        """Where the paste before the cursor is, else the first one; None if none can be unfolded."""
        places = [
            found.start()
            for found in MARKS.finditer(text)
            if (fold := self._folds[found[0]]).is_paste and not MARKS.search(fold.text)
        ]
        return max((place for place in places if place < cursor), default=places[0]) if places else None

    def rebuilt(self, draft: Draft) -> str:
        """A draft that was not made here, as text for the editor."""
        text = self.fit(draft.text)
        for number, path in enumerate(draft.images, 1):
            mark = self.image(path)
            label = f"[Image #{number}]"
            text = text.replace(label, mark, 1) if label in text else f"{mark} {text}"
        return text

    def parts(self, text: str) -> list[dict[str, str]]:
        """A draft in pieces: text, pastes, images."""
        parts: list[dict[str, str]] = []
        place = 0
        for found in MARKS.finditer(text):
            fold = self._folds[found[0]]
            parts.append({"text": text[place : found.start()]})
            parts.append({"image": fold.image} if fold.image else {"paste" if fold.is_paste else "text": fold.text})
            place = found.end()
        parts.append({"text": text[place:]})
        return [part for part in parts if any(part.values())]

    def parts_of(self, draft: Draft) -> list[dict[str, str]]:
        """A draft that was taken, in pieces."""
        if draft.raw:
            return self.parts(draft.raw)
        return [*({"image": path} for path in draft.images), {"text": draft.text}]

    def put_images_back(self, text: str, before: str) -> str:
        """Text that was edited elsewhere: what are labels of images in it are those images again."""
        text = self.fit(text)
        for mark in MARKS.findall(before):
            if self._folds[mark].image:
                text = text.replace(self._folds[mark].label, mark, 1)
        return text

    def draft(self, text: str) -> Draft:
        """What is sent for the text; images are numbered anew, in the order in which they stand."""
        images: list[str] = []

        def replace(found: re.Match[str]) -> str:
            fold = self._folds[found[0]]
            if not fold.image:
                return fold.text
            images.append(fold.image)
            return f"[Image #{len(images)}]"

        exact = MARKS.sub(replace, text)
        return Draft(text=exact, shown=self.labelled(text), images=tuple(images), raw=text)


def joined(drafts: list[list[dict[str, str]]]) -> list[dict[str, str]]:
    """Drafts in pieces, one below the other."""
    made: list[dict[str, str]] = []
    for parts in drafts:
        made += [*([{"text": "\n"}] if made and parts else []), *parts]
    return made


def unix_lines(text: str) -> str:
    return text.replace("\r\n", "\n").replace("\r", "\n")


def is_long(text: str) -> bool:
    return len(text) > PASTE_CHARACTERS or text.count("\n") + (not text.endswith("\n")) > PASTE_LINES
