"""Packs the past of an idle thread until somebody reads it, so that a process can hold many threads.

The record, the list of items, what the model sees of it and how the last request was made are views of one history
that share most of their objects, and some compare them by identity. So all of it is packed in one piece: what was one
object before is one object after. Live state (settings, grants, connections, programs, the file) is never touched.

An object whose past is packed has a subclass that differs in one thing: reading a missing attribute, or setting any,
first unpacks the past. So no caller needs to know whether a thread rests, and a thread that does not rest pays nothing:
its classes are the plain ones.
"""

from __future__ import annotations

import pickle
import zlib
from collections.abc import Callable, Generator, Sequence
from functools import cache
from typing import TYPE_CHECKING, Any, Protocol

from spindle.thread.records import squeeze

if TYPE_CHECKING:
    from spindle.core.session import Session


class HoldsPast(Protocol):
    """An object that can rest. It has an `__dict__`, and what it names is plain data that nobody outside changes."""

    @property
    def PAST(self) -> tuple[str, ...]:
        """The attributes that are packed."""
        ...


def resting(session: Session, woken: Callable[[], None]) -> Generator[int, None, int | None]:
    """Pack what a session holds of the past; `woken` is called when somebody looks at it again.

    A long past takes a while, so it is packed in pieces: gives how many bytes each was, and may be left after any of
    them. In the end: how many bytes are to be unpacked. None, and the thread does not rest, while a turn runs or an op
    is dealt with: whoever deals with it may hold on to what it has seen.
    """
    thread = session.thread
    if not is_resting(thread.history):
        if _is_busy(session):
            return None
        lines = thread.history.records
        if not lines:
            return 0
        packed = yield from lines.packing()
        if _is_busy(session) or is_resting(thread.history) or thread.history.records is not lines:
            return None  # something went on in it meanwhile
        thread.history.records = packed
        Past(thread.holders_of_past(), [thread.instructions, thread.tools.specs_bytes], woken)
    past: Past = vars(thread.history)["_past"]
    is_new = not past.is_packed
    yield from past.packing()
    return past.size if is_new else 0


def _is_busy(session: Session) -> bool:
    return session.is_running or not _is_settled(session)


def is_resting(holder: HoldsPast) -> bool:
    return "_past" in vars(holder)


def _is_settled(session: Session) -> bool:
    """Whether no op waits or is dealt with: there is nothing to wait for."""
    settled = session.settle()
    try:
        settled.send(None)
    except StopIteration:
        return True
    settled.close()
    return False


class Past:
    """What some objects held, in one piece, and who they are."""

    __slots__ = ("_beside", "_held", "_holders", "_known", "_woken", "is_packed", "size")

    def __init__(self, holders: Sequence[HoldsPast], known: Sequence[bytes], woken: Callable[[], None]) -> None:
        """`known` is text that lives on elsewhere: where it occurs near the beginning it takes no room."""
        held = [{name: vars(holder)[name] for name in holder.PAST} for holder in holders]
        beside: list[pickle.PickleBuffer] = []
        self._held = pickle.dumps(held, pickle.HIGHEST_PROTOCOL, buffer_callback=beside.append)
        self._beside = [buffer.raw().obj for buffer in beside]
        self.is_packed = False
        """What is held is compressed; until then it is in one piece, and as large as it was."""
        self.size = len(self._held)
        self._holders, self._known, self._woken = holders, known, woken
        for holder in holders:
            attributes = vars(holder)
            for name in holder.PAST:
                del attributes[name]
            attributes["_past"] = self
            object.__setattr__(holder, "__class__", _resting(type(holder)))

    def packing(self) -> Generator[int, None, None]:
        """Compress it, piece by piece."""
        if self.is_packed:
            return
        # The fastest level: most of it is JSON much like the lines before, and a slower one hardly finds more.
        packer = zlib.compressobj(1, zdict=b"".join(self._known))
        packed = yield from squeeze(self._held, packer.compress)
        self._held, self.is_packed = packed + packer.flush(), True

    def unpack(self) -> None:
        """Give back to each what it held."""
        pickled = self._held
        if self.is_packed:
            pickled = zlib.decompressobj(zdict=b"".join(self._known)).decompress(pickled)
        held: list[dict[str, Any]] = pickle.loads(pickled, buffers=self._beside)
        for holder, attributes in zip(self._holders, held, strict=True):
            object.__setattr__(holder, "__class__", type(holder).__base__)
            del vars(holder)["_past"]
            vars(holder).update(attributes)
        self._woken()


@cache
def _resting(kind: type) -> type:
    """The class of a resting object; without slots of its own, so that an object can become one, and back."""

    def get(self: Any, name: str) -> Any:
        self._past.unpack()
        return getattr(self, name)

    def put(self: Any, name: str, value: object) -> None:
        self._past.unpack()
        setattr(self, name, value)

    return type(kind.__name__, (kind,), {"__slots__": (), "__getattr__": get, "__setattr__": put})
