"""Leave to run a command or to write a patch: policy decides, and where it says "ask", a person does.

A question shows what would be run and what each answer would grant. The session's questions and grants themselves are
kept by `approvals`.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import msgspec

from spindle.core.approvals import AMENDMENT, Answer, Question
from spindle.core.asking import Asking, refusals
from spindle.errors import Rejected
from spindle.policy.approval import (
    USER_REJECTED_COMMAND,
    USER_REJECTED_PATCH,
    Allow,
    Ask,
    Decision,
    Refuse,
    decide_command,
    decide_patch,
    is_planted,
    prefix_for_retry,
)
from spindle.policy.commands import parse_command, split_command
from spindle.policy.grants import Grant, command_grant, file_grant, prefix_grant
from spindle.policy.prefixes import means_anything
from spindle.policy.sandbox import Boundary
from spindle.protocol.events import ApplyPatchApprovalRequest, ExecApprovalRequest, GrantAdded, Warning
from spindle.protocol.items import encode_payload
from spindle.protocol.quote import shell_join, visible
from spindle.tools.tool import Permit

if TYPE_CHECKING:
    from spindle.core.tool_leave import ToolLeave

RETRY_POLICIES = ("on-failure", "untrusted")
"""Where a command or a patch that the sandbox stopped is put to a person."""

_REASON_CHARS = 1000
_RETRY_REASON = "it failed, and the sandbox seems to be the cause; run it again without the sandbox?"


class CallApprovals(Asking):
    """`permit_command`, `permit_patch` and the retries of one tool call."""

    # ---- tools of MCP servers --------------------------------------------------------------------

    async def permit_tool(self, *call: Any) -> None:
        await self._of_tools.permit_tool(*call)

    async def elicit(self, *question: Any) -> dict[str, Any]:
        return await self._of_tools.elicit(*question)

    @property
    def _of_tools(self) -> ToolLeave:
        from spindle.core.tool_leave import ToolLeave  # only for those who have MCP servers

        call = (self._sub_id, self._turn_id, self._call_id)
        return ToolLeave(self._all, *call, self._settings, self._boundary, self._emit, self._consult)

    # ---- commands ------------------------------------------------------------------------------

    async def permit_command(
        self,
        argv: list[str],
        *,
        cwd: str,
        escalated: bool = False,
        justification: str | None = None,
        prefix_rule: list[str] | None = None,
    ) -> Permit:
        """Leave to run `argv`, or Rejected."""
        cwd = os.path.realpath(cwd)  # a grant is for the folder, not for a link that can be turned
        available = self._boundary.is_full_access or await self._all.sandbox_problem() is None

        def decide() -> Decision:
            return self._decide(argv, cwd, escalated, prefix_rule or [], available)

        while True:
            match decide():
                case Refuse(message=message):
                    raise Rejected(message)
                case Allow(sandboxed=sandboxed):
                    return Permit(sandboxed=sandboxed)
                case Ask() as ask:
                    sandboxed = ask.sandboxed_if_approved
            if self._all.grants.cover_command(argv, cwd, self._boundary, sandboxed=sandboxed):
                return Permit(sandboxed=sandboxed, asked=True, cwd=cwd)
            question = _CommandQuestion(argv, cwd, sandboxed, _reason(ask.reason, justification), ask.prefix)
            if await self._is_given(question.key, question.reason):
                return Permit(sandboxed=sandboxed, asked=True, cwd=cwd)
            if await self._is_free(question.open(self._sub_id, self._call_id), USER_REJECTED_COMMAND):
                break
        answer = await self._put_command(question)
        if not answer.is_yes:
            raise Rejected(USER_REJECTED_COMMAND, by_user=True)
        if answer.word == AMENDMENT and isinstance(ruled := decide(), Allow):
            sandboxed = ruled.sandboxed
        return Permit(sandboxed=sandboxed, asked=True, cwd=cwd)

    async def permit_retry(self, argv: list[str], *, cwd: str) -> bool:
        """The sandbox seems to have stopped `argv`: may it run again without?"""
        if self._settings.approval_policy not in RETRY_POLICIES:
            return False
        cwd = os.path.realpath(cwd)
        prefix = self._saveable(prefix_for_retry(argv, lambda word: self._is_planted(word, cwd)))
        question = _CommandQuestion(argv, cwd, False, _RETRY_REASON, prefix)
        while not self._all.grants.cover_command(argv, cwd, self._boundary, sandboxed=False):
            try:
                if await self._is_given(question.key, question.reason):
                    return True
                if await self._is_free(question.open(self._sub_id, self._call_id), USER_REJECTED_COMMAND):
                    return (await self._put_command(question)).is_yes
            except Rejected:
                return False
        return True

    def _decide(self, argv: list[str], cwd: str, escalated: bool, prefix_rule: list[str], available: bool) -> Decision:
        rules = self._all.rules.rules if self._all.rules.is_on else None
        decision = decide_command(
            argv,
            policy=self._settings.approval_policy,
            sandbox=self._boundary.policy,
            escalated=escalated,
            sandbox_available=available,
            rules=rules,
            prefix_rule=prefix_rule,
            is_planted=lambda word: self._is_planted(word, cwd),
            git_runs_programs=lambda parts: _git_may_run_programs(parts, cwd),
            is_elsewhere=cwd != os.path.realpath(self._boundary.cwd),
        )
        if isinstance(decision, Ask):
            return msgspec.structs.replace(decision, prefix=self._saveable(decision.prefix))
        return decision

    def _is_planted(self, word: str, cwd: str) -> bool:
        return is_planted(word, cwd=cwd, path=self._all.search_path, boundary=self._boundary)

    def _doubts(self, question: _CommandQuestion) -> str:
        """Which programs of a command that would get out are not what their names promise."""
        if question.sandboxed:
            return ""
        parts = split_command(question.argv) or [question.argv]
        names = dict.fromkeys(part[0] for part in parts if "/" not in part[0])
        planted = [visible(name) for name in names if self._is_planted(name, question.cwd)]
        return f"; found where the agent can write: {', '.join(planted)}" if planted else ""

    def _saveable(self, prefix: tuple[str, ...] | None) -> tuple[str, ...] | None:
        """The prefix if it can become a rule: rules are on, and no secret would lie in their file."""
        if prefix is None or not self._all.rules.is_on:
            return None
        line = shell_join(prefix)
        return prefix if self._all.mask(line) == line else None

    async def _put_command(self, question: _CommandQuestion) -> Answer:
        def put() -> None:
            offers = question.offers()
            self._emit(
                ExecApprovalRequest(
                    call_id=self._call_id,
                    turn_id=self._turn_id,
                    command=question.argv,
                    cwd=question.cwd,
                    reason=question.reason,
                    proposed_execpolicy_amendment=list(question.prefix) if question.prefix else None,
                    parsed_cmd=parse_command(question.argv),
                    available_decisions=[offer["decision"] for offer in offers],
                    display=visible(shell_join(question.argv)),
                    if_approved=_consequence(question.sandboxed, self._boundary) + self._doubts(question),
                    offers=offers,
                )
            )

        def settle(answer: Answer) -> None:
            if answer.word == "approved_for_session":
                self._grant(question.grant("session"))
            elif answer.word == AMENDMENT:
                self._amend(answer.prefix or question.prefix, is_offered=answer.prefix in (None, question.prefix))

        what = visible(shell_join(question.argv)) + ("" if question.sandboxed else " (without the sandbox)")
        return await self._ask(question.open(self._sub_id, self._call_id), what, put, settle)

    def _amend(self, prefix: tuple[str, ...] | None, *, is_offered: bool) -> None:
        """Allow a prefix for good. A person may name another one than was offered, but none that means "anything"."""
        if prefix is None or self._saveable(prefix) is None:
            self._emit(Warning(message="no rule was offered for this command; it is approved this once"))
        elif not is_offered and means_anything(prefix):
            shown = visible(shell_join(prefix))
            self._emit(Warning(message=f"a rule for `{shown}` would allow anything; the command is approved this once"))
        else:
            self._all.rules.allow(prefix)
            self._all.tell_about_rules(self._emit)
            self._emit(GrantAdded(grant=prefix_grant(prefix).to_wire()))

    # ---- patches -------------------------------------------------------------------------------

    async def permit_patch(self, changes: dict[str, Any]) -> Permit:
        """Leave to write `changes`, or Rejected."""
        match decide_patch(_paths(changes), policy=self._settings.approval_policy, boundary=self._boundary):
            case Refuse(message=message):
                raise Rejected(message)
            case Allow(sandboxed=sandboxed):
                return Permit(sandboxed=sandboxed)
            case Ask(reason=reason, sandboxed_if_approved=sandboxed):
                await self._ask_about_patch(changes, reason)
                return Permit(sandboxed=sandboxed, asked=True)

    async def permit_patch_retry(self, changes: dict[str, Any]) -> Permit | None:
        """The sandbox stopped the patch: may it be written all the same? None for no."""
        if self._settings.approval_policy not in RETRY_POLICIES:
            return None
        try:
            await self._ask_about_patch(changes, _RETRY_REASON)
        except Rejected:
            return None
        return Permit(sandboxed=False, asked=True)

    async def _ask_about_patch(self, changes: dict[str, Any], reason: str | None) -> None:
        """Return when a person says yes, or has said so for each of the files; else Rejected."""
        paths = _paths(changes)
        key = ("patch", encode_payload(changes))
        while not self._all.grants.cover_files(paths, self._boundary):
            if await self._is_given(key, reason):
                return
            question = Question("patch", self._sub_id, self._call_id, key)
            if not await self._is_free(question, USER_REJECTED_PATCH):
                continue
            offers = _patch_offers(paths)

            def put(offers: list[dict[str, Any]] = offers) -> None:
                self._emit(
                    ApplyPatchApprovalRequest(
                        call_id=self._call_id,
                        turn_id=self._turn_id,
                        changes=changes,
                        reason=reason,
                        available_decisions=[offer["decision"] for offer in offers],
                        offers=offers,
                    )
                )

            def settle(answer: Answer) -> None:
                if answer.word == "approved_for_session":
                    for path in paths:
                        self._grant(file_grant(path, expires="session"))

            what = f"patch of {', '.join(map(visible, paths))}"
            if not (await self._ask(question, what, put, settle)).is_yes:
                raise Rejected(USER_REJECTED_PATCH, by_user=True)
            return


class _CommandQuestion:
    """What is asked for one call: may this command run, in this folder, with these rights?"""

    def __init__(
        self, argv: list[str], cwd: str, sandboxed: bool, reason: str | None, prefix: tuple[str, ...] | None
    ) -> None:
        self.argv = argv
        self.cwd = cwd
        self.sandboxed = sandboxed
        self.reason = reason
        self.prefix = prefix

    @property
    def key(self) -> object:
        return "exec", tuple(self.argv), self.cwd, self.sandboxed

    def open(self, sub_id: str, call_id: str) -> Question:
        return Question("exec", sub_id, call_id, self.key)

    def grant(self, expires: Any) -> Grant:
        return command_grant(self.argv, self.cwd, sandboxed=self.sandboxed, expires=expires)

    def offers(self) -> list[dict[str, Any]]:
        """Every answer that makes sense here, with what it would grant."""
        offers: list[dict[str, Any]] = [
            {"decision": "approved", "grants": [self.grant("once").to_wire()]},
            {"decision": "approved_for_session", "grants": [self.grant("session").to_wire()]},
        ]
        if self.prefix is not None:
            amendment = {AMENDMENT: {"proposed_execpolicy_amendment": list(self.prefix)}}
            offers.append({"decision": amendment, "grants": [prefix_grant(self.prefix).to_wire()]})
        return [*offers, *refusals()]


def _patch_offers(paths: Sequence[str]) -> list[dict[str, Any]]:
    return [
        {"decision": "approved", "grants": [file_grant(path, expires="once").to_wire() for path in paths]},
        {
            "decision": "approved_for_session",
            "grants": [file_grant(path, expires="session").to_wire() for path in paths],
        },
        *refusals(),
    ]


def _git_may_run_programs(parts: Sequence[Sequence[str]], cwd: str) -> bool:
    from spindle.policy.git_drivers import git_may_run_programs  # only where git is not asked about

    return git_may_run_programs(parts, cwd)


def _paths(changes: dict[str, Any]) -> list[str]:
    """All files a patch touches, the targets of moves included."""
    return [path for target, change in changes.items() for path in (target, change.get("move_path")) if path]


def _reason(fact: str | None, justification: str | None) -> str | None:
    """Why a person is asked. What the model says about it comes after what we know, and never instead of it."""
    said = _short(justification.strip()) if justification and justification.strip() else None
    if fact is None or said is None:
        return _short(fact) if fact else said
    return f"{_short(fact)}; the model says: {said}"


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
