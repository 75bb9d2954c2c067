"""The ids of calls: which of a server's ids a thread takes, and which it sends.

An id that every server takes (1 to 40 letters, digits, `-` and `_`) and that is new in the thread stays as it is. Any
other is replaced: once, when the answer is read, so that the record and all wires agree. Records that others wrote may
still hold such ids; those are replaced whenever they are sent, always in the same way.
"""

from __future__ import annotations

from collections.abc import Callable, Container

from spindle.protocol.items import call_id_of, is_call
from spindle.protocol.request import VisibleItem

_MOST_CHARS = 40
_SIGNS = frozenset("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_-")
_HEX_DIGITS = 24


def is_sendable(call_id: str) -> bool:
    """Whether every server takes it."""
    return 0 < len(call_id) <= _MOST_CHARS and _SIGNS.issuperset(call_id)


class CallIds:
    """The ids that calls of a thread have; gives out those of new ones."""

    def __init__(self, taken: Container[str], new_id: Callable[[], str]) -> None:
        self._taken = taken
        self._new: set[str] = set()
        self._new_id = new_id

    def keeps(self, given: str) -> bool:
        """Whether a call that has this id from the server will keep it."""
        return is_sendable(given) and given not in self._new and given not in self._taken

    def take(self, given: str | None) -> str:
        """The id of a new call: the one the server gave if it will do, else one of our own."""
        call_id, attempt = given or "", 0
        while not self.keeps(call_id):
            call_id = _digest(self._new_id(), attempt)
            attempt += 1
        self._new.add(call_id)
        return call_id


class ShownCalls:
    """The ids of the calls that requests show, kept between them: in a thread each begins with the one before."""

    def __init__(self) -> None:
        self._items: list[VisibleItem] = []
        self._ids: set[str] = set()

    def ids(self, items: list[VisibleItem]) -> Container[str]:
        """Those of one request. It is looked at with the first question: most answers have no call."""
        return _ShownIds(self, items)

    def has(self, call_id: str, items: list[VisibleItem]) -> bool:
        """Whether a call of this request has the id."""
        if items is not self._items:
            known = self._items
            if items[: len(known)] != known:
                known, self._ids = [], set()
            self._ids.update(call_id_of(shown.item) for shown in items[len(known) :] if is_call(shown.item))
            self._items = items
        return call_id in self._ids


class _ShownIds:
    """The ids of one request. They stay with `ShownCalls`: a copy of them for each round would grow with the thread."""

    __slots__ = ("_calls", "_items")

    def __init__(self, calls: ShownCalls, items: list[VisibleItem]) -> None:
        self._calls = calls
        self._items = items

    def __contains__(self, call_id: object) -> bool:
        return isinstance(call_id, str) and self._calls.has(call_id, self._items)


class SentIds:
    """The ids under which recorded calls and their outputs are sent: a function of the record's order alone."""

    def __init__(self) -> None:
        self._uses: dict[str, int] = {}
        self._sent: set[str] = set()
        self._open: dict[str, list[str]] = {}
        """By recorded id, the sent ids of calls whose output has not come."""

    def of_call(self, call_id: str) -> str:
        """To be asked once for each call, in the order of the record."""
        use = self._uses.get(call_id, 0)
        sent = call_id if not use and is_sendable(call_id) else ""
        while not sent or sent in self._sent:
            sent = _digest(call_id, use)
            use += 1
        self._uses[call_id] = max(use, 1)
        self._sent.add(sent)
        self._open.setdefault(call_id, []).append(sent)
        return sent

    def of_output(self, call_id: str) -> str:
        """To be asked once for each output, in the order of the record: the id of the call that it answers."""
        waiting = self._open.get(call_id)
        if not waiting:
            return call_id if is_sendable(call_id) else _digest(call_id, 0)
        sent = waiting.pop(0)
        if not waiting:
            del self._open[call_id]
        return sent


def _digest(call_id: str, use: int) -> str:
    from _blake2 import blake2b  # of the standard library; `hashlib` would load OpenSSL

    text = f"{use}:{call_id}".encode("utf-8", "surrogatepass")
    return "call_" + blake2b(text, digest_size=_HEX_DIGITS // 2).hexdigest()
