"""One try at a task: a workspace, `setup`, the turn, the patch, `verify`, and the files that tell of it.

`run_attempt` is the only door. What the attempts of a process share is its `Workshop`; what a driver hands to workers
of the operator's configuration is `read_settings`.
"""

from __future__ import annotations

from spindle.fleet.attempt.operator import Operator, read_settings
from spindle.fleet.attempt.places import sweep
from spindle.fleet.attempt.running import run_attempt
from spindle.fleet.attempt.workshop import Workshop

__all__ = ["Operator", "Workshop", "read_settings", "run_attempt", "sweep"]
