"""`thread/backgroundTerminals/…`: commands of a thread that still run after their call."""

from __future__ import annotations

from spindle.frontends.app_server.method import Call, Method, Nothing
from spindle.frontends.app_server.methods.turns import ThreadParams
from spindle.frontends.app_server.objects import Wire
from spindle.frontends.app_server.rpc import RpcError
from spindle.frontends.app_server.threads import MAX_PAGE, page
from spindle.protocol.answers import BackgroundStopped
from spindle.protocol.ops import CleanBackgroundTerminals
from spindle.protocol.quote import shell_join


class TerminalsListParams(Wire, frozen=True, kw_only=True):
    thread_id: str
    cursor: str | None = None
    limit: int | None = None


class BackgroundTerminal(Wire, frozen=True, kw_only=True):
    item_id: str
    process_id: str
    command: str
    cwd: str
    os_pid: int | None
    """Of the command, or of what holds its sandbox."""
    cpu_percent: None = None
    rss_kb: int | None


class TerminalsListResult(Wire, frozen=True, kw_only=True):
    data: list[BackgroundTerminal]
    next_cursor: str | None


class TerminateParams(Wire, frozen=True, kw_only=True):
    thread_id: str
    process_id: str


class TerminateResult(Wire, frozen=True, kw_only=True):
    terminated: bool


async def terminals_list(call: Call, params: TerminalsListParams) -> Wire:
    thread = call.server.loaded(params.thread_id)
    found = [
        BackgroundTerminal(
            item_id=command.call_id,
            process_id=str(command.id),
            command=shell_join(command.command.argv),
            cwd=command.command.cwd,
            os_pid=command.running.pid,
            rss_kb=_memory_kb(command.running.pid),
        )
        for command in thread.live.commands
    ]
    limit = MAX_PAGE if params.limit is None else params.limit
    keys = [terminal.process_id for terminal in found]
    chosen, following, _ = page(found, keys, cursor=params.cursor, limit=limit, descending=False)
    return TerminalsListResult(data=chosen, next_cursor=following)


def _memory_kb(pid: int) -> int | None:
    try:
        with open(f"/proc/{pid}/status") as file:
            return next((int(line.split()[1]) for line in file if line.startswith("VmRSS:")), None)
    except (OSError, ValueError):
        return None


async def terminals_clean(call: Call, params: ThreadParams) -> Wire:
    await _stop(call, params.thread_id, None)
    return Nothing()


async def terminals_terminate(call: Call, params: TerminateParams) -> Wire:
    if not params.process_id.isdecimal():
        raise RpcError(f"invalid background terminal process id: {params.process_id!r} is not a number")
    return TerminateResult(terminated=bool(await _stop(call, params.thread_id, [params.process_id])))


async def _stop(call: Call, thread_id: str, ids: list[str] | None) -> list[str]:
    answer = await call.server.loaded(thread_id).ask(CleanBackgroundTerminals(process_ids=ids))
    return answer.process_ids if isinstance(answer, BackgroundStopped) else []


METHODS = (
    Method(
        name="thread/backgroundTerminals/list",
        params=TerminalsListParams,
        result=TerminalsListResult,
        run=terminals_list,
        is_experimental=True,
    ),
    Method(
        name="thread/backgroundTerminals/clean",
        params=ThreadParams,
        result=Nothing,
        run=terminals_clean,
        is_experimental=True,
    ),
    Method(
        name="thread/backgroundTerminals/terminate",
        params=TerminateParams,
        result=TerminateResult,
        run=terminals_terminate,
        is_experimental=True,
    ),
)
