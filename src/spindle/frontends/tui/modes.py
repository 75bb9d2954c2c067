"""The modes that Shift-Tab goes round: default, plan, auto-edit.

Plan is the thread's collaboration mode. Auto-edit is default with other permissions: patches and commands inside the
workspace run, what leaves it is asked for. It is left out where it would change nothing, or would loosen what the
person or an administrator has fixed.
"""

from __future__ import annotations

from typing import NamedTuple

from spindle.config.schema import Config
from spindle.protocol.ops import OverrideTurnContext
from spindle.protocol.settings import STRICT_TO_LOOSE, SandboxPolicy

DEFAULT, PLAN, AUTO_EDIT = "default", "plan", "auto-edit"
_MODES_STRICT_TO_LOOSE = ("read-only", "workspace-write", "danger-full-access", "external-sandbox")
_FIXES_SANDBOX = ("sandbox_mode", "default_permissions", "permissions")


class Permissions(NamedTuple):
    approval: str
    sandbox: SandboxPolicy


class Modes:
    """Which mode the next turn has, and what each mode means for the thread's settings."""

    def __init__(self, config: Config) -> None:
        self.mode = DEFAULT
        self._config = config
        self._now = Permissions(config.approval_policy, config.sandbox)
        self._before: Permissions | None = None
        """What held before auto-edit; to be put back after it."""

    def opened(self, approval: str, sandbox: SandboxPolicy, mode: str) -> None:
        """Another thread is open; it has settings of its own."""
        if self.mode == AUTO_EDIT and Permissions(approval, sandbox) == self._now:
            return  # a new thread that goes on with what was chosen: leaving auto-edit still means what it did
        self._now, self._before = Permissions(approval, sandbox), None
        self.mode = PLAN if mode == PLAN else DEFAULT

    def next(self) -> str:
        """Where Shift-Tab leads from here."""
        stops = [DEFAULT, PLAN]
        if self.mode == AUTO_EDIT or self._auto_edit_makes_sense():
            stops.append(AUTO_EDIT)
        return stops[(stops.index(self.mode) + 1) % len(stops)]

    def change(self, mode: str) -> OverrideTurnContext:
        """Go to a mode; gives the op that tells the thread."""
        permissions: Permissions | None = None
        if mode == AUTO_EDIT and self.mode != AUTO_EDIT:
            self._before = self._now
            permissions = Permissions("on-request", self._config.workspace_write)
        elif mode != AUTO_EDIT and self._before is not None:
            permissions, self._before = self._before, None
        self.mode = mode
        if permissions is None:
            return OverrideTurnContext(collaboration_mode={"mode": PLAN if mode == PLAN else DEFAULT})
        self._now = permissions
        return OverrideTurnContext(
            collaboration_mode={"mode": PLAN if mode == PLAN else DEFAULT},
            approval_policy=permissions.approval,
            sandbox_policy=permissions.sandbox.to_wire(),
        )

    def notice(self, op: OverrideTurnContext) -> None:
        """Settings were changed in another way (`/permissions`, `/plan`): what they say now is what holds."""
        if op.collaboration_mode is not None and self.mode != AUTO_EDIT:
            given = op.collaboration_mode.get("mode") if isinstance(op.collaboration_mode, dict) else None
            self.mode = PLAN if given == PLAN else DEFAULT
        if op.approval_policy is None and op.sandbox_policy is None:
            return
        approval = op.approval_policy if isinstance(op.approval_policy, str) else self._now.approval
        sandbox = SandboxPolicy.from_wire(op.sandbox_policy) if op.sandbox_policy is not None else self._now.sandbox
        self._now, self._before = Permissions(approval, sandbox), None
        if self.mode == AUTO_EDIT:
            self.mode = DEFAULT

    def _auto_edit_makes_sense(self) -> bool:
        config, now = self._config, self._now
        wanted = Permissions("on-request", config.workspace_write)
        if not config.tui.cycle_permissions or now.sandbox.is_full_access or now == wanted:
            return False
        if config.allowed_approval_policies is not None and wanted.approval not in config.allowed_approval_policies:
            return False
        if config.allowed_sandbox_modes is not None and wanted.sandbox.mode not in config.allowed_sandbox_modes:
            return False
        if now.sandbox.permissions is not None:
            return False  # a permission profile is a choice of its own
        if config.granular is not None:
            return False  # and so is what may be asked
        loosens_approval = STRICT_TO_LOOSE.index(wanted.approval) > STRICT_TO_LOOSE.index(now.approval)
        order = _MODES_STRICT_TO_LOOSE
        loosens_sandbox = order.index(wanted.sandbox.mode) > order.index(now.sandbox.mode)
        # Whoever said that a folder is not trusted has fixed that they are asked.
        is_fixed = config.trust_level == "untrusted" or "approval_policy" in config.origins
        if loosens_approval and is_fixed:
            return False
        return not (loosens_sandbox and any(key in config.origins for key in _FIXES_SANDBOX))
