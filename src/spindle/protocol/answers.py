"""Event messages that answer a client's questions; loaded with the first question."""

from __future__ import annotations

from typing import Any

from spindle.protocol.events import Msg
from spindle.protocol.outside import NOTHING, Outside


class ListSkillsResponse(Msg, frozen=True, kw_only=True, tag="list_skills_response"):
    outside = Outside(words=("skills",))
    skills: list[dict[str, Any]]


class ListGrantsResponse(Msg, frozen=True, kw_only=True, tag="list_grants_response"):
    outside = Outside(tools=("grants",))
    grants: list[dict[str, Any]]


class ListModelsResponse(Msg, frozen=True, kw_only=True, tag="list_models_response"):
    outside = Outside(words=("models",))
    models: list[dict[str, Any]]


class BackgroundStopped(Msg, frozen=True, kw_only=True, tag="background_terminals_cleaned"):
    """Answers `clean_background_terminals`: which commands were ended."""

    outside = NOTHING
    process_ids: list[str]


class TurnUpdated(Msg, frozen=True, kw_only=True, tag="turn_updated"):
    """Answers `update_turn`: whether that turn still runs, and so has the new settings."""

    outside = NOTHING
    is_applied: bool


class ConversationPath(Msg, frozen=True, kw_only=True, tag="conversation_path"):
    outside = Outside(words=("path",))
    conversation_id: str
    path: str | None


class ContextUsage(Msg, frozen=True, kw_only=True, tag="context_usage"):
    """How full the window is and what fills it, by source; and what the provider's cache saved."""

    outside = Outside(words=("tokens", "cache"))
    window: int | None
    limit: int | None
    used: int
    percent_left: int | None
    tokens: dict[str, int]
    cache: dict[str, Any]
