"""What the model gets of an output that was put aside."""

from __future__ import annotations

from pathlib import Path

import pytest

from spindle.thread.offload import store_output
from spindle.tools.previewing import preview


@pytest.mark.parametrize(("mode", "limit", "most"), [("tokens", 500, 2_060), ("bytes", 2_000, 2_060)])
def test_the_model_sees_both_ends_and_the_handle(tmp_path: Path, mode: str, limit: int, most: int):
    text = "\n".join(f"line {number}" for number in range(10_000))
    handle = store_output(str(tmp_path), "t1", "c", text)
    assert handle is not None
    shown = preview(text, handle, mode, limit)
    head, *_, tail, last = shown.split("\n")
    assert last == f"[The whole output is in {handle.path} (10000 lines, {len(text)} bytes); read what you need of it.]"
    assert (head, tail) == ("line 0", "line 9999") and "truncated…" in shown
    assert len(shown) <= most
