"""Whether a command, a patch or a tool may be used: allowed, refused, or a person must be asked.

A decision is a value. Asking the person, and what their answer grants, is `core/permission`.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Sequence
from typing import Literal

import msgspec

from spindle.policy.catastrophe import catastrophe
from spindle.policy.commands import is_dangerous, is_known_safe, split_command, split_parts
from spindle.policy.coverage import STATE_CHANGERS, covers, runs_by_place
from spindle.policy.place import Place
from spindle.policy.prefixes import offerable_prefix
from spindle.policy.restricting import restricted
from spindle.policy.rules import STRICTNESS as _STRICTNESS
from spindle.policy.rules import RuleMatch, RuleSet
from spindle.policy.safe import is_installed
from spindle.policy.sandbox import Boundary, absolute, is_below
from spindle.policy.verdicts import Allow, Ask, Decision, Kind, Refuse, Verdict
from spindle.policy.words import Part
from spindle.protocol.quote import shell_join
from spindle.protocol.settings import ApprovalPolicy, SandboxPolicy

USER_REJECTED_COMMAND = "exec command rejected by user"
USER_REJECTED_PATCH = "patch rejected by user"
USER_REJECTED_TOOL = "tool call rejected by user"

_POLICY_NAMES: dict[ApprovalPolicy, str] = {
    "never": "Never",
    "on-failure": "OnFailure",
    "on-request": "OnRequest",
    "untrusted": "UnlessTrusted",
}
_SIGSYS = 31
_MOST_NAMED = 3
_DENIALS = (
    "operation not permitted",
    "permission denied",
    "read-only file system",
    "seccomp",
    "sandbox",
    "landlock",
    "failed to write file",
)


class Circumstances(msgspec.Struct, frozen=True, kw_only=True):
    """What a command is judged by, beside its words and the rules."""

    policy: ApprovalPolicy
    sandbox: SandboxPolicy
    sandbox_available: bool = True
    is_planted: Callable[[str], bool] = lambda _: False
    """Could the program that this word starts have been written by the model itself?"""
    git_runs_programs: Callable[[Sequence[Sequence[str]]], bool] = lambda _: False
    """Would git, in a folder that these parts go to, start what a repository names?"""
    git_in_reach: Callable[[Sequence[Sequence[str]], int], Sequence[str]] = lambda _parts, _given: ()
    """What git would run, in a folder that these parts go to, that the agent could have written or named; of the last
    part, a person wrote the first `given` words."""
    is_elsewhere: bool = False
    """It would run in another folder than the thread's own."""
    is_program: Callable[[str], bool] = lambda _: False
    """Would this word, as a command, start any program?"""
    place: Place = Place()
    is_path: Callable[[str], bool] = lambda _: False
    """Is there a file or folder of this name, seen from where the command runs?"""

    @property
    def is_confined(self) -> bool:
        return not self.sandbox.is_full_access


def decide_command(
    argv: Sequence[str],
    circumstances: Circumstances,
    *,
    rules: RuleSet | None = None,
    escalated: bool = False,
    prefix_rule: Sequence[str] = (),
) -> Decision:
    """Every part by its rules, else by what it is; the strictest verdict counts for the whole line.

    `escalated`: the model asks to run it outside of the sandbox, and `prefix_rule` is the beginning that it would like
    to see allowed.
    """
    policy, is_confined = circumstances.policy, circumstances.is_confined
    wants_out = escalated and is_confined
    if wants_out and policy != "on-request":
        return Refuse(message=_cannot_escalate(policy))
    verdicts = _Judge(circumstances, rules, wants_out=wants_out).parts(argv)
    if forbidden := [verdict for verdict in verdicts if verdict.decision == "forbidden"]:
        return Refuse(message=_forbidden(argv, forbidden))
    asking = [verdict for verdict in verdicts if verdict.decision == "prompt"]
    if not asking:
        # A rule means "let it, whatever it reaches"; one part that no rule knows keeps the whole line inside.
        return Allow(sandboxed=is_confined and not all(verdict.rule for verdict in verdicts))
    if policy == "never":
        return Refuse(
            message=f"`{shell_join(argv)}` rejected: approval is required by policy, but the approval policy is never"
        )
    sandboxed_if_approved = is_confined and not wants_out and circumstances.sandbox_available
    is_any_planted = any(verdict.is_ruled_in_vain or circumstances.is_planted(verdict.part[0]) for verdict in asking)
    return Ask(
        reason=next((verdict.reason for verdict in asking if verdict.reason), None),
        kinds=_kinds(asking, leaves_sandbox=is_confined and not sandboxed_if_approved),
        sandboxed_if_approved=sandboxed_if_approved,
        prefix=None if is_any_planted else _prefix_to_offer(asking, prefix_rule, circumstances),
    )


