"""Which folders are covered."""

from __future__ import annotations

import os
from collections.abc import Sequence

from spindle.policy.sandbox import is_below
from spindle.workspace.git import find_repository


def covered_roots(cwd: str, extra: Sequence[str]) -> list[str]:
    """The work tree around a folder, or the folder itself, and the extra writable roots; none inside another."""
    first = find_repository(cwd) or os.path.realpath(cwd)
    roots: list[str] = []
    for root in sorted({first, *(os.path.realpath(path) for path in extra)}, key=len):
        if os.path.isdir(root) and not any(is_below(root, known) for known in roots):
            roots.append(root)
    return roots
