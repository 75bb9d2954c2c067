"""What a back end hands to `spawn`."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import msgspec


def _nothing() -> None:
    """There is nothing to tidy up."""


class Launch(msgspec.Struct, frozen=True, kw_only=True):
    """A command ready to start."""

    argv: Sequence[str]
    env: Mapping[str, str]
    sandboxed: bool
    release: Callable[[], None] = _nothing
    """Call once when the command is over (or could not be started): takes away what the sandbox needed on disk."""
