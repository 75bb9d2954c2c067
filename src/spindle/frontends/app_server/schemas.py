"""JSON Schemas of everything the app-server sends and accepts, made from the structs themselves.

Making them means loading every method, and takes several times as long as writing them. So `scripts/protocol-schemas`
keeps them in a file, which `schema_files` reads, and a test checks that they are the same.
"""

from __future__ import annotations

from typing import Any

import msgspec

from spindle.frontends.app_server.connection import InitializeParams, InitializeResult
from spindle.frontends.app_server.notifications import Note, kinds_of
from spindle.frontends.app_server.registry import METHODS
from spindle.frontends.app_server.server_requests import Ask


def all_shapes() -> dict[str, Any]:
    """Every shape by the name of its file: params, results, notifications, questions and their answers."""
    shapes: dict[str, Any] = {}
    pairs = [("initialize", InitializeParams, InitializeResult)]
    pairs += [(method.name, method.params, method.result) for method in METHODS.values()]
    for name, params, result in pairs:
        shapes[f"{_title(name)}Params"] = params
        shapes[f"{_title(name)}Response"] = result
    for name, note in kinds_of(Note).items():
        shapes[f"{_title(name)}Notification"] = note
    for name, ask in kinds_of(Ask).items():
        shapes[f"{_title(name)}Params"] = ask
        shapes[f"{_title(name)}Response"] = ask.reply
    return shapes


def _title(method: str) -> str:
    """`thread/turns/list` → `ThreadTurnsList`."""
    words = method.replace("_", "/").split("/")
    return "".join(word[:1].upper() + word[1:] for word in words)


def bundle() -> bytes:
    """The file that holds all of them, and says what each is for."""
    shapes = all_shapes()
    schemas, definitions = msgspec.json.schema_components(shapes.values(), ref_template="#/$defs/{name}")
    whole = {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "methods": {name: _both(name) for name in ("initialize", *METHODS)},
        "notifications": {name: f"{_title(name)}Notification" for name in kinds_of(Note)},
        "serverRequests": {name: _both(name) for name in kinds_of(Ask)},
        "shapes": dict(zip(shapes, schemas, strict=True)),
        "$defs": definitions,
    }
    return msgspec.json.format(msgspec.json.encode(whole), indent=2)


def _both(name: str) -> dict[str, str]:
    return {"params": f"{_title(name)}Params", "result": f"{_title(name)}Response"}
