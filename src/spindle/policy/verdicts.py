"""What is decided: about a call (allow, ask, refuse), and about one part of a command line."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Literal

import msgspec

from spindle.policy.rules import RuleMatch
from spindle.protocol.quote import shell_join


class Allow(msgspec.Struct, frozen=True, kw_only=True):
    """Go ahead without asking."""

    sandboxed: bool


Kind = Literal["sandbox_approval", "rules", "request_permissions"]
"""A kind of question that settings can refuse without asking; the names are those of `Granular`."""


class Ask(msgspec.Struct, frozen=True, kw_only=True):
    """A person must say yes first. `sandboxed_if_approved` is how it then runs."""

    kinds: tuple[Kind, ...] = ("sandbox_approval",)
    """Each of these must be one that may be asked."""

    reason: str | None = None
    sandboxed_if_approved: bool = True
    prefix: tuple[str, ...] | None = None
    """The beginning of the command that may be allowed for good; None when none is fit to be offered."""


class Refuse(msgspec.Struct, frozen=True, kw_only=True):
    """No. The message is for the model."""

    message: str


Decision = Allow | Ask | Refuse


class Verdict(msgspec.Struct, frozen=True, kw_only=True):
    """About one part of a command line."""

    part: Sequence[str]
    patterns: Collection[int] = ()
    """Places of words that a shell replaces by file names."""
    decision: Literal["allow", "prompt", "forbidden"]
    rule: RuleMatch | None = None
    """The rule that says so; None when none does and the part is judged by what it is."""
    reason: str | None = None
    is_ruled_in_vain: bool = False
    """A rule allows it, which does not let it out here; another one would not either."""

    @classmethod
    def of_rule(cls, part: Sequence[str], rule: RuleMatch) -> Verdict:
        reason = None
        if rule.decision == "prompt":
            reason = rule.justification or f"a rule asks before commands that begin with {shell_join(rule.prefix)}"
        return cls(part=part, decision=rule.decision, rule=rule, reason=reason)
