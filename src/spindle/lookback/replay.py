"""Builds every request of a recorded thread anew, and says which of them are still the same, byte for byte.

The record is folded as a live thread folds it, and each request is made by the code that a live thread uses, from what
the record says of it (`core/request_log.py`). Nothing is run and nothing is sent. What was sent is known by its digest;
where a request differs, checksums of its parts tell where.
"""

from __future__ import annotations

import re
from typing import Any

import msgspec

from spindle.context.compaction import shown_for_summary
from spindle.context.visible import VisibleFold
from spindle.core.request_log import sha256
from spindle.core.request_terms import BODY, applied, capabilities_in, outline, provider_in, read_line, settings_in
from spindle.errors import SpindleError, ThreadError
from spindle.model.body import Growth
from spindle.model.capabilities import Capabilities
from spindle.model.credential import StaticCredential
from spindle.model.endpoint import Endpoint
from spindle.model.headers import Identity
from spindle.model.question import Question
from spindle.model.wires import make_wire
from spindle.model.wires.responses.wire import compaction_body
from spindle.prompt.audience import audience_for
from spindle.prompt.build import ModelTraits, build_request
from spindle.prompt.summary_request import for_summary, showing
from spindle.protocol.clock import FixedClock
from spindle.protocol.items import decode_json, encode_json, json_reader
from spindle.protocol.provenance import ModelOrigin
from spindle.protocol.request import ModelFacts, Request
from spindle.thread.entry import Record
from spindle.thread.history import History
from spindle.thread.payloads import REQUEST, TERMS
from spindle.thread.reading import RolloutData

_CHECKSUM_CHARS = 8


class Difference(msgspec.Struct, frozen=True):
    """The first request that is not the same any more."""

    request: int
    """Its number, from 1."""
    path: str
    """Where in the body the difference begins, as `input[3]` or `tools[0].description`."""


class Replayed(msgspec.Struct, frozen=True, kw_only=True):
    """How many requests a thread has made, and how many of them come out the same."""

    requests: int
    identical: int
    first_difference: Difference | None
    versions: tuple[str, ...]
    """Which versions of Spindle made them."""


class RequestLine(msgspec.Struct):
    """The payload of a line that tells of a request, as far as it is used here."""

    sha256: str
    bytes: int
    kind: str = "question"
    summary: dict[str, Any] = {}
    from_: int = msgspec.field(default=0, name="from")
    parts: str = ""


_read_request = json_reader(RequestLine)


def replay_thread(data: RolloutData) -> Replayed:
    """Raises ThreadError when the record does not tell enough."""
    return _Replay(data).run()


class _Known(Endpoint):
    """A server of which the record tells; nothing is ever sent to it."""

    def __init__(self, terms: dict[str, Any]) -> None:
        provider = msgspec.structs.replace(provider_in(terms), base_url=terms["base_url"])
        super().__init__(provider, StaticCredential(), Identity(thread_id="", version="", originator=""), environ={})
        self.wire = make_wire(terms["wire"])
        self.known = Capabilities()

    def capabilities(self, model: str, facts: ModelFacts) -> Capabilities:
        return self.known


