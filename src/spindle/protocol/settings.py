"""Settings of a thread: frozen values that an op replaces as a whole."""

from __future__ import annotations

import os
from typing import Annotated, Any, Literal

import msgspec

from spindle.errors import ConfigError

ApprovalPolicy = Literal["untrusted", "on-failure", "on-request", "never"]
SandboxMode = Literal["read-only", "workspace-write", "danger-full-access", "external-sandbox"]
Personality = Literal["friendly", "pragmatic", "none"]

APPROVAL_POLICIES = ("untrusted", "on-failure", "on-request", "never")
STRICT_TO_LOOSE = ("untrusted", "on-request", "on-failure", "never")
"""Approval policies from the one that asks most to the one that asks never."""
SANDBOX_MODES = ("read-only", "workspace-write", "danger-full-access")
PERSONALITIES = ("friendly", "pragmatic", "none")
EFFORTS = ("none", "minimal", "low", "medium", "high", "xhigh", "max", "ultra")
SUMMARIES = ("auto", "concise", "detailed", "none")


class Granular(msgspec.Struct, frozen=True, kw_only=True):
    """Which kinds of question may be put to a person; the others get a no at once. What is not named is a no."""

    sandbox_approval: bool = False
    """Commands that want out of the sandbox or may destroy, patches outside of the writable folders."""
    rules: bool = False
    """What a rule wants to be asked about."""
    skill_approval: bool = False
    """There is no such question: scripts of skills are commands like others."""
    request_permissions: bool = False
    """The tool of that name."""
    mcp_elicitations: bool = False
    """What MCP servers ask by themselves."""

    @property
    def refused(self) -> list[str]:
        return [kind for kind in self.__struct_fields__ if not getattr(self, kind)]

    def within(self, other: Granular | None) -> Granular:
        """Only what both let be asked."""
        both = {
            kind: getattr(self, kind) and (other is None or getattr(other, kind)) for kind in self.__struct_fields__
        }
        return Granular(**both)


def read_approval(value: Any) -> tuple[ApprovalPolicy, Granular | None]:
    """A policy as people and clients write it: a name, or `{"granular": {…}}`, which is on-request with less to be
    asked. Raises ConfigError."""
    if isinstance(value, dict):
        try:
            return "on-request", msgspec.convert(value["granular"], Granular)
        except (KeyError, msgspec.ValidationError) as error:
            why = str(error) if isinstance(error, msgspec.ValidationError) else "`granular` is missing"
            raise ConfigError(f"the approval policy is not a table of kinds of question: {why}") from error
    if value not in APPROVAL_POLICIES:
        raise ConfigError(f"unknown approval policy {value!r}; use one of {', '.join(APPROVAL_POLICIES)}")
    return value, None


def approval_to_wire(policy: str, granular: Granular | None) -> str | dict[str, Any]:
    return policy if granular is None or policy != "on-request" else {"granular": msgspec.to_builtins(granular)}


Access = Literal["deny", "write", "read"]
ACCESSES: tuple[Access, ...] = ("deny", "write", "read")
"""What a permission profile says of a path; of two that name the same one, the earlier counts."""


class PathRule(msgspec.Struct, frozen=True, array_like=True):
    """What a permission profile allows at a place and below it."""

    place: str
    """An absolute path or glob, or a name such as `:workspace_roots`, with or without a path or glob below it."""
    access: Access


def _is_whole_disk(path: str) -> bool:
    """However it is spelt, and by whatever link."""
    return path.startswith("/") and os.path.realpath(path) == "/"


