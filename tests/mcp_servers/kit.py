"""Entries for servers that the tests write themselves, and looks into what came of them."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

STUB = Path(__file__).parent / "stub.py"


def stub(how: dict[str, Any] | None = None, **entry: Any) -> dict[str, Any]:
    """A `[mcp_servers.NAME]` table for a stub that behaves like this."""
    return {"command": sys.executable, "args": [str(STUB), json.dumps(how or {})], **entry}


def servers(**tables: dict[str, Any]) -> dict[str, Any]:
    """The `config` argument of a session with these servers.

    The stub lies in this clone. Below the temporary folder the agent could write it, so it would run confined.
    """
    return {
        "mcp_servers": tables,
        "sandbox_workspace_write": {"exclude_slash_tmp": True, "exclude_tmpdir_env_var": True},
    }


def tool_names(request: Any) -> list[str]:
    return [tool.get("name", tool["type"]) for tool in request.to_dict()["tools"]]


def of_servers(request: Any) -> list[str]:
    return [name for name in tool_names(request) if name.startswith("mcp__")]


def received(path: Path) -> list[dict[str, Any]]:
    """What a stub noted of all the messages it got."""
    return [json.loads(line) for line in path.read_text().splitlines()]
