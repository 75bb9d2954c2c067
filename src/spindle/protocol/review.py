"""What a review is about, and what a session tells of one. Loaded with the first review."""

from __future__ import annotations

from typing import Any

import msgspec

from spindle.errors import SpindleError
from spindle.protocol.events import Msg
from spindle.protocol.outside import Outside

_SHORT_SHA = 7


class Uncommitted(msgspec.Struct, frozen=True, kw_only=True, tag_field="type", tag="uncommittedChanges"):
    """Everything in the working tree that is not committed."""


class BaseBranch(msgspec.Struct, frozen=True, kw_only=True, tag_field="type", tag="baseBranch"):
    """What would be merged into a branch."""

    branch: str


class Commit(msgspec.Struct, frozen=True, kw_only=True, tag_field="type", tag="commit"):
    """What one commit changed."""

    sha: str
    title: str | None = None


class Custom(msgspec.Struct, frozen=True, kw_only=True, tag_field="type", tag="custom"):
    """Whatever the person says."""

    instructions: str


Target = Uncommitted | BaseBranch | Commit | Custom


def read_target(given: Any) -> Target:
    """The target that a client names, with its texts trimmed. Raises SpindleError."""
    try:
        target: Target = msgspec.convert(given, Target)
    except msgspec.ValidationError as error:
        raise SpindleError(
            f"the target of a review cannot be read: {error}; it is one of uncommittedChanges, baseBranch (branch), "
            "commit (sha, title) and custom (instructions)"
        ) from error
    match target:
        case Uncommitted():
            return target
        case BaseBranch(branch=branch):
            return BaseBranch(branch=_filled(branch, "branch"))
        case Commit(sha=sha, title=title):
            return Commit(sha=_filled(sha, "sha"), title=(title or "").strip() or None)
        case Custom(instructions=text):
            return Custom(instructions=_filled(text, "instructions"))


def _filled(text: str, name: str) -> str:
    text = text.strip()
    if not text:
        raise SpindleError(f"{name} must not be empty")
    return text


def hint_of(target: Target) -> str:
    """The target in a few words, for people."""
    match target:
        case Uncommitted():
            return "current changes"
        case BaseBranch(branch=branch):
            return f"changes against '{branch}'"
        case Commit(sha=sha, title=title):
            return f"commit {sha[:_SHORT_SHA]}" + (f": {title}" if title else "")
        case Custom(instructions=text):
            return text


class EnteredReviewMode(Msg, frozen=True, kw_only=True, tag="entered_review_mode"):
    """A review began: what follows until `exited_review_mode` is done by the reviewer."""

    outside = Outside(person=("target", "user_facing_hint"))
    target: dict[str, Any]
    user_facing_hint: str


class ExitedReviewMode(Msg, frozen=True, kw_only=True, tag="exited_review_mode"):
    """The review is over. `review_output` is a `ReviewOutput`; null when the review failed or was stopped."""

    outside = Outside(words=("review_output",))
    review_output: dict[str, Any] | None
