"""A model server as one thread reaches it: its address, whose key it gets, which dialect it speaks, what it can do."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import msgspec

from spindle.errors import ConfigError, ModelError, SpindleError, StreamDropped
from spindle.model.call_ids import ShownCalls
from spindle.model.capabilities import Capabilities, CapabilityMemory
from spindle.model.client import TurnState
from spindle.model.credential import Credential
from spindle.model.headers import (
    Identity,
    environment_headers,
    key_headers,
    merged,
    provider_headers,
    session_headers,
    version_headers,
)
from spindle.model.http import HttpClient
from spindle.model.pool import CONNECT_TIMEOUT_S
from spindle.model.provider import Provider
from spindle.model.proxy import proxy_for
from spindle.model.tls import TlsFiles
from spindle.model.url import Url, join_url, parse_url
from spindle.model.wires import make_wire
from spindle.model.wires.wire import Terms, Wire
from spindle.protocol.provenance import ModelOrigin
from spindle.protocol.request import ModelFacts, Request, VisibleItem

if TYPE_CHECKING:
    from spindle.model.lowering import Lowering
    from spindle.model.text_calls.protocol import ToolsInWords
    from spindle.model.websocket.line import Line
    from spindle.protocol.clock import Clock

MODEL_LIST_MAX_BYTES = 1024 * 1024
MODEL_LIST_TIMEOUT_S = 3.0
SECRET_MIN_CHARS = 4
"""Shorter values are not taken out of error texts: they would tear ordinary words apart."""


class Endpoint:
    """One provider, for the requests of one thread."""

    PAST = ("shown_calls", "_lowering", "_words", "_unthinking")
    """What is packed while the thread rests (`core/resting.py`): how requests were made."""

    def __init__(
        self,
        provider: Provider,
        credential: Credential,
        identity: Identity,
        *,
        environ: Mapping[str, str] | None = None,
        connect_timeout_s: float = CONNECT_TIMEOUT_S,
        memory: CapabilityMemory | None = None,
        catalog_path: str | None = None,
    ) -> None:
        """`catalog_path` names the catalogue whose models are offered to a person who asked for an unknown one."""
        self.provider = provider
        self.credential = credential
        self.memory = memory or CapabilityMemory()
        self.wire: Wire = make_wire(provider.wire_api)
        self.drops_opaque = False
        """It could not read the opaque parts of this thread that should be its own."""
        self._unthinking: VisibleItem | None = None
        """The person's word to which the answer is finished without thinking, because its beginning is lost."""
        self.shown_calls = ShownCalls()
        self._lowering: Lowering | None = None
        self._words: ToolsInWords | None = None
        self._line: Line | None = None
        self._identity = identity
        self._environ = os.environ if environ is None else environ
        self._catalog_path = catalog_path
        self._place: tuple[object, str] | None = None
        """What the account was last told by, and the account."""
        tls = TlsFiles(ca_file=provider.ca_file, client_cert=provider.client_cert, client_key=provider.client_key)
        self.http = HttpClient(tls=tls, environ=environ, connect_timeout_s=connect_timeout_s)

    def url(self, path: str) -> Url:
        return parse_url(join_url(self.provider.base_url, path, self.provider.query_params), "base_url")

    # ---- its life ----------------------------------------------------------------------------------

    def announcements(self, model: str) -> Iterable[str]:
        """What a person should know before this model is asked, a sentence each; nothing that was said before."""
        return ()

    async def ready(self, model: str) -> None:
        """Wait until it can be asked. Raises ModelError when that will never be."""

    async def warm(self) -> None:
        """Open the connection ahead of the first request."""
        await self.http.warm(parse_url(self.provider.base_url, "base_url"))

    def line(self, clock: Clock, message_max_bytes: int) -> Line | None:
        """The way to it by a WebSocket, where it offers one that is still in use."""
        if not self.provider.supports_websockets or self.wire.name != "responses":
            return None
        if self._line is None:
            from spindle.model.websocket.line import Line  # only for providers that offer it

            url = self.url(self.wire.path)
            if url.scheme == "http" and proxy_for(url, self._environ) is not None:
                return None  # such a proxy passes on requests, not connections
            self._line = Line(self, clock, message_max_bytes=message_max_bytes)
        return None if self._line.is_over and not self._line.has_reason else self._line

    async def aclose(self) -> None:
        if self._line is not None:
            await self._line.aclose()
        await self.http.aclose()

    # ---- what it can do ----------------------------------------------------------------------------

    def terms(self, request: Request) -> Terms:
        """On which terms a request is made now."""
        found = self.capabilities(request.model, request.facts)
        if self._unthinking is not None:
            if _last_word(request) is self._unthinking:
                found = msgspec.structs.replace(found, thinking=False)
            else:
                self._unthinking = None
        return Terms(self.provider, found)

    def leave_thinking_out(self, request: Request) -> bool:
        """Until a person says something else, do not ask for thinking. False where nobody has said anything."""
        self._unthinking = _last_word(request)
        return self._unthinking is not None

    def capabilities(self, model: str, facts: ModelFacts) -> Capabilities:
        """What is known of a model here. Without a Responses endpoint, Chat Completions is spoken from now on."""
        found = self.memory.of(self.provider, self.wire.name, model, facts.capabilities)
        if found.responses or self.wire.name != "responses":
            return found
        self.wire = make_wire("chat")
        return self.memory.of(self.provider, self.wire.name, model, facts.capabilities)

    def lowered(self, request: Request, capabilities: Capabilities) -> Request:
        """The request as a server with these capabilities takes it, as far as all wires do that alike."""
        from spindle.model.lowering import Lowering, is_lowered  # only for servers that are not as usual

        if is_lowered(capabilities, self.wire.name):
            self._lowering = self._lowering or Lowering()
            request = self._lowering.apply(request, capabilities, self.wire.name)
        if not capabilities.tools:
            from spindle.model.text_calls.protocol import ToolsInWords  # only without function calling

            self._words = self._words or ToolsInWords()
            request = self._words.apply(request)
        return request

    def without_opaque(self, request: Request) -> Request:
        from spindle.model.lessons import without_opaque  # only after a refusal

        return without_opaque(request)

    def learn(self, request: Request, flags: Mapping[str, bool | int], reason: str, now: float) -> None:
        """What a refusal has taught about the model that was asked."""
        self.memory.learn(self.provider, self.wire.name, request.model, flags, reason, now)

    # ---- who asks ----------------------------------------------------------------------------------

    def origin(self, model: str) -> ModelOrigin:
        """What is recorded of the items that its models make."""
        base_url = self.provider.public_base_url
        return ModelOrigin(self.wire.name, base_url, self._account(base_url), model)

    def _account(self, base_url: str) -> str:
        """Stands for the key or the account, and cannot be turned back into it."""
        try:
            authorization = self.credential.authorization()
        except SpindleError:
            return ""  # nobody is signed in; the request will say so
        # Asked with every request and every item, and seldom another: nothing else decides about the headers below.
        told_by = self.provider, self.wire.name, authorization, environment_headers(self.provider, self._environ)
        if self._place is None or self._place[0] != told_by:
            self._place = told_by, self._digest_of_account(base_url)
        return self._place[1]

    def _digest_of_account(self, base_url: str) -> str:
        try:
            headers = {name.lower(): value for name, value in self.headers().items()}
        except SpindleError:
            return ""
        names = ("chatgpt-account-id", "x-api-key", "api-key", "authorization")
        told = next((headers[name] for name in names if headers.get(name)), "")
        if not told and base_url != self.provider.base_url:
            told = self.provider.base_url  # a name and a password stand in the address
        if not told:
            return ""
        from _blake2 import blake2b  # of the standard library; `hashlib` would load OpenSSL

        return blake2b(f"{base_url}\n{told.removeprefix('Bearer ')}".encode(), digest_size=8).hexdigest()

    async def prepare(self) -> None:
        """See to it that the key is good for another request."""
        if (reached := await self.credential.prepare()) is not None:
            self.provider = reached

    def headers(self) -> dict[str, str]:
        """What every request carries. Raises `ModelError` when the key is missing."""
        return merged(
            version_headers(self.provider, self.wire.name),
            provider_headers(self.provider, self._identity, self._environ),
            key_headers(self.provider, self.wire.name, self.credential.authorization()),
        )

    def question_headers(self, turn_state: TurnState | None) -> dict[str, str]:
        """The headers of a request that is answered by a stream."""
        fixed = {"accept": "text/event-stream", "content-type": "application/json"}
        if turn_state is not None and turn_state.value:
            fixed["x-codex-turn-state"] = turn_state.value
        of_thread = session_headers(self._identity) if self.wire.name == "responses" else {}
        return merged(fixed, of_thread, self.headers())

    def socket_headers(self) -> dict[str, str]:
        """The headers of a WebSocket, which holds for many questions."""
        return merged(session_headers(self._identity), self.headers())

    # ---- plain questions ---------------------------------------------------------------------------

    async def json(
        self,
        method: str,
        path: str,
        body: bytes = b"",
        *,
        timeout_s: float | None = None,
        max_bytes: int | None = None,
        now: float = 0.0,
    ) -> Any:
        """Ask, and read a plain JSON answer. Raises `ModelError`; `now` is the time of day."""
        await self.prepare()
        try:
            return await self._json(method, path, body, timeout_s, max_bytes, now)
        except ModelError as error:
            if error.info != "unauthorized" or not await self.credential.refresh():
                raise
        return await self._json(method, path, body, timeout_s, max_bytes, now)

    async def _json(
        self, method: str, path: str, body: bytes, timeout_s: float | None, max_bytes: int | None, now: float
    ) -> Any:
        from spindle.model.plain_json import request_json  # the way to a turn's answer does not need it

        headers = {"accept": "*/*", **({"content-type": "application/json"} if body else {})}
        try:
            return await request_json(
                self.http,
                method,
                self.url(path),
                merged(headers, self.headers()),
                body,
                timeout_s=timeout_s,
                max_bytes=max_bytes,
                now=now,
            )
        except ModelError as error:
            self.clean(error)
            raise
        except ConfigError as error:
            raise ModelError(self.cleaned(str(error))) from error

    async def offers(self, now: float) -> tuple[str, ...]:
        """The models that the server lists; those of the catalogue if it lists none and is OpenAI's."""
        from spindle.model.catalog import Catalog  # only after a failure
        from spindle.model.server_words import model_names  # only after a failure

        names: tuple[str, ...] = ()
        with suppress(SpindleError):  # it is only for advice
            listed = await self.json(
                "GET", "/models", timeout_s=MODEL_LIST_TIMEOUT_S, max_bytes=MODEL_LIST_MAX_BYTES, now=now
            )
            names = model_names(listed)
        if not names and (self.provider.is_openai or self.provider.requires_openai_auth):
            with suppress(SpindleError):
                names = tuple(model.slug for model in Catalog.load(self._catalog_path).named)
        return names

    # ---- what errors may say -----------------------------------------------------------------------

    def clean(self, error: ModelError | StreamDropped) -> ModelError | StreamDropped:
        """Take every secret out of what the error says; a server may echo what we sent."""
        error.args = tuple(self.cleaned(text) if isinstance(text, str) else text for text in error.args)
        if isinstance(error, StreamDropped):
            error.final, error.advice = self.cleaned(error.final), self.cleaned(error.advice)
        return error

    def cleaned(self, text: str) -> str:
        from spindle.policy.secrets import is_telling  # only after a failure

        from_variables = environment_headers(self.provider, self._environ).values()
        in_address = [value for name, value in self.provider.query_params.items() if is_telling(name)]
        given = (*from_variables, *self.provider.http_headers.values(), *in_address, self.provider.password)
        for secret in (*self.credential.secrets(), *given):
            if len(secret) >= SECRET_MIN_CHARS:
                text = text.replace(secret, "[redacted]")
        return text


def _last_word(request: Request) -> VisibleItem | None:
    """The last message of a person."""
    return next((shown for shown in reversed(request.items) if shown.item.get("role") == "user"), None)
