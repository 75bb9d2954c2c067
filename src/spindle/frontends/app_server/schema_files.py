"""Writes the JSON Schemas and the TypeScript of what the app-server speaks, from the file that ships with them.

SDKs run this before their first real request, so it loads nothing of the server (`schemas` makes that file).
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Mapping
from typing import Any

import msgspec

from spindle.errors import SpindleError, UsageError
from spindle.frontends.options import Parsed

Schema = dict[str, Any]
BUNDLE = "app_server.schemas.json"


def run(parsed: Parsed, words: list[str]) -> int:
    what, folder = parsed.command[1], parsed.value("out")
    if folder is None:
        raise UsageError(f"{what} needs --out DIR")
    with open(f"{os.path.dirname(__file__)}/{BUNDLE}", "rb") as file:
        bundle = file.read()
    files = json_schemas(bundle) if what == "generate-json-schema" else {"index.ts": typescript_module(bundle)}
    _write(folder, files)
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


def _write(folder: str, files: Mapping[str, bytes]) -> None:
    try:
        os.makedirs(folder, exist_ok=True)
        for name, content in files.items():
            # Not through links: the agent may have worked in that folder.
            inner, _, base = name.rpartition("/")
            place = _opened(folder, inner)
            try:
                flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW | os.O_CLOEXEC
                with open(os.open(base, flags, 0o666, dir_fd=place), "wb") as file:
                    file.write(content)
            finally:
                os.close(place)
    except OSError as error:
        raise SpindleError(f"{folder} cannot be written: {error.strerror}") from error


def _opened(folder: str, inner: str) -> int:
    """The folder, or one in it that is made if it is not there."""
    if not inner:
        return os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    with contextlib.suppress(FileExistsError):
        os.mkdir(f"{folder}/{inner}")
    return os.open(f"{folder}/{inner}", os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
