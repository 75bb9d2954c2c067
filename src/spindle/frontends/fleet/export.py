"""`spindle fleet export`: the patches of a run, as a benchmark wants them."""

from __future__ import annotations

import sys

from spindle.errors import UsageError
from spindle.fleet.folder import RunFolder
from spindle.fleet.report.predictions import swebench_lines
from spindle.fleet.report.writing import write_file
from spindle.frontends.options import Parsed


def run(parsed: Parsed, words: list[str]) -> int:
    if parsed.value("format") is None:
        raise UsageError("--format is missing; there is: swebench")
    lines, output = swebench_lines(RunFolder(words[0]), parsed.value("model_name")), parsed.value("output")
    if output is not None and output != "-":
        write_file(output, lines)
        return 0
    for line in lines:
        sys.stdout.buffer.write(line)
    sys.stdout.buffer.flush()
    return 0
