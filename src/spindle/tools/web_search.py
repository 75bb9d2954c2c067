"""The entry of the hosted web search. The server runs it; there is nothing to call here."""

from __future__ import annotations

from typing import Any


def web_search_spec(external_web_access: bool) -> dict[str, Any]:
    """Cached pages only, unless `external_web_access` allows the live web. Fixed when a thread starts."""
    return {"type": "web_search", "external_web_access": external_web_access}
