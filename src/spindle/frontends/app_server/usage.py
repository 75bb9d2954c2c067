"""Tokens and rate limits as clients read them. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from spindle.frontends.app_server.objects import ThreadTokenUsage, TokenUsageBreakdown
from spindle.thread.entry import Record

_HEAD = 60
"""The kind of an event stands within so many bytes from the beginning of its line."""


def token_usage(info: dict[str, Any]) -> ThreadTokenUsage:
    """The `info` of a token_count message."""
    total, last = (
        TokenUsageBreakdown(
            **{name: int(counted.get(name) or 0) for name in TokenUsageBreakdown.__struct_fields__},
        )
        for counted in (info.get("total_token_usage") or {}, info.get("last_token_usage") or {})
    )
    return ThreadTokenUsage(total=total, last=last, model_context_window=info.get("model_context_window"))


def recorded_usage(records: Sequence[Record]) -> tuple[str, ThreadTokenUsage] | None:
    """What a client was last told of a thread's use, and of which turn; None while nothing has been counted."""
    found: ThreadTokenUsage | None = None
    for record in reversed(records):
        if record.kind != "event_msg":
            continue
        kind = record.raw[:_HEAD]
        if found is None and b'"token_count"' in kind and isinstance(info := record.payload.get("info"), dict):
            found = token_usage(info)
        elif found is not None and b'"task_started"' in kind:
            return str(record.payload.get("turn_id") or ""), found
    return None


def rate_limits(snapshot: dict[str, Any]) -> dict[str, Any]:
    """The account's allowance as a client reads it."""
    windows = {
        name: window
        and {
            "usedPercent": round(window.get("used_percent") or 0),
            "windowDurationMins": window.get("window_minutes"),
            "resetsAt": window.get("resets_at"),
        }
        for name in ("primary", "secondary")
        for window in (snapshot.get(name),)
    }
    credits = snapshot.get("credits")
    return {
        "limitId": "codex",
        "limitName": None,
        **windows,
        "credits": credits
        and {
            "hasCredits": credits.get("has_credits"),
            "unlimited": credits.get("unlimited"),
            "balance": credits.get("balance"),
        },
        "planType": snapshot.get("plan_type"),
    }