class PermissionProfile(msgspec.Struct, frozen=True, kw_only=True):
    """A profile of `[permissions]` with all that it extends. What no rule names can be neither read nor written."""

    name: str
    rules: tuple[PathRule, ...] = ()
    workspace_roots: tuple[str, ...] = ()
    """What `:workspace_roots` means beside the working directory; absolute."""

    @property
    def can_write(self) -> bool:
        return any(rule.access == "write" for rule in self.rules)

    def writes_everywhere(self, cwd: str) -> bool:
        """Can all of the disk be written by one that works in `cwd`?"""
        return any(
            _is_whole_disk(f"{base}/{below}" if below else base)
            for rule in self.rules
            if rule.access == "write"
            for name, _, below in [rule.place.partition("/")]
            for base in self._bases(name, cwd)
        )

    def _bases(self, name: str, cwd: str) -> tuple[str, ...]:
        match name:
            case "" | ":root":
                return ("/",)
            case ":workspace_roots" | ":project_roots":
                return (cwd, *self.workspace_roots)
            case _:
                return ()

    @property
    def reads_everywhere(self) -> bool:
        return any(rule.access != "deny" and rule.place in (":root", "/") for rule in self.rules)

    @property
    def denies(self) -> bool:
        """Does it name something that stays closed even for what a person lets out of the sandbox?"""
        return any(rule.access == "deny" and rule.place != ":root" for rule in self.rules)

    def read_only(self) -> PermissionProfile:
        """The same without permission to write anything."""
        rules = tuple(PathRule(rule.place, "read") if rule.access == "write" else rule for rule in self.rules)
        return msgspec.structs.replace(self, rules=rules)


class SandboxPolicy(msgspec.Struct, frozen=True, kw_only=True):
    """What commands and patches may reach."""

    mode: SandboxMode = "read-only"
    writable_roots: tuple[str, ...] = ()
    """Extra folders beside the working directory; absolute. Only for workspace-write."""
    network_access: bool = False
    exclude_tmpdir_env_var: bool = False
    exclude_slash_tmp: bool = False
    permissions: PermissionProfile | None = None
    """Decides about every path where set; the mode is then only the nearest one there is."""

    @property
    def is_full_access(self) -> bool:
        return self.mode in ("danger-full-access", "external-sandbox")

    @property
    def has_network(self) -> bool:
        return self.mode == "danger-full-access" or self.network_access

    @property
    def amounts_to(self) -> str:
        """The plain mode that allows as much, whatever name it goes by."""
        return self.amounts_in("")

    def amounts_in(self, cwd: str) -> str:
        """The same for one that works in `cwd`, which may be all of the disk."""
        if self.permissions is None or self.is_full_access:
            is_everywhere = self.mode == "workspace-write" and any(map(_is_whole_disk, (*self.writable_roots, cwd)))
            return "danger-full-access" if is_everywhere else self.mode
        if self.permissions.writes_everywhere(cwd):
            return "danger-full-access"
        return "workspace-write" if self.permissions.can_write else self.mode

    def to_wire(self) -> dict[str, Any]:
        """The tagged form of protocol v1 and of the rollout."""
        if self.permissions is not None:
            plain = msgspec.structs.replace(self, permissions=None).to_wire()
            return {
                **plain,
                "network_access": self.network_access,
                "permissions": msgspec.to_builtins(self.permissions),
            }
        if self.mode == "workspace-write":
            return {
                "type": self.mode,
                "writable_roots": list(self.writable_roots),
                "network_access": self.network_access,
                "exclude_tmpdir_env_var": self.exclude_tmpdir_env_var,
                "exclude_slash_tmp": self.exclude_slash_tmp,
            }
        if self.mode == "external-sandbox":
            return {"type": self.mode, "network_access": "enabled" if self.network_access else "restricted"}
        return {"type": self.mode}

    @classmethod
    def from_wire(cls, value: Any) -> SandboxPolicy:
        """Accepts a plain string, and the tag as `type` or (older clients) `mode`."""
        if isinstance(value, str):
            value = {"type": value}
        if not isinstance(value, dict):
            raise ConfigError(f"sandbox policy must be a string or an object, not {type(value).__name__}")
        mode = value.get("type") or value.get("mode")
        if mode not in (*SANDBOX_MODES, "external-sandbox"):
            raise ConfigError(f"unknown sandbox mode {mode!r}; use one of {', '.join(SANDBOX_MODES)}")
        roots = value.get("writable_roots") or ()
        if not isinstance(roots, list | tuple) or not all(isinstance(root, str) for root in roots):
            raise ConfigError("writable_roots must be a list of absolute paths")
        try:
            permissions = msgspec.convert(value.get("permissions"), PermissionProfile | None)
        except msgspec.ValidationError as error:
            raise ConfigError(f"the permissions of a sandbox policy cannot be read: {error}") from error
        return cls(
            mode=mode,
            writable_roots=tuple(roots),
            network_access=value.get("network_access") in (True, "enabled"),
            exclude_tmpdir_env_var=bool(value.get("exclude_tmpdir_env_var", False)),
            exclude_slash_tmp=bool(value.get("exclude_slash_tmp", False)),
            permissions=permissions,
        )


