"""`spindle demo`: played as a text, or in the terminal interface."""

from __future__ import annotations

from spindle.errors import UsageError
from spindle.frontends.options import Parsed


def run(parsed: Parsed, words: list[str]) -> int:
    if parsed.flag("tui"):
        if parsed.flag("fast") or parsed.flag("keep"):
            raise UsageError("--fast and --keep are for the demo without --tui")
        from spindle.frontends.tui.command import run_practice  # one or the other

        return run_practice(parsed)
    from spindle.frontends.demo.command import run as play  # one or the other

    return play(parsed, words)
