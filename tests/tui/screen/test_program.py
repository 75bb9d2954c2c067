"""The whole program in a terminal whose window changes all the time: no word lost, none twice, the draft kept."""

from __future__ import annotations

import re

import pytest

from fake_server import FakeServer, message, turn
from tui.terminals import OpenTui

STORM = ((20, 5), (200, 60), (40, 10), (21, 6), (120, 30), (20, 5), (33, 8), (100, 30))
TEXT = "\n\n".join(f"para-{n:03d} stands here with some more words than fit into a narrow row" for n in range(60))


@pytest.mark.parametrize("reflows", [False, True], ids=["cuts", "reflows"])
def test_a_storm_of_sizes_while_an_answer_streams(tui: OpenTui, server: FakeServer, reflows: bool) -> None:
    server.script(turn(message(TEXT + "\n\nthe-very-end", deltas=150), event_delay_s=0.01))
    with tui(columns=100, rows=30, before=b"$ what stood here before\r\n", reflows=reflows) as t:
        t.ready().submit("go")
        t.wait_for("para-003")
        for number, size in enumerate(STORM):
            t.resize(*size).wait_for(f"para-{5 * number + 6:03d}")
        t.wait_for("the-very-end").type("my-draft").wait_for("my-draft", where="screen")
        t.resize(20, 5).wait_for("my-draft", where="screen").resize(100, 30).idle()
        # A busy machine may take a while between erasing and painting; in the end the draft is there, once.
        t.until(lambda: t.scrollback.count("my-draft") == 1, "the draft, once")
        t.idle()
        found = re.findall(r"para-(\d+)", t.scrollback)
        assert found == [f"{n:03d}" for n in range(60)]
        assert t.flat.count("the-very-end") == 1
        assert t.scrollback.startswith("$ what stood here before")
        assert not [body for body in t.events("csi") if body in ("2J", "3J")] and "c" not in t.events("esc")
        t.key("ctrl-c", "ctrl-c", "ctrl-c", gap_s=0.2)
        assert t.wait_exit() == 0
        t.assert_sane()
