"""Writes the JSON Schemas and the TypeScript of the app-server's protocol, from the file that ships with them.

SDKs run this before their first real request, so it loads nothing of the server (`schemas` makes that file).
"""

from __future__ import annotations

import errno
import os
from collections.abc import Mapping
from typing import Any

import msgspec

from spindle.config.agent_reach import widest_reach
from spindle.errors import SpindleError, UsageError
from spindle.frontends.launch import config_from
from spindle.frontends.options import Parsed
from spindle.policy.reach import Reach
from spindle.workspace.output_file import OutputFile, check_way

Schema = dict[str, Any]
BUNDLE = "app_server.schemas.json"


def run(parsed: Parsed, words: list[str]) -> int:
    what, folder = parsed.command[1], parsed.value("out")
    if folder is None:
        raise UsageError(f"{what} needs --out DIR")
    with open(f"{os.path.dirname(__file__)}/{BUNDLE}", "rb") as file:
        bundle = file.read()
    files = json_schemas(bundle) if what == "generate-json-schema" else {"index.ts": typescript_module(bundle)}
    _write(folder, files, widest_reach(config_from(parsed)))
    print(f"{len(files)} file{'s' if len(files) > 1 else ''} written to {folder}")
    return 0


def json_schemas(bundle: bytes) -> dict[str, bytes]:
    """One file per shape, one with all of them, and in `v2` the params of methods as Codex writes them; by name."""
    whole: dict[str, Any] = msgspec.json.decode(bundle)
    shapes, definitions = whole["shapes"], whole["$defs"]
    references = {name: _references(schema) for name, schema in definitions.items()}

    def page(name: str, schema: Schema) -> bytes:
        needed = _needed(_references(schema), references)
        definitions_of_page = {"$defs": {name: definitions[name] for name in needed}} if needed else {}
        content = {"$schema": whole["$schema"], **schema, **definitions_of_page, "title": name}
        return msgspec.json.format(msgspec.json.encode(content), indent=2)

    files = {f"{name}.json": page(name, schema) for name, schema in shapes.items()}
    for name in (whole["methods"][method]["params"] for method in whole["methods"] if method != "initialize"):
        # SDKs look there for the members of a request, and for no reference to them.
        unfolded = definitions.get(shapes[name].get("$ref", "").removeprefix("#/$defs/"), shapes[name])
        files[f"v2/{name}.json"] = page(name, unfolded)
    return {**files, BUNDLE: bundle}


def _needed(wanted: list[str], references: Mapping[str, list[str]]) -> list[str]:
    """The definitions that are wanted, and those that they need in turn."""
    found: set[str] = set()
    while wanted:
        found.update(wanted)
        wanted = [name for known in wanted for name in references[known] if name not in found]
    return sorted(found)


def _references(value: Any) -> list[str]:
    if isinstance(value, dict):
        found = [value["$ref"].removeprefix("#/$defs/")] if isinstance(value.get("$ref"), str) else []
        return found + [name for entry in value.values() for name in _references(entry)]
    return [name for entry in value for name in _references(entry)] if isinstance(value, list) else []


# ---- TypeScript ------------------------------------------------------------------------------------


def typescript_module(bundle: bytes) -> bytes:
    """A module with a type per shape."""
    whole: dict[str, Any] = msgspec.json.decode(bundle)
    shapes, definitions = whole["shapes"], whole["$defs"]
    lines = ["// Made by `spindle app-server generate-ts`.", ""]
    lines += [f"export type {name} = {typescript(schema)};" for name, schema in sorted(definitions.items())]
    lines += [
        f"export type {name} = {typescript(schema)};"
        for name, schema in sorted(shapes.items())
        if name not in definitions
    ]
    return ("\n".join(lines) + "\n").encode()


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
