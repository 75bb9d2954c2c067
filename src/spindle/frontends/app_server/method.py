"""What a method of the app-server is: its name, the shapes of its params and its result, and its function."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any

import msgspec

from spindle.frontends.app_server.objects import Wire

if TYPE_CHECKING:
    from spindle.frontends.app_server.connection import Connection
    from spindle.frontends.app_server.server import Server


class Nothing(Wire, frozen=True, kw_only=True):
    """No params, or a result without content."""


class Call:
    """One request: who asks, and of which server."""

    __slots__ = ("client", "server")

    def __init__(self, server: Server, client: Connection) -> None:
        self.server = server
        self.client = client


class After(msgspec.Struct, frozen=True):
    """A result, and what is to be done once it is sent."""

    result: Wire
    then: Callable[[], None]


class Method(msgspec.Struct, frozen=True, kw_only=True):
    name: str
    params: type[Wire]
    result: Any
    """A `Wire`, or a union of them."""
    run: Callable[[Call, Any], Awaitable[Wire | After]]
    is_experimental: bool = False
    is_exclusive: bool = True
    """Other requests about the same thread wait for its end; false for what may take long and changes nothing."""
