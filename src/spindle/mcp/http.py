"""Servers behind an address: streamable HTTP. Each request is a POST whose answer is JSON or a stream of events.

The HTTP client, the reader of event streams and the credentials are handed in; here is only what MCP makes of them.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Protocol

from spindle.errors import McpError, SpindleError
from spindle.mcp.channel import MESSAGE_MAX_BYTES, Message, messages_in
from spindle.protocol.items import decode_foreign, encode_payload
from spindle.protocol.quote import readable, visible

_FAR_S = 24 * 3600.0
"""Whoever waits for an answer has a limit of their own; this one only keeps a stream from staying for ever."""
_HEAD_S = 600.0
_NOTICE_S = 10.0
_BODY_S = 60.0
_CLOSE_S = 0.5
_REASON_CHARS = 300
_FIRST_PAUSE_S, _LAST_PAUSE_S = 1.0, 60.0
_FAILED = -32000
_ACCEPT = "application/json, text/event-stream"


class Answer(Protocol):
    """An HTTP answer, its body still to be read."""

    @property
    def status(self) -> int: ...
    @property
    def headers(self) -> Mapping[str, str]: ...
    async def chunk(self, deadline: float) -> bytes: ...
    async def read(self, max_bytes: int, timeout_s: float) -> bytes: ...
    def release(self) -> None: ...
    def close(self) -> None: ...


class Http(Protocol):
    """A client with connections of its own."""

    async def request(
        self, method: str, url: str, headers: Mapping[str, str], body: bytes, timeout_s: float
    ) -> Answer: ...
    async def aclose(self) -> None: ...


class EventReader(Protocol):
    """Bytes of an event stream in, the data of whole events out."""

    def feed(self, chunk: bytes) -> list[bytes]: ...
    def finish(self) -> list[bytes]: ...


Credentials = Callable[[bool], Awaitable[Mapping[str, str]]]
"""The headers that sign us in; true = the last ones were refused, get new ones. Raises McpError."""


class HttpChannel:
    """One session with a server."""

    def __init__(
        self,
        url: str,
        *,
        http: Http,
        event_reader: Callable[[], EventReader],
        credentials: Credentials,
        headers: Mapping[str, str],
    ) -> None:
        self._url = url
        self._http = http
        self._event_reader = event_reader
        self._credentials = credentials
        self._headers = dict(headers)
        self._version: str | None = None
        self._session: str | None = None
        self._exchanges: dict[int, asyncio.Task[None]] = {}
        self._listening: asyncio.Task[None] | None = None
        self._is_closed = False

    async def open(self, receive: Callable[[Message], None], lost: Callable[[str], None]) -> None:
        self._receive = receive
        self._lost = lost

    async def send(self, message: Message) -> None:
        if self._is_closed:
            raise McpError("the connection is closed")
        number = message.get("id")
        if "method" in message and isinstance(number, int):
            task = asyncio.ensure_future(self._exchange(number, message))
            self._exchanges[number] = task
            task.add_done_callback(lambda _: self._exchanges.pop(number, None))
            return
        answer = await self._post(message, _NOTICE_S)
        answer.release()
        if message.get("method") == "notifications/initialized" and self._listening is None:
            self._listening = asyncio.ensure_future(self._listen())

    def forget(self, request_id: int) -> None:
        task = self._exchanges.get(request_id)
        if task is not None:
            task.cancel()

    def agreed(self, version: str) -> None:
        self._version = version

    async def aclose(self) -> None:
        if self._is_closed:
            return
        self._is_closed = True
        tasks = [*self._exchanges.values(), *([self._listening] if self._listening else [])]
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks)
        if self._session is not None:
            try:
                async with asyncio.timeout(_CLOSE_S):
                    answer = await self._request("DELETE", b"", _CLOSE_S)
                    answer.close()
            except (SpindleError, TimeoutError):
                pass  # it will notice by itself
        await self._http.aclose()

    def kill(self) -> None:
        pass  # there is no program of ours

    # ---- one exchange --------------------------------------------------------------------------

    async def _exchange(self, number: int, message: Message) -> None:
        """Ask, and pass on whatever comes back; what goes wrong is the answer."""
        try:
            answer = await self._post(message, _HEAD_S)
            try:
                if message["method"] == "initialize":
                    self._session = answer.headers.get("mcp-session-id")
                if _is_stream(answer):
                    await self._read_events(answer, until=number)
                else:
                    self._pass_on(await answer.read(MESSAGE_MAX_BYTES + 1, _BODY_S))
            finally:
                answer.close()
        except SpindleError as error:
            self._receive({"jsonrpc": "2.0", "id": number, "error": {"code": _FAILED, "message": str(error)}})
        else:
            # An answer that held none would leave its owner waiting.
            nothing = {"code": _FAILED, "message": "the server closed its answer before it had said anything"}
            self._receive({"jsonrpc": "2.0", "id": number, "error": nothing})

    async def _post(self, message: Message, timeout_s: float) -> Answer:
        answer = await self._request("POST", encode_payload(message), timeout_s)
        if answer.status == 401:
            answer.close()
            answer = await self._request("POST", encode_payload(message), timeout_s, refused=True)
        if 200 <= answer.status < 300:
            return answer
        if answer.status == 404 and self._session is not None:
            answer.close()
            self._lost("the server has ended the session")
            raise McpError("the server has ended the session")
        raise McpError(await _refusal(answer))

    async def _request(self, method: str, body: bytes, timeout_s: float, *, refused: bool = False) -> Answer:
        headers = {"accept": _ACCEPT if method == "POST" else "text/event-stream"}
        if body:
            headers["content-type"] = "application/json"
        if self._session is not None:
            headers["mcp-session-id"] = self._session
        if self._version is not None:
            headers["mcp-protocol-version"] = self._version
        headers |= self._headers | dict(await self._credentials(refused))
        return await self._http.request(method, self._url, headers, body, timeout_s)

    async def _read_events(self, answer: Answer, until: int | None) -> None:
        """Pass on every message, up to the answer to request `until`."""
        reader = self._event_reader()
        deadline = asyncio.get_running_loop().time() + _FAR_S
        while chunk := await answer.chunk(deadline):
            for data in reader.feed(chunk):
                if self._pass_on(data, until):
                    return
        for data in reader.finish():
            self._pass_on(data, until)

    def _pass_on(self, data: bytes, until: int | None = None) -> bool:
        """Whether the awaited answer was among it."""
        if len(data) > MESSAGE_MAX_BYTES:
            raise McpError(f"the server's answer is larger than {MESSAGE_MAX_BYTES >> 20} MiB")
        if not data.strip():
            return False
        try:
            found = messages_in(decode_foreign(data))
        except ValueError:
            raise McpError("the server's answer is not JSON") from None
        for message in found:
            self._receive(message)
        return until is not None and any(entry.get("id") == until and "method" not in entry for entry in found)

    # ---- what the server says by itself --------------------------------------------------------

    async def _listen(self) -> None:
        """Keep a stream open for the server's own messages, where it has such a thing."""
        pause = _FIRST_PAUSE_S
        while True:
            try:
                answer = await self._request("GET", b"", _HEAD_S)
                try:
                    if answer.status != 200 or not _is_stream(answer):
                        return
                    pause = _FIRST_PAUSE_S
                    await self._read_events(answer, until=None)
                finally:
                    answer.close()
            except SpindleError:
                pass  # it may come back
            await asyncio.sleep(pause)
            pause = min(_LAST_PAUSE_S, 2 * pause)


def _is_stream(answer: Answer) -> bool:
    return answer.headers.get("content-type", "").lower().startswith("text/event-stream")


async def _refusal(answer: Answer) -> str:
    """Why a request was refused, in a sentence."""
    status = answer.status
    try:
        if 300 <= status < 400:
            place = visible(answer.headers.get("location", "?")[:_REASON_CHARS])
            return f"it answers with status {status}: the server is at {place} now; put that into its `url`"
        body = await answer.read(4096, _NOTICE_S)
    finally:
        answer.close()
    said = readable(" ".join(_reason_in(body).split()))[:_REASON_CHARS]
    return f"it answers with status {status}: {said}" if said else f"it answers with status {status}"


def _reason_in(body: bytes) -> str:
    """The message of a JSON-RPC or OAuth error, else the text as it stands; a web page says nothing."""
    try:
        value: Any = decode_foreign(body)
    except ValueError:
        text = body.decode("utf-8", "replace").strip()
        return "" if text.startswith("<") else text
    error = value.get("error") if isinstance(value, dict) else None
    if isinstance(error, dict):
        return str(error.get("message", ""))
    if isinstance(value, dict) and isinstance(value.get("error_description"), str):
        return value["error_description"]
    return str(error) if isinstance(error, str) else ""
