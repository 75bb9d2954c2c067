"""Tokens and rate limits as clients read them. Pure."""

from __future__ import annotations

from typing import Any

from spindle.frontends.app_server.objects import ThreadTokenUsage, TokenUsageBreakdown


def token_usage(info: dict[str, Any]) -> ThreadTokenUsage:
    """The `info` of a token_count message."""
    total, last = (
        TokenUsageBreakdown(
            **{name: int(counted.get(name) or 0) for name in TokenUsageBreakdown.__struct_fields__},
        )
        for counted in (info.get("total_token_usage") or {}, info.get("last_token_usage") or {})
    )
    return ThreadTokenUsage(total=total, last=last, model_context_window=info.get("model_context_window"))


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
