"""`/permissions`: what may be done without asking, what is in force, and what was granted."""

from __future__ import annotations

from typing import Any, Literal

import msgspec

from spindle.config.schema import Config
from spindle.errors import SpindleError
from spindle.frontends.options import nearest
from spindle.frontends.tui.commands.lines import clean
from spindle.frontends.tui.commands.status import permission_words, sandbox_words
from spindle.frontends.tui.desk import Desk
from spindle.frontends.tui.views.list import ListView, Row
from spindle.protocol.answers import ListGrantsResponse
from spindle.protocol.ops import ListGrants, OverrideTurnContext, RevokeGrant
from spindle.protocol.settings import SandboxPolicy, ThreadSettings


class Preset(msgspec.Struct, frozen=True, kw_only=True):
    """A pair of settings with a name for people."""

    name: str
    about: str
    mode: Literal["read-only", "workspace-write", "danger-full-access"]
    approval: str
    aliases: tuple[str, ...] = ()


PRESETS = (
    Preset(
        name="read-only",
        about="look at files; you are asked before anything is changed or runs outside the sandbox",
        mode="read-only",
        approval="on-request",
        aliases=("read", "readonly"),
    ),
    Preset(
        name="auto",
        about="change files and run commands in the working folder; you are asked before anything leaves it or uses"
        " the network",
        mode="workspace-write",
        approval="on-request",
        aliases=("default", "workspace-write", "agent", "auto-edit"),
    ),
    Preset(
        name="full-access",
        about="no sandbox and no questions: everything runs with all your rights, on the network too",
        mode="danger-full-access",
        approval="never",
        aliases=("full", "danger-full-access", "yolo"),
    ),
)
_GRANTS = "grants"


async def choose(desk: Desk, argument: str) -> None:
    if desk.thread is None:
        raise SpindleError("the session is still being opened; try again in a moment")
    if argument:
        await _apply(desk, _named(argument.lower()))
        return
    grants = await _grants(desk)
    settings = desk.thread.settings
    rows: list[Row[Any]] = [
        Row(
            value=preset,
            name=preset.name,
            about=preset.about,
            is_current=is_in_force(preset, settings),
            why_not=why_not(preset, desk.config),
        )
        for preset in PRESETS
    ]
    if grants:
        rows.append(Row(value=_GRANTS, name=f"what you granted ({len(grants)})", about="look at it, take it back"))
    note = f"In force: {clean(permission_words(settings))}\nSandbox: {clean(await sandbox_words(desk))}"
    chosen = await desk.ask(ListView("Permissions", rows, note=note))
    if chosen == _GRANTS:
        await _take_back(desk, grants)
    elif isinstance(chosen, Preset):
        await _apply(desk, chosen)


def is_in_force(preset: Preset, settings: ThreadSettings) -> bool:
    sandbox = settings.sandbox
    return (
        (sandbox.mode, settings.approval_policy) == (preset.mode, preset.approval)
        and sandbox.permissions is None
        and settings.granular is None
    )


def why_not(preset: Preset, config: Config) -> str:
    """What an administrator has fixed is not for the person to change."""
    modes, policies = config.allowed_sandbox_modes, config.allowed_approval_policies
    if modes is not None and preset.mode not in modes:
        return f"the administrator allows only {', '.join(modes)}"
    if policies is not None and preset.approval not in policies:
        return f"the administrator allows only the approval policies {', '.join(policies)}"
    return ""


def _named(word: str) -> Preset:
    names = {name: preset for preset in PRESETS for name in (preset.name, *preset.aliases)}
    if (preset := names.get(word)) is not None:
        return preset
    near = nearest(word, names)
    hint = f"did you mean {near}?" if near else f"use one of {', '.join(preset.name for preset in PRESETS)}"
    raise SpindleError(f"unknown preset {word!r}; {hint}")


async def _apply(desk: Desk, preset: Preset) -> None:
    assert desk.thread is not None
    if reason := why_not(preset, desk.config):
        raise SpindleError(f"{preset.name} cannot be chosen: {reason}")
    is_new = not is_in_force(preset, desk.thread.settings)
    if preset.mode == "danger-full-access" and is_new and not await _is_sure(desk):
        return
    policy = desk.config.workspace_write if preset.mode == "workspace-write" else SandboxPolicy(mode=preset.mode)
    desk.submit(OverrideTurnContext(approval_policy=preset.approval, sandbox_policy=policy.to_wire()))
    await desk.thread.settle()
    desk.redraw()
    when = "from the next turn on" if desk.is_working else "from now on"
    desk.say(f"Permissions {preset.name} {when}, for this session: {clean(permission_words(desk.thread.settings))}.")


async def _is_sure(desk: Desk) -> bool:
    rows = [
        Row(value=False, name="No, leave it as it is"),
        Row(value=True, name="Yes, full access for this session", about="nothing will be asked, nothing confined"),
    ]
    note = (
        "The model could delete or send away anything you can reach, also because a file or a web page it reads"
        " tells it to. Do this only where nothing can be lost."
    )
    return bool(await desk.ask(ListView("Let everything run without sandbox and without questions?", rows, note=note)))


# ---- grants ------------------------------------------------------------------------------------------


async def _grants(desk: Desk) -> list[dict[str, Any]]:
    answer = await desk.call(ListGrants())
    return answer.grants if isinstance(answer, ListGrantsResponse) else []


async def _take_back(desk: Desk, grants: list[dict[str, Any]]) -> None:
    rows = [
        Row(value=str(grant.get("id")), name=clean(str(grant.get("text") or grant.get("id"))), about=_until(grant))
        for grant in grants
    ]
    chosen = await desk.ask(ListView("What you granted: choose what to take back", rows))
    if chosen is None:
        return
    await desk.call(RevokeGrant(id=chosen))
    text = next((row.name for row in rows if row.value == chosen), chosen)
    desk.say(f"Taken back, so it is asked about again: {text}")


def _until(grant: dict[str, Any]) -> str:
    return "for this session" if grant.get("expires") == "session" else "until you take it back"
