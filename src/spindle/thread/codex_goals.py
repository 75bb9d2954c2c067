"""Goals that were cleared in Codex, which keeps that in its own database and writes no line about it.

Spindle only reads the database, and only for a goal whose last line it did not write. If Codex recorded a goal and has
no row for it any more, the goal was cleared there; a database that cannot be read says nothing.
"""

from __future__ import annotations

import glob
import os
import re
from collections.abc import Sequence
from contextlib import closing
from urllib.parse import quote

from spindle.protocol.goal import Goal
from spindle.thread.entry import Record
from spindle.thread.goals import is_last_line_ours, recorded_goal

_WAIT_S = 0.2
_NUMBER = re.compile(r"goals_(\d+)\.sqlite")


def present_goal(records: Sequence[Record], thread_id: str, home: str) -> Goal | None:
    """The goal of a recorded thread, unless it was cleared in Codex."""
    goal = recorded_goal(records, thread_id)
    if goal is None or is_last_line_ours(records) or not _is_cleared(home, thread_id):
        return goal
    return None


def _is_cleared(home: str, thread_id: str) -> bool:
    numbered = [(int(found[1]), path) for path in glob.glob(f"{glob.escape(home)}/goals_*.sqlite")
                if (found := _NUMBER.fullmatch(os.path.basename(path)))]  # fmt: skip
    if not numbered:
        return False
    import sqlite3  # only for threads with a goal of Codex

    try:
        with closing(sqlite3.connect(f"file:{quote(max(numbered)[1])}?mode=ro", uri=True, timeout=_WAIT_S)) as database:
            row = database.execute("SELECT 1 FROM thread_goals WHERE thread_id = ?", (thread_id,)).fetchone()
    except sqlite3.Error:
        return False
    return row is None
