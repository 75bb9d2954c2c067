"""What the model was last told about its surroundings, and the messages that tell it.

A thread starts with `initial_context`; before each later user message `context_changes` appends what differs, and
nothing is ever edited. The snapshot survives in the rollout's turn_context lines.
"""

from __future__ import annotations

from typing import Any

import msgspec

from spindle.errors import ConfigError
from spindle.prompt.document_messages import agents_ended_message, agents_message, notes_message
from spindle.prompt.environment import environment_message
from spindle.prompt.modes import mode_message, mode_text, model_switch_message, personality_message
from spindle.prompt.permissions import PROTECTED, permissions_message
from spindle.protocol.items import Item, developer_message
from spindle.protocol.settings import CollaborationMode, Granular, SandboxPolicy, approval_to_wire, read_approval

Prefixes = tuple[tuple[str, ...], ...]


class ContextSnapshot(msgspec.Struct, frozen=True, kw_only=True):
    """The facts of which the model is kept informed. None means unknown or not told, and never counts as a change."""

    cwd: str
    shell: str = "bash"
    approval_policy: str = "on-request"
    granular: Granular | None = None
    sandbox: SandboxPolicy = SandboxPolicy()
    roots: tuple[str, ...] = ()
    """The writable roots of the sandbox, in order."""
    protected: tuple[str, ...] = PROTECTED
    reads_everything: bool = True
    approved_prefixes: Prefixes | None = None
    model: str | None = None
    model_text: str | None = None
    """The model's own base text; None where another model would not bring one."""
    personality: str | None = None
    collaboration_mode: CollaborationMode = CollaborationMode()
    developer_instructions: str | None = None
    user_instructions: str | None = None
    """Project documents and skills, without the heading."""
    notes: str | None = None
    """The list of notes that models wrote in this project."""
    project_root: str | None = None
    current_date: str | None = None
    timezone: str | None = None
    includes_permissions: bool = True
    includes_environment: bool = True


def initial_context(snapshot: ContextSnapshot, *, personality_baked: bool = True) -> list[Item]:
    """The messages before the first prompt, least-changing first. `personality_baked`: the base text carries it."""
    items: list[Item] = []
    if snapshot.includes_permissions:
        items.append(_permissions(snapshot))
    if snapshot.developer_instructions:
        items.append(developer_message(snapshot.developer_instructions))
    if mode_text(snapshot.collaboration_mode):
        items.append(mode_message(snapshot.collaboration_mode))
    if not personality_baked and snapshot.personality not in (None, "none"):
        items.append(personality_message(snapshot.personality))
    if snapshot.user_instructions:
        items.append(agents_message(snapshot.cwd, snapshot.user_instructions))
    if snapshot.notes:
        items.append(notes_message(snapshot.notes))
    if snapshot.includes_environment:
        items.append(_environment(snapshot))
    return items


def context_changes(old: ContextSnapshot | None, new: ContextSnapshot) -> list[Item]:
    """One message for each thing that is no longer as told; all of them when nothing was ever told."""
    if old is None:
        return initial_context(new)
    items: list[Item] = []
    if new.includes_permissions and _permissions_differ(old, new):
        items.append(_permissions(new))
    if new.developer_instructions and new.developer_instructions != old.developer_instructions:
        items.append(developer_message(new.developer_instructions))
    if _modes_differ(old.collaboration_mode, new.collaboration_mode):
        items.append(mode_message(new.collaboration_mode))
    if None not in (old.personality, new.personality) and old.personality != new.personality:
        items.append(personality_message(new.personality or "none"))
    if new.model_text and old.model not in (None, new.model) and old.model_text != new.model_text:
        items.append(model_switch_message(new.model_text))
    if new.includes_environment and (environment := _environment_change(old, new)) is not None:
        items.append(environment)
    if _documents_differ(old, new):
        told = new.user_instructions
        items.append(agents_message(new.cwd, told) if told else agents_ended_message(new.cwd))
    if old.notes != new.notes:
        items.append(notes_message(new.notes))
    return items


# ---- differences -------------------------------------------------------------------------------------


def _permissions_differ(old: ContextSnapshot, new: ContextSnapshot) -> bool:
    if (old.approval_policy, old.granular, old.sandbox) != (new.approval_policy, new.granular, new.sandbox):
        return True
    if new.approval_policy != "on-request" or None in (old.approved_prefixes, new.approved_prefixes):
        return False
    return old.approved_prefixes != new.approved_prefixes


