"""The arguments that all shell tools take."""

from __future__ import annotations

from typing import Annotated

import msgspec

ESCALATED = "require_escalated"

Amount = Annotated[float, msgspec.Meta(ge=-1e18, le=1e18)]
"""A number of milliseconds or tokens. Models also send them as text, and "nan" is a number to Python."""


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
