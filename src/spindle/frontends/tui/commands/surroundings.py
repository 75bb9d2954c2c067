"""What the session has around it: `/skills`, `/memories`, `/hooks`, `/warnings`."""

from __future__ import annotations

import asyncio
from typing import Any

from spindle.config.hook_consent import give_consent, take_consent_back
from spindle.errors import SpindleError, ToolError
from spindle.frontends.fit import counted
from spindle.frontends.hooks_command import state_of
from spindle.frontends.tui.commands.lines import block, clean, fields
from spindle.frontends.tui.desk import Desk
from spindle.frontends.tui.shown import Line, Span
from spindle.frontends.tui.text.clean import name, safe_lines
from spindle.frontends.tui.views.list import ListView, Row
from spindle.protocol.answers import ListSkillsResponse
from spindle.protocol.ops import ListSkills
from spindle.tools.memory_folder import MemoryFolder, project_folder
from spindle.workspace.git import find_root


async def skills(desk: Desk, argument: str) -> None:
    """Choose a skill: its name goes into the composer."""
    answer = await desk.call(ListSkills(force_reload=argument == "reload"))
    found = answer.skills[0] if isinstance(answer, ListSkillsResponse) and answer.skills else {}
    for error in found.get("errors") or ():
        desk.warn(f"a skill cannot be used: {name(str(error.get('path')))}: {clean(str(error.get('message')))}")
    usable = [skill for skill in found.get("skills") or () if skill.get("enabled", True)]
    if not usable:
        folder = name(f"{desk.config.home}/skills")
        desk.say(f"There are no skills here. A folder with a SKILL.md below {folder} or .agents/skills is one.")
        return
    rows = [Row(value=str(skill["name"]), name=f"${name(str(skill['name']))}", about=_about(skill)) for skill in usable]
    chosen = await desk.ask(ListView("Skills", rows, has_search=True, note="the chosen one is put into the composer"))
    if chosen is not None:
        desk.set_draft(f"${chosen} ")


def _about(skill: dict[str, Any]) -> str:
    return clean(str(skill.get("short_description") or skill.get("description") or ""))[:300]


# ---- notes -------------------------------------------------------------------------------------------


async def memories(desk: Desk, argument: str) -> None:
    """The notes of this project, one of them in the pager."""
    config = desk.config
    project = find_root(config.cwd, config.project_root_markers) or config.cwd
    folder = MemoryFolder(project_folder(config.home, project))
    found = await asyncio.to_thread(folder.notes)
    off = "" if config.spindle.memory else " They are switched off: `memory = true` under [spindle] switches them on."
    if not found:
        desk.say(f"There are no notes for this project.{off}")
        return
    rows = [
        Row(value=each.path, name=name(each.path), about=f"{clean(each.title)} ({each.size:,} bytes)") for each in found
    ]
    title = f"{counted(len(found), 'note')} for this project"
    chosen = await desk.ask(ListView(title, rows, has_search=True, note=f"{name(folder.root)}{off}"))
    if chosen is None:
        return
    try:
        text = await asyncio.to_thread(folder.view, chosen)
    except ToolError as error:
        raise SpindleError(str(error)) from error
    await desk.page(name(chosen), [Line((Span(each),), (), True) for each in safe_lines(text)])


# ---- hooks -------------------------------------------------------------------------------------------


async def hooks(desk: Desk, argument: str) -> None:
    """Which hooks there are; one of the project may be allowed, or stopped again."""
    found = {hook.key: hook for hook in desk.config.hooks}
    if not found:
        desk.say("There are no hooks here.")
        return
    rows = [
        Row(value=key, name=f"{hook.event}: {clean(hook.command)[:100]}", about=f"{name(key)}\n{state_of(hook)}")
        for key, hook in found.items()
    ]
    note = "choose one of the project to agree to it, or to take that back"
    chosen = await desk.ask(ListView("Hooks", rows, note=note))
    if chosen is None:
        return
    hook = found[chosen]
    if hook.source != "project":
        desk.say("This hook is your own: it runs without your consent, and `enabled = false` switches it off.")
        return
    if hook.trust == "trusted":
        await asyncio.to_thread(take_consent_back, desk.config.home, [chosen])
        desk.say(f"No longer runs, from the next session on: {name(chosen)}")
        return
    rows_of_two = [
        Row(value=False, name="No"),
        Row(value=True, name="Yes, it may run", about=state_of(_agreed(hook))),
    ]
    if await desk.ask(ListView("May this program of the project run?", rows_of_two, note=clean(hook.command))):
        await asyncio.to_thread(give_consent, desk.config.home, [hook])
        desk.say(f"Runs from the next session on: {name(chosen)}")


def _agreed(hook: Any) -> Any:
    import msgspec  # only where a hook is asked about

    return msgspec.structs.replace(hook, trust="trusted")


# ---- warnings ----------------------------------------------------------------------------------------


async def warnings(desk: Desk, argument: str) -> None:
    told = list(desk.seen.warnings)
    if not told:
        desk.say("There were no warnings in this session.")
        return
    pairs = [(str(number), text) for number, text in enumerate(told, 1)]
    desk.say(*block(counted(len(told), "warning"), fields(pairs)))
