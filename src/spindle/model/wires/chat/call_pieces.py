"""The calls of an answer, which arrive in pieces. Servers disagree on how a piece says which call it belongs to."""

from __future__ import annotations

from typing import Any

from spindle.protocol.items import encode_payload


class CallInPieces:
    """One call, as far as it has come."""

    def __init__(self) -> None:
        self.index: int | None = None
        self.given_id = ""
        """What the server calls it; "" for nothing."""
        self.name = ""
        self._pieces: list[str] = []
        self._length = 0
        self._scan = _Scan()

    @property
    def arguments(self) -> str:
        """As they came; blanks alone are none."""
        came = "".join(self._pieces)
        return came if came.strip() else "{}"

    @property
    def is_something(self) -> bool:
        """There is something in it that can be called, or complained about."""
        return bool(self.name or self.given_id or self._pieces)

    @property
    def is_open(self) -> bool:
        """More of its arguments is to come: they have not begun, or are no whole object."""
        return not self._scan.is_whole(self._pieces)

    def add(self, piece: dict[str, Any]) -> None:
        given_id = _text(piece.get("id"))
        if given_id and not self.given_id:
            self.given_id = given_id
        function = _function(piece)
        self._add_name(_text(function.get("name")))
        arguments = function.get("arguments")
        if isinstance(arguments, dict | list):
            arguments = encode_payload(arguments).decode()
        if isinstance(arguments, str) and not self._is_repeated(arguments):
            self._pieces.append(arguments)
            self._length += len(arguments)

    def _add_name(self, name: str) -> None:
        """It may come once, with every piece, or in pieces itself."""
        if not name or name == self.name:
            return
        self.name = name if name.startswith(self.name) else self.name + name

    def _is_repeated(self, arguments: str) -> bool:
        """Some servers send the whole once more at the end."""
        return 1 < len(arguments) == self._length and arguments == self.arguments and not self.is_open


class CallPieces:
    """All calls of an answer, in the order in which they began."""

    def __init__(self) -> None:
        self.calls: list[CallInPieces] = []
        self._by_index: dict[int, CallInPieces] = {}
        self._by_id: dict[str, CallInPieces] = {}

    def take(self, pieces: Any) -> None:
        """The `tool_calls` of a delta."""
        pieces = [pieces] if isinstance(pieces, dict) else pieces
        pieces = [piece for piece in pieces if isinstance(piece, dict)] if isinstance(pieces, list) else []
        for place, piece in enumerate(pieces):
            call = self._call_of(piece, place if len(pieces) > 1 else -1)
            call.add(piece)
            if call.given_id:
                self._by_id.setdefault(call.given_id, call)

    def _call_of(self, piece: dict[str, Any], place: int) -> CallInPieces:
        """The call that a piece belongs to: by index, or by id, or in order where it has neither."""
        given_id, index = _text(piece.get("id")), _index(piece.get("index"))
        name = _text(_function(piece).get("name"))
        if index is not None:
            call = self._by_index.get(index)
            # Some servers give every call the same index, and each its own id.
            is_other = call is not None and name and given_id and call.given_id not in ("", given_id)
            if call is None or (is_other and (not call.is_open or name != call.name)):
                call = self._begin()
            self._by_index[index] = call
            return call
        if given_id:
            return self._by_id.get(given_id) or self._begin()
        if not self.calls:
            return self._begin()
        last = self.calls[-1]
        if name:
            continues = last.is_open and (last.name == name or not last.name)
            return last if continues else self._begin()
        return self.calls[place] if 0 <= place < len(self.calls) else last

    def _begin(self) -> CallInPieces:
        call = CallInPieces()
        self.calls.append(call)
        return call


class _Scan:
    """Tells whether an object that comes in pieces is whole. Looks at each character once, when it is asked."""

    def __init__(self) -> None:
        self._seen = 0
        self._depth = 0
        self._is_text = False
        self._is_escaped = False
        self._has_begun = False

    def is_whole(self, pieces: list[str]) -> bool:
        for piece in pieces[self._seen :]:
            for char in piece:
                self._read(char)
        self._seen = len(pieces)
        return self._has_begun and self._depth <= 0 and not self._is_text

    def _read(self, char: str) -> None:
        if self._is_escaped:
            self._is_escaped = False
        elif self._is_text:
            self._is_escaped, self._is_text = char == "\\", char != '"'
        elif char == '"':
            self._is_text = True
        elif char in "{[":
            self._depth += 1
            self._has_begun = True
        elif char in "}]":
            self._depth -= 1


def _function(piece: dict[str, Any]) -> dict[str, Any]:
    """What holds name and arguments; a few servers leave out the object around them."""
    function = piece.get("function")
    return function if isinstance(function, dict) else piece


def _text(value: Any) -> str:
    return value if isinstance(value, str) else ""


def _index(value: Any) -> int | None:
    if (isinstance(value, float) and value.is_integer()) or (isinstance(value, str) and value.isdecimal()):
        value = int(value)
    return value if isinstance(value, int) and not isinstance(value, bool) else None
