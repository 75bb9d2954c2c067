"""What a recorded thread brings along when it is opened again.

A record that this home sealed (`thread/seal`) says what the person chose for the thread, and goes on with that. Any
other file, whoever wrote it, may take rights away and can give none: it is cut to what is configured now.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

import msgspec

from spindle.config.schema import Config
from spindle.errors import ConfigError
from spindle.policy.narrow import narrowed_sandbox
from spindle.policy.sandbox import MORE_PROTECTED, PROTECTED_NAMES, is_below, protected_paths
from spindle.protocol.clock import Clock
from spindle.protocol.quote import visible
from spindle.protocol.settings import STRICT_TO_LOOSE, ApprovalPolicy, Granular, SandboxPolicy, read_approval
from spindle.thread.history import History
from spindle.thread.seal import Sealer

if TYPE_CHECKING:
    from spindle.thread.reading import RolloutData

_Approval = tuple[ApprovalPolicy, Granular | None]


class RecordedTurn(msgspec.Struct, frozen=True, kw_only=True):
    """The settings of a thread's last turn, and whether this home wrote them."""

    thread_id: str
    meta: dict[str, Any]
    context: dict[str, Any]
    is_ours: bool

    @classmethod
    def of(cls, data: RolloutData, home: str, clock: Clock) -> RecordedTurn:
        context = History.replay(data).last_turn_context
        is_ours = Sealer(home, clock).holds(data.meta, context)
        return cls(thread_id=data.thread_id, meta=data.meta, context=context or {}, is_ours=is_ours)

    @property
    def provider(self) -> str | None:
        """The provider of that turn, or else the one the thread began with."""
        marks = self.context.get("spindle")
        found = (marks.get("model_provider") if isinstance(marks, dict) else None) or self.meta.get("model_provider")
        return found if isinstance(found, str) else None

    @property
    def _cwd(self) -> str | None:
        cwd = self.context.get("cwd") or self.meta.get("cwd")
        return cwd if isinstance(cwd, str) and "\0" not in cwd and os.path.isdir(cwd) else None

    def folder(self, present: str, protected: tuple[str, ...] = MORE_PROTECTED) -> str | None:
        """The folder to go on in; None for the present one. A foreign file leads at most further in, and into nothing
        that stays read-only: the folder that one works in can be written."""
        cwd = self._cwd
        if cwd is None or self.is_ours:
            return cwd
        return cwd if _is_further_in(os.path.realpath(cwd), os.path.realpath(present), protected) else None

    def permissions(self, config: Config, *, approval: bool, sandbox: bool, cwd: bool) -> dict[str, Any]:
        """What the record changes of the configuration; the flags say what the caller left to it."""
        changes: dict[str, Any] = {}
        left: list[str] = []
        if approval and (recorded := self._approval(config)) is not None:
            kept = recorded if self.is_ours else _stricter(recorded, (config.approval_policy, config.granular))
            changes["approval_policy"], changes["granular"] = kept
            if kept != recorded:
                left.append(f"approval policy {recorded[0]}")
        if sandbox and (wanted := self._sandbox(config)) is not None:
            kept = wanted if self.is_ours else narrowed_sandbox(wanted, config.cwd, config.sandbox, config.cwd)
            changes["sandbox"] = kept
            if kept != wanted:
                left.append(f"sandbox {wanted.mode}")
        if cwd and (place := self._cwd) is not None and os.path.realpath(place) != os.path.realpath(config.cwd):
            left.append(f"folder {visible(place)}")
        if left:
            changes["warnings"] = [*config.warnings, _not_taken(self.thread_id, left)]
        return changes

    def _approval(self, config: Config) -> _Approval | None:
        allowed = config.allowed_approval_policies
        try:
            policy, granular = read_approval(self.context.get("approval_policy"))
        except ConfigError:
            return None
        return None if allowed is not None and policy not in allowed else (policy, granular)

    def _sandbox(self, config: Config) -> SandboxPolicy | None:
        if config.sandbox.permissions is not None:
            return None  # what the user denies now is denied, whatever held when the thread was recorded
        try:
            policy = SandboxPolicy.from_wire(self.context.get("sandbox_policy"))
        except ConfigError:
            return None
        allowed = config.allowed_sandbox_modes
        return None if allowed is not None and policy.mode not in allowed else policy


def _is_further_in(real: str, present: str, protected: tuple[str, ...]) -> bool:
    if not is_below(real, present):
        return False
    # By name at any depth: seen from inside, nobody would know that `sub/.git` was to be left alone.
    names = {name.casefold() for name in (*PROTECTED_NAMES, *protected)}
    if not names.isdisjoint(real[len(present) :].casefold().split("/")):
        return False
    return not any(is_below(real, os.path.realpath(kept)) for kept in protected_paths(present, protected))


def _stricter(recorded: _Approval, present: _Approval) -> _Approval:
    (one, granular), (other, limit) = recorded, present
    policy = one if STRICT_TO_LOOSE.index(one) <= STRICT_TO_LOOSE.index(other) else other
    return policy, limit.within(granular) if limit is not None else granular


def _not_taken(thread_id: str, left: list[str]) -> str:
    return (
        f"the file of thread {visible(thread_id)} was not written by Spindle with this home, or was changed, so it "
        f"gives no rights; not taken from it: {', '.join(left)}. Name what you want when you open the thread."
    )
