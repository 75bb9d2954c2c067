"""Permission to type into a running program that is outside of the sandbox."""

from __future__ import annotations

from spindle.core.permission.approvals import Approvals, CallSite
from spindle.core.permission.commands import Command
from spindle.policy.approval import Ask, Decision, Refuse
from spindle.protocol.quote import shell_join, visible

INTERRUPT = "\x03"
_SHOWN_CHARS = 200
_NEVER = (
    "write_stdin rejected: the program runs outside of the sandbox, so what is typed into it needs approval, but the "
    "approval policy is never"
)


class TypedInput(Command):
    """What a model types into a program outside: an editor, a pager or a shell there runs whatever it is told to.

    So it is a question like that for a command. A yes for the session is for the very same keys in the same program.
    """

    def __init__(
        self, approvals: Approvals, site: CallSite, chars: str, *, session_id: int, argv: list[str], cwd: str
    ) -> None:
        super().__init__(approvals, site, ["write_stdin", str(session_id), chars], cwd)
        self._program = argv

    def decide(self) -> Decision:
        if self.site.settings.approval_policy == "never":
            return Refuse(message=_NEVER)
        shown = visible(shell_join(self._program))
        name = shown if len(shown) <= _SHOWN_CHARS else f"{shown[:_SHOWN_CHARS]}…"
        reason = f"the model types this into `{name}`, which runs without the sandbox"
        return Ask(reason=reason, sandboxed_if_approved=False)

    def _doubts(self, ask: Ask) -> str:
        return ""