def _kinds(asking: Sequence[Verdict], *, leaves_sandbox: bool) -> tuple[Kind, ...]:
    """A rule asks, or something else does; a way out of the sandbox is a question of its own, whoever asks."""
    rules: tuple[Kind, ...] = ("rules",) if any(verdict.rule for verdict in asking) else ()
    is_more = leaves_sandbox or not all(verdict.rule for verdict in asking)
    return (*rules, "sandbox_approval") if is_more else rules


class _Judge:
    """How commands are judged in one set of circumstances."""

    def __init__(self, circumstances: Circumstances, rules: RuleSet | None, *, wants_out: bool) -> None:
        self._rules = rules
        self._circumstances = circumstances
        self._is_elsewhere = circumstances.is_elsewhere
        self._is_planted = circumstances.is_planted
        self._git_runs_programs = circumstances.git_runs_programs
        self._git_in_reach = circumstances.git_in_reach
        self._policy = circumstances.policy
        self._wants_out = wants_out
        self._lacks_sandbox = circumstances.is_confined and not circumstances.sandbox_available

    def parts(self, argv: Sequence[str]) -> list[Verdict]:
        found = split_parts(argv)
        if found is None or ([part.words for part in found] != [list(argv)] and self._is_planted(argv[0])):
            found = [Part("", list(argv))]  # a shell that is not the system's runs whatever it likes
        parts = [part.words for part in found]
        ruled = [self._by_rules(part, parts, at) for at, part in enumerate(found)]
        dangerous = [is_dangerous(part) for part in parts]
        if is_dangerous(argv) and not any(dangerous):
            dangerous = [True] * len(parts)  # only together: one part fetches what another runs
        safe = self._safe(argv, parts)
        verdicts = [
            rule if isinstance(rule, Verdict) else self._by_nature(part, is_safe, is_harmful, because=rule)
            for part, rule, is_safe, is_harmful in zip(found, ruled, safe, dangerous, strict=True)
        ]
        return [*verdicts, *restricted(argv, self._rules), *self._catastrophic(argv)]

    def _catastrophic(self, argv: Sequence[str]) -> list[Verdict]:
        """What must not happen where nobody can be asked. No rule outweighs it."""
        if self._policy != "never":
            return []
        reason = catastrophe(argv, self._circumstances.place)
        return [Verdict(part=argv, decision="forbidden", reason=reason)] if reason else []

    def _by_rules(self, part: Part, parts: Sequence[Sequence[str]], at: int) -> Verdict | str | None:
        """What rules say of the part at this place of a line; None, or a sentence for people, when none speaks about
        all of it."""
        matches = self._rules.match(part.words) if self._rules is not None else []
        covering = [match for match in matches if match.decision != "allow" or self._is_meant(match, part, parts)]
        if covering:
            return self._kept_inside(_verdict(part.words, covering), parts[: at + 1])
        if matches:
            prefix = max((match.prefix for match in matches), key=len)
            return f"the rule that allows `{shell_join(prefix)}` does not cover all of this command"
        return None

    def _is_meant(self, match: RuleMatch, part: Part, parts: Sequence[Sequence[str]]) -> bool:
        """Does a rule that allows mean this command, too, with the words behind those that it names?"""
        words = part.words
        if words[0] in STATE_CHANGERS and words[0] != "cd" and len(parts) > 1:
            return False  # after `hash -p` or `alias` the other parts are not what the rules for them mean
        if (self._is_elsewhere or any(one[0] == "cd" for one in parts)) and runs_by_place(words):
            return False  # a path in a rule is one seen from the thread's own folder
        return _covers(len(match.prefix), words, part.patterns, self._circumstances)

    def _safe(self, argv: Sequence[str], parts: list[list[str]]) -> list[bool]:
        """Which parts only look. Only the policy `untrusted` wants to know: finding programs on the disk takes time."""
        if self._policy != "untrusted":
            return [False] * len(parts)
        # A name promises nothing where the program, or the shell, lies in a folder of the project.
        safe = [_is_safe(part) and not self._is_planted(part[0]) for part in parts]
        if all(safe) and (not is_known_safe(argv) or self._is_planted(argv[0])):
            return [False] * len(parts)
        gits = [at for at, part in enumerate(parts) if safe[at] and os.path.basename(part[0]) == "git"]
        if gits and self._git_runs_programs(parts):
            return [one and at not in gits for at, one in enumerate(safe)]
        return safe

    def _kept_inside(self, verdict: Verdict, parts: Sequence[Sequence[str]]) -> Verdict:
        """A rule for `pytest` means the one that is installed; a `pytest` that lies in the workspace stays inside.

        A rule that gives a path means that very file. A relative path is one seen from the thread's folder, so it means
        nothing in another; and `~` is a home only to a shell. Git stays inside where it would run what the agent could
        have written or named. `parts` are those of the line up to this one.
        """
        if verdict.decision != "allow":
            return verdict
        name = verdict.part[0]
        is_meant = "/" in name and not (self._is_elsewhere or name.startswith("~"))
        if not name.startswith("/") and not is_meant and self._is_planted(name):
            reason = f"{name} lies where the agent can write, so the rule that allows it does not let it out"
        elif verdict.rule is not None and (named := self._git_in_reach(parts, len(verdict.rule.prefix))):
            reason = f"git would run {_few(named)}, so the rule that allows it does not let it out"
        else:
            return verdict
        decision = "prompt" if self._wants_out or (self._lacks_sandbox and self._policy != "never") else "allow"
        return Verdict(part=verdict.part, decision=decision, reason=reason, is_ruled_in_vain=True)

    def _by_nature(self, part: Part, is_safe: bool, is_harmful: bool, *, because: str | None) -> Verdict:
        """`because` says why no rule decides, where one might be expected to."""
        decision: Literal["allow", "prompt"] = "allow"
        reason = because
        if is_harmful and self._policy != "never":
            # Where nobody can be asked it runs, see `catastrophe`: the fence confines it.
            decision, reason = "prompt", "the command may destroy files or work"
        elif self._lacks_sandbox:
            # It never runs unconfined unless a person says so. Where nobody can be asked it is allowed here, and
            # starting it in the sandbox then fails with a text that names what is missing and the remedy.
            decision = "allow" if self._policy == "never" else "prompt"
            reason = "no sandbox is available here: the command would run unconfined"
        elif self._wants_out or (self._policy == "untrusted" and not is_safe):
            decision = "prompt"
        return Verdict(part=part.words, patterns=part.patterns, decision=decision, reason=reason)


