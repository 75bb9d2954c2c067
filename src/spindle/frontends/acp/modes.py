"""The modes of a session: what may be done without asking, and whether anything is done at all. Pure."""

from __future__ import annotations

from typing import Any, NamedTuple

import msgspec

from spindle.config.schema import Config
from spindle.frontends.json_rpc import INVALID_PARAMS, RpcError
from spindle.protocol.ops import OverrideTurnContext
from spindle.protocol.settings import SandboxPolicy, ThreadSettings, approval_to_wire


class Mode(NamedTuple):
    id: str
    name: str
    description: str
    sandbox: str
    approval: str
    collaboration: str = "default"


MODES = (
    Mode("read-only", "Read only", "Looks and answers; asks before it changes anything", "read-only", "on-request"),
    Mode("auto", "Auto", "Works in the folder; asks before it goes beyond", "workspace-write", "on-request"),
    Mode("full-access", "Full access", "Does everything without asking", "danger-full-access", "never"),
    Mode("plan", "Plan", "Thinks first, and changes nothing", "read-only", "on-request", "plan"),
)
_BY_SANDBOX = {mode.sandbox: mode.id for mode in MODES if mode.collaboration == "default"}


def offered(config: Config) -> list[Mode]:
    """Those that the administrator allows."""
    policies, sandboxes = config.allowed_approval_policies, config.allowed_sandbox_modes
    return [
        mode
        for mode in MODES
        if (policies is None or mode.approval in policies) and (sandboxes is None or mode.sandbox in sandboxes)
    ]


def current(settings: ThreadSettings) -> str:
    """The mode that is nearest to the settings of a thread."""
    if settings.collaboration_mode.mode == "plan":
        return "plan"
    return _BY_SANDBOX.get(settings.sandbox.amounts_to, "full-access")


def state(settings: ThreadSettings, config: Config) -> dict[str, Any]:
    """`modes` of a session."""
    here = current(settings)
    listed = [mode for mode in MODES if mode in offered(config) or mode.id == here]
    shown = [{"id": mode.id, "name": mode.name, "description": mode.description} for mode in listed]
    return {"currentModeId": here, "availableModes": shown}


def with_folders(sandbox: SandboxPolicy, configured: SandboxPolicy) -> SandboxPolicy:
    """The same rights, in the folders that are configured now; only the mode for work in folders has any."""
    if sandbox.mode != "workspace-write" or sandbox.permissions is not None:
        return sandbox
    return msgspec.structs.replace(sandbox, writable_roots=configured.writable_roots)


def change(mode_id: str, config: Config) -> OverrideTurnContext:
    """The op that puts a thread into a mode."""
    mode = next((one for one in offered(config) if one.id == mode_id), None)
    if mode is None:
        names = ", ".join(one.id for one in offered(config))
        raise RpcError(f"there is no mode {mode_id[:100]!r} here; the modes are {names}", INVALID_PARAMS)
    # What the user configured for the mode comes with it: other folders, the network.
    is_workspace = mode.sandbox == "workspace-write"
    return OverrideTurnContext(
        approval_policy=approval_to_wire(mode.approval, config.granular),
        sandbox_policy=config.workspace_write.to_wire() if is_workspace else {"type": mode.sandbox},
        collaboration_mode={"mode": mode.collaboration},
    )
