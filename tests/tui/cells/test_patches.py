"""Patches as diffs."""

from __future__ import annotations

from typing import Any

from spindle.protocol.events import PatchApplyEnd
from tui.cells.told import CWD, Told

EDIT = {"type": "update", "unified_diff": "@@ -1,3 +1,3 @@\n one\n-two-old\n+two-new\n three\n", "move_path": None}
ADD = {"type": "add", "content": "fresh line\n"}


def patched(changes: dict[str, Any], *, error: str = "") -> PatchApplyEnd:
    return PatchApplyEnd(call_id="c1", turn_id="t1", stdout="", stderr=error, success=not error, changes=changes)


def test_a_patch_of_one_file_shows_its_verb_its_counts_and_its_numbered_lines() -> None:
    assert Told().take(patched({f"{CWD}/f.txt": EDIT})) == [
        "• Edited f.txt (+1 -1)",
        "    1   one",
        "    2 - two-old",
        "    2 + two-new",
        "    3   three",
    ]


def test_a_patch_of_several_files_has_totals() -> None:
    moved = {**EDIT, "move_path": f"{CWD}/h.txt"}
    gone = {"type": "delete", "content": "x\n"}
    changes = {f"{CWD}/f.txt": EDIT, f"{CWD}/sub/g.txt": ADD, "/etc/x": gone, f"{CWD}/old.txt": moved}
    shown = Told().take(patched(changes))
    assert shown[0] == "• Changed 4 files (+3 -3)"
    assert [row for row in shown if row.startswith("  └ ")] == [
        "  └ Edited f.txt (+1 -1)",
        "  └ Added sub/g.txt (+1 -0)",
        "  └ Deleted /etc/x (+0 -1)",
        "  └ Renamed old.txt → h.txt (+1 -1)",
    ]
    assert "    1 + fresh line" in shown


def test_a_patch_that_failed_says_why() -> None:
    assert Told().take(patched({f"{CWD}/f.txt": EDIT}, error="f.txt: the lines are not there")) == [
        "✗ Patch failed: f.txt",
        "  └ f.txt: the lines are not there",
    ]


def test_of_a_huge_patch_the_beginning_is_shown_and_the_transcript_has_it_all() -> None:
    told = Told()
    shown = told.take(patched({f"{CWD}/big.txt": {"type": "add", "content": "line\n" * 5000}}))
    assert shown[0] == "• Added big.txt (+5000 -0)"
    assert shown[-1] == "    … +4,800 lines (Ctrl-T shows all)"
    assert len(shown) == 202
    assert len(told.whole()) == 5001
