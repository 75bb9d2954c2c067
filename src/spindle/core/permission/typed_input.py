"""Permission to type into a running program: for any input outside the sandbox, inside for input that rules cover."""

from __future__ import annotations

import os

from spindle.core.permission.approvals import Approvals, CallSite
from spindle.core.permission.commands import Command
from spindle.policy.approval import Allow, Ask, Decision, Refuse
from spindle.policy.catastrophe import catastrophe
from spindle.policy.danger import is_dangerous
from spindle.policy.place import Place
from spindle.policy.restricting import restricted
from spindle.policy.rules import RuleSet
from spindle.policy.typed_keys import as_typed, edits_lines, is_unreadable
from spindle.policy.verdicts import Verdict
from spindle.process.command import Command as Started
from spindle.protocol.quote import shell_join, visible

INTERRUPT = "\x03"
_SHOWN_CHARS = 200
_NEVER = (
    "write_stdin rejected: the program runs {}, so what is typed into it needs approval, but the "
    "approval policy is never"
)

_UNREADABLE = (
    "keys such as Tab, the arrows, Ctrl-R or `!!` make another line of it than can be compared with the rules; type "
    "whole lines of plain text instead, after Ctrl-C if some were typed already"
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

    def __init__(
        self, approvals: Approvals, site: CallSite, text: str, *, argv: list[str], cwd: str, before: str
    ) -> None:
        self._is_unreadable = is_unreadable(text)
        self._line = ["sh", "-c", as_typed(text)]
        # What cannot be read is shown, and granted, key by key.
        super().__init__(approvals, site, ["sh", "-c", text] if self._is_unreadable else self._line, cwd)
        self._program = argv
        self._text = text
        self._before = before

    def decide(self) -> Decision:
        settings, boundary = self.site.settings, self.site.boundary
        rules = self.approvals.rules
        known = rules.rules if rules.is_on else None
        verdicts = self._verdicts(known) if known is not None and known.restricting else []
        place = Place(
            cwd=self._cwd,
            workspace=(os.path.realpath(boundary.cwd), *boundary.policy.writable_roots),
            home=os.path.expanduser("~"),
        )
        is_never = settings.approval_policy == "never"
        reasons = [verdict.reason or "a rule speaks about it" for verdict in verdicts]
        why = catastrophe(self._line, place) if is_never else None
        shown = visible(shell_join(self._program))[:_SHOWN_CHARS]
        if why is not None or any(one.decision == "forbidden" for one in verdicts) or (is_never and verdicts):
            reason = why or next(
                (one.reason for one in verdicts if one.reason == _UNREADABLE),
                "policy forbids it, or wants it to be approved while nobody can be asked",
            )
            return Refuse(message=f"write_stdin rejected: what is typed into `{shown}` is a command, and {reason}")
        if not is_never and is_dangerous(self._line):
            reasons.append("it may destroy files or work")
        if reasons:
            return Ask(
                kinds=("rules", "sandbox_approval") if verdicts else ("sandbox_approval",),
                reason=f"the model types this into `{shown}`: {reasons[0]}",
                sandboxed_if_approved=self._is_fenced,
            )
        return Allow(sandboxed=self._is_fenced)

    def _verdicts(self, rules: RuleSet) -> list[Verdict]:
        # A program that ignores Ctrl-C keeps the line that others would forget.
        lines = dict.fromkeys((self._line[2], as_typed(self._text, forgets=False)))
        # An editor or a pager runs what stands behind `!`.
        found = [one for line in lines for how in (["sh"], ["vim"]) for one in restricted([*how, "-c", line], rules)]
        if self._is_unreadable and self._is_at_a_shell():
            found.append(Verdict(part=self._argv, decision="prompt", reason=_UNREADABLE))
        return found

    def _is_at_a_shell(self) -> bool:
        """The program is one, or could have been told to start one: by a line, or behind the `!` of a pager."""
        lines = dict.fromkeys(line.lstrip(":! ") for line in as_typed(self._before).splitlines())
        return edits_lines(self._program) or any(edits_lines(["sh", "-c", line]) for line in lines if line)

    @property
    def _is_fenced(self) -> bool:
        return not self.site.boundary.is_full_access

    def _doubts(self, ask: Ask) -> str:
        return ""
