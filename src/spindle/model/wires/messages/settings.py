"""What a Messages request says beside the conversation: how long, how well thought out, in which form. Pure."""

from __future__ import annotations

from typing import Any

from spindle.model.capabilities import Capabilities
from spindle.protocol.request import ModelFacts, Request

OUTPUT_TOKENS = 32_000
"""How much an answer may have where nobody says."""
_LEAST_TOKENS = 1024
_BYTES_PER_TOKEN = 4

_EFFORTS = {"minimal": "low", "low": "low", "medium": "medium", "high": "high", "xhigh": "xhigh"}
_EFFORTS |= {"max": "max", "ultra": "max"}
"""Our efforts by the names this API has for them."""
_BUDGETS = {"minimal": 1024, "low": 4096, "medium": 10_240, "high": 24_576}
_MOST_BUDGET = 31_999
_LEAST_BUDGET = 1024


def max_tokens(facts: ModelFacts, capabilities: Capabilities, conversation_bytes: int) -> int:
    """How much the answer may have: what is configured, else known, and never more than the window leaves."""
    wanted = facts.max_output_tokens or capabilities.output_tokens or facts.output_limit or OUTPUT_TOKENS
    if not facts.window:
        return wanted
    # An estimate: where it errs, the server says so, and the thread is compacted.
    room = facts.window - conversation_bytes // _BYTES_PER_TOKEN
    return min(wanted, max(room, _LEAST_TOKENS))


def thinking(request: Request, most_tokens: int, *, is_vendor: bool) -> dict[str, Any] | None:
    """How the model is asked to think; None where nothing is known of that, or nothing is wanted."""
    facts = request.facts
    is_forced = request.tool_choice not in ("auto", "none")
    if facts.effort == "none" or is_forced:  # a model that must call a tool may not think
        return None
    if facts.thinking == "adaptive":
        # The newest models leave the text of their thinking out unless they are asked for it.
        return {"type": "adaptive", "display": "summarized"} if is_vendor else {"type": "adaptive"}
    if facts.thinking == "enabled" and most_tokens > _LEAST_BUDGET:
        budget = _BUDGETS.get(facts.effort or "medium", _MOST_BUDGET)
        return {"type": "enabled", "budget_tokens": max(_LEAST_BUDGET, min(budget, most_tokens - 1))}
    return None


def output_config(request: Request, capabilities: Capabilities) -> dict[str, Any] | None:
    """The effort, and the schema that the answer must have."""
    config: dict[str, Any] = {}
    facts = request.facts
    # Older models, whose thinking has a budget, do not know the word.
    is_known = capabilities.effort and facts.thinking != "enabled"
    if is_known and (effort := _EFFORTS.get(facts.effort or "")) is not None:
        config["effort"] = effort
    schema = ((request.text or {}).get("format") or {}).get("schema")
    if isinstance(schema, dict):
        config["format"] = {"type": "json_schema", "schema": schema}
    return config or None