class CollaborationMode(msgspec.Struct, frozen=True, kw_only=True):
    """How the model works with the person: `default`, or `plan`."""

    mode: str = "default"
    developer_instructions: str | None = None
    """Replaces the built-in text of the mode."""

    def to_wire(self) -> dict[str, Any]:
        return {"mode": self.mode, "settings": {"developer_instructions": self.developer_instructions}}

    @classmethod
    def from_wire(cls, value: Any) -> CollaborationMode:
        if not isinstance(value, dict):
            return cls()
        mode = value.get("mode", "default")
        settings = value.get("settings")
        told = settings.get("developer_instructions") if isinstance(settings, dict) else None
        return cls(
            mode="plan" if mode == "plan" else "default", developer_instructions=told if isinstance(told, str) else None
        )


class ThreadSettings(msgspec.Struct, frozen=True, kw_only=True):
    """The per-thread values that the model is told about or that shape a request."""

    cwd: str
    model: str
    model_provider: str
    approval_policy: ApprovalPolicy = "on-request"
    granular: Granular | None = None
    """What is asked under that policy; None = everything."""
    sandbox: SandboxPolicy = SandboxPolicy()
    effort: str | None = None
    summary: str = "auto"
    verbosity: str | None = None
    personality: Personality = "pragmatic"
    collaboration_mode: CollaborationMode = CollaborationMode()
    service_tier: str | None = None

    @property
    def approval(self) -> str | dict[str, Any]:
        """The approval policy as it is written."""
        return approval_to_wire(self.approval_policy, self.granular)


class Allowed(msgspec.Struct, frozen=True, kw_only=True):
    """What the administrator of this machine allows; None = anything. It holds for every way of changing settings."""

    approval_policies: tuple[str, ...] | None = None
    sandbox_modes: tuple[str, ...] | None = None

    def check(self, approval_policy: str, sandbox: SandboxPolicy, cwd: str) -> None:
        """Raise ConfigError for values that are not allowed in this folder."""
        if self.approval_policies is None and self.sandbox_modes is None:
            return
        for what, value, allowed in (
            ("approval policy", approval_policy, self.approval_policies),
            ("sandbox mode", sandbox.amounts_in(cwd), self.sandbox_modes),
        ):
            if allowed is not None and value not in allowed:
                raise ConfigError(
                    f"the {what} {value} is not allowed here by the administrator; use one of {', '.join(allowed)}"
                )


_Whole = Annotated[int, msgspec.Meta(ge=0)]
_Number = Annotated[float, msgspec.Meta(ge=0)]


class TurnAttribution(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Where a turn comes from. It is a label: nothing is allowed or refused by it."""

    turn_trigger: str | None = None
    """What started it, in the words of the client: `automation`, say."""
    parent_turn_id: str | None = None
    """The turn for which it was started."""
    root_turn_id: str | None = None
    """The first turn of the chain that led to it."""


class BudgetLimits(msgspec.Struct, frozen=True, kw_only=True):
    """How much may be used. None or 0 = no limit; every limit that is set counts."""

    max_tokens: _Whole | None = None
    """Tokens: input and output together, cached ones included."""
    max_requests: _Whole | None = None
    """Requests to the model server, retries included."""
    max_cost: _Number | None = None
    """US dollars, by the prices of the models."""
    max_seconds: _Number | None = None
    """Seconds of wall time; what is running when they are over may finish."""

    def __bool__(self) -> bool:
        """Is there any limit?"""
        return bool(self.max_tokens or self.max_requests or self.max_cost or self.max_seconds)


class AgentRole(msgspec.Struct, frozen=True, kw_only=True):
    """A kind of sub-agent, `[agents.NAME]`: what it is told, and what it has instead of its parent's values."""

    name: str
    description: str = ""
    """Tells the model when to choose it."""
    instructions: str = ""
    """Tells the sub-agent what it is for."""
    model: str | None = None
    effort: str | None = None
    sandbox_mode: SandboxMode | None = None
    """Can only take rights away: a role cannot give what the parent does not have."""
