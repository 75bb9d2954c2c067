"""Which tools a thread has, in which order the model sees them, and who answers a call.

Built once when a thread starts; the list keeps its bytes for the thread's life.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any

import msgspec

from spindle.errors import ToolError
from spindle.protocol.items import Item, call_id_of, encode_json, encode_kept, one_copy
from spindle.tools import specs
from spindle.tools.tool import Tool, ToolCall, ToolContext, ToolResult

LOCAL_SHELL = "local_shell"
PATCH = "apply_patch"
_JIT = {"grep_files": specs.grep_files, "read_file": specs.read_file, "list_dir": specs.list_dir}
JIT_TOOLS = tuple(_JIT)
"""Tools that fetch files just in time, for models that were not trained to do it with a shell."""
SHELL_ALIASES = ("shell", "container.exec", LOCAL_SHELL)


class Unsupported(ToolError):
    """The model called a tool that does not exist."""


class ToolSet:
    """The tools of one thread."""

    def __init__(self, specs: Sequence[dict[str, Any]], handlers: dict[str, Tool]) -> None:
        self.specs = list(specs)
        self.specs_bytes = one_copy(encode_kept(self.specs))
        """The tool list of every request."""
        self._handlers = handlers
        self._freeform = {spec["name"] for spec in self.specs if spec["type"] == "custom"} | {PATCH}

    @property
    def has_freeform_patch(self) -> bool:
        """Decides the text flavour of the one-shot shell tools."""
        return any(spec["type"] == "custom" and spec["name"] == PATCH for spec in self.specs)

    def joined_by(self, tools: Sequence[Tool]) -> ToolSet:
        """The same tools with others behind them."""
        return ToolSet(
            [*self.specs, *(tool.spec() for tool in tools)],
            {**self._handlers, **{tool.name: tool for tool in tools}},
        )

    def __contains__(self, name: str) -> bool:
        return name in self._handlers

    def only_reads(self, name: str) -> bool:
        """Whether the tool keeps to what the sandbox allows, or says of itself that it only reads."""
        return getattr(self._handlers.get(name), "only_reads", True)

    def find(self, item: Item) -> tuple[Tool, ToolCall] | None:
        """The tool that answers a call item, listed or not, and the call as it takes it; None if there is none."""
        call = read_call(item)
        tool = self._handlers.get(call.name)
        if tool is None or (call.is_freeform and call.name not in self._freeform):
            return None
        return tool, call

    def resolve(self, item: Item) -> tuple[ToolCall, Tool]:
        """Like `find`, but a call to no tool gets one that says so."""
        found = self.find(item)
        return (found[1], found[0]) if found else (read_call(item), _NO_TOOL)


class _NoTool:
    """Answers calls to tools that do not exist."""

    name = ""
    parallel = True

    def spec(self) -> dict[str, Any]:
        raise AssertionError("never listed")

    async def run(self, call: ToolCall, ctx: ToolContext) -> ToolResult:
        raise Unsupported(f"unsupported {'custom tool call' if call.is_freeform else 'call'}: {call.name}")


_NO_TOOL: Tool = _NoTool()


def read_call(item: Item) -> ToolCall:
    """A call item of any of the three types."""
    kind = item["type"]
    if kind == "local_shell_call":
        return ToolCall(item=item, name=LOCAL_SHELL, call_id=call_id_of(item), arguments=_shell_arguments(item))
    text = item.get("input" if kind == "custom_tool_call" else "arguments", "")
    if not isinstance(text, str):
        text = encode_json(text).decode()
    return ToolCall(item=item, name=_full_name(item), call_id=call_id_of(item), arguments=text)


def _full_name(item: Item) -> str:
    """Some models name an MCP server in a field of its own, `mcp__SERVER`, and the tool apart."""
    name, namespace = str(item.get("name", "")), item.get("namespace")
    return f"{namespace.rstrip('_')}__{name}" if isinstance(namespace, str) and namespace.rstrip("_") else name


def _shell_arguments(item: Item) -> str:
    """A local shell call's action, in the words of the `shell` tool."""
    action = item.get("action") or {}
    given = {
        "command": action.get("command"),
        "workdir": action.get("working_directory"),
        "timeout_ms": action.get("timeout_ms"),
    }
    return encode_json({name: value for name, value in given.items() if value is not None}).decode()


