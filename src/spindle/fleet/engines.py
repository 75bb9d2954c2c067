"""Which engines there are."""

from __future__ import annotations

from collections.abc import Callable

from spindle.errors import UsageError
from spindle.fleet.engine import Answers, Engine

_NOT_HERE = "--engine ray is not part of this version; leave it out to run on this machine"


def check_engine(name: str) -> None:
    """Raises UsageError where an engine cannot be used here; before anything else is looked at."""
    if name != "ray":
        return
    try:
        __import__("ray")
    except ImportError as error:
        raise UsageError("--engine ray needs Ray, which is not installed here: pip install 'spindle[fleet]'") from error
    raise UsageError(_NOT_HERE)


def make_engine(name: str) -> Callable[[Answers], Engine]:
    """What carries the attempts of a run; it asks `Answers` before each model request."""
    if name != "local":
        raise UsageError(_NOT_HERE)
    from spindle.fleet.local_engine import LocalEngine  # one engine or the other

    return LocalEngine
