"""`spindle fleet report`: one page about a run."""

from __future__ import annotations

from functools import partial

from spindle.fleet.folder import RunFolder
from spindle.fleet.report.writing import write_report
from spindle.frontends.launch import config_from
from spindle.frontends.options import Parsed
from spindle.frontends.page_file import write_page
from spindle.protocol.clock import SystemClock
from spindle.protocol.quote import visible


def run(parsed: Parsed, words: list[str]) -> int:
    put = partial(write_page, load=partial(config_from, parsed), mode=0o666)
    print(visible(write_report(RunFolder(words[0]), parsed.value("output"), SystemClock().now(), put)))
    return 0
