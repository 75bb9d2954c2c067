"""A session that is shown again while something goes on in it, to an editor that is slow to read."""

from __future__ import annotations

import asyncio
import json
import os
from pathlib import Path
from typing import Any

from api.test_door import Opener, opened  # noqa: F401  the fixture
from spindle.config.load import load_config
from spindle.frontends.acp.session import AcpSession
from spindle.frontends.rpc_peer import RpcPeer
from spindle.model.scripted import calls, says

LONG = "go " * 500_000
"""So much that nothing more is told before it is read."""


class SlowEditor:
    """Reads nothing while it is busy."""

    def __init__(self) -> None:
        self.reads = asyncio.Event()
        self.reads.set()
        self.updates: list[dict[str, Any]] = []
        self.peer = RpcPeer("acp", self._read)
        self._writer = asyncio.ensure_future(self.peer.run())

    async def _read(self, lines: bytes) -> None:
        await self.reads.wait()
        told = [json.loads(line) for line in lines.splitlines()]
        self.updates += [one["params"]["update"] for one in told if one["method"] == "session/update"]

    def falls_behind(self) -> None:
        self.reads.clear()
        self.peer.say("much", {"text": "x" * (2 << 20)})

    async def close(self) -> None:
        self.peer.close()
        await self._writer

    def of_calls(self) -> list[tuple[str, str]]:
        return [
            (one["sessionUpdate"], one["status"]) for one in self.updates if "toolCallId" in one and "status" in one
        ]


async def until(is_so: Any) -> None:
    async with asyncio.timeout(20):
        while not is_so():
            await asyncio.sleep(0.01)


async def test_a_call_that_ends_while_a_slow_editor_is_shown_the_past_is_over_for_it_once(
    opened: Opener,  # noqa: F811
    workspace: Path,
    tmp_path: Path,
) -> None:
    os.mkfifo(workspace / "gate")
    waits = calls("exec_command", {"cmd": "cat gate", "yield_time_ms": 30_000}, "c1")
    thread = await opened(says("one"), says("two"), waits, says("end"), bypass=True)
    editor = SlowEditor()
    config = load_config(cwd=str(workspace), env={"CODEX_HOME": str(tmp_path / "codex-home"), "HOME": str(tmp_path)})
    session = AcpSession(editor.peer, thread, config, has_forms=False, files=None)
    session.driven.begin()
    for _ in range(2):
        await session.prompt(LONG, [])
    prompt = asyncio.ensure_future(session.prompt(LONG, []))
    await until(lambda: editor.of_calls())
    editor.falls_behind()
    shown = asyncio.ensure_future(session.replay())
    await asyncio.sleep(0)
    await asyncio.to_thread((workspace / "gate").write_text, "through\n")
    await until(lambda: any(b"function_call_output" in record.raw for record in thread.records))
    await asyncio.sleep(0.1)  # what the thread has to say of it waits for the editor, too
    editor.reads.set()
    await asyncio.gather(shown, prompt)
    await session.close()
    await editor.close()
    assert editor.of_calls() == [
        *[("tool_call", "in_progress"), ("tool_call", "in_progress")],
        ("tool_call_update", "completed"),
    ]
