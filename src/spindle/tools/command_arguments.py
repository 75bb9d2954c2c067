"""The arguments that all shell tools take."""

from __future__ import annotations

from typing import Annotated, Any

import msgspec

ESCALATED = "require_escalated"

Amount = Annotated[float, msgspec.Meta(ge=-1e18, le=1e18)]
"""A number of milliseconds or tokens. Models also send them as text, and "nan" is a number to Python."""

_PERMISSION_PARAMETERS: dict[str, Any] = {
    "sandbox_permissions": {
        "type": "string",
        "description": 'Where the command runs: "use_default", or "require_escalated" to ask the user to let it run '
        "outside of the sandbox.",
    },
    "justification": {
        "type": "string",
        "description": "Only with require_escalated: one short question to the user saying why this is needed.",
    },
}
_PREFIX_RULE: dict[str, Any] = {
    "type": "array",
    "items": {"type": "string"},
    "description": "Only with require_escalated: the first words of the command, if the user may want to allow every "
    'later command that begins with them, e.g. ["npm", "install"].',
}


def permission_parameters(request_rule: bool) -> dict[str, Any]:
    """Parameters by which a call asks for more than the sandbox allows."""
    return {**_PERMISSION_PARAMETERS, "prefix_rule": _PREFIX_RULE} if request_rule else dict(_PERMISSION_PARAMETERS)


class PermissionArgs(msgspec.Struct, kw_only=True):
    """The arguments that every shell tool takes."""

    workdir: str | None = None
    sandbox_permissions: str | None = None
    with_escalated_permissions: bool | None = None
    """How older prompts ask for it."""
    justification: str | None = None
    prefix_rule: list[str] | None = None

    @property
    def is_escalated(self) -> bool:
        return self.sandbox_permissions == ESCALATED or bool(self.with_escalated_permissions)