class Unlisted:
    """A tool that answers whoever calls it, though the model is not shown it."""

    def __init__(self, tool: Tool) -> None:
        self._tool = tool
        self.name = tool.name
        self.parallel = tool.parallel

    def spec(self) -> dict[str, Any]:
        raise AssertionError("never listed")

    async def run(self, call: ToolCall, ctx: ToolContext) -> ToolResult:
        return await self._tool.run(call, ctx)


class ToolChoice(msgspec.Struct, frozen=True, kw_only=True):
    """Which tools a thread is to have: the model's needs, the user's settings, and what others bring along."""

    shell_type: str = "default"
    """From the model catalogue, like `patch_type`: "shell_command", "local", "disabled", or any other for `shell`."""
    patch_type: str | None = None
    """"freeform", "function", or None for a model that is not offered the patch tool."""
    web_search: str | None = "cached"
    """"cached", "live" or None."""
    shell_tool: bool = True
    unified_exec: bool = True
    request_rule: bool = True
    update_plan: bool = True
    request_user_input: bool = True
    view_image: bool = True
    jit_tools: Collection[str] = ()
    """Those of `JIT_TOOLS` that are wanted."""
    recollection: bool = False
    """The model can keep facts of its own thread and look it up."""
    of_features: Sequence[Tool] = ()
    """Those that the session's features bring along."""
    resources: Sequence[Tool] = ()
    """Those that look into MCP servers."""
    extra: Sequence[Tool] = ()
    """Those of MCP servers and the caller's own; they stand last, in this order."""


def build_tools(choice: ToolChoice) -> ToolSet:
    """The tools in their one fixed order."""
    patch = specs.apply_patch(freeform=choice.patch_type == "freeform")
    listed = [
        *_listed_shells(choice),
        *choice.resources,
        *([specs.update_plan()] if choice.update_plan else ()),
        *([specs.request_user_input()] if choice.request_user_input else ()),
        *([patch] if choice.patch_type is not None else ()),
        *(make() for name, make in _JIT.items() if name in choice.jit_tools),
        *_web_search(choice.web_search),
        *([specs.view_image()] if choice.view_image else ()),
        *choice.of_features,
        *([specs.remember(), specs.recall()] if choice.recollection else ()),
        *choice.extra,
    ]
    # Old prompts and resumed threads call tools that are no longer listed; a shell that is switched off stays off.
    handlers: dict[str, Tool] = {patch.name: patch, **_hidden_shells(choice)}
    handlers.update({tool.name: tool for tool in listed if not isinstance(tool, dict)})
    shown = [tool for tool in listed if not isinstance(tool, Unlisted)]
    return ToolSet([tool if isinstance(tool, dict) else tool.spec() for tool in shown], handlers)


def _listed_shells(choice: ToolChoice) -> list[Tool | dict[str, Any]]:
    """Of the shell tools a model sees one kind."""
    if not choice.shell_tool:
        return []
    match "unified_exec" if choice.unified_exec else choice.shell_type:
        case "unified_exec":
            return [specs.exec_command(request_rule=choice.request_rule), specs.write_stdin()]
        case "shell_command":
            return [specs.shell_command(request_rule=choice.request_rule)]
        case "local":
            return [{"type": LOCAL_SHELL}]
        case "disabled":
            return []
        case _:
            return [specs.shell(request_rule=choice.request_rule)]


def _hidden_shells(choice: ToolChoice) -> dict[str, Tool]:
    """The kinds that it may call though they are not listed."""
    if not choice.shell_tool:
        return {}
    script = specs.shell_command(request_rule=choice.request_rule)
    return {**dict.fromkeys(SHELL_ALIASES, specs.shell(request_rule=choice.request_rule)), script.name: script}


def _web_search(mode: str | None) -> list[dict[str, Any]]:
    return [specs.web_search(external_web_access=mode == "live")] if mode in ("cached", "live") else []
