"""Where a command would run."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec


class Place(msgspec.Struct, frozen=True, kw_only=True):
    """Where a command would run, and what is dear there."""

    cwd: str = ""
    workspace: tuple[str, ...] = ()
    """The folders of the thread."""
    home: str = ""
    variables: Mapping[str, str] = {}
    """What the command gets for an environment."""
