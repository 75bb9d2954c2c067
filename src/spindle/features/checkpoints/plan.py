"""What an undo has to do, path by path. Pure but for the images of now, which the caller gives.

Over several turns the *target* of a path is its image before the first of them that changed it, and *expected* is the
one after the last. What is there now must be the one or the other; anything else is somebody's work and is left alone.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

import msgspec

from spindle.features.checkpoints.images import EXECUTABLE, Image, is_unchanged, net_of
from spindle.features.checkpoints.journal import Step
from spindle.protocol.undo import Conflict, Restored, Skipped

BETWEEN = "it was changed by somebody else between the turns"
SINCE = "it was changed since"
GONE = "it was deleted or moved since"
APPEARED = "something else stands there now"
PROTECTED = "the sandbox protects it"
IN_THE_WAY = "something that somebody else made stands in the place of its folder"
NOT_EMPTY = "a folder stands in its place, with files that the turn did not make"


class Action(msgspec.Struct):
    """One path that goes from what is expected there to its target."""

    path: str
    expected: Image
    target: Image
    temporary: str = ""
    """Where its new content waits."""
    backup: str = ""
    """Where the present content goes until everything is done."""

    @property
    def is_mode_only(self) -> bool:
        return self.expected.kind == self.target.kind == "file" and self.expected.digest == self.target.digest

    def told(self) -> Restored | None:
        """How the report names it; folders are not named."""
        match self.target.kind:
            case "file":
                return Restored(path=self.path, action="mode" if self.is_mode_only else "written")
            case "link":
                return Restored(path=self.path, action="linked")
            case _ if self.expected.kind in ("file", "link"):
                return Restored(path=self.path, action="deleted")
            case _:
                return None


class Plan(msgspec.Struct):
    """All that an undo would do."""

    actions: list[Action] = []
    conflicts: list[Conflict] = []
    older: dict[str, Image] = {}
    """Of the paths in conflict, what an undo would have put there."""
    skipped: list[Skipped] = []

    @property
    def restored(self) -> list[Restored]:
        return [told for action in self.actions if (told := action.told()) is not None]


class _Net(msgspec.Struct):
    target: Image
    expected: Image
    is_broken: bool = False
    """Somebody else changed it between two of the steps."""


def make_plan(
    steps: Iterable[Step], image_now: Callable[[str, Image, Image], Image], is_protected: Callable[[str], bool]
) -> Plan:
    """How to get from what is there now to what was there before the first of the steps.

    `image_now` is given a path and the images that it is compared with.
    """
    nets: dict[str, _Net] = {}
    for step in steps:
        for change in net_of(step.changes):
            net = nets.get(change.path)
            if net is None:
                nets[change.path] = _Net(change.before, change.after)
                continue
            net.is_broken |= not _follows(net.expected, change.before)
            net.expected = change.after
    plan = Plan(actions=[], conflicts=[], older={}, skipped=[])
    for path in sorted(nets):
        net = nets[path]
        _decide(plan, path, net, image_now(path, net.target, net.expected), is_protected)
    return plan


def _follows(after: Image, before: Image) -> bool:
    """Two images of one path with nothing in between; of what is not kept, nobody can tell."""
    if not after.is_kept or not before.is_kept:
        return after.kind == before.kind
    return after.is_same(before)


def _decide(plan: Plan, path: str, net: _Net, now: Image, is_protected: Callable[[str], bool]) -> None:
    target, expected = net.target, net.expected
    if now.is_same(target) or (is_unchanged(target, expected) and not net.is_broken):
        return
    if {target.kind, expected.kind} == {"folder", "absent"} and target.kind == "absent":
        if now.kind == "folder":
            plan.actions.append(Action(path, now, target))
        return
    if is_protected(path):
        plan.skipped.append(Skipped(path=path, reason=PROTECTED))
    elif not target.is_kept or not expected.is_kept:
        plan.skipped.append(Skipped(path=path, reason=target.why or expected.why or "its content was not kept"))
    elif net.is_broken or not now.is_same(expected):
        plan.conflicts.append(Conflict(path=path, reason=BETWEEN if net.is_broken else _why(now, expected)))
        plan.older[path] = target
    else:
        plan.actions.append(Action(path, expected, target))


def _why(now: Image, expected: Image) -> str:
    if now.kind == "absent":
        return GONE
    if expected.kind == "absent":
        return APPEARED
    if now.kind == expected.kind == "file" and now.digest == expected.digest and now.mode & EXECUTABLE != 0:
        return "it was made executable since"
    return SINCE


def add_conflict(plan: Plan, action: Action, reason: str) -> None:
    """An action cannot be done after all."""
    plan.actions.remove(action)
    plan.conflicts.append(Conflict(path=action.path, reason=reason))
    plan.older[action.path] = action.target
