"""The journal of one thread: which turn changed what, and what was undone. Append-only, one JSON object a line.

A window is open while a command that may write runs: what changes meanwhile is the turn's. Its beginning is written
before the command starts, with the state of every covered folder, so that a turn which was killed can be undone too.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from typing import Any

import msgspec

from spindle.features.checkpoints.images import Change, Image, absolute
from spindle.features.checkpoints.store import folder_of
from spindle.protocol.items import decode_own, encode_json
from spindle.thread.private_files import append_line, make_private_folders, open_private, open_regular, wait_for_lock


class TurnKey(msgspec.Struct, frozen=True):
    """A turn of a thread: ids may be used twice, numbers are not."""

    number: int
    """How many turns the record has up to this one."""
    id: str


class Step(msgspec.Struct):
    """A part of a turn: one window, or the files of one patch."""

    turn: TurnKey
    at: float
    changes: list[Change] = []
    before: list[tuple[str, Image]] = []
    """Of a patch: what it is about to change."""
    roots: list[tuple[str, str]] = []
    """Of a window: each covered folder and the manifest of its state."""
    is_open: bool = True
    """Its end is not written: it goes on, or was killed."""
    is_incomplete: bool = False
    """It was killed; what was found later counts as its end."""


class Undo(msgspec.Struct, frozen=True, kw_only=True):
    """What one undo took back."""

    id: str
    turns: list[int]
    """Those whose files went back."""
    told: list[str]
    """The ids of all turns that it was about."""
    changes: list[Change]
    """From what was there to what it put there."""
    mark: str = ""
    """Where the conversation stood before; empty when that was left alone."""
    after: int
    """How many turns the record had."""
    is_incomplete: bool = False


class State(msgspec.Struct):
    """All that the journal of a thread says."""

    steps: list[Step] = []
    undos: list[Undo] = []
    """Those that were not redone, oldest first."""
    forgotten: dict[int, str] = {}
    """Turns whose files are no longer kept, and why not."""
    gaps: dict[int, list[tuple[str, str]]] = {}
    """By turn, the folders in which changes were not kept, and why not."""
    windows: dict[str, Step] = {}
    """The same steps by their names in the journal."""

    @property
    def undone(self) -> set[int]:
        return {number for undo in self.undos for number in undo.turns}

    def in_effect(self, first: int) -> list[Step]:
        """The parts of the turns from this number on whose changes are still there, oldest first."""
        undone = self.undone
        return [step for step in self.steps if step.turn.number >= first and step.turn.number not in undone]


def journal_path(home: str, thread_id: str) -> str:
    return f"{folder_of(home)}/threads/{thread_id}.jsonl"


def journals(home: str) -> Iterator[tuple[str, str]]:
    """Every journal: its thread, and its file."""
    try:
        names = sorted(os.listdir(f"{folder_of(home)}/threads"))
    except OSError:
        return
    for name in names:
        if name.endswith(".jsonl"):
            yield name.removesuffix(".jsonl"), f"{folder_of(home)}/threads/{name}"


class Journal:
    """Written by whoever has the thread open; others only add that something was forgotten."""

    def __init__(self, home: str, thread_id: str) -> None:
        self.path = journal_path(home, thread_id)
        self._home = home
        self._fd: int | None = None

    def append(self, line: dict[str, Any], *, durable: bool = False) -> None:
        fd = self._open()
        append_line(fd, _encode(line) + b"\n")
        if durable:
            os.fsync(fd)

    def _open(self) -> int:
        if self._fd is None:
            make_private_folders(os.path.dirname(self.path), f"{self._home.rstrip('/')}/spindle")
            self._fd = open_private(self.path, os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW)
        return self._fd

    def read(self) -> State:
        return read_state(self.path)

    def close(self) -> None:
        if self._fd is not None:
            os.close(self._fd)
            self._fd = None


def forget(path: str, turns: Iterable[int], why: str) -> None:
    """Write into a thread's journal that turns can no longer be undone; where none can, nothing else is left in it."""
    state = read_state(path)
    gone = {*turns, *state.forgotten}
    fd = open_private(path, os.O_RDWR | os.O_APPEND | os.O_NOFOLLOW)
    try:
        wait_for_lock(fd)
        if gone.issuperset(step.turn.number for step in state.steps):
            os.ftruncate(fd, 0)
        append_line(fd, _encode({"t": "forgotten", "turns": sorted(gone), "why": why}) + b"\n")
    finally:
        os.close(fd)


def read_state(path: str) -> State:
    """What a journal says; a line that was torn off by a crash says nothing."""
    state = State(steps=[], undos=[], forgotten={}, gaps={}, windows={})
    try:
        with open_regular(path) as file:
            lines = file.read().split(b"\n")
    except OSError:
        return state
    for raw in filter(None, lines):
        try:
            _fold(state, _decode(raw))
        except (ValueError, LookupError, TypeError, AttributeError):
            continue
    return state


def _encode(line: dict[str, Any]) -> bytes:
    try:
        return encode_json(line)
    except UnicodeEncodeError:
        import json  # the name of a file may hold bytes that are no text; this escapes them

        return json.dumps(line, separators=(",", ":")).encode()


def _decode(raw: bytes) -> Any:
    try:
        return decode_own(raw)
    except msgspec.DecodeError:
        import json  # as above; and it says of what is no line at all that it is none

        return json.loads(raw)


def _fold(state: State, line: dict[str, Any]) -> None:
    match line["t"]:
        case "open" | "files":
            step = Step(turn=TurnKey(int(line["n"]), str(line["turn"])), at=float(line["at"]), changes=[])
            step.roots = [(str(root), str(manifest)) for root, manifest in line.get("roots", ())]
            step.before = [(absolute(path), Image.from_json(image)) for path, image in line.get("before", ())]
            state.windows[str(line["w"])] = step
            state.steps.append(step)
        case "close":
            step = state.windows[str(line["w"])]
            step.changes = [Change.from_json(change) for change in line.get("changes", ())]
            step.is_open = False
            step.is_incomplete = bool(line.get("incomplete"))
        case "undo":
            state.undos.append(
                Undo(
                    id=str(line["id"]),
                    turns=[int(number) for number in line["turns"]],
                    told=[str(turn) for turn in line["told"]],
                    changes=[Change.from_json(change) for change in line["changes"]],
                    mark=str(line.get("mark", "")),
                    after=int(line["after"]),
                    is_incomplete=bool(line.get("incomplete")),
                )
            )
        case "redo":
            state.undos = [undo for undo in state.undos if undo.id != line["id"]]
        case "forgotten":
            state.forgotten |= {int(number): str(line["why"]) for number in line["turns"]}
        case "gap":
            state.gaps.setdefault(int(line["n"]), []).append((str(line["root"]), str(line["why"])))
        case _:
            pass


def undo_line(undo: Undo) -> dict[str, Any]:
    return {
        "t": "undo",
        "id": undo.id,
        "turns": undo.turns,
        "told": undo.told,
        "changes": [change.to_json() for change in undo.changes],
        "mark": undo.mark,
        "after": undo.after,
        "incomplete": undo.is_incomplete,
    }
