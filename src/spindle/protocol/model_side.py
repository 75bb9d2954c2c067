"""What a turn tells of the model's side that is no part of the conversation: most turns have none of it."""

from __future__ import annotations

from typing import Any

from spindle.protocol.events import Msg
from spindle.protocol.outside import Outside


class ModelReroute(Msg, frozen=True, kw_only=True, tag="model_reroute"):
    """The server lets another model answer than was asked for. Once in a turn; a `warning` says it to people."""

    outside = Outside(words=("from_model", "to_model"))
    from_model: str
    to_model: str
    reason: str = "high_risk_cyber_activity"
    """The one reason that clients know; servers do not tell theirs."""


class PatchApplyUpdated(Msg, frozen=True, kw_only=True, tag="patch_apply_updated"):
    """So far has the model written a patch. `changes` is as in `patch_apply_begin`, with paths as written."""

    outside = Outside(tools=("call_id", "changes"))
    call_id: str
    turn_id: str
    changes: dict[str, Any]
