"""Tools that a client brings along: the model calls them, the client answers."""

from __future__ import annotations

import re
from typing import Any

import msgspec

from spindle.errors import ConfigError, ToolError
from spindle.protocol.items import Part, decode_foreign
from spindle.protocol.questions import DynamicToolCallRequest, DynamicToolCallResponse
from spindle.tools.tool import ToolCall, ToolContext, ToolResult

_NAME = re.compile(r"[A-Za-z0-9_-]{1,64}")


class DynamicTool:
    """One of them. In a namespace, the model knows it as NAMESPACE__NAME."""

    parallel = False

    def __init__(self, tool: str, description: str, schema: dict[str, Any], namespace: str | None = None) -> None:
        self.name = tool if namespace is None else f"{namespace}__{tool}"
        self._tool = tool
        self._namespace = namespace
        self._description = description
        self._schema = schema

    def spec(self) -> dict[str, Any]:
        return {
            "type": "function",
            "name": self.name,
            "description": self._description,
            "strict": False,
            "parameters": self._schema,
        }

    async def run(self, call: ToolCall, ctx: ToolContext) -> ToolResult:
        try:
            arguments = decode_foreign(call.arguments or "{}")
        except (msgspec.DecodeError, UnicodeError) as error:
            raise ToolError(f"failed to parse function arguments: {error}") from error
        started = ctx.clock.monotonic()
        request = DynamicToolCallRequest(
            call_id=ctx.call_id,
            turn_id=ctx.turn_id,
            tool=self._tool,
            namespace=self._namespace,
            arguments=arguments,
        )
        response = await ctx.person.ask("dynamic_tool", request)
        items = response.get("content_items") or response.get("contentItems")
        items = [item for item in items if isinstance(item, dict)] if isinstance(items, list) else []
        success = response.get("success") is True
        ctx.emit(
            DynamicToolCallResponse(
                call_id=ctx.call_id,
                turn_id=ctx.turn_id,
                tool=self._tool,
                namespace=self._namespace,
                arguments=arguments,
                content_items=items,
                success=success,
                duration_ms=round((ctx.clock.monotonic() - started) * 1000),
            )
        )
        return ToolResult(output=_output(items, success))


def _output(items: list[dict[str, Any]], success: bool) -> str | list[Part]:
    parts = [part for part in map(_part, items) if part is not None]
    if not parts:
        return "the tool answered nothing" if success else "the client could not answer this call"
    if all(part["type"] == "input_text" for part in parts):
        return "\n".join(part["text"] for part in parts)
    return parts


def _part(item: dict[str, Any]) -> Part | None:
    text, image = item.get("text"), item.get("imageUrl") or item.get("image_url")
    match item.get("type"):
        case "inputText" | "input_text" if isinstance(text, str):
            return {"type": "input_text", "text": text}
        case "inputImage" | "input_image" if isinstance(image, str):
            return {"type": "input_image", "image_url": image}
        case _:
            return None


def dynamic_tools(specs: Any) -> list[DynamicTool]:
    """The tools that a client, or a record, describes: `{name, description, inputSchema}`, or a namespace of such."""
    if not isinstance(specs, list) or not all(isinstance(spec, dict) for spec in specs):
        raise ConfigError("dynamic tools are a list of objects")
    tools: list[DynamicTool] = []
    for spec in specs:
        if spec.get("type") == "namespace":
            inner = spec.get("tools")
            members = inner if isinstance(inner, list) else []
            tools += [_tool(member, _name(spec)) for member in members if isinstance(member, dict)]
        else:
            tools.append(_tool(spec, None))
    names = [tool.name for tool in tools]
    for name in names:
        if names.count(name) > 1:
            raise ConfigError(f"there are two dynamic tools with the name {name!r}")
    return tools


def _tool(spec: dict[str, Any], namespace: str | None) -> DynamicTool:
    name = _name(spec)
    schema = spec.get("inputSchema", spec.get("input_schema"))
    if not isinstance(schema, dict):
        raise ConfigError(f"the dynamic tool {name!r} has no inputSchema")
    return DynamicTool(name, str(spec.get("description") or ""), schema, namespace)


def _name(spec: dict[str, Any]) -> str:
    name = spec.get("name")
    if not isinstance(name, str) or not _NAME.fullmatch(name) or name.startswith("mcp__"):
        raise ConfigError(f"{name!r} cannot be the name of a dynamic tool: letters, digits, - and _, not mcp__…")
    return name
