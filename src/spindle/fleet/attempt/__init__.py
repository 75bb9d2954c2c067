"""One try at a task: a workspace, `setup`, the turn, the patch, `verify`, and the files that tell of it.

`run_attempt` is the only door. What the attempts of a process share is its `Workshop`.
"""

from __future__ import annotations

from spindle.fleet.attempt.running import run_attempt
from spindle.fleet.attempt.workshop import Workshop

__all__ = ["Workshop", "run_attempt"]
