"""The threads that calls work in: opened by `codex`, gone on with by `codex-reply`."""

from __future__ import annotations

import asyncio
import os
import weakref
from typing import Any

from spindle.api.door import SessionRequest, open_thread
from spindle.api.hearing import Hearing
from spindle.config.schema import Config
from spindle.errors import SpindleError, ThreadError, ThreadNotFound
from spindle.frontends.driven_thread import DrivenThread, TurnEnd
from spindle.frontends.launch import config_from
from spindle.frontends.mcp_server.tool_call import ToolCall
from spindle.frontends.mcp_server.tools import NewArguments
from spindle.frontends.options import Parsed
from spindle.frontends.recorded_settings import recorded_config
from spindle.mcp.spec import agents_above
from spindle.protocol.clock import Clock, SystemClock
from spindle.protocol.events import Event, SessionConfigured
from spindle.protocol.ops import UserTurn
from spindle.thread.store import ThreadStore

MAX_IDLE = 16
"""So many threads stay open in which nothing happens; others are closed, and opened again when they are needed."""


class McpThread:
    """One open thread, and the call that it works for."""

    def __init__(self) -> None:
        self.driven: DrivenThread
        self.call: ToolCall | None = None
        self.configured: SessionConfigured | None = None
        self.is_free = asyncio.Event()
        """No call works in it."""

    async def told(self, event: Event) -> None:
        if isinstance(event.msg, SessionConfigured):
            self.configured = event.msg
        if self.call is not None:
            await self.call.told(event)

    def complain(self, text: str) -> None:
        if self.call is not None:
            self.call.complain(text)


class Threads:
    """All threads of this server."""

    def __init__(self, config: Config, parsed: Parsed) -> None:
        self._config = config
        self._parsed = parsed
        self._clock: Clock = SystemClock()
        self._store = ThreadStore(config.home, self._clock)
        self._open: dict[str, McpThread] = {}
        """By id; the one used last at the end."""
        self._opening: weakref.WeakValueDictionary[str, asyncio.Lock] = weakref.WeakValueDictionary()
        self._closing: dict[str, asyncio.Task[None]] = {}
        """Those that are being put away, by the same ids."""

    async def start(self, call: ToolCall, given: NewArguments) -> tuple[str, TurnEnd]:
        """A new thread, and its first turn."""
        self._check_depth()
        config = self._config_for(given)
        request = self._request(config, call, base_instructions=given.base_instructions)
        return await self._turn(await self._opened(request, call), call, given.prompt)

    async def go_on(self, call: ToolCall, thread: str, prompt: str) -> tuple[str, TurnEnd]:
        """A turn in a thread of ours, or in a recorded one of another process."""
        self._check_depth()
        ref = self._store.find(thread)
        thread_id = ref.id if ref is not None else thread
        async with self._opening.setdefault(thread_id, asyncio.Lock()):
            found = self._open.get(thread_id)
            if found is not None and found.call is not None and found.call.is_cancelled:
                await found.is_free.wait()  # its turn is being stopped; nobody waits for it any more
                found, ref = self._open.get(thread_id), self._store.find(thread_id)  # others may have crowded it out
            if found is not None and found.call is not None:
                raise ThreadError("thread is busy: another call works in it; wait for its result, or cancel it")
            if found is not None:
                found = await self._still_ours(found)
            if found is None:
                if (closing := self._closing.get(thread_id)) is not None:
                    await asyncio.wait([closing])
                if ref is None:
                    raise ThreadNotFound(f"no thread {thread!r} was found: name one that an earlier call gave")
                config = recorded_config(self._store.read(ref), self._config, self._clock, self._load)
                found = await self._opened(self._request(config, call, thread=ref.id), call)
            self._use(found, call)
        return await self._turn(found, call, prompt)

    def _check_depth(self) -> None:
        """An agent that starts itself over and over, as a server of its own, comes to an end."""
        above, most = agents_above(os.environ), self._config.agents_max_depth
        if above > most:
            raise SpindleError(
                f"no turn was begun: {above} agents stand above this one, and agents.max_depth allows {most}"
            )

    async def _still_ours(self, thread: McpThread) -> McpThread | None:
        """Take its file again; None when another process has gone on with it."""
        try:
            thread.driven.live.retake()
        except (ThreadError, OSError):
            self._open.pop(thread.driven.id, None)
            await thread.driven.close()
            return None
        return thread

    async def _turn(self, thread: McpThread, call: ToolCall, prompt: str) -> tuple[str, TurnEnd]:
        try:
            if thread.configured is not None:
                await call.greet(thread.configured)
            if call.is_cancelled:
                return thread.driven.id, TurnEnd(status="interrupted")
            return thread.driven.id, await thread.driven.run(UserTurn(items=[{"type": "text", "text": prompt}]))
        finally:
            thread.call = None
            try:
                await self._release(thread)
            finally:
                if thread.call is None:
                    thread.is_free.set()

    # ---- opening -------------------------------------------------------------------------------

    def _load(self, cwd: str | None, **given: Any) -> Config:
        return config_from(self._parsed, cwd=cwd or self._config.cwd, **given)

    def _config_for(self, given: NewArguments) -> Config:
        cwd = given.cwd or self._config.cwd
        if not os.path.isabs(cwd):
            cwd = os.path.normpath(f"{self._config.cwd}/{cwd}")
        if not os.path.isdir(cwd):
            raise SpindleError(f"cwd {given.cwd!r} is not a folder")
        said = {
            "model": given.model,
            "sandbox_mode": given.sandbox,
            "approval_policy": given.approval_policy,
            "developer_instructions": given.developer_instructions,
            "compact_prompt": given.compact_prompt,
        }
        flags = {key: value for key, value in said.items() if value is not None}
        return self._load(cwd, config=given.config, flags=flags, profile=given.profile)

    def _request(self, config: Config, call: ToolCall, **more: Any) -> SessionRequest:
        return SessionRequest(
            config=config,
            source="mcp",
            originator="codex_cli_rs",
            is_attended=call.can_be_asked,
            bypass=self._parsed.flag("dangerously_bypass_approvals_and_sandbox"),
            clock=self._clock,
            reload=lambda: self._load(config.cwd),
            **more,
        )

    async def _opened(self, request: SessionRequest, call: ToolCall) -> McpThread:
        thread = McpThread()
        live = await open_thread(request)
        thread.driven = DrivenThread(live, thread, Hearing(live))
        self._open[live.id] = thread
        self._use(thread, call)
        thread.driven.begin()
        return thread

    def _use(self, thread: McpThread, call: ToolCall) -> None:
        self._open[thread.driven.id] = self._open.pop(thread.driven.id)
        thread.call = call
        thread.is_free.clear()
        call.attach(thread.driven)

    async def _release(self, thread: McpThread) -> None:
        """A call is over: let go of what the thread does not need until the next one."""
        if not thread.driven.is_closing:
            await thread.driven.live.release()
        idle = [other for other in self._open.values() if other.call is None]
        for other in idle[: max(0, len(idle) - MAX_IDLE)]:
            thread_id = other.driven.id
            del self._open[thread_id]
            task = self._closing[thread_id] = asyncio.ensure_future(other.driven.close())
            task.add_done_callback(lambda _, thread_id=thread_id: self._closing.pop(thread_id))

    async def close(self) -> None:
        """End every thread; turns that run are interrupted and recorded."""
        threads, self._open = list(self._open.values()), {}
        await asyncio.gather(
            *(thread.driven.close() for thread in threads), *self._closing.values(), return_exceptions=True
        )

    def kill(self) -> None:
        for thread in self._open.values():
            thread.driven.live.kill()
