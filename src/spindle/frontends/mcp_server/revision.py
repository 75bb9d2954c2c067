"""The stateless revision of MCP, 2026-07-28: every request says who asks, and a question is the answer to a request.

Instead of asking the client, the server answers a call with `input_required`; the client fills it in and makes the call
again, with the state it was given. Pure.
"""

from __future__ import annotations

from typing import Any

import msgspec

from spindle import __version__
from spindle.frontends.json_rpc import RpcError

STATELESS = "2026-07-28"
SERVER_INFO = {"name": "spindle-mcp-server", "title": "Spindle", "version": __version__}
CAPABILITIES: dict[str, Any] = {"tools": {"listChanged": True}}
_PREFIX = "io.modelcontextprotocol/"
_UNSUPPORTED_VERSION = -32022


class Caller(msgspec.Struct, frozen=True, kw_only=True):
    """Who makes a request, as the request itself says."""

    can_be_asked: bool


def can_be_asked(capabilities: Any) -> bool:
    """Does a client with these capabilities fill in forms? One that only opens addresses does not."""
    asking = capabilities.get("elicitation") if isinstance(capabilities, dict) else None
    return isinstance(asking, dict) and ("form" in asking or "url" not in asking)


def caller_of(params: dict[str, Any]) -> Caller | None:
    """None for a request of an earlier revision. Raises RpcError for a revision that is not spoken here."""
    meta = params.get("_meta")
    version = meta.get(f"{_PREFIX}protocolVersion") if isinstance(meta, dict) else None
    if version is None:
        return None
    if version != STATELESS:
        about = {"supported": [STATELESS], "requested": version}
        raise RpcError(f"revision {str(version)[:100]!r} is not spoken here", _UNSUPPORTED_VERSION, about)
    capabilities = meta.get(f"{_PREFIX}clientCapabilities") if isinstance(meta, dict) else None
    return Caller(can_be_asked=can_be_asked(capabilities))


def discovery() -> dict[str, Any]:
    """The result of `server/discover`."""
    return {
        "supportedVersions": [STATELESS],
        "capabilities": CAPABILITIES,
        "_meta": {f"{_PREFIX}serverInfo": SERVER_INFO},
    }


def completed(result: dict[str, Any], method: str) -> dict[str, Any]:
    """A result in the form of this revision. Lists and the discovery say that they are not to be kept."""
    kept = {} if method == "tools/call" or not result else {"ttlMs": 0, "cacheScope": "private"}
    return {"resultType": "complete", **kept, **result} if result else result


def input_required(requests: dict[str, dict[str, Any]], state: str) -> dict[str, Any]:
    """The answer to a call that cannot go on without its client. `requests` are the params of elicitations."""
    asked = {key: {"method": "elicitation/create", "params": params} for key, params in requests.items()}
    return {"resultType": "input_required", "inputRequests": asked, "requestState": state}
