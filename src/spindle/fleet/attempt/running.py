"""The way of one attempt, from an empty folder to its outcome."""

from __future__ import annotations

from spindle.fleet.attempt.workshop import Workshop
from spindle.fleet.exchange import Attempt, Outcome, Terms
from spindle.fleet.gate import Gate


async def run_attempt(attempt: Attempt, terms: Terms, gate: Gate, workshop: Workshop) -> Outcome:
    """Try a task. Everything foreseen is an outcome; cancelled, it ends with `stopped` after everything is gone.

    The files lie in `outcome.folder` until `workshop.discard(outcome.folder)`.
    """
    raise NotImplementedError
