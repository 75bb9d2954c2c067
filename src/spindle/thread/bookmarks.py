"""States to which a thread can go back, and the line that replaces the present state with one of them."""

from __future__ import annotations

from collections.abc import Sequence

from spindle.protocol.items import encode_payload
from spindle.thread.entry import Entry, encode_made_in

Context = tuple[int, bytes]
"""The length of the folded list when settings were recorded, and the settings, as JSON: few of them are looked at."""


class Bookmark:
    """The state after a response: how far two lists went, which may no longer be the current ones."""

    __slots__ = ("contexts", "entries", "length", "told")

    def __init__(self, entries: list[Entry], contexts: list[Context]) -> None:
        self.entries = entries
        self.length = len(entries)
        self.contexts = contexts
        self.told = len(contexts)

    def shared_with(self, entries: Sequence[Entry]) -> int:
        """How far the current list and the bookmarked one hold the same entries."""
        length = min(self.length, len(entries))
        # Lists are only ever copied from the front, so equal entries at one place mean equal entries before it.
        while length and entries[length - 1] is not self.entries[length - 1]:
            length -= 1
        return length

    def way_back(self, response_id: str, shared: int, dropped: int) -> tuple[str, bytes, bytes]:
        """The line that leads here from a list which holds `shared` of the same entries: kind, payload, what is beside.

        Readers that know no bookmarks see a rollback of `dropped` turns, or a replaced history when the bookmark lies
        on a branch that was left before.
        """
        if shared == self.length:
            payload = {"type": "thread_rolled_back", "num_turns": dropped, "spindle_bookmark": response_id}
            return "event_msg", encode_payload(payload), b""
        entries = self.entries[: self.length]
        return "compacted", compacted_payload("", entries, "spindle_bookmark", response_id), encode_made_in(entries)


def compacted_payload(message: str, entries: Sequence[Entry], key: str, value: str) -> bytes:
    """The line that replaces the list, with one key of our own at its end, which other programs ignore."""
    items = b",".join(entry.raw for entry in entries)
    fields = encode_payload(message), items, encode_payload(key), encode_payload(value)
    return b'{"message":%s,"replacement_history":[%s],%s:%s}' % fields
