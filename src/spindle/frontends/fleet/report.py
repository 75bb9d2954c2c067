"""`spindle fleet report`: one page about a run."""

from __future__ import annotations

from spindle.fleet.folder import RunFolder
from spindle.fleet.report.writing import write_report
from spindle.frontends.options import Parsed
from spindle.protocol.clock import SystemClock
from spindle.protocol.quote import visible


def run(parsed: Parsed, words: list[str]) -> int:
    print(visible(write_report(RunFolder(words[0]), parsed.value("output"), SystemClock().now())))
    return 0
