"""The user-role messages made from project documents and skills. Finding and reading those files is `workspace/`'s."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Protocol

import msgspec

from spindle.prompt.bundled import text
from spindle.protocol.items import Item, user_message
from spindle.protocol.origin import block, defused, defused_name
from spindle.protocol.quote import readable, visible

DEFAULT_LIST_CHARS = 8_000
"""Room for the list of skills when the window of the model is unknown."""
LIST_SHARE_PERCENT = 2
CHARS_PER_TOKEN = 4
SHORTEST_DESCRIPTION = 24


class SkillLike(Protocol):
    """What is told about a skill."""

    @property
    def name(self) -> str: ...
    @property
    def description(self) -> str: ...
    @property
    def path(self) -> str: ...
    @property
    def enabled(self) -> bool: ...
    @property
    def allow_implicit(self) -> bool: ...


class SkillsSection(msgspec.Struct, frozen=True):
    """The rendered section, and what a person should know about it."""

    text: str
    warnings: tuple[str, ...] = ()


def render_skills(skills: Iterable[SkillLike], window_tokens: int | None = None) -> SkillsSection | None:
    """The skills section of the user instructions; None without a skill that the model may choose by itself."""
    enabled = [skill for skill in skills if skill.enabled and skill.allow_implicit]
    if not enabled:
        return None
    room = window_tokens * LIST_SHARE_PERCENT * CHARS_PER_TOKEN // 100 if window_tokens else DEFAULT_LIST_CHARS
    lines, warnings = _fit(enabled, room)
    listed = "\n".join(lines)
    return SkillsSection(f"{text('skills_intro')}\n{listed}\n{text('skills_howto')}", warnings)


def user_instructions(docs: str | None, skills: str | None) -> str | None:
    """The documents' text and the skills section as one text; None when there is nothing to say."""
    return "\n\n".join(part for part in (docs, skills) if part) or None


def notes_message(index: str | None) -> Item:
    """The list of notes that models wrote in this project, and what it is; None: there were some, and are no more."""
    return user_message(block("project_notes", f"{text('memory_intro')}\n{index or 'There are no notes any more.'}"))


def agents_message(cwd: str, instructions: str) -> Item:
    heading = f"# AGENTS.md instructions for {defused(visible(cwd))}"
    return user_message(f"{heading}\n\n{block('INSTRUCTIONS', instructions)}")


def agents_ended_message(cwd: str) -> Item:
    """Documents were told before, and none apply any more."""
    return agents_message(cwd, text("agents_ended"))


def skill_message(name: str, path: str, content: str) -> Item:
    """A selected skill with its whole file; stands after the prompt."""
    named = f"<name>{defused_name(visible(name))}</name>\n<path>{defused_name(visible(path))}</path>"
    return user_message(block("skill", f"{named}\n{content}"))


# ---- fitting the list into its room ------------------------------------------------------------------


def _fit(skills: Sequence[SkillLike], room: int) -> tuple[list[str], tuple[str, ...]]:
    """All lines if they fit; else shorter descriptions, then fewer skills."""
    longest = max(len(skill.description) for skill in skills)
    if _size(skills, longest) <= room:
        return [_line(skill, longest) for skill in skills], ()
    cap = _longest_fitting_cap(skills, longest, room)
    kept = list(skills)
    while kept and _size(kept, cap) > room:
        kept.pop()
    warnings = [f"The descriptions of skills were shortened: the list may take {room} characters."]
    if dropped := len(skills) - len(kept):
        names = ", ".join(skill.name for skill in skills[len(kept) :][:5])
        more = ", …" if dropped > 5 else ""
        warnings.append(f"{dropped} skills did not fit into the list and are not offered: {names}{more}")
    return [_line(skill, cap) for skill in kept], tuple(warnings)


def _longest_fitting_cap(skills: Sequence[SkillLike], longest: int, room: int) -> int:
    low, high = SHORTEST_DESCRIPTION, max(longest, SHORTEST_DESCRIPTION)
    while low < high:
        middle = (low + high + 1) // 2
        if _size(skills, middle) <= room:
            low = middle
        else:
            high = middle - 1
    return low


def _size(skills: Sequence[SkillLike], cap: int) -> int:
    return sum(len(_line(skill, cap)) + 1 for skill in skills)


def _line(skill: SkillLike, cap: int) -> str:
    description = readable(skill.description)
    if len(description) > cap:
        description = description[: cap - 1].rstrip() + "…"
    return f"- {visible(skill.name)}: {description} (file: {visible(skill.path)})"
