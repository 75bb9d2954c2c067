"""`spindle fleet worker`: the worker process of the local engine."""

from __future__ import annotations

from spindle.fleet import local_worker
from spindle.frontends.options import Parsed


def run(parsed: Parsed, words: list[str]) -> int:
    return local_worker.run()
