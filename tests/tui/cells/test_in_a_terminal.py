"""Cells in the real interface: what runs is seen live, what is done stays, and a resumed thread looks as it did."""

from __future__ import annotations

import re
from pathlib import Path

from fake_server import FakeServer, call, custom_call, message, reasoning, turn
from tui.terminals import OpenTui

PATCH = "*** Begin Patch\n*** Add File: g.py\n+def f(x):\n+    return x\n*** End Patch\n"
ANSWER = "# Title\n\nSome **bold** text.\n\n- item one\n- item two\n\n```python\nreturn x + 1\n```\n\nThe end."


def talk(scrollback: str) -> list[str]:
    """The talk without the header, the composer and the status line; and without times and money, of the day only."""
    rows = [re.sub(r"\b[\d.]+(ms|s)\b", "T", row).partition(" · $")[0].rstrip() for row in scrollback.split("\n")]
    begin = next(number for number, row in enumerate(rows) if row.startswith("› go"))
    end = next(number for number, row in enumerate(rows) if "Worked for" in row)
    return [row for row in rows[begin : end + 1] if row]


def test_a_turn_is_seen_while_it_runs_and_looks_the_same_when_it_is_resumed(
    tui: OpenTui, server: FakeServer, workspace: Path
) -> None:
    (workspace / "notes.md").write_text("remember\n")
    wait = "for i in 1 2 3 4; do echo tick-$i; done; until [ -e go-on ]; do sleep 0.05; done; echo over; exit 3"
    server.script(
        turn(reasoning("**Looking around** first"), call("exec_command", {"cmd": "cat notes.md"}, "c1")),
        turn(call("exec_command", {"cmd": wait}, "c2")),
        turn(custom_call("apply_patch", PATCH, "c3")),
        turn(message(ANSWER, deltas=20)),
    )
    with tui("-s", "danger-full-access", "-a", "never") as t:
        t.ready().submit("go")
        t.wait_for("tick-4", where="screen")
        running = t.screen
        assert "• Running for i in 1 2 3 4" in running
        assert "tick-2" in running
        assert "tick-1" not in running.replace(wait, ""), "the last lines only"
        assert "• Explored" in t.scrollback
        (workspace / "go-on").touch()
        t.wait_for("Worked for")
        shown = talk(t.scrollback)
        assert "(exit 3, T)" in "\n".join(shown)
        assert "• Added g.py (+2 -0)" in shown
        assert shown.count("  The end.") == 1
        t.key("ctrl-d")
        assert t.wait_exit() == 0
    with tui("resume", "--last") as t:
        t.wait_for("Worked for")
        t.ready()
        assert talk(t.scrollback) == shown
