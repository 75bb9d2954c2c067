"""How a server's tools are shown to a model: one flat name each, a description without hidden parts, a clean schema.

Equal tools give equal bytes, in whatever order a server lists them or their properties.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

import msgspec

from spindle.mcp.spec import McpServer
from spindle.protocol.items import encode_payload
from spindle.protocol.origin import defused
from spindle.protocol.quote import readable, visible

NAME_MAX = 64
DESCRIPTION_MAX = 8192
SCHEMA_MAX_BYTES = 64 * 1024
TOOLS_MAX = 512
_DEPTH_MAX = 32
_TYPES = ("object", "array", "string", "number", "integer", "boolean")
_FIRST_KEYS = ("type", "title", "description", "properties", "required", "additionalProperties", "items")
_COMBINED = ("anyOf", "oneOf", "allOf", "$ref", "not")
_OBJECT_SIGNS = ("properties", "required", "additionalProperties")
_ARRAY_SIGNS = ("items", "prefixItems")
_NUMBER_SIGNS = ("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf")


class RemoteTool(msgspec.Struct, frozen=True, kw_only=True):
    """One tool of one server."""

    full_name: str
    """What the model calls it."""
    server: str
    name: str
    """What the server calls it."""
    description: str
    schema: dict[str, Any]
    raw: dict[str, Any]
    """The tool as the server described it."""
    has_changed: bool = False
    """The server describes it otherwise by now; then nothing that it said before counts for a permission."""

    @property
    def is_read_only(self) -> bool:
        """The server says that it changes nothing."""
        hints = self.raw.get("annotations")
        return isinstance(hints, dict) and hints.get("readOnlyHint") is True and not self.has_changed


_NOT_DEFINING = ("_meta", "icons")
"""Neither shown nor used; all else that a server says of a tool may mean something."""


def definition_of(spec: McpServer, raw: Any) -> str:
    """What a yes to a tool is bound to: the server's entry and all that the server says of the tool. "" = no tool."""
    if not isinstance(raw, dict):
        return ""
    return entry_hash(spec, {key: value for key, value in raw.items() if key not in _NOT_DEFINING})


def entry_hash(spec: McpServer, said: Any = None) -> str:
    """Stands for who answers under the server's name, and with what rights; and for what it says."""
    import hashlib  # never before the first call

    program = (spec.command, spec.args, spec.env, spec.env_vars, spec.cwd)
    address = (spec.url, spec.bearer_token_env_var, spec.http_headers, spec.env_http_headers)
    return hashlib.sha256(msgspec.json.encode([program, address, said], order="sorted")).hexdigest()


def offered_tools(spec: McpServer, listed: Iterable[Any], warn: Callable[[str], None]) -> list[RemoteTool]:
    """The tools that are offered: those the user allows and a model can use. `warn` is told about the rest."""
    found: list[RemoteTool] = []
    for raw in listed:
        name = raw.get("name") if isinstance(raw, dict) else None
        if not isinstance(name, str) or not name:
            warn("one of its tools has no name and is left out")
            continue
        if not _is_wanted(spec, name):
            continue
        if len(found) == TOOLS_MAX:
            warn(f"it has more than {TOOLS_MAX} tools; the others are left out")
            break
        schema = clean_parameters(raw.get("inputSchema"))
        if len(encode_payload(schema)) > SCHEMA_MAX_BYTES:
            warn(f"the schema of its tool {visible(name[:100])!r} is too large; the tool is left out")
            continue
        found.append(
            RemoteTool(
                full_name=full_name(spec.name, name),
                server=spec.name,
                name=name,
                description=_description(raw),
                schema=schema,
                raw=raw,
            )
        )
    return found


def in_order(tools: Iterable[RemoteTool], warn: Callable[[str], None]) -> list[RemoteTool]:
    """All tools of all servers by full name; of two with the same one the first by server and name stays."""
    chosen: dict[str, RemoteTool] = {}
    for tool in sorted(tools, key=lambda tool: (tool.full_name, tool.server, tool.name)):
        if tool.full_name in chosen:
            other = chosen[tool.full_name]
            warn(
                f"the tool {visible(tool.name[:100])!r} of MCP server {tool.server} is left out: its name becomes "
                f"{tool.full_name}, as {visible(other.name[:100])!r} of {other.server} does"
            )
        else:
            chosen[tool.full_name] = tool
    return list(chosen.values())


def full_name(server: str, tool: str) -> str:
    raw = f"mcp__{server}__{tool}"
    name = "".join(char if char.isascii() and (char.isalnum() or char in "_-") else "_" for char in raw)
    if len(name) <= NAME_MAX:
        return name
    import hashlib  # only for very long names

    digest = hashlib.sha1(raw.encode("utf-8", "replace"), usedforsecurity=False).hexdigest()
    return name[: NAME_MAX - len(digest)] + digest


