"""Running the hooks that one moment calls for: side by side, commands inside the turn's sandbox, each within its time.

What they are told and what their answers mean for the turn is `session_hooks`. Loaded only in sessions that have hooks.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Mapping
from typing import Any

import msgspec

from spindle.context.truncate import truncate_text
from spindle.errors import SandboxUnavailable
from spindle.features.hooks.function_hook import call_hook
from spindle.policy.hook_answers import Answer, cannot_run, is_in_reach, matches, read_answer
from spindle.policy.reach import Reach
from spindle.policy.sandbox import Boundary
from spindle.process.command import Command
from spindle.process.error_stream import error_stream
from spindle.process.output import OutputRing
from spindle.process.table import Finished, ProcessTable
from spindle.protocol.clock import Clock
from spindle.protocol.events import HookCompleted, HookStarted, Msg, Warning
from spindle.protocol.hook_records import Hook, HookEntry, HookRun, snake
from spindle.protocol.items import encode_payload
from spindle.protocol.quote import readable, visible

CONTEXT_TOKENS = 2500
"""How much of what a hook says is told, unless the hook has a limit of its own."""
MOST_TOKENS = 16_000
"""How much is told whatever the hook says."""
OUTPUT_CAP = 512 * 1024
FLOOD_BYTES = 64 * 1024 * 1024
"""A hook that prints more than this is stopped."""

_THREAD_SCOPE = frozenset(("SessionStart", "SessionEnd", "SubagentStart"))


class Moment(msgspec.Struct, frozen=True, kw_only=True):
    """Where in a session hooks are called."""

    turn_id: str | None
    cwd: str
    boundary: Boundary
    emit: Callable[[Msg], None]
    reach: Reach
    """Where the agent may write, now or in another thread."""
    environment: Mapping[str, str]
    """What commands are given."""

    @property
    def own_environment(self) -> dict[str, str]:
        """The same without what leads to files that the agent may write: for hooks with a right that it has not."""
        return self.reach.without_reach(self.environment, cwd=self.cwd)


class HookRunner:
    """Runs hooks of one session. Owned by it; what nobody waits for ends with it."""

    def __init__(
        self, hooks: tuple[Hook, ...], *, processes: ProcessTable, clock: Clock, mask: Callable[[str], str]
    ) -> None:
        self._hooks: dict[str, list[Hook]] = {}
        for hook in hooks:
            if hook.may_run:
                self._hooks.setdefault(hook.event, []).append(hook)
        self._processes = processes
        self._clock = clock
        self._mask = mask
        """Takes secrets out of what hooks say."""
        self._background: set[asyncio.Task[Answer]] = set()
        self._warned: set[str] = set()
        """Hooks of which was said that they do not leave the sandbox."""

    def has(self, event: str) -> bool:
        return event in self._hooks

    def out_of_reach(self, event: str, moment: Moment) -> set[str]:
        """The keys of the hooks on an event that the agent could not have written."""
        own = moment.own_environment
        hooks = self._hooks.get(event, ())
        return {hook.key for hook in hooks if not is_in_reach(hook, moment.reach, cwd=moment.cwd, env=own)}

    async def run(
        self, event: str, payload: dict[str, Any], moment: Moment, *, names: tuple[str, ...] = (), about: str = ""
    ) -> list[tuple[Hook, Answer]]:
        """The answers of all hooks for `event` that match one of `names`, in the order of the files."""
        called = [hook for hook in self._hooks.get(event, ()) if not names or matches(hook, names)]
        if not called:
            return []
        data = encode_payload(payload)
        for hook in called:
            if hook.is_async:
                task = asyncio.ensure_future(self._one(hook, data, moment, about))
                self._background.add(task)
                task.add_done_callback(self._background.discard)
        # Functions are those of the program that embeds the engine: configured commands come after them.
        functions = [hook for hook in called if hook.function is not None]
        commands = [hook for hook in called if hook.function is None and not hook.is_async]
        answers: list[tuple[Hook, Answer]] = []
        for waited in (functions, commands):
            said = await asyncio.gather(*(self._one(hook, data, moment, about) for hook in waited))
            answers += zip(waited, said, strict=True)
        return answers

    async def aclose(self) -> None:
        """End what nobody waits for."""
        for task in self._background:
            task.cancel()
        await asyncio.gather(*self._background, return_exceptions=True)

    async def _one(self, hook: Hook, data: bytes, moment: Moment, about: str) -> Answer:
        started, began = self._clock.now(), self._clock.monotonic()
        run = HookRun(
            id=run_id(hook, about),
            event_name=snake(hook.event),
            handler_type="command" if hook.function is None else "function",
            execution_mode="async" if hook.is_async else "sync",
            scope="thread" if hook.event in _THREAD_SCOPE else "turn",
            source_path=hook.path,
            source=hook.source,
            display_order=hook.order,
            status_message=hook.status_message,
            started_at=int(started),
        )
        moment.emit(HookStarted(turn_id=moment.turn_id, run=msgspec.to_builtins(run)))
        answer = cannot_run(hook.event, "it was stopped with the turn")
        try:
            answer = self._told(hook, await self._ask(hook, data, moment))
        finally:
            over = msgspec.structs.replace(
                run,
                status=answer.status,
                completed_at=int(self._clock.now()),
                duration_ms=int((self._clock.monotonic() - began) * 1000),
                entries=list(answer.entries),
            )
            moment.emit(HookCompleted(turn_id=moment.turn_id, run=msgspec.to_builtins(over)))
        return answer

    async def _ask(self, hook: Hook, data: bytes, moment: Moment) -> Answer:
        """Run the command or call the function; whatever keeps it from answering is an answer too."""
        if hook.function is not None:
            return await call_hook(hook, hook.function, data)
        out, err = OutputRing(OUTPUT_CAP), OutputRing(OUTPUT_CAP)
        try:
            finished = await self._run(hook, data, moment, out, err)
        except SandboxUnavailable as error:
            return cannot_run(hook.event, error.fact)
        except OSError as error:
            return cannot_run(hook.event, f"it cannot be started: {error.strerror or error}")
        if finished is None:
            return cannot_run(hook.event, f"it printed more than {FLOOD_BYTES >> 20} MiB and was stopped")
        if finished.timed_out:
            return cannot_run(hook.event, f"it did not end within {hook.timeout_s} s and was stopped")
        return read_answer(hook.event, finished.exit_code, out.peek().text(), err.peek().text())

    async def _run(self, hook: Hook, data: bytes, moment: Moment, out: OutputRing, err: OutputRing) -> Finished | None:
        """None when it printed too much."""
        flooded = False

        def watch() -> None:
            nonlocal flooded
            if max(out.total, err.total) > FLOOD_BYTES and not flooded:
                flooded = True
                task.cancel()

        def take(piece: bytes) -> None:
            out.add(piece)
            watch()

        fd = _input_file(data)
        try:
            with error_stream(err, watch) as error_file:
                command = Command(
                    argv=self._argv(hook, moment),
                    cwd=moment.cwd,
                    boundary=moment.boundary if self._is_confined(hook, moment) else None,
                    input_file=fd,
                    error_file=error_file,
                )
                task = asyncio.ensure_future(self._processes.run(command, timeout_s=hook.timeout_s, on_output=take))
                return await task
        except asyncio.CancelledError:
            current = asyncio.current_task()
            if flooded and current is not None and not current.cancelling():
                return None
            raise
        finally:
            os.close(fd)

    def _argv(self, hook: Hook, moment: Moment) -> list[str]:
        argv = self._processes.shell_argv(hook.command, login=False)
        if hook.is_confined and hook.event != "PermissionRequest":
            return argv
        # It may do, or allow, what the agent may not: it must not find the agent's programs on its search path.
        given, own = moment.environment, moment.own_environment
        changed = [f"{name}={value}" for name, value in own.items() if given[name] != value]
        dropped = [word for name in given if name not in own for word in ("-u", name)]
        return ["/usr/bin/env", *dropped, *changed, *argv] if changed or dropped else argv

    def _is_confined(self, hook: Hook, moment: Moment) -> bool:
        """Inside the sandbox: unless the person lets it out, and it is nothing that the agent could have written."""
        if hook.is_confined:
            return True
        own = moment.own_environment
        found = moment.reach.script(hook.command, cwd=moment.cwd, env=own, is_strict=False)
        if found is None:
            return False
        if hook.key not in self._warned:
            self._warned.add(hook.key)
            moment.emit(
                Warning(
                    message=f"the {hook.event} hook in {hook.path} runs inside the sandbox, although it says sandbox = "
                    f"false: the agent can write what it runs ({visible(found.what)})"
                )
            )
        return True

    def _told(self, hook: Hook, answer: Answer) -> Answer:
        """The answer as it may be shown and recorded: no secrets, nothing hidden, not too long."""

        def told(text: str) -> str:
            limit = CONTEXT_TOKENS if hook.context_tokens is None else hook.context_tokens or MOST_TOKENS
            return truncate_text(readable(self._mask(text)), "tokens", min(limit, MOST_TOKENS))[0]

        return msgspec.structs.replace(
            answer,
            entries=tuple(HookEntry(kind=entry.kind, text=told(entry.text)) for entry in answer.entries),
            blocked=None if answer.blocked is None else told(answer.blocked),
            stopped=None if answer.stopped is None else told(answer.stopped),
            context=None if answer.context is None else told(answer.context),
        )


def run_id(hook: Hook, about: str = "") -> str:
    """Names one run; `about` is the call it is about."""
    place = f"{snake(hook.event).replace('_', '-')}:{hook.order}:{hook.path}"
    return f"{place}:{about}" if about else place


def _input_file(data: bytes) -> int:
    """What the hook reads. A file, so that one which ends without reading is no trouble."""
    if hasattr(os, "memfd_create"):
        fd = os.memfd_create("hook-input", os.MFD_CLOEXEC)
    else:
        import tempfile  # not on Linux

        fd, path = tempfile.mkstemp()
        os.unlink(path)
    try:
        view = memoryview(data)
        while view:
            view = view[os.write(fd, view) :]
        os.lseek(fd, 0, os.SEEK_SET)
    except BaseException:
        os.close(fd)
        raise
    return fd
