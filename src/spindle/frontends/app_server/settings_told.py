"""`thread/settings/updated`: all settings of a thread, sent when one of them has changed."""

from __future__ import annotations

from typing import Any, Literal

from spindle.frontends.app_server.items import sandbox_of
from spindle.frontends.app_server.loaded import LoadedThread
from spindle.frontends.app_server.methods.opening import ActivePermissionProfile, mode_of
from spindle.frontends.app_server.notifications import Note
from spindle.frontends.app_server.objects import AskForApproval, SandboxPolicy, ThreadEnvironment, Wire
from spindle.protocol import settings


class ThreadSettings(Wire, frozen=True, kw_only=True):
    """What the next turn of a thread will run with."""

    cwd: str
    environments: list[ThreadEnvironment]
    approval_policy: AskForApproval
    approvals_reviewer: str = "user"
    sandbox_policy: SandboxPolicy
    active_permission_profile: ActivePermissionProfile | None
    model: str
    model_provider: str
    service_tier: str | None
    effort: str | None
    summary: str | None
    personality: str | None
    collaboration_mode: dict[str, Any]
    multi_agent_mode: Literal["explicitRequestOnly"] = "explicitRequestOnly"
    disabled_plugin_ids: list[str] = []


class ThreadSettingsUpdated(Note, frozen=True, kw_only=True):
    method = "thread/settings/updated"
    thread_id: str
    thread_settings: ThreadSettings


def shown(present: settings.ThreadSettings) -> ThreadSettings:
    profile = present.sandbox.permissions
    return ThreadSettings(
        cwd=present.cwd,
        environments=ThreadEnvironment.of(present.cwd),
        approval_policy=present.approval,  # pyright: ignore[reportArgumentType]
        sandbox_policy=sandbox_of(present.sandbox),
        active_permission_profile=None if profile is None else ActivePermissionProfile(id=profile.name),
        model=present.model,
        model_provider=present.model_provider,
        service_tier=present.service_tier,
        effort=present.effort,
        summary=present.summary,
        personality=present.personality,
        collaboration_mode=mode_of(present),
    )


def tell_settings(thread: LoadedThread, present: settings.ThreadSettings) -> None:
    """Tell everybody who follows the thread."""
    note = ThreadSettingsUpdated(thread_id=thread.id, thread_settings=shown(present))
    for connection in thread.followers:
        connection.notify(note, thread.now_ms)