def _is_wanted(spec: McpServer, name: str) -> bool:
    return name not in spec.disabled_tools and (spec.enabled_tools is None or name in spec.enabled_tools)


def _description(raw: Mapping[str, Any]) -> str:
    text = next((raw[key] for key in ("description", "title") if isinstance(raw.get(key), str)), "")
    text = _said(text)
    return text if len(text) <= DESCRIPTION_MAX else f"{text[:DESCRIPTION_MAX]}…"


# ---- schemas ---------------------------------------------------------------------------------------


def clean_parameters(schema: Any) -> dict[str, Any]:
    """A tool's input schema as model servers take it: always an object."""
    if not isinstance(schema, dict):
        return {"type": "object", "properties": {}}
    return _cleaned({**schema, "type": "object"}, 0)


def _cleaned(schema: Any, depth: int) -> dict[str, Any]:
    if not isinstance(schema, dict) or depth > _DEPTH_MAX:
        return {"type": "string"}
    clean = {_said(key): _cleaned_value(key, value, depth) for key, value in schema.items() if isinstance(key, str)}
    kind = _type_of(schema)
    if kind is not None:
        clean["type"] = kind
    if kind == "object" and not isinstance(clean.get("properties"), dict):
        clean["properties"] = {}
    if kind == "array" and "items" not in clean and "prefixItems" not in clean:
        clean["items"] = {"type": "string"}
    return {key: clean[key] for key in sorted(clean, key=_key_order)}


def _cleaned_value(key: str, value: Any, depth: int) -> Any:
    match key:
        case "properties" | "$defs" | "definitions" if isinstance(value, dict):
            return {_said(name): _cleaned(value[name], depth + 1) for name in sorted(value)}
        case "patternProperties" if isinstance(value, dict):
            return {_pattern(name): _cleaned(value[name], depth + 1) for name in sorted(value)}
        case "pattern" if isinstance(value, str):
            return _pattern(value)
        case "items" if isinstance(value, dict | bool):
            return _cleaned(value, depth + 1)
        case "additionalProperties" if isinstance(value, dict):
            return _cleaned(value, depth + 1)
        case "items" | "prefixItems" | "anyOf" | "oneOf" | "allOf" if isinstance(value, list):
            return [_cleaned(entry, depth + 1) for entry in value]
        case "not" if isinstance(value, dict):
            return _cleaned(value, depth + 1)
        case _:
            return clean_words(value, depth + 1)


def clean_words(value: Any, depth: int = 0) -> Any:
    """A value of a server with nothing hidden in any of its texts, names of members included."""
    if isinstance(value, str):
        return _said(value)
    if depth > _DEPTH_MAX:
        return None
    if isinstance(value, dict):
        return {_said(str(key)): clean_words(entry, depth + 1) for key, entry in value.items()}
    return [clean_words(entry, depth + 1) for entry in value] if isinstance(value, list) else value


def _said(text: str) -> str:
    """What a server says, as a model may see it: nothing hidden, and no tag of ours."""
    return defused(readable(text))


def _pattern(expression: str) -> str:
    """A regular expression that means the same, with what is hidden in it written out."""

    def escaped(char: str) -> str:
        units = char.encode("utf-16-be", "surrogatepass").hex()
        return "".join(f"\\u{units[at : at + 4]}" for at in range(0, len(units), 4))

    return readable(expression.replace("\r", "\\r"), mark=escaped)


def _type_of(schema: Mapping[str, Any]) -> str | None:
    """The schema's type, read or guessed; None where other keywords say it."""
    kind = schema.get("type")
    if isinstance(kind, list):
        kind = next((entry for entry in kind if entry in _TYPES), None)
    if isinstance(kind, str):
        return kind
    if any(key in schema for key in _OBJECT_SIGNS):
        return "object"
    if any(key in schema for key in _ARRAY_SIGNS):
        return "array"
    if any(key in schema for key in _COMBINED):
        return None
    if "enum" in schema or "const" in schema:
        return _type_of_value(schema)
    if any(key in schema for key in _NUMBER_SIGNS):
        return "number"
    return "string"


def _type_of_value(schema: Mapping[str, Any]) -> str | None:
    """A guess by the values themselves: a string that must be 1 or 2 could not be given at all."""
    values = schema["enum"] if "enum" in schema else [schema["const"]]
    kinds = {type(value) for value in values} if isinstance(values, list) else set[type]()
    if kinds <= {str}:
        return "string"
    if kinds <= {int, float}:
        return "number"
    return "boolean" if kinds == {bool} else None


def _key_order(key: str) -> tuple[int, str]:
    return (_FIRST_KEYS.index(key), "") if key in _FIRST_KEYS else (len(_FIRST_KEYS), key)
