"""For tests of programs that use Spindle: a model that follows a script, and a home that goes away. No key, no network.

model = ScriptedModel(calls("lookup", {"ticket": 7}, "c1"), says("It is fixed."))
with temporary_home() as home, Spindle(home=home, model_client=model) as spindle:
    result = spindle.thread_start(tools=[lookup]).run("What about ticket 7?")
assert result.final_response == "It is fixed." and model.is_exhausted
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from tempfile import TemporaryDirectory

from spindle.model.scripted import (
    Asked,
    ScriptedModel,
    Step,
    calls,
    drops,
    fails,
    item_of,
    patches,
    says,
    thinks,
    waits,
)
from spindle.protocol.request import TokenUsage

__all__ = [
    "Asked",
    "ScriptedModel",
    "Step",
    "TokenUsage",
    "calls",
    "drops",
    "fails",
    "item_of",
    "patches",
    "says",
    "temporary_home",
    "thinks",
    "waits",
]


@contextmanager
def temporary_home() -> Iterator[str]:
    """An empty home for `Spindle(home=…)`; it is deleted at the end, with everything that was recorded."""
    with TemporaryDirectory(prefix="spindle-home-", ignore_cleanup_errors=True) as folder:
        yield os.path.realpath(folder)
