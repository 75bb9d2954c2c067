"""The text of `{"answer": "…"}` while the object is still being written."""

from __future__ import annotations

import re

from spindle.model.wires.forced.steps import ANSWER

_BEGINNING = re.compile(rf'\s*\{{\s*"{ANSWER}"\s*:\s*"')
_LONGEST_BEGINNING = 200
_ESCAPES = {'"': '"', "\\": "\\", "/": "/", "b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t"}
_UNICODE = re.compile(r"[0-9a-fA-F]{4}\Z")


class AnswerText:
    """Takes the pieces of an object, and gives the pieces of the text in it."""

    def __init__(self) -> None:
        self._waiting = ""
        """What has come and cannot be read yet."""
        self._is_text: bool | None = None
        """Whether it is an answer at all; None while that is open."""
        self._half = ""
        """The first half of a character that JSON writes in two."""
        self.so_far = ""

    def feed(self, piece: str) -> str:
        """What can be shown now."""
        if self._is_text is False:
            return ""
        self._waiting += piece
        if self._is_text is None and not self._begins():
            return ""
        shown = "".join(self._read())
        self.so_far += shown
        return shown

    def _begins(self) -> bool:
        found = _BEGINNING.match(self._waiting)
        if found is not None:
            self._is_text, self._waiting = True, self._waiting[found.end() :]
        elif len(self._waiting) > _LONGEST_BEGINNING:
            self._is_text, self._waiting = False, ""
        return found is not None

    def _read(self) -> list[str]:
        read: list[str] = []
        text, place = self._waiting, 0
        while place < len(text):
            sign = text[place]
            if sign == '"':
                self._is_text, text, place = False, "", 0  # the rest is the end of the object
                break
            if sign != "\\":
                end = min(at for at in (text.find('"', place), text.find("\\", place), len(text)) if at >= 0)
                read.append(self._whole(text[place:end]))
                place = end
            elif text[place + 1 : place + 2] == "u":
                if not _UNICODE.match(digits := text[place + 2 : place + 6]):
                    break
                read.append(self._character(chr(int(digits, 16))))
                place += 6
            elif (escaped := text[place + 1 : place + 2]) in _ESCAPES:
                read.append(self._whole(_ESCAPES[escaped]))
                place += 2
            else:
                break  # the rest of the escape has not come
        self._waiting = text[place:]
        return read

    def _whole(self, text: str) -> str:
        """Text behind which no half of a character waits; a half that stays alone is a sign for itself."""
        half, self._half = self._half, ""
        return "\ufffd" + text if half else text

    def _character(self, char: str) -> str:
        if "\ud800" <= char <= "\udbff":
            before = self._whole("")
            self._half = char
            return before
        if "\udc00" <= char <= "\udfff":
            half, self._half = self._half, ""
            return (half + char).encode("utf-16", "surrogatepass").decode("utf-16") if half else "\ufffd"
        return self._whole(char)