def _few(named: Sequence[str]) -> str:
    """Some of them, for a sentence."""
    more = f" and {len(named) - _MOST_NAMED} more" if len(named) > _MOST_NAMED else ""
    return ", ".join(named[:_MOST_NAMED]) + more


def _is_safe(part: list[str]) -> bool:
    # A shell inside of a script is not opened a second time.
    return split_command(part) == [part] and is_known_safe(part)


def _covers(named: int, words: Sequence[str], patterns: Collection[int], here: Circumstances) -> bool:
    return covers(named, words, patterns=patterns, is_program=here.is_program, is_path=here.is_path)


def _verdict(part: Sequence[str], matches: Sequence[RuleMatch]) -> Verdict:
    """The strictest of these rules speaks; of several such the most particular one."""
    return Verdict.of_rule(part, max(matches, key=lambda match: (_STRICTNESS[match.decision], len(match.prefix))))


def _forbidden(argv: Sequence[str], verdicts: Sequence[Verdict]) -> str:
    """Why, for the model. A rule's own words come first; of several rules the most particular one speaks."""
    by_rule = [verdict.rule for verdict in verdicts if verdict.rule is not None]
    if by_rule:
        rule = max(by_rule, key=lambda rule: len(rule.prefix))
        why = rule.justification or f"policy forbids commands starting with `{shell_join(rule.prefix)}`"
    else:
        reasons = [verdict.reason for verdict in verdicts if verdict.reason]
        why = f"nobody can be asked here, and {reasons[0]}" if reasons else "blocked by policy"
    return f"`{shell_join(argv)}` rejected: {why}"


