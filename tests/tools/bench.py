"""The one tool context of the tests: a real process table in a folder; what was emitted and asked is kept."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from spindle.context.truncate import Truncation
from spindle.core.notes import Notes
from spindle.errors import Rejected, ToolError
from spindle.mcp.naming import RemoteTool
from spindle.patch.diff import TurnDiffTracker
from spindle.policy.environment import EnvironmentPolicy, child_environment
from spindle.policy.sandbox import Fence, boundary_of
from spindle.process.table import ProcessTable
from spindle.protocol.clock import Clock, SystemClock
from spindle.protocol.events import Msg
from spindle.protocol.items import encode_json
from spindle.protocol.settings import CollaborationMode, SandboxPolicy, ThreadSettings
from spindle.thread.history import History
from spindle.tools.command_arguments import PermissionArgs
from spindle.tools.services import SubAgents
from spindle.tools.tool import OutputForm, Permit, Tool, ToolCall, ToolContext, ToolResult
from spindle.workspace.shell import Shell


class Bench:
    """Runs tools in `folder` and remembers everything. It is also who permits, and who answers: nobody."""

    def __init__(self, folder: Path, sandbox: SandboxPolicy | None = None, clock: Clock | None = None) -> None:
        self.folder = folder
        self.clock = clock or SystemClock()
        self.events: list[Msg] = []
        self.asked: list[dict[str, Any]] = []
        """The commands that permission was asked for."""
        self.asked_about: list[dict[str, Any]] = []
        """The same for patches."""
        self.refusal: Rejected | None = None
        self.patch_permit = Permit()
        self.before_answer: Callable[[], object] = lambda: None
        self.mode = "default"
        self.freeform = True
        self.accepts_images = True
        self.image_as_message = False
        self.truncation = Truncation("tokens")
        self.sandbox = sandbox or SandboxPolicy(mode="danger-full-access")
        self.fence: Fence | None = None
        self.offload_home: str | None = None
        self.diff = TurnDiffTracker()
        self.home = folder.parent / "home"
        self.home.mkdir(exist_ok=True)
        self.table = ProcessTable(
            clock=self.clock,
            shell=Shell("bash", "/bin/bash"),
            environment=child_environment({"PATH": "/usr/bin:/bin", "HOME": str(self.home)}, EnvironmentPolicy()),
            home=str(self.home),
        )

    def context(self, call_id: str = "call_1") -> ToolContext:
        return ToolContext(
            call_id=call_id,
            turn_id="turn_1",
            thread_id="thread_1",
            settings=ThreadSettings(
                cwd=str(self.folder),
                model="m",
                model_provider="p",
                approval_policy="never",
                sandbox=self.sandbox,
                collaboration_mode=CollaborationMode(mode=self.mode),
            ),
            boundary=boundary_of(self.sandbox, cwd=str(self.folder), env={}, home=str(self.home), fence=self.fence),
            clock=self.clock,
            emit=self.events.append,
            output=OutputForm(
                truncation=self.truncation,
                accepts_images=self.accepts_images,
                image_as_message=self.image_as_message,
                freeform_patch=self.freeform,
                offload_home=self.offload_home,
            ),
            permission=self,
            person=self,
            processes=self.table,
            notes=Notes(History()),
            diff=self.diff,
            agents=no_agents,
        )

    async def result(self, tool: Tool, arguments: dict[str, Any] | str, call_id: str = "call_1") -> ToolResult:
        text = arguments if isinstance(arguments, str) else encode_json(arguments).decode()
        item = {"type": "function_call", "name": tool.name, "call_id": call_id, "arguments": text}
        call = ToolCall(item=item, name=tool.name, call_id=call_id, arguments=text)
        return await tool.run(call, self.context(call_id))

    async def run(self, tool: Tool, arguments: dict[str, Any] | str, call_id: str = "call_1") -> str:
        output = (await self.result(tool, arguments, call_id)).output
        assert isinstance(output, str)
        return output

    def kinds(self) -> list[str]:
        return [type(event).__name__ for event in self.events]

    def of(self, kind: type[Any]) -> list[Any]:
        return [event for event in self.events if isinstance(event, kind)]

    # ---- who permits ---------------------------------------------------------------------------

    async def command(self, argv: list[str], *, cwd: str, wants: PermissionArgs, tty: bool = False) -> Permit:
        more = {
            "escalated": wants.is_escalated,
            "justification": wants.justification,
            "prefix_rule": wants.prefix_rule,
        }
        self.asked.append({"argv": list(argv), "cwd": cwd, **more})
        if self.refusal is not None:
            raise self.refusal
        return Permit(sandboxed=not self.sandbox.is_full_access)

    async def typed_line(self, text: str, *, argv: list[str], cwd: str, before: str = "") -> None:
        pass

    async def typing(self, chars: str, *, session_id: int, argv: list[str], cwd: str) -> None:
        raise ToolError("nothing is typed outside of the sandbox here")

    async def retry(self, argv: list[str], *, cwd: str, tty: bool = False) -> bool:
        return False

    async def patch(self, changes: dict[str, Any]) -> Permit:
        self.asked_about.append(changes)
        self.before_answer()
        return self.patch_permit

    async def patch_retry(self, changes: dict[str, Any]) -> Permit | None:
        return None

    async def note(self, changes: dict[str, Any]) -> None:
        self.asked_about.append(changes)
        if self.refusal is not None:
            raise self.refusal

    async def tool(self, tool: RemoteTool, arguments: dict[str, Any], mode: str | None, definition: str) -> None:
        raise ToolError("tools of MCP servers cannot be used here")

    async def resources(self, server: str, name: str, arguments: dict[str, Any], mode: str | None) -> None:
        raise ToolError("MCP servers cannot be used here")

    async def function(self, name: str, arguments: dict[str, Any]) -> None:
        self.asked.append({"function": name, "arguments": arguments})
        if self.refusal is not None:
            raise self.refusal

    # ---- who answers ---------------------------------------------------------------------------

    async def ask(self, kind: str, request: Msg) -> dict[str, Any]:
        raise ToolError(f"nobody answers questions of the kind {kind}")

    async def elicit(self, server: str, params: dict[str, Any]) -> dict[str, Any]:
        return {"action": "decline"}


def no_agents() -> SubAgents:
    raise ToolError("there are no sub-agents here")
