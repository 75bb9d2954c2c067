"""Which folders are covered."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from spindle.policy.sandbox import is_below
from spindle.workspace.git import find_repository

if TYPE_CHECKING:
    from spindle.core.session import Session
    from spindle.protocol.settings import ThreadSettings


def roots_of(session: Session, settings: ThreadSettings) -> list[str]:
    """The work tree around the working folder (else that folder) and what else may be written; none inside another."""
    granted = session.turns.approvals.widening()
    extra = [*settings.sandbox.writable_roots, *(granted.write if granted is not None else ())]
    first = find_repository(settings.cwd) or os.path.realpath(settings.cwd)
    roots: list[str] = []
    for root in sorted({first, *map(os.path.realpath, extra)}, key=len):
        if os.path.isdir(root) and not any(is_below(root, known) for known in roots):
            roots.append(root)
    return roots
