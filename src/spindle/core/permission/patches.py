"""Permission to write a patch."""

from __future__ import annotations

from typing import Any

from spindle.core.permission.approvals import Approvals, CallSite
from spindle.core.permission.commands import RETRY_POLICIES, RETRY_REASON
from spindle.core.permission.matter import Matter
from spindle.policy.approval import USER_REJECTED_PATCH, Allow, Ask, Decision, Refuse, decide_patch
from spindle.policy.grants import Expiry, Grant, file_grant
from spindle.protocol.events import ApplyPatchApprovalRequest, Msg
from spindle.protocol.items import encode_payload
from spindle.protocol.quote import visible


class PatchWrite(Matter):
    """The files of one patch. A person's yes for the session is for each of them; one more file is a new question."""

    kind = "patch"
    refusal = USER_REJECTED_PATCH

    def __init__(self, approvals: Approvals, site: CallSite, changes: dict[str, Any]) -> None:
        super().__init__(approvals, site)
        self._changes = changes
        self._paths = [path for target, change in changes.items() for path in (target, change.get("move_path")) if path]
        """All files it touches, the targets of moves included."""

    def decide(self) -> Decision:
        return decide_patch(self._paths, policy=self.site.settings.approval_policy, boundary=self.site.boundary)

    def key(self, ask: Ask) -> object:
        return "patch", encode_payload(self._changes)

    def grants(self, ask: Ask, expires: Expiry) -> list[Grant]:
        return [file_grant(path, expires=expires) for path in self._paths]

    def request(self, ask: Ask, offers: list[dict[str, Any]]) -> Msg:
        return ApplyPatchApprovalRequest(
            call_id=self.site.call_id,
            turn_id=self.site.turn_id,
            changes=self._changes,
            reason=ask.reason,
            available_decisions=[offer["decision"] for offer in offers],
            offers=offers,
        )

    def title(self, ask: Ask) -> str:
        return f"patch of {', '.join(map(visible, self._paths))}"


class PatchRetry(PatchWrite):
    """The sandbox stopped the patch: may it be written all the same?"""

    def decide(self) -> Decision:
        if self.site.settings.approval_policy not in RETRY_POLICIES:
            return Refuse(message=self.refusal)
        return Ask(reason=RETRY_REASON, sandboxed_if_approved=False)


class NoteWrite(PatchWrite):
    """A note that later threads are told of. It is asked for where a command that writes would be."""

    def decide(self) -> Decision:
        policy, boundary = self.site.settings.approval_policy, self.site.boundary
        may_write = boundary.is_full_access or bool(boundary.roots)
        if policy == "untrusted" or (policy == "on-request" and not may_write):
            return Ask(reason="the model changes a note that later threads of this project are told of")
        return Allow(sandboxed=False)
