"""The user-role message that names where the thread works. Exact white space: models are trained on it."""

from __future__ import annotations

from spindle.protocol.items import Item, user_message
from spindle.protocol.origin import defused_name
from spindle.protocol.quote import visible


def environment_message(
    *, shell: str, cwd: str | None = None, current_date: str | None = None, timezone: str | None = None
) -> Item:
    """Every fact that is given, in fixed order; a change message gives only what changed, and the shell."""
    facts = (("cwd", cwd), ("shell", shell), ("current_date", current_date), ("timezone", timezone))
    lines = [f"  <{name}>{_inside(value)}</{name}>" for name, value in facts if value is not None]
    return user_message("\n".join(("<environment_context>", *lines, "</environment_context>")))


def _inside(value: str) -> str:
    """A folder can have any name; it must not pass for another line, or for the end of the message."""
    return defused_name(visible(value))