def _modes_differ(old: CollaborationMode, new: CollaborationMode) -> bool:
    return (old.mode, mode_text(old)) != (new.mode, mode_text(new))


def _documents_differ(old: ContextSnapshot, new: ContextSnapshot) -> bool:
    if old.user_instructions != new.user_instructions:
        return bool(old.user_instructions or new.user_instructions)
    moved = None not in (old.project_root, new.project_root) and old.project_root != new.project_root
    return moved and bool(new.user_instructions)


def _environment_change(old: ContextSnapshot, new: ContextSnapshot) -> Item | None:
    changed = {
        name: value
        for name in ("cwd", "current_date", "timezone")
        if (value := getattr(new, name)) is not None and value != getattr(old, name)
    }
    return environment_message(shell=new.shell, **changed) if changed else None


def _permissions(snapshot: ContextSnapshot) -> Item:
    return permissions_message(
        snapshot.sandbox,
        snapshot.approval_policy,
        snapshot.roots,
        approved_prefixes=snapshot.approved_prefixes or (),
        protected=snapshot.protected,
        reads_everything=snapshot.reads_everything,
        granular=snapshot.granular,
    )


def _environment(snapshot: ContextSnapshot) -> Item:
    return environment_message(
        shell=snapshot.shell,
        cwd=snapshot.cwd,
        current_date=snapshot.current_date,
        timezone=snapshot.timezone,
    )


# ---- the rollout's turn_context ----------------------------------------------------------------------


def turn_context_payload(
    snapshot: ContextSnapshot,
    *,
    turn_id: str,
    effort: str | None = None,
    summary: str = "auto",
    output_schema: dict[str, Any] | None = None,
    truncation: tuple[str, int] | None = None,
) -> dict[str, Any]:
    """A turn's line in the rollout. `truncation` is (mode, limit). What is null is left out."""
    mode = snapshot.collaboration_mode
    payload = {
        "turn_id": turn_id,
        "cwd": snapshot.cwd,
        "current_date": snapshot.current_date,
        "timezone": snapshot.timezone,
        "approval_policy": approval_to_wire(snapshot.approval_policy, snapshot.granular),
        "sandbox_policy": snapshot.sandbox.to_wire(),
        "model": snapshot.model,
        "personality": snapshot.personality,
        "collaboration_mode": {
            "mode": mode.mode,
            # Other readers of the rollout insist on the model and the effort inside the mode.
            "settings": {
                "model": snapshot.model,
                "reasoning_effort": effort,
                "developer_instructions": mode.developer_instructions,
            },
        },
        "effort": effort,
        "summary": summary,
        "user_instructions": snapshot.user_instructions,
        "developer_instructions": snapshot.developer_instructions,
        "final_output_json_schema": output_schema,
        "truncation_policy": {"mode": truncation[0], "limit": truncation[1]} if truncation else None,
        "spindle": {"notes": snapshot.notes} if snapshot.notes else None,
    }
    return {key: value for key, value in payload.items() if value is not None}


def snapshot_from_turn_context(payload: dict[str, Any]) -> ContextSnapshot | None:
    """What the last recorded turn told the model; None when the line cannot be understood."""
    cwd = payload.get("cwd")
    if not isinstance(cwd, str):
        return None
    try:
        policy, granular = read_approval(payload.get("approval_policy"))
        sandbox = SandboxPolicy.from_wire(payload.get("sandbox_policy"))
    except ConfigError:
        return None
    ours = payload.get("spindle")
    return ContextSnapshot(
        cwd=cwd,
        approval_policy=policy,
        granular=granular,
        sandbox=sandbox,
        model=_text_or_none(payload.get("model")),
        personality=_text_or_none(payload.get("personality")),
        collaboration_mode=CollaborationMode.from_wire(payload.get("collaboration_mode")),
        developer_instructions=_text_or_none(payload.get("developer_instructions")),
        user_instructions=_text_or_none(payload.get("user_instructions")),
        notes=_text_or_none(ours.get("notes")) if isinstance(ours, dict) else None,
        current_date=_text_or_none(payload.get("current_date")),
        timezone=_text_or_none(payload.get("timezone")),
    )


def _text_or_none(value: Any) -> str | None:
    return value if isinstance(value, str) else None
