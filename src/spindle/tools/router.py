"""Which tools a thread has, in which order the model sees them, and who answers a call.

Built once when a thread starts; the list keeps its bytes for the thread's life.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any

from spindle.errors import ToolError
from spindle.protocol.items import Item, call_id_of, encode_json
from spindle.protocol.settings import AgentRole
from spindle.tools.apply_patch import ApplyPatch
from spindle.tools.exec_command import ExecCommand, WriteStdin
from spindle.tools.recollection import Recall, Remember
from spindle.tools.request_user_input import RequestUserInput
from spindle.tools.shell import Shell, ShellCommand
from spindle.tools.tool import Tool, ToolCall, ToolContext, ToolResult
from spindle.tools.update_plan import UpdatePlan
from spindle.tools.view_image import ViewImage
from spindle.tools.web_search import web_search_spec

LOCAL_SHELL = "local_shell"
JIT_TOOLS = ("grep_files", "read_file", "list_dir")
"""Tools that fetch files just in time, for models that were not trained to do it with a shell."""
SHELL_ALIASES = ("shell", "container.exec", LOCAL_SHELL)


class Unsupported(ToolError):
    """The model called a tool that does not exist."""


class ToolSet:
    """The tools of one thread."""

    def __init__(self, specs: Sequence[dict[str, Any]], handlers: dict[str, Tool]) -> None:
        self.specs = list(specs)
        self.specs_bytes = encode_json(self.specs)
        """The tool list of every request."""
        self._handlers = handlers
        self._freeform = {spec["name"] for spec in self.specs if spec["type"] == "custom"} | {ApplyPatch.name}

    @property
    def has_freeform_patch(self) -> bool:
        """Decides the text flavour of the one-shot shell tools."""
        return any(spec["type"] == "custom" and spec["name"] == ApplyPatch.name for spec in self.specs)

    def __contains__(self, name: str) -> bool:
        return name in self._handlers

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


def build_tools(
    *,
    shell_type: str = "default",
    patch_type: str | None = None,
    web_search: str | None = "cached",
    shell_tool: bool = True,
    unified_exec: bool = True,
    request_rule: bool = True,
    update_plan: bool = True,
    request_user_input: bool = True,
    view_image: bool = True,
    jit_tools: Collection[str] = (),
    memory: str | None = None,
    recollection: bool = False,
    agents: Sequence[AgentRole] | None = None,
    may_spawn: bool = True,
    resources: Sequence[Tool] = (),
    extra: Sequence[Tool] = (),
) -> ToolSet:
    """The tools for a model and a set of features, in their one fixed order.

    `shell_type` and `patch_type` ("freeform", "function" or None) come from the model catalogue; `web_search` is
    "cached", "live" or None. `jit_tools` names the ones of `JIT_TOOLS` that are wanted; `memory` is the folder of the
    project's notes; `recollection` adds what a model keeps and looks up of its own thread. `agents` are the roles of
    sub-agents, None where there are none; without `may_spawn` their tools only answer. `resources` are the tools that
    look into MCP servers; `extra` tools (those of MCP servers, the caller's own) stand last, in the order given.
    """
    shells = _Shells(request_rule) if shell_tool else None
    patch = ApplyPatch(freeform=patch_type == "freeform")
    listed: list[Tool | dict[str, Any]] = []
    if shells is not None:
        listed += shells.listed("unified_exec" if unified_exec else shell_type)
    listed += resources
    if update_plan:
        listed.append(UpdatePlan())
    if request_user_input:
        listed.append(RequestUserInput())
    if patch_type is not None:
        listed.append(patch)
    if jit_tools:
        listed += _jit_tools(jit_tools)
    if web_search in ("cached", "live"):
        listed.append(web_search_spec(web_search == "live"))
    if view_image:
        listed.append(ViewImage())
    team = _agent_tools(agents) if agents is not None else []
    if may_spawn:
        listed += team
    if memory is not None:
        from spindle.tools.memory import Memory  # only where notes are switched on

        listed.append(Memory(memory))
    if recollection:
        listed += [Remember(), Recall()]
    listed += extra
    # Old prompts and resumed threads call tools that are no longer listed; a shell that is switched off stays off.
    handlers: dict[str, Tool] = {patch.name: patch, **(shells.hidden() if shells else {})}
    handlers.update({tool.name: tool for tool in (*team, *listed) if not isinstance(tool, dict)})
    return ToolSet([tool if isinstance(tool, dict) else tool.spec() for tool in listed], handlers)


def _agent_tools(roles: Sequence[AgentRole]) -> list[Tool]:
    from spindle.tools.agents import agent_tools  # only where sub-agents are switched on

    return agent_tools(roles)


def _jit_tools(wanted: Collection[str]) -> list[Tool]:
    from spindle.tools.grep_files import GrepFiles  # few models are offered these three
    from spindle.tools.list_dir import ListDir
    from spindle.tools.read_file import ReadFile

    tools: tuple[Tool, ...] = (GrepFiles(), ReadFile(), ListDir())
    return [tool for tool in tools if tool.name in wanted]


class _Shells:
    """The shell tools, of which a model sees one kind and may call others."""

    def __init__(self, request_rule: bool) -> None:
        self._request_rule = request_rule
        self._shell = Shell(request_rule)
        self._shell_command = ShellCommand(request_rule)

    def listed(self, kind: str) -> list[Tool | dict[str, Any]]:
        match kind:
            case "unified_exec":
                return [ExecCommand(self._request_rule), WriteStdin()]
            case "shell_command":
                return [self._shell_command]
            case "local":
                return [{"type": LOCAL_SHELL}]
            case "disabled":
                return []
            case _:
                return [self._shell]

    def hidden(self) -> dict[str, Tool]:
        handlers: dict[str, Tool] = dict.fromkeys(SHELL_ALIASES, self._shell)
        handlers[self._shell_command.name] = self._shell_command
        return handlers
