"""`spindle fleet export`: the patches of a run, as a benchmark wants them."""

from __future__ import annotations

import sys
from functools import partial

from spindle.errors import UsageError
from spindle.fleet.folder import RunFolder
from spindle.fleet.report.predictions import swebench_lines
from spindle.frontends.launch import config_from
from spindle.frontends.options import Parsed
from spindle.frontends.page_file import write_page


def run(parsed: Parsed, words: list[str]) -> int:
    if parsed.value("format") is None:
        raise UsageError("--format is missing; there is: swebench")
    lines, output = swebench_lines(RunFolder(words[0]), parsed.value("model_name")), parsed.value("output")
    if output is not None and output != "-":
        write_page(b"".join(lines), output, partial(config_from, parsed), mode=0o666)
        return 0
    for line in lines:
        sys.stdout.buffer.write(line)
    sys.stdout.buffer.flush()
    return 0