def _prefix_to_offer(asking: Sequence[Verdict], wanted: Sequence[str], here: Circumstances) -> tuple[str, ...] | None:
    """The model's own proposal, else the first part that asks; only if allowing it would spare this question."""
    if any(verdict.rule for verdict in asking):
        return None  # another rule asks on purpose, and the stricter one counts
    causes = [verdict.part for verdict in asking]
    for prefix in (wanted, causes[0]):
        if (
            prefix
            and offerable_prefix(prefix, causes, here.is_program)
            and all(_covers(len(prefix), verdict.part, verdict.patterns, here) for verdict in asking)
        ):
            return tuple(prefix)
    return None


def program_at(word: str, *, cwd: str, path: str) -> str | None:
    """The file that a word starts as a command; None when there is none."""
    if "/" in word:
        candidates = [absolute(word, cwd)]
    else:
        candidates = [f"{absolute(folder, cwd)}/{word}" for folder in path.split(os.pathsep)]
    return next((one for one in candidates if os.access(one, os.X_OK) and not os.path.isdir(one)), None)


def is_planted(word: str, *, cwd: str, path: str, boundary: Boundary) -> bool:
    """Does the word start a program that came with the project, or that a sandboxed command could have put there?"""
    found = program_at(word, cwd=cwd, path=path)
    if found is None:
        return False
    # Resolved once for all questions below.
    folder = os.path.realpath(os.path.dirname(found))
    real = f"{folder.rstrip('/')}/{os.path.basename(found)}"
    if os.path.islink(real):
        real = os.path.realpath(real)
    # Without a fence everything could have been written; what the project brought along is another matter.
    fenced = not boundary.is_full_access
    if fenced and (boundary.may_write_at(real) or boundary.may_write_at(folder)):
        return True
    if is_installed(found, real):
        return False
    here = os.path.realpath(boundary.cwd)
    return is_below(found, here) or is_below(real, here)


def prefix_for_retry(
    argv: Sequence[str], is_planted: Callable[[str], bool], is_program: Callable[[str], bool]
) -> tuple[str, ...] | None:
    """The beginning that may be allowed for good when a command is to run again outside."""
    parts = split_command(argv)
    if not parts or is_planted(argv[0]) or any(is_planted(part[0]) for part in parts):
        return None
    return tuple(parts[0]) if offerable_prefix(parts[0], parts, is_program) else None


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


def decide_tool(
    name: str, *, policy: ApprovalPolicy, boundary: Boundary, is_read_only: bool, mode: str | None
) -> Decision:
    """A tool of an MCP server. `mode` is what the user says of the server's tools: auto, prompt or approve."""
    is_free = is_read_only or boundary.is_full_access
    if mode == "approve" or (is_free and mode != "prompt"):
        return Allow(sandboxed=False)
    if policy == "never":
        return Refuse(message=f"{name} rejected: approval is needed for this tool, but the approval policy is never")
    return Ask(kinds=(), reason=None if is_read_only else "the server does not say that this tool only reads")


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
