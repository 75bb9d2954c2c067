"""What the attempts of one process share: the operator's configuration, mirrors, places to start, and folders."""

from __future__ import annotations

import asyncio
import hashlib
import os

from spindle.fleet.attempt import places
from spindle.fleet.attempt.git import Git
from spindle.fleet.attempt.mirror import Mirrors
from spindle.fleet.attempt.operator import Operator
from spindle.fleet.exchange import Attempt, Terms
from spindle.protocol.clock import Clock, SystemClock


class Workshop:
    """Made once by a worker."""

    def __init__(self, terms: Terms, clock: Clock | None = None) -> None:
        self.terms = terms
        self.clock = clock or SystemClock()
        for folder in ("", "/mirrors", "/attempts", "/nowhere"):
            os.makedirs(terms.cache + folder, 0o700, exist_ok=True)
        self.git = Git(terms.cache, os.environ)
        self.mirrors = Mirrors(f"{terms.cache}/mirrors", self.git)
        self.operator = Operator(terms, f"{terms.cache}/nowhere")
        self.starts = asyncio.Semaphore(max(1, terms.starts_at_once))
        """Clones and set-ups at a time."""
        self._run = hashlib.sha256(terms.out.encode("utf-8", "surrogateescape")).hexdigest()[:8]
        self._open: dict[str, places.Place] = {}

    def new_place(self, attempt: Attempt) -> places.Place:
        """A folder that never was: named by run, task and attempt, and by chance."""
        chance = self.clock.uuid7()[-12:]
        name = f"{self._run}-{attempt.task.id}-{attempt.number}-{chance}"
        place = places.make_place(self.terms.cache, name)
        self._open[place.files] = place
        return place

    def discard(self, folder: str | None) -> None:
        """The files of an outcome were taken; nothing more is wanted of its attempt. Safe to call twice."""
        place = self._open.pop(folder or "", None)
        if place is not None:
            places.discard(place)

    def sweep(self) -> None:
        """Remove what attempts of dead workers left on this node. Blocks: call it before the first attempt."""
        places.sweep(self.terms.cache)