class _Replay:
    """The state while a record is read."""

    def __init__(self, data: RolloutData) -> None:
        self._data = data
        self._own = encode_json(data.thread_id)
        self._terms: dict[str, bytes] = {}
        self._masked: set[str] = set()
        self._fold = VisibleFold()
        self._endpoints: dict[str, _Known] = {}
        self._sent_parts: list[str] = []
        """Checksums of the last conversation that was sent; of requests for compactions nothing is kept."""
        self._requests = self._identical = 0
        self._difference: Difference | None = None
        self._versions: list[str] = []

    def run(self) -> Replayed:
        for record, history in History.steps(self._data):
            if record.kind == TERMS:
                self._take_terms(record)
            elif record.kind == REQUEST and self._terms.get("thread_id", self._own) == self._own:
                self._requests += 1
                self._take_request(record, history)
        if not self._requests:
            raise ThreadError(
                f"{self._data.path} records no request of this thread: another program or an older version of Spindle "
                "wrote it, or no request was sent"
            )
        return Replayed(
            requests=self._requests,
            identical=self._identical,
            first_difference=self._difference,
            versions=tuple(self._versions),
        )

    def _take_terms(self, record: Record) -> None:
        try:
            line = read_line(record.raw)
            self._terms = applied(self._terms, record.raw)
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            raise self._impossible("a line of the type spindle_terms cannot be read") from error
        self._masked = (self._masked - set(line.set) - set(line.unset)) | set(line.masked)
        if line.first:
            # Another process: what it shows, it has read from the record.
            self._fold, self._endpoints = VisibleFold(), {}

    def _take_request(self, record: Record, history: History) -> None:
        try:
            line = _read_request(record.raw)
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            raise self._impossible("its line cannot be read") from error
        if self._masked:
            names = ", ".join(sorted(name for name in self._masked if not name.startswith(BODY)) or ["body"])
            raise self._impossible(f"it held a secret, which the record does not keep (in: {names})")
        try:
            terms = {name: decode_json(value) for name, value in self._terms.items() if not name.startswith(BODY)}
            body, growth = self._build(line, terms, history)
        except (KeyError, TypeError, AttributeError, msgspec.DecodeError, msgspec.ValidationError) as error:
            raise self._impossible("the record does not say from what it was made") from error
        except SpindleError as error:
            raise self._impossible(str(error)) from error
        if (version := str(terms.get("version"))) not in self._versions:
            self._versions.append(version)
        sent = _parts(line, self._sent_parts)
        if line.kind != "compaction":
            self._sent_parts = sent
        if sha256(body).hexdigest() == line.sha256 and len(body) == line.bytes:
            self._identical += 1
        elif self._difference is None:
            known = {name: value for name, value in self._terms.items() if name.startswith(BODY)}
            path = _path(bytes(body), growth, sent, known if line.kind == "question" else {})
            self._difference = Difference(self._requests, path)

    def _impossible(self, why: str) -> ThreadError:
        return ThreadError(f"{self._data.path}: request {self._requests or 1} cannot be built again: {why}")

    # ---- as a live thread does it ------------------------------------------------------------------

    def _build(self, line: RequestLine, terms: dict[str, Any], history: History) -> tuple[bytes | bytearray, Growth]:
        request = self._request(terms, history)
        if line.kind == "compaction":
            return compaction_body(request)
        if line.kind == "summary":
            message = terms["summary"]["message"]
            shown = shown_for_summary([visible.item for visible in request.items], message, **_cut(line))
            request = showing(for_summary(request, keeps_tools=terms["summary"]["keeps_tools"]), [*shown, message])
        endpoint = self._endpoint(terms)
        question = Question(endpoint, request, FixedClock())
        question.put()
        body = question.encode()
        return body, endpoint.wire.growth

    def _request(self, terms: dict[str, Any], history: History) -> Request:
        traits = msgspec.convert(terms["traits"], ModelTraits)
        keeps = provider_in(terms).is_azure
        shown_to = terms["shown_to"]
        origin = ModelOrigin(**{"account": "", "model": "", **shown_to}) if "base_url" in shown_to else None
        self._fold.address(audience_for(traits, shown_to["wire"], origin, history.refused_origins, keeps_all_ids=keeps))
        instructions = self._terms.get("instructions") or encode_json(history.base_instructions)
        return build_request(
            items=self._fold.update(history.entries, history.generation),
            instructions=instructions,
            tools=self._terms["tools"],
            traits=traits,
            settings=settings_in(terms),
            thread_id=self._data.thread_id,
            output_schema=terms.get("schema"),
            store=keeps,
        )

    def _endpoint(self, terms: dict[str, Any]) -> _Known:
        name = f"{terms['provider']['id']} {terms['wire']}"
        if name not in self._endpoints:
            self._endpoints[name] = _Known(terms)
        endpoint = self._endpoints[name]
        endpoint.provider = msgspec.structs.replace(endpoint.provider, base_url=terms["base_url"])
        endpoint.known = capabilities_in(terms, endpoint.wire.name)
        endpoint.drops_opaque = terms.get("drops_opaque", False)
        return endpoint


def _cut(line: RequestLine) -> dict[str, Any]:
    attempt, most = line.summary.get("attempt"), line.summary.get("max_input_tokens")
    return {"attempt": attempt if isinstance(attempt, int) else 1, "max_input_tokens": most}


# ---- where a request differs -----------------------------------------------------------------------------


def _parts(line: RequestLine, before: list[str]) -> list[str]:
    """The checksums of all parts of a conversation; a line holds those that are new."""
    told = line.parts
    new = [told[start : start + _CHECKSUM_CHARS] for start in range(0, len(told), _CHECKSUM_CHARS)]
    return (before[: line.from_] if line.kind != "compaction" else []) + new


def _path(raw: bytes, growth: Growth, sent: list[str], known: dict[str, bytes]) -> str:
    """Where a body that was built begins to differ from one of which only checksums are known."""
    from binascii import crc32  # only after a difference

    body = decode_json(raw)
    found = re.search(rb'"(\w+)":\[\Z', growth.head)
    listed = found[1].decode() if found else ""
    for name, value in body.items():
        if name == listed:
            built = [f"{crc32(piece):08x}" for piece in growth.pieces(0)]
            pairs = zip(built, sent, strict=False)
            shared = min(len(built), len(sent))
            place = next((place for place, (now, then) in enumerate(pairs) if now != then), shared)
            if place < max(len(built), len(sent)):
                return _place_of(value, listed, place)
        elif known and (path := _changed(name, known, outline({name: value}))):
            return path
    gone = next((name for name in known if name.removeprefix(BODY) not in body), None)
    # What is left is how the parts are put together, as with the marks for a provider's cache.
    return gone.removeprefix(BODY) if gone else listed


def _changed(name: str, known: dict[str, bytes], built: dict[str, bytes]) -> str:
    then, now = known.get(BODY + name), built[BODY + name]
    if then == now:
        return ""
    return name if then is None else name + _deeper(decode_json(then), decode_json(now))


def _deeper(then: Any, now: Any) -> str:
    if isinstance(then, dict) and isinstance(now, dict):
        for name in [*now, *(name for name in then if name not in now)]:
            if then.get(name) != now.get(name):
                return f".{name}{_deeper(then.get(name), now.get(name))}"
    if isinstance(then, list) and isinstance(now, list):
        pairs = enumerate(zip(then, now, strict=False))
        found = next((f"[{place}]{_deeper(*pair)}" for place, pair in pairs if pair[0] != pair[1]), None)
        return found or f"[{min(len(then), len(now))}]"
    return ""


def _place_of(value: list[Any], name: str, place: int) -> str:
    """The path of the part with this number. On Messages, parts are the blocks of messages."""
    if name != "messages" or not all(isinstance(message.get("content"), list) for message in value):
        return f"{name}[{place}]"
    for number, message in enumerate(value):
        if place < len(message["content"]):
            return f"{name}[{number}].content[{place}]"
        place -= len(message["content"])
    return f"{name}[{len(value)}]"
