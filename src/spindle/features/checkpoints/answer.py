"""What people and the model are told about an undo."""

from __future__ import annotations

from collections.abc import Sequence

from spindle.protocol.items import Item, user_message
from spindle.protocol.ops import Undo
from spindle.protocol.origin import block, defused_name
from spindle.protocol.quote import visible
from spindle.protocol.undo import Restored, UndoReport

_MOST_NAMED = 50


def sentence(report: UndoReport, op: Undo, *, keeps_files: bool = True) -> str:
    """The report in a sentence or two. `keeps_files` is false where the user has switched that off."""
    turns = _count(len(report.turns), "turn")
    files = _count(len(report.restored), "file")
    match report.status:
        case "conflict":
            names = ", ".join(conflict.path for conflict in report.conflicts[:5])
            more = f" and {len(report.conflicts) - 5} more" if len(report.conflicts) > 5 else ""
            said = f"nothing was changed, because somebody else has changed {names}{more}; keep-mine restores the rest"
        case "dry_run":
            said = f"would {'redo' if op.redo else 'undo'} {turns}: {files} to put back"
        case "redone":
            said = f"redid {turns}: {files} put back"
        case _:
            what = {(True, False): ", files only", (False, True): ", conversation only"}
            said = f"undid {turns}{what.get((op.files, op.conversation), '')}: {files} put back"
    if report.conflicts and report.status != "conflict":
        said += f"; {_count(len(report.conflicts), 'file')} left as somebody else changed it"
    if report.skipped:
        said += f"; {_count(len(report.skipped), 'path')} skipped"
    if op.files and not keeps_files and not report.restored and not op.redo:
        said += "; files are as the turn left them, because spindle.checkpoints.enabled is false"
    if report.incomplete:
        said += "; a turn was killed in the middle, so what was there now counts as its end"
    return said


def _count(number: int, what: str) -> str:
    return f"{number} {what}{'' if number == 1 else 's'}"


def back_note(restored: Sequence[Restored], turns: Sequence[str]) -> Item:
    """Tells the model that files went back though the conversation did not."""
    names = [f"- {defused_name(visible(one.path))} ({one.action})" for one in restored[:_MOST_NAMED]]
    if len(restored) > _MOST_NAMED:
        names.append(f"- and {len(restored) - _MOST_NAMED} more")
    which = f"turn {turns[0]}" if len(turns) == 1 else f"turn {turns[0]} and those after it"
    text = (
        f"The user has undone what {which} did to files; the conversation was kept. "
        "These files are again as they were before that turn:\n" + "\n".join(names)
    )
    return user_message(block("user_action", text))
