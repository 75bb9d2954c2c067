"""The way to one server: whole JSON-RPC messages in both directions. Two kinds: `stdio` and `http`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

Message = dict[str, Any]

MESSAGE_MAX_BYTES = 16 * 1024 * 1024
"""A server that sends more at once is not worked with any longer."""


class Channel(Protocol):
    """Opened once, then used until it is lost or closed."""

    async def open(self, receive: Callable[[Message], None], lost: Callable[[str], None]) -> None:
        """Raises McpError. `receive` hears every message; `lost`, once, why there will be no more."""
        ...

    async def send(self, message: Message) -> None:
        """Raises McpError when the way is lost. What goes wrong later with one request comes as its error answer."""
        ...

    def forget(self, request_id: int) -> None:
        """Nobody waits for the answer to this request any more."""
        ...

    def agreed(self, version: str) -> None:
        """Both sides speak this version of the protocol from now on."""
        ...

    async def aclose(self) -> None:
        """Let the server go. Safe to call twice."""
        ...

    def kill(self) -> None:
        """The same without waiting for anything."""
        ...


def messages_in(value: Any) -> list[Message]:
    """The messages of one line or event: an object, or an array of them as an older version had it."""
    values = value if isinstance(value, list) else [value]
    return [entry for entry in values if isinstance(entry, dict)]
