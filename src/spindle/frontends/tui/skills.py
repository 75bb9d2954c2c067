"""The skills that can be named with `$` in a message."""

from __future__ import annotations

from typing import NamedTuple

from spindle.frontends.tui.desk import Desk
from spindle.protocol.answers import ListSkillsResponse
from spindle.protocol.ops import ListSkills


class SkillSeen(NamedTuple):
    name: str
    description: str


async def skills_here(desk: Desk) -> list[SkillSeen]:
    """Those of the thread's folder and of the person's home that are switched on."""
    answer = await desk.call(ListSkills())
    found = answer.skills[0] if isinstance(answer, ListSkillsResponse) and answer.skills else {}
    return [
        SkillSeen(str(skill["name"]), str(skill.get("short_description") or skill.get("description") or ""))
        for skill in found.get("skills") or ()
        if skill.get("enabled", True)
    ]
