"""A tool context around a real process table; what was emitted and asked is kept."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from spindle.errors import Rejected
from spindle.patch.diff import TurnDiffTracker
from spindle.policy.environment import EnvironmentPolicy, child_environment
from spindle.policy.sandbox import Fence, boundary_of
from spindle.process.table import ProcessTable
from spindle.protocol.clock import SystemClock
from spindle.protocol.events import Msg
from spindle.protocol.items import encode_json
from spindle.protocol.settings import SandboxPolicy, ThreadSettings
from spindle.tools.tool import Permit, Tool, ToolCall, ToolContext, Truncation
from spindle.workspace.shell import Shell


class Bench:
    """Runs tools in `folder` and remembers everything."""

    def __init__(self, folder: Path, sandbox: SandboxPolicy | None = None) -> None:
        self.folder = folder
        self.events: list[Msg] = []
        self.asked: list[dict[str, Any]] = []
        self.refusal: Rejected | None = None
        self.freeform = True
        self.truncation = Truncation(mode="tokens", limit=10_000)
        self.sandbox = sandbox or SandboxPolicy(mode="danger-full-access")
        self.fence: Fence | None = None
        self.offload_home: str | None = None
        home = folder.parent / "home"
        home.mkdir(exist_ok=True)
        self.table = ProcessTable(
            clock=SystemClock(),
            shell=Shell("bash", "/bin/bash"),
            environment=child_environment({"PATH": "/usr/bin:/bin", "HOME": str(home)}, EnvironmentPolicy()),
            home=str(home),
        )

    def context(self, call_id: str = "call_1") -> ToolContext:
        return ToolContext(
            call_id=call_id,
            turn_id="turn_1",
            thread_id="thread_1",
            settings=ThreadSettings(
                cwd=str(self.folder), model="m", model_provider="p", approval_policy="never", sandbox=self.sandbox
            ),
            boundary=boundary_of(
                self.sandbox, cwd=str(self.folder), env={}, home=str(self.folder.parent / "home"), fence=self.fence
            ),
            clock=SystemClock(),
            emit=self.events.append,
            truncation=self.truncation,
            accepts_images=False,
            freeform_patch=self.freeform,
            image_as_message=False,
            offload_home=self.offload_home,
            processes=self.table,
            permit_command=self._permit_command,
            permit_patch=self._permit_patch,
            notes=None,
            diff=TurnDiffTracker(),
        )

    async def run(self, tool: Tool, arguments: dict[str, Any] | str, call_id: str = "call_1") -> str:
        text = arguments if isinstance(arguments, str) else encode_json(arguments).decode()
        item = {"type": "function_call", "name": tool.name, "call_id": call_id, "arguments": text}
        call = ToolCall(item=item, name=tool.name, call_id=call_id, arguments=text)
        result = await tool.run(call, self.context(call_id))
        assert isinstance(result.output, str)
        return result.output

    async def _permit_command(self, argv: Sequence[str], **given: Any) -> Permit:
        self.asked.append({"argv": list(argv), **given})
        if self.refusal is not None:
            raise self.refusal
        return Permit(sandboxed=not self.sandbox.is_full_access)

    async def _permit_patch(self, changes: dict[str, Any]) -> Permit:
        return Permit()

    def kinds(self) -> list[str]:
        return [type(event).__name__ for event in self.events]

    def of(self, kind: type[Any]) -> list[Any]:
        return [event for event in self.events if isinstance(event, kind)]
