"""The frames of JSON-RPC 2.0 in lines, for every front end that speaks it; the `jsonrpc` member is not asked for."""

from __future__ import annotations

import re
from functools import cache
from math import isfinite
from typing import Any, TypeVar

import msgspec

from spindle.errors import SpindleError
from spindle.protocol.foreign import field_with_nul, peek_id
from spindle.protocol.items import decode_foreign, encode_json, without_surrogates

PARSE_ERROR = -32700
INVALID_REQUEST = -32600
UNKNOWN_METHOD = -32601
INVALID_PARAMS = -32602
INTERNAL_ERROR = -32603
OVERLOADED = -32001

RequestId = str | int
Params = TypeVar("Params")

_NULL = re.compile(r"got `null` - at `\$\.([\w.]+)`$")
"""Why a null is refused, and where it stands. Members of lists have no name there, and are not looked for."""


class RpcError(SpindleError):
    """The answer to a request that cannot be done, with its code."""

    def __init__(self, message: str, code: int = INVALID_REQUEST, data: Any = None) -> None:
        super().__init__(message)
        self.code = code
        self.data = data


class Request(msgspec.Struct, frozen=True):
    id: RequestId
    method: str
    params: Any


class Notification(msgspec.Struct, frozen=True):
    method: str
    params: Any


class Response(msgspec.Struct, frozen=True):
    """The client's answer to a request of ours; `result` is None when it is an error."""

    id: RequestId
    result: Any
    error: Any = None


class BadFrame(SpindleError):
    """A line that is no message. `id` is the caller's, where one could be read."""

    def __init__(self, message: str, id: RequestId | float | None = None, code: int = INVALID_REQUEST) -> None:
        super().__init__(message)
        self.id = id
        self.code = code


def read_frame(line: bytes) -> Request | Notification | Response:
    """Read one line."""
    try:
        value = decode_foreign(line)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise BadFrame(f"not JSON: {error}", peek_id(line), PARSE_ERROR) from error
    if not isinstance(value, dict):
        raise BadFrame("a message is a JSON object")
    given = value.get("id")
    message_id = given if isinstance(given, str) or (isinstance(given, int) and not isinstance(given, bool)) else None
    method = value.get("method")
    if isinstance(method, str):
        if message_id is not None:
            return Request(message_id, method, value.get("params"))
        if given is not None:
            # A number with a fraction is still one by which its sender finds the answer; the reference says nothing.
            named = given if isinstance(given, float) and isfinite(given) else None
            raise BadFrame("Invalid request: the id of a request is a string or an integer", named)
        return Notification(method, value.get("params"))
    if message_id is None:
        raise BadFrame('a message has a "method", or the "id" of a request')
    if "result" in value or "error" in value:
        return Response(message_id, value.get("result"), value.get("error"))
    raise BadFrame('Invalid request: a message has a "method", a "result" or an "error"', message_id)


def frame(value: Any) -> bytes:
    """One line with its newline. U+2028 and U+2029 are escaped: some readers take them for line ends."""
    try:
        data = encode_json(value)
    except UnicodeEncodeError:  # a path or an argument with bytes that are no text
        data = encode_json(without_surrogates(msgspec.to_builtins(value)))
    if b"\xe2\x80\xa8" in data or b"\xe2\x80\xa9" in data:
        data = data.replace(b"\xe2\x80\xa8", b"\\u2028").replace(b"\xe2\x80\xa9", b"\\u2029")
    return data + b"\n"


def read_params(raw: Any, kind: type[Params]) -> Params:
    """The params of a request as its method wants them. Members with null count as not given, unless the method tells
    the two apart (then UNSET stands for what is not given)."""
    given = raw if raw is not None else {}
    if not isinstance(given, dict):
        raise RpcError("Invalid request: params must be an object")
    if (field := field_with_nul(given)) is not None:
        raise RpcError(f"Invalid request: `{field}` holds a NUL character", INVALID_PARAMS)
    kept = _nullable(kind)
    given = {name: value for name, value in given.items() if value is not None or name in kept}
    while True:
        try:
            return msgspec.convert(given, kind)
        except msgspec.ValidationError as error:
            if (fewer := _without_null(given, str(error))) is None:
                raise RpcError(f"Invalid request: {_rephrase(str(error))}") from error
            given = fewer


def _without_null(given: dict[str, Any], reason: str) -> dict[str, Any] | None:
    """The params without the null, further inside, that is the reason of a refusal; None if it is none."""
    found = _NULL.search(reason)
    if found is None:
        return None
    *way, name = found[1].split(".")
    fewer = place = dict(given)
    for step in way:
        inside = place.get(step)
        if not isinstance(inside, dict):
            return None
        place[step] = place = dict(inside)
    return fewer if place.pop(name, name) is None else None


@cache
def _nullable(kind: Any) -> frozenset[str]:
    return frozenset(field.encode_name for field in msgspec.structs.fields(kind) if field.default is msgspec.UNSET)


def _rephrase(reason: str) -> str:
    missing = "Object missing required field "
    return "missing field " + reason[len(missing) :] if reason.startswith(missing) else reason
