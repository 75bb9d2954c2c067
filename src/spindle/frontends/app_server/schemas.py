"""JSON Schemas and TypeScript of everything the app-server says and takes, made from the structs themselves."""

from __future__ import annotations

import errno
import os
from collections.abc import Mapping
from typing import Any

import msgspec

from spindle.errors import SpindleError
from spindle.frontends.app_server.connection import InitializeParams, InitializeResult
from spindle.frontends.app_server.notifications import Note, kinds_of
from spindle.frontends.app_server.registry import METHODS
from spindle.frontends.app_server.server_requests import Ask
from spindle.policy.reach import Reach
from spindle.workspace.output_file import OutputFile, check_way

Schema = dict[str, Any]
_REF = "#/$defs/{name}"
BUNDLE = "app_server.schemas.json"
_DRAFT = "https://json-schema.org/draft/2020-12/schema"


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


def write_json_schemas(folder: str, reach: Reach) -> list[str]:
    """One file per shape, one with all of them, and in `v2` the params of methods as Codex writes them. Gives the
    names."""
    shapes = all_shapes()
    schemas, definitions = msgspec.json.schema_components(shapes.values(), ref_template=_REF)
    named = dict(zip(shapes, schemas, strict=True))
    files = {f"{name}.json": _page(name, schema, definitions) for name, schema in named.items()}
    for name in (f"{_title(method)}Params" for method in METHODS):
        # SDKs look there for the members of a request, and for no reference to them.
        unfolded = definitions.get(named[name].get("$ref", "").removeprefix("#/$defs/"), named[name])
        files[f"v2/{name}.json"] = _page(name, unfolded, definitions)
    files[BUNDLE] = {
        "$schema": _DRAFT,
        "methods": {
            name: {"params": f"{_title(name)}Params", "result": f"{_title(name)}Response"}
            for name in ("initialize", *METHODS)
        },
        "notifications": {name: f"{_title(name)}Notification" for name in kinds_of(Note)},
        "serverRequests": {
            name: {"params": f"{_title(name)}Params", "result": f"{_title(name)}Response"} for name in kinds_of(Ask)
        },
        "shapes": named,
        "$defs": definitions,
    }
    texts = {name: msgspec.json.format(msgspec.json.encode(schema), indent=2) for name, schema in files.items()}
    _write(folder, texts, reach)
    return list(files)


def _page(name: str, schema: Schema, definitions: Mapping[str, Schema]) -> Schema:
    return {"$schema": _DRAFT, **_with_definitions(schema, definitions), "title": name}


def _with_definitions(schema: Schema, definitions: Mapping[str, Schema]) -> Schema:
    """The schema with the definitions it needs."""
    needed: dict[str, Schema] = {}
    waiting = [schema]
    while waiting:
        for name in _references(waiting.pop()):
            if name not in needed:
                needed[name] = definitions[name]
                waiting.append(definitions[name])
    return {**schema, "$defs": dict(sorted(needed.items()))} if needed else schema


def _references(value: Any) -> list[str]:
    if isinstance(value, dict):
        found = [value["$ref"].removeprefix("#/$defs/")] if isinstance(value.get("$ref"), str) else []
        return found + [name for entry in value.values() for name in _references(entry)]
    return [name for entry in value for name in _references(entry)] if isinstance(value, list) else []


# ---- TypeScript ------------------------------------------------------------------------------------


def write_typescript(folder: str, reach: Reach) -> list[str]:
    """One module with a type per shape. Gives its name."""
    shapes = all_shapes()
    schemas, definitions = msgspec.json.schema_components(shapes.values(), ref_template=_REF)
    lines = ["// Made by `spindle app-server generate-ts`.", ""]
    lines += [f"export type {name} = {typescript(schema)};" for name, schema in sorted(definitions.items())]
    lines += [
        f"export type {name} = {typescript(schema)};"
        for name, schema in sorted(zip(shapes, schemas, strict=True))
        if name not in definitions
    ]
    _write(folder, {"index.ts": ("\n".join(lines) + "\n").encode()}, reach)
    return ["index.ts"]


def typescript(schema: Schema) -> str:
    """The type that a schema describes."""
    match schema:
        case {"$ref": str(reference)}:
            return reference.removeprefix("#/$defs/")
        case {"enum": [*values]}:
            return " | ".join(msgspec.json.encode(value).decode() for value in values)
        case {"const": value}:
            return msgspec.json.encode(value).decode()
        case {"anyOf": [*options]} | {"oneOf": [*options]}:
            return " | ".join(dict.fromkeys(map(typescript, options)))
        case {"type": "array"}:
            return f"Array<{typescript(schema.get('items', {}))}>"
        case {"type": "object", "properties": {**properties}}:
            required = schema.get("required", ())
            members = [
                f"{_member(name)}{'' if name in required else '?'}: {typescript(kind)}"
                for name, kind in properties.items()
            ]
            return "{ " + ", ".join(members) + " }" if members else "Record<string, never>"
        case {"type": "object"}:
            inner = schema.get("additionalProperties")
            return f"{{ [key: string]: {typescript(inner) if isinstance(inner, dict) else 'unknown'} }}"
        case {"type": str(kind)}:
            return {"integer": "number", "number": "number", "null": "null", "boolean": "boolean"}.get(kind, kind)
        case _:
            return "unknown"


def _member(name: str) -> str:
    return name if name.isidentifier() else msgspec.json.encode(name).decode()


def _write(folder: str, files: Mapping[str, bytes], reach: Reach) -> None:
    """Through no link of the agent's, and through none at all in the folder itself, where it may have worked."""
    try:
        check_way(folder, reach)
        for inner in sorted({os.path.dirname(name) for name in files}):
            os.makedirs(f"{folder}/{inner}", exist_ok=True)
            _refuse_link(f"{folder}/{inner}" if inner else "")
        for name, content in files.items():
            _refuse_link(f"{folder}/{name}")
            output = OutputFile(f"{folder}/{name}", reach=reach)
            try:
                output.write(content)
            finally:
                output.close()
    except OSError as error:
        raise SpindleError(f"{folder} cannot be written: {error.strerror}") from error


def _refuse_link(path: str) -> None:
    if os.path.islink(path):
        raise OSError(errno.ELOOP, f"{path} is a link", path)
