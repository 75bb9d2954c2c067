"""Permission to type into a running program: anything outside of the sandbox, elsewhere what rules speak about."""

from __future__ import annotations

import os
import re

from spindle.core.permission.approvals import Approvals, CallSite
from spindle.core.permission.commands import Command
from spindle.policy.approval import Allow, Ask, Decision, Refuse
from spindle.policy.catastrophe import catastrophe
from spindle.policy.danger import is_dangerous
from spindle.policy.place import Place
from spindle.policy.restricting import restricted
from spindle.process.command import Command as Started
from spindle.protocol.quote import shell_join, visible

INTERRUPT = "\x03"
_SHOWN_CHARS = 200
_NEVER = (
    "write_stdin rejected: the program runs {}, so what is typed into it needs approval, but the "
    "approval policy is never"
)


class TypedInput(Command):
    """What a model types into a program outside, or in a wider sandbox than is in force now: an editor, a pager or a
    shell there runs whatever it is told to.

    So it is a question like that for a command. A yes for the session is for the very same keys in the same program.
    """

    def __init__(self, approvals: Approvals, site: CallSite, chars: str, *, session_id: int, command: Started) -> None:
        super().__init__(approvals, site, ["write_stdin", str(session_id), chars], command.cwd)
        self._program = command

    def decide(self) -> Decision:
        if self.site.settings.approval_policy == "never":
            return Refuse(message=_NEVER.format("outside of the sandbox" if self._is_outside else "in a wider sandbox"))
        shown = visible(shell_join(self._program.argv))
        name = shown if len(shown) <= _SHOWN_CHARS else f"{shown[:_SHOWN_CHARS]}…"
        how = "without the sandbox" if self._is_outside else "in a wider sandbox, started when that was in force"
        return Ask(reason=f"the model types this into `{name}`, which runs {how}", sandboxed_if_approved=False)

    @property
    def _is_outside(self) -> bool:
        return self._program.is_let_out

    def consequence(self, ask: Ask) -> str:
        return "the program gets it, with all that it may reach"

    def _doubts(self, ask: Ask) -> str:
        return ""


class TypedLine(Command):
    """What a model types into a program that is confined, or that nothing confines: a shell there runs it.

    The fence is the program's own. But what a rule asks about or forbids, what destroys, and what nobody could make
    good again is not got around by typing it.
    """

    def __init__(self, approvals: Approvals, site: CallSite, text: str, *, argv: list[str], cwd: str) -> None:
        super().__init__(approvals, site, ["sh", "-c", as_typed(text)], cwd)
        self._program = argv

    def decide(self) -> Decision:
        settings, boundary = self.site.settings, self.site.boundary
        rules = self.approvals.rules
        known = rules.rules if rules.is_on else None
        # An editor or a pager runs what stands behind `!`.
        verdicts = [*restricted(self._argv, known), *restricted(["vim", "-c", self._argv[2]], known)]
        place = Place(
            cwd=self._cwd,
            workspace=(os.path.realpath(boundary.cwd), *boundary.policy.writable_roots),
            home=os.path.expanduser("~"),
        )
        is_never = settings.approval_policy == "never"
        reasons = [verdict.reason or "a rule speaks about it" for verdict in verdicts]
        why = catastrophe(self._argv, place) if is_never else None
        shown = visible(shell_join(self._program))[:_SHOWN_CHARS]
        if why is not None or any(one.decision == "forbidden" for one in verdicts) or (is_never and verdicts):
            reason = why or "policy forbids it, or wants it to be approved while nobody can be asked"
            return Refuse(message=f"write_stdin rejected: what is typed into `{shown}` is a command, and {reason}")
        if not is_never and is_dangerous(self._argv):
            reasons.append("it may destroy files or work")
        if reasons:
            return Ask(
                reason=f"the model types this into `{shown}`: {reasons[0]}", sandboxed_if_approved=self._is_fenced
            )
        return Allow(sandboxed=self._is_fenced)

    @property
    def _is_fenced(self) -> bool:
        return not self.site.boundary.is_full_access

    def _doubts(self, ask: Ask) -> str:
        return ""


def as_typed(text: str) -> str:
    """The lines that a terminal hands on: rubbed out characters and lines are gone, other keys are nothing."""
    lines: list[str] = []
    for line in re.split(r"[\r\n]", re.sub(r"\x1b(?:\[[0-9;?]*[ -/]*[@-~]|O.|.)", "", text)):
        kept: list[str] = []
        for character in line:
            if character in "\x7f\b":
                kept[-1:] = []
            elif character in "\x15\x03":
                kept.clear()
            elif character == "\x17":
                kept[:] = re.sub(r"\S*\s*$", "", "".join(kept))
            elif character.isprintable() or character == "\t":
                kept.append(character)
        lines.append("".join(kept))
    return "\n".join(lines)
