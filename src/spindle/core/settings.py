"""How far a turn may go, and how an op changes the settings of a thread. Values are checked here, on the way in."""

from __future__ import annotations

import os
from collections.abc import Callable, Collection
from typing import Any

import msgspec

from spindle.errors import ConfigError, SpindleError
from spindle.protocol.ops import OverrideTurnContext, UserTurn
from spindle.protocol.settings import (
    PERSONALITIES,
    SUMMARIES,
    Allowed,
    CollaborationMode,
    SandboxPolicy,
    ThreadSettings,
    read_approval,
)


class Limits(msgspec.Struct, frozen=True, kw_only=True):
    """How far a turn may go."""

    allowed: Allowed = Allowed()
    """The administrator's limits."""
    is_attended: bool = True
    """Somebody can answer questions of permission."""
    max_requests: int = 0
    """Stop a turn after this many; 0 = no limit."""
    turn_s: float = 0.0
    """Longest time of a turn; 0 = no limit."""
    cap: Callable[[ThreadSettings], ThreadSettings] = lambda settings: settings
    """Settings within what is allowed at this moment; a sub-agent's parent has a say in it."""
    legacy_interrupt_error: bool = False
    """A turn that is interrupted ends with an error beside its terminal event, as older clients want it."""


def apply_op(
    settings: ThreadSettings,
    op: UserTurn | OverrideTurnContext,
    allowed: Allowed,
    providers: Collection[str] = (),
) -> ThreadSettings:
    """The settings with what the op names replaced. Raises SpindleError for a value that cannot or must not be.

    `providers` are the ids of those that the thread can go to.
    Every front end's ops come by here, so the administrator's limits are applied here and nowhere else.
    """
    changes: dict[str, Any] = {}
    if op.cwd is not None:
        changes["cwd"] = _folder(op.cwd)
    if op.approval_policy is not None:
        changes["approval_policy"], changes["granular"] = read_approval(op.approval_policy)
    if op.sandbox_policy is not None:
        changes["sandbox"] = _sandbox(op.sandbox_policy, settings.sandbox)
    if op.model is not None:
        changes["model"] = op.model
    if op.model_provider not in (None, settings.model_provider):
        if not providers:
            raise SpindleError("the program that opened this thread brought its model along; it has no other provider")
        changes["model_provider"] = one_of("model provider", op.model_provider or "", tuple(providers))
    if op.effort is not msgspec.UNSET:
        changes["effort"] = op.effort
    if op.summary is not None:
        changes["summary"] = one_of("reasoning summary", op.summary, SUMMARIES)
    if op.service_tier is not None:
        changes["service_tier"] = None if op.service_tier == "default" else op.service_tier
    if op.personality is not None:
        changes["personality"] = one_of("personality", op.personality, PERSONALITIES)
    if op.collaboration_mode is not None:
        changes["collaboration_mode"] = CollaborationMode.from_wire(op.collaboration_mode)
        changes |= _of_mode(op.collaboration_mode)
    if not changes:
        return settings
    changed = msgspec.structs.replace(settings, **changes)
    if not changes.keys().isdisjoint(("approval_policy", "sandbox", "cwd")):
        allowed.check(changed.approval_policy, changed.sandbox, changed.cwd)
    return changed


def _of_mode(mode: Any) -> dict[str, str]:
    """The model and the effort that a mode brings along; they win over those of the op itself."""
    settings = mode.get("settings") if isinstance(mode, dict) else None
    given = settings if isinstance(settings, dict) else {}
    named = {"model": given.get("model"), "effort": given.get("reasoning_effort")}
    return {name: value for name, value in named.items() if isinstance(value, str) and value}


def one_of(what: str, value: str, allowed: tuple[str, ...]) -> str:
    if value not in allowed:
        raise SpindleError(f"unknown {what} {value!r}; use one of {', '.join(allowed)}")
    return value


def _folder(path: str) -> str:
    if not os.path.isabs(path):
        raise SpindleError(f"cwd must be an absolute path, not {path!r}")
    try:
        real = os.path.realpath(path)
        if os.path.isdir(real):
            return real
    except ValueError:  # no path at all: a NUL, or text that no file name can hold
        pass
    raise SpindleError(f"cwd {path!r} is not a folder")


def _sandbox(value: Any, current: SandboxPolicy) -> SandboxPolicy:
    """A bare mode name keeps the other values of the current policy, and takes the place of a permission profile."""
    if isinstance(value, str):
        return msgspec.structs.replace(current, mode=SandboxPolicy.from_wire(value).mode, permissions=None)
    try:
        return SandboxPolicy.from_wire(value)
    except ConfigError as error:
        raise SpindleError(str(error)) from error
