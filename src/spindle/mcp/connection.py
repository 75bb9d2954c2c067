"""One configured server: its handshake, what it offers, calls to it, and one restart should it die."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

from spindle import __version__
from spindle.errors import McpError
from spindle.mcp.channel import Channel
from spindle.mcp.client import KNOWN_VERSIONS, VERSION, Client, OnProgress
from spindle.mcp.log import ServerLog
from spindle.mcp.naming import definition_of
from spindle.mcp.spec import McpServer
from spindle.protocol.items import encode_payload
from spindle.protocol.quote import visible

_PAGES_MAX = 100
_RESTARTS_MAX = 1
_CLIENT = {"name": "spindle-mcp-client", "title": "Spindle", "version": __version__}

Elicit = Callable[[str, dict[str, Any]], Awaitable[dict[str, Any]]]
"""The server's name and its question → `{"action": "accept" | "decline" | "cancel", "content"?}`."""


class Connection:
    """Owned by the pool. `start` once; after that calls may come at any time, also several at once."""

    def __init__(
        self,
        spec: McpServer,
        open_channel: Callable[[], Channel],
        log: ServerLog,
        on_changed: Callable[[str], None],
        clean: Callable[[list[Any]], list[Any]],
    ) -> None:
        self.spec = spec
        self._open_channel = open_channel
        self._log = log
        self._on_changed = on_changed
        """Is told that the server's tools are no longer those of its list."""
        self._clean = clean
        """Takes secrets out of a list of tools."""
        self._client: Client | None = None
        self._capabilities: dict[str, Any] = {}
        self._restarts = 0
        self._starting = asyncio.Lock()
        self._asked_by: list[Elicit] = []
        """Who can put the server's questions to a person: the calls that run, newest last."""
        self._questions: dict[asyncio.Task[dict[str, Any]], Elicit] = {}
        self.listed: list[Any] = []
        """Its tools, as they were listed first; a later list changes nothing here."""
        self._now: list[Any] = []
        """Its tools as it listed them last."""
        self._is_outdated = False
        """It says that it has other tools than those."""

    @property
    def has_resources(self) -> bool:
        return isinstance(self._capabilities.get("resources"), dict)

    async def start(self) -> None:
        """Shake hands and list the tools. Raises McpError."""
        self.listed = self._now = await self._connect()

    def definition(self, name: str) -> str:
        """What stands for the tool as the server described it last; "" when it has it no more."""
        return definition_of(self.spec, next((tool for tool in self._now if _is_called(tool, name)), None))

    async def call_tool(
        self,
        name: str,
        arguments: dict[str, Any],
        elicit: Elicit,
        definition: str | None = None,
        on_progress: OnProgress | None = None,
    ) -> dict[str, Any]:
        """What the server answers, errors of the tool included. Raises McpError when there is no answer.

        `definition` is that of the tool for which there is a permission: another one is not called.
        """
        client = await self._live_client()
        if definition is not None:
            if self._is_outdated:
                listed = await self._all_pages(client, "tools/list", "tools", self.spec.tool_timeout_s)
                self._now, self._is_outdated = self._clean(listed), False
            if self.definition(name) != definition:
                raise McpError("the server describes this tool otherwise by now, so it was not called; call it again")
        self._asked_by.append(elicit)
        try:
            params = {"name": name, "arguments": arguments}
            limit = self.spec.tool_timeout_s
            return await client.request("tools/call", params, timeout_s=limit, on_progress=on_progress)
        finally:
            self._asked_by.remove(elicit)
            for question in [task for task, asked_by in self._questions.items() if asked_by == elicit]:
                question.cancel()  # its call is over, so nobody cares about the answer

    async def page(self, method: str, key: str, cursor: str | None) -> tuple[list[Any], str | None]:
        """One page of `resources/list` or `resources/templates/list`, and where the next one begins."""
        client = await self._live_client()
        return await self._page(client, method, key, cursor, self.spec.tool_timeout_s)

    async def all_pages(self, method: str, key: str) -> list[Any]:
        client = await self._live_client()
        return await self._all_pages(client, method, key, self.spec.tool_timeout_s)

    async def read_resource(self, uri: str) -> list[Any]:
        client = await self._live_client()
        result = await client.request("resources/read", {"uri": uri}, timeout_s=self.spec.tool_timeout_s)
        contents = result.get("contents")
        return contents if isinstance(contents, list) else []

    async def aclose(self) -> None:
        client, self._client = self._client, None
        if client is not None:
            await client.aclose()
        self._log.close()

    def kill(self) -> None:
        if self._client is not None:
            self._client.kill()

    # ---- inside --------------------------------------------------------------------------------

    async def _live_client(self) -> Client:
        """The conversation; begun anew where the server has gone since. A program is started again only once."""
        async with self._starting:
            client = self._client
            if client is not None and client.lost is None:
                return client
            reason = client.lost if client is not None and client.lost else "the server is not running"
            if self._restarts >= _RESTARTS_MAX and self.spec.url is None:
                raise McpError(f"{reason}; it was restarted once already and is left alone now")
            self._restarts += 1
            self._log.new_run(reason)
            if client is not None:
                await client.aclose()
            listed = await self._connect()
            self._now, self._is_outdated = listed, False
            if _in_order(listed) != _in_order(self.listed):
                self._on_changed(self.spec.name)
            assert self._client is not None
            return self._client

    async def _connect(self) -> list[Any]:
        client = self._client = Client(self._open_channel(), answer=self._answer, hear=self._hear)
        limit = self.spec.startup_timeout_s
        try:
            async with asyncio.timeout(limit):
                await client.open()
                await self._shake_hands(client)
                if "tools" not in self._capabilities:
                    return []
                return self._clean(await self._all_pages(client, "tools/list", "tools", limit))
        except TimeoutError:
            words = self._log.last_words
            said = f"; it says: {words}" if words else ""
            await client.aclose()
            raise McpError(f"not ready within {limit:g} seconds (startup_timeout_sec){said}") from None
        except BaseException:
            await client.aclose()
            raise

    async def _shake_hands(self, client: Client) -> None:
        result = await client.request(
            "initialize",
            {"protocolVersion": VERSION, "capabilities": {"elicitation": {"form": {}}}, "clientInfo": _CLIENT},
            timeout_s=self.spec.startup_timeout_s,
        )
        version = result.get("protocolVersion")
        if version not in KNOWN_VERSIONS:
            raise McpError(f"it speaks version {visible(str(version)[:40])!r} of the protocol, which is not known here")
        capabilities = result.get("capabilities")
        self._capabilities = capabilities if isinstance(capabilities, dict) else {}
        client.agreed(version)
        await client.notify("notifications/initialized")

    async def _all_pages(self, client: Client, method: str, key: str, timeout_s: float) -> list[Any]:
        found: list[Any] = []
        cursor: str | None = None
        seen: set[str] = set()
        for _ in range(_PAGES_MAX):
            entries, cursor = await self._page(client, method, key, cursor, timeout_s)
            found += entries
            if cursor is None or cursor in seen:
                return found
            seen.add(cursor)
        return found

    async def _page(
        self, client: Client, method: str, key: str, cursor: str | None, timeout_s: float
    ) -> tuple[list[Any], str | None]:
        result = await client.request(method, {} if cursor is None else {"cursor": cursor}, timeout_s=timeout_s)
        entries, after = result.get(key), result.get("nextCursor")
        return (entries if isinstance(entries, list) else []), (after if isinstance(after, str) and after else None)

    def _hear(self, method: str, params: dict[str, Any]) -> None:
        if method == "notifications/tools/list_changed":
            self._is_outdated = True
            self._on_changed(self.spec.name)
        elif method == "notifications/message":
            self._log.note(f"{params.get('level', 'info')}: {str(params.get('data'))[:4000]}")

    async def _answer(self, method: str, params: dict[str, Any]) -> dict[str, Any] | None:
        if method != "elicitation/create":
            return None
        if params.get("mode", "form") != "form":
            return {"action": "decline"}
        if not self._asked_by:
            return {"action": "decline"}  # it comes out of the blue: nobody could tell what it is about
        elicit = self._asked_by[-1]
        question = asyncio.ensure_future(_as_task(elicit(self.spec.name, params)))
        self._questions[question] = elicit
        try:
            await asyncio.wait([question])
            return {"action": "cancel"} if question.cancelled() else question.result()
        finally:
            question.cancel()
            del self._questions[question]


async def _as_task(question: Awaitable[dict[str, Any]]) -> dict[str, Any]:
    return await question


def _is_called(tool: Any, name: str) -> bool:
    return isinstance(tool, dict) and tool.get("name") == name


def _in_order(listed: list[Any]) -> list[bytes]:
    """What a server offers, whatever order it lists it in."""
    return sorted(encode_payload(tool) for tool in listed)
