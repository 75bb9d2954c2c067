"""For a thread that ran before with other settings: what a person is told of them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from spindle.errors import SpindleError
from spindle.frontends.plain_text import sandbox_line
from spindle.protocol.quote import shell_join, visible
from spindle.protocol.settings import SANDBOX_MODES, SandboxPolicy

if TYPE_CHECKING:
    from spindle.api.door import OpenThread, SessionRequest


def notes_on_settings(before: dict[str, Any], thread: OpenThread, request: SessionRequest) -> dict[str, str]:
    """By the name of a line of the header, where today's value comes from and how to keep the one it had `before`.

    `exec` never takes them over by itself: a thread that once had the run of the machine must not get it unasked.
    """
    notes: dict[str, str] = {}
    if flags := _sandbox_flags(recorded := before.get("sandbox_policy"), thread.settings.sandbox):
        had = SandboxPolicy.from_wire(recorded)
        words = sandbox_line(had) if had.writable_roots or had.network_access else had.mode
        notes["sandbox"] = _note("sandbox_mode", words, flags, request)
    effort, now = before.get("effort"), thread.effort
    if isinstance(effort, str) and effort != now:
        notes["reasoning effort"] = _note(
            "model_reasoning_effort", effort, ["-c", f"model_reasoning_effort={effort}"], request
        )
    return {name: note for name, note in notes.items() if note}


def _note(key: str, before: str, flags: list[str], request: SessionRequest) -> str:
    origin = request.config.origins.get(key)
    if origin in ("command line", "-c"):
        return ""  # the person has just said so
    reason = f"from {origin}" if origin else "exec's default"
    return f"{reason}; the thread ran with {visible(before)}: add {visible(shell_join(flags))} to keep it"


def _sandbox_flags(recorded: Any, now: SandboxPolicy) -> list[str]:
    """The options that give a thread what it had before; none when it has that, or when no option gives it."""
    try:
        before = SandboxPolicy.from_wire(recorded)
    except SpindleError:
        return []
    if before.mode not in SANDBOX_MODES:
        return []
    flags = ["-s", before.mode] if before.mode != now.mode else []
    if before.mode == "workspace-write":
        for root in before.writable_roots:
            flags += ["--add-dir", root] if root not in now.writable_roots else []
        if before.network_access and not now.network_access:
            flags += ["-c", "sandbox_workspace_write.network_access=true"]
    return flags
