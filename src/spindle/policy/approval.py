"""May it run? The decision for a command and for a patch, as a value; asking a person is the session's business."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from spindle.policy.commands import is_dangerous, is_known_safe
from spindle.policy.sandbox import Boundary
from spindle.protocol.quote import shell_join
from spindle.protocol.settings import ApprovalPolicy, SandboxPolicy

USER_REJECTED_COMMAND = "exec command rejected by user"
USER_REJECTED_PATCH = "patch rejected by user"

_POLICY_NAMES: dict[ApprovalPolicy, str] = {
    "never": "Never",
    "on-failure": "OnFailure",
    "on-request": "OnRequest",
    "untrusted": "UnlessTrusted",
}


_SIGSYS = 31
_DENIALS = (
    "operation not permitted",
    "permission denied",
    "read-only file system",
    "seccomp",
    "sandbox",
    "landlock",
    "failed to write file",
)


class Allow(msgspec.Struct, frozen=True, kw_only=True):
    """Go ahead without asking."""

    sandboxed: bool


class Ask(msgspec.Struct, frozen=True, kw_only=True):
    """A person must say yes first. `sandboxed_if_approved` is how it then runs."""

    reason: str | None = None
    sandboxed_if_approved: bool = True


class Refuse(msgspec.Struct, frozen=True, kw_only=True):
    """No. The message is for the model."""

    message: str


Decision = Allow | Ask | Refuse


def decide_command(
    argv: Sequence[str], *, policy: ApprovalPolicy, sandbox: SandboxPolicy, escalated: bool, sandbox_available: bool
) -> Decision:
    """The table of approval policies. `escalated`: the model asks to leave the sandbox."""
    confined = not sandbox.is_full_access
    if escalated and confined:
        if policy != "on-request":
            return Refuse(message=_cannot_escalate(policy))
        return Ask(sandboxed_if_approved=False)
    # Without a sandbox an approved command runs bare; the person is told so.
    can_confine = confined and sandbox_available
    if is_known_safe(argv) and (can_confine or not confined):
        return Allow(sandboxed=confined)
    if confined and not sandbox_available:
        if policy == "never":
            # Let it fail where the launcher is missed: that text names the missing part and the remedy.
            return Allow(sandboxed=True)
        return Ask(reason="no sandbox is available here: the command would run unconfined", sandboxed_if_approved=False)
    if is_dangerous(argv):
        if policy == "never":
            return Refuse(message=f"`{shell_join(argv)}` rejected: blocked by policy")
        return Ask(reason="the command may destroy files or work", sandboxed_if_approved=confined)
    if policy == "untrusted":
        return Ask(sandboxed_if_approved=confined)
    return Allow(sandboxed=confined)


def decide_patch(paths: Sequence[str], *, policy: ApprovalPolicy, boundary: Boundary) -> Decision:
    """`paths` are all files a patch touches, move targets included; absolute."""
    if not paths:
        return Refuse(message="patch rejected: empty patch")
    if policy == "untrusted":
        return Ask(sandboxed_if_approved=not boundary.is_full_access)
    if all(boundary.may_write(path) for path in paths):
        return Allow(sandboxed=not boundary.is_full_access)
    if policy == "on-failure":
        return Allow(sandboxed=True)
    if policy == "on-request":
        return Ask(reason="the patch writes outside of the writable folders", sandboxed_if_approved=False)
    if boundary.policy.mode == "read-only":
        what = "writing is blocked by read-only sandbox"
    else:
        what = "writing outside of the project"
    return Refuse(message=f"patch rejected: {what}; rejected by user approval settings")


def _cannot_escalate(policy: ApprovalPolicy) -> str:
    return (
        f"approval policy is {_POLICY_NAMES[policy]}; reject command — leaving the sandbox cannot be asked for under "
        "this policy, so do not set `sandbox_permissions`; find a way that works inside the sandbox"
    )


def looks_denied(exit_code: int, output: str) -> bool:
    """Did a sandboxed command fail because of the sandbox? Judged by its words, as a person would."""
    if exit_code == 0:
        return False
    text = output.lower()
    return exit_code == 128 + _SIGSYS or any(words in text for words in _DENIALS)
