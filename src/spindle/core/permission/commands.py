"""Permission to run a command, and to run it again outside a sandbox that stopped it.

A question shows what would be run and what each answer would grant.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from spindle.core.permission.approvals import AMENDMENT, Answer, Approvals, CallSite
from spindle.core.permission.matter import Matter
from spindle.policy.approval import (
    USER_REJECTED_COMMAND,
    Allow,
    Ask,
    Circumstances,
    Decision,
    Refuse,
    decide_command,
    is_planted,
    prefix_for_retry,
    program_at,
)
from spindle.policy.commands import parse_command, split_command
from spindle.policy.grants import Expiry, Grant, command_grant, prefix_grant
from spindle.policy.place import Place
from spindle.policy.prefixes import means_anything
from spindle.policy.reach import Reach
from spindle.policy.sandbox import Boundary, absolute
from spindle.protocol.events import ExecApprovalRequest, GrantAdded, Msg, Warning
from spindle.protocol.quote import shell_join, visible
from spindle.tools.tool import Permit

RETRY_POLICIES = ("on-failure", "untrusted")
"""Where a command or a patch that the sandbox stopped is put to a person."""
RETRY_REASON = "it failed, and the sandbox seems to be the cause; run it again without the sandbox?"

_REASON_CHARS = 1000
_MOST_NAMED = 5


class Escalation(msgspec.Struct, frozen=True, kw_only=True):
    """What the model says about running a command outside of the sandbox."""

    is_wanted: bool = False
    justification: str | None = None
    prefix_rule: tuple[str, ...] = ()
    """The beginning of the command that it would like to see allowed for good."""


class Command(Matter):
    """One command in one folder, with the rights that policy would give it."""

    kind = "exec"
    refusal = USER_REJECTED_COMMAND

    def __init__(
        self, approvals: Approvals, site: CallSite, argv: list[str], cwd: str, *, is_typed_into: bool = False
    ) -> None:
        super().__init__(approvals, site)
        self._argv = argv
        self._is_typed_into = is_typed_into
        """It gets a terminal, and the model is at the keys."""
        self._cwd = os.path.realpath(cwd)  # a grant is for the folder, not for a link that can be turned
        self._cwds = (cwd, self._cwd)

    def key(self, ask: Ask) -> object:
        return "exec", tuple(self._argv), self._cwd, ask.sandboxed_if_approved

    def grants(self, ask: Ask, expires: Expiry) -> list[Grant]:
        return [command_grant(self._argv, self._cwd, sandboxed=ask.sandboxed_if_approved, expires=expires)]

    def offers(self, ask: Ask) -> list[dict[str, Any]]:
        offers = super().offers(ask)
        if ask.prefix is not None:
            amendment = {AMENDMENT: {"proposed_execpolicy_amendment": list(ask.prefix)}}
            offers.insert(2, {"decision": amendment, "grants": [prefix_grant(ask.prefix).to_wire()]})
        return offers

    def request(self, ask: Ask, offers: list[dict[str, Any]]) -> Msg:
        return ExecApprovalRequest(
            call_id=self.site.call_id,
            turn_id=self.site.turn_id,
            command=self._argv,
            cwd=self._cwd,
            reason=self.reason(ask),
            justification=self.justification(),
            proposed_execpolicy_amendment=list(ask.prefix) if ask.prefix else None,
            parsed_cmd=parse_command(self._argv),
            available_decisions=[offer["decision"] for offer in offers],
            display=visible(shell_join(self._argv)),
            if_approved=self.consequence(ask) + self._doubts(ask),
            offers=offers,
        )

    def consequence(self, ask: Ask) -> str:
        """What a yes lets it reach."""
        return _consequence(ask.sandboxed_if_approved, self.site.boundary)

    def justification(self) -> str | None:
        """What the model says for it."""
        return None

    def title(self, ask: Ask) -> str:
        return visible(shell_join(self._argv)) + ("" if ask.sandboxed_if_approved else " (without the sandbox)")

    def settle(self, ask: Ask, answer: Answer) -> None:
        super().settle(ask, answer)
        if answer.word == AMENDMENT:
            self._amend(answer.prefix or ask.prefix, is_offered=answer.prefix in (None, ask.prefix))

    def permit(self, ask: Ask, answer: Answer | None = None) -> Permit:
        sandboxed = ask.sandboxed_if_approved
        if answer is not None and answer.word == AMENDMENT and isinstance(ruled := self.decide(), Allow):
            sandboxed = ruled.sandboxed
        return Permit(sandboxed=sandboxed, asked=True, cwd=self._cwd)

    def _amend(self, prefix: tuple[str, ...] | None, *, is_offered: bool) -> None:
        """Allow a prefix for good. A person may name another one than was offered, but none that means "anything"."""
        emit = self.site.emit
        if prefix is None or self._saveable(prefix) is None:
            emit(Warning(message="no rule was offered for this command; it is approved this once"))
        elif not is_offered and means_anything(prefix):
            shown = visible(shell_join(prefix))
            emit(Warning(message=f"a rule for `{shown}` would allow anything; the command is approved this once"))
        else:
            self.approvals.rules.allow(prefix)
            self.approvals.tell_about_rules(emit)
            emit(GrantAdded(grant=prefix_grant(prefix).to_wire()))

    def _saveable(self, prefix: tuple[str, ...] | None) -> tuple[str, ...] | None:
        """The prefix if it can become a rule: rules are on, and no secret would lie in their file."""
        if prefix is None or not self.approvals.rules.is_on:
            return None
        line = shell_join(prefix)
        return prefix if self.approvals.mask(line) == line else None

    def _is_planted(self, word: str) -> bool:
        path = self.approvals.environment.get("PATH", os.defpath)
        return is_planted(word, cwd=self._cwd, path=path, boundary=self.site.boundary)

    def _git_in_reach(self, parts: Sequence[Sequence[str]], given: int) -> list[str]:
        from spindle.policy.git_reach import git_in_reach  # only for what is to run outside

        env = self.approvals.environment
        return git_in_reach(parts, self._cwds, env, Reach(self.site.boundary, env=env), given=given)

    def _git_runs(self) -> list[str]:
        """What git would run if this ran outside: all that the agent could have named, and all that the repository
        names."""
        from spindle.policy.git_reach import git_in_reach, programs_shown  # only for questions about running outside

        parts = split_command(self._argv) or [self._argv]
        env = self.approvals.environment
        reach = Reach(self.site.boundary, env=env)
        named = [one for at in range(len(parts)) for one in git_in_reach(parts[: at + 1], self._cwds, env, reach)]
        return list(dict.fromkeys([*named, *programs_shown(parts, self._cwds, env)]))

    def _is_program(self, word: str) -> bool:
        return program_at(word, cwd=self._cwd, path=self.approvals.environment.get("PATH", os.defpath)) is not None

    def _doubts(self, ask: Ask) -> str:
        """Which programs of a command that would get out are not what their names promise."""
        if ask.sandboxed_if_approved:
            return ""
        keys = "; the model will type into its terminal, and you are asked about each input" * self._is_typed_into
        parts = split_command(self._argv) or [self._argv]
        names = dict.fromkeys(part[0] for part in parts if "/" not in part[0])
        planted = [visible(name) for name in names if self._is_planted(name)]
        doubts = keys + (f"; found where the agent can write: {', '.join(planted)}" if planted else "")
        named = [_short(one) for one in self._git_runs()]
        more = f" and {len(named) - _MOST_NAMED} more" if len(named) > _MOST_NAMED else ""
        return f"{doubts}; git may run {', '.join(named[:_MOST_NAMED])}{more}" if named else doubts

    def may_be_remembered(self, ask: Ask) -> bool:
        """Outside, the same words run something else once the agent has changed what git obeys."""
        if ask.sandboxed_if_approved:
            return True
        parts = split_command(self._argv) or [self._argv]
        return not any(self._git_in_reach(parts[: at + 1], 0) for at in range(len(parts)))


class CommandRun(Command):
    """The command that a call is to run."""

    def __init__(
        self,
        approvals: Approvals,
        site: CallSite,
        argv: list[str],
        cwd: str,
        escalation: Escalation,
        has_sandbox: bool,
        *,
        is_typed_into: bool = False,
    ) -> None:
        super().__init__(approvals, site, argv, cwd, is_typed_into=is_typed_into)
        self._escalation = escalation
        self._has_sandbox = has_sandbox
        # Most commands start in the turn's own folder, which was resolved a line above.
        self._workspace = self._cwd if cwd == site.boundary.cwd else os.path.realpath(site.boundary.cwd)

    def _circumstances(self) -> Circumstances:
        """Made for each decision: kept, they and this object would hold on to each other."""
        site, environment = self.site, self.approvals.environment
        return Circumstances(
            policy=site.settings.approval_policy,
            sandbox=site.boundary.policy,
            sandbox_available=self._has_sandbox,
            is_planted=self._is_planted,
            git_runs_programs=lambda parts: _git_may_run_programs(parts, self._cwds, environment),
            git_in_reach=self._git_in_reach,
            is_elsewhere=self._cwd != self._workspace,
            place=Place(
                cwd=self._cwd,
                workspace=(self._workspace, *site.boundary.policy.writable_roots),
                home=os.path.expanduser("~"),
                variables=self.approvals.environment,
            ),
            is_program=self._is_program,
            is_path=lambda word: os.path.lexists(absolute(word, self._cwd)),
        )

    def decide(self) -> Decision:
        rules = self.approvals.rules
        decision = decide_command(
            self._argv,
            self._circumstances(),
            rules=rules.rules if rules.is_on else None,
            escalated=self._escalation.is_wanted,
            prefix_rule=self._escalation.prefix_rule,
        )
        if isinstance(decision, Ask):
            prefix = self._saveable(decision.prefix) if self.may_be_remembered(decision) else None
            return msgspec.structs.replace(decision, prefix=prefix)
        return decision

    def justification(self) -> str | None:
        said = (self._escalation.justification or "").strip()
        return _short(said) if said else None

    def reason(self, ask: Ask) -> str | None:
        """What the model says comes after what we know, and never instead of it."""
        fact, said = ask.reason, self.justification()
        if fact is None or said is None:
            return _short(fact) if fact else said
        return f"{_short(fact)}; the model says: {said}"


class CommandRetry(Command):
    """The sandbox seems to have stopped the command: may it run again without?"""

    def decide(self) -> Decision:
        if self.site.settings.approval_policy not in RETRY_POLICIES:
            return Refuse(message=self.refusal)
        prefix = self._saveable(prefix_for_retry(self._argv, self._is_planted, self._is_program))
        ask = Ask(reason=RETRY_REASON, sandboxed_if_approved=False, prefix=prefix)
        return ask if self.may_be_remembered(ask) else msgspec.structs.replace(ask, prefix=None)


def _git_may_run_programs(parts: Sequence[Sequence[str]], cwds: Sequence[str], env: Mapping[str, str]) -> bool:
    from spindle.policy.git_drivers import programs_named  # only where git is not asked about

    return bool(programs_named(parts, cwds, env))


def _short(text: str) -> str:
    """Fit to be read: what is longer would only push the question itself out of sight."""
    shown = visible(text[: _REASON_CHARS + 1])
    return shown if len(shown) <= _REASON_CHARS else f"{shown[:_REASON_CHARS]}… ({len(text)} characters)"


def _consequence(sandboxed: bool, boundary: Boundary) -> str:
    """What a yes lets the command reach."""
    if not sandboxed:
        but = "" if boundary.let_out() is None else "; what your permission profile denies stays closed"
        return f"it runs without the sandbox: it can write wherever you can and use the network{but}"
    network = "it can use the network" if boundary.has_network else "no network"
    if not boundary.roots:
        return f"it runs in the sandbox: it can write nothing, {network}"
    return f"it runs in the sandbox: it can write below {', '.join(map(visible, boundary.roots))} only, {network}"
