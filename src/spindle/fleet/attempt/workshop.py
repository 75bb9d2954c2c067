"""What the attempts of one process share: the operator's configuration, places to start, and folders."""

from __future__ import annotations

from spindle.fleet.exchange import Terms
from spindle.protocol.clock import Clock, SystemClock


class Workshop:
    """Made once by a worker."""

    def __init__(self, terms: Terms, clock: Clock | None = None) -> None:
        self.terms = terms
        self.clock = clock or SystemClock()

    def discard(self, folder: str) -> None:
        """The files of an outcome were taken; nothing more is wanted of its attempt."""
        raise NotImplementedError

    def sweep(self) -> None:
        """Remove what attempts of dead workers left on this node. Blocks: call it before the first attempt."""
        raise NotImplementedError
