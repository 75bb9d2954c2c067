"""What the server says about itself and what it keeps: `server/diagnostics`, `memory/…`, `account/usage/read`."""

from __future__ import annotations

import asyncio
import os
import shutil

from spindle.errors import SpindleError
from spindle.frontends.app_server.method import Call, Method, Nothing
from spindle.frontends.app_server.objects import Wire
from spindle.frontends.app_server.rpc import INVALID_PARAMS, RpcError
from spindle.protocol.clock import iso_utc

MAX_THREADS = 4096


class ServerProcess(Wire, frozen=True, kw_only=True):
    id: int
    resident_memory_bytes: int | None
    physical_footprint_bytes: None = None


class Gauge(Wire, frozen=True, kw_only=True):
    name: str
    value: int


class DiagnosticsResult(Wire, frozen=True, kw_only=True):
    process: ServerProcess
    gauges: list[Gauge]


class MemoryStatusParams(Wire, frozen=True, kw_only=True):
    min_consolidated_threads: int | None = None


class MemoryStatusResult(Wire, frozen=True, kw_only=True):
    v2_consolidated_threads: int = 0
    """Spindle makes no notes out of whole threads; the model writes them itself."""
    v2_ready: bool = True
    projects: int
    """Ours: folders that have notes."""
    notes: int


class UsageParams(Wire, frozen=True, kw_only=True):
    thread_id: str | None = None


class UsageSummary(Wire, frozen=True, kw_only=True):
    lifetime_tokens: int
    peak_daily_tokens: int
    longest_running_turn_sec: int
    current_streak_days: int
    longest_streak_days: int


class DailyUsage(Wire, frozen=True, kw_only=True):
    start_date: str
    tokens: int


class UsageResult(Wire, frozen=True, kw_only=True):
    summary: UsageSummary
    daily_usage_buckets: list[DailyUsage]
    thread_usage: None = None


async def diagnostics(call: Call, params: Nothing) -> Wire:
    server = call.server
    turns = sum(thread.hearing.active_turn is not None for thread in server.threads.values())
    gauges = {
        "app.requests.in_flight": sum(client.requests_in_flight for client in server.connections),
        "app.requests.queued": 0,
        "app.connections": len(server.connections),
        "app.threads.loaded": len(server.threads),
        "app.threads.resting": server.resting_count,
        "app.turns.running": turns,
        "app.commands.running": sum(len(client.commands) for client in server.connections),
    }
    return DiagnosticsResult(
        process=ServerProcess(id=os.getpid(), resident_memory_bytes=_resident_bytes()),
        gauges=[Gauge(name=name, value=value) for name, value in gauges.items()],
    )


def _resident_bytes() -> int | None:
    try:
        with open("/proc/self/statm") as file:
            return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except (OSError, ValueError):
        return None


# ---- notes of models -------------------------------------------------------------------------------


async def memory_status(call: Call, params: MemoryStatusParams) -> Wire:
    wanted = params.min_consolidated_threads
    if wanted is not None and not 1 <= wanted <= MAX_THREADS:
        raise RpcError(f"minConsolidatedThreads must be between 1 and {MAX_THREADS}", INVALID_PARAMS)
    projects, notes = await asyncio.to_thread(_count_notes, _memory_folder(call))
    return MemoryStatusResult(projects=projects, notes=notes)


async def memory_reset(call: Call, params: Nothing) -> Wire:
    """Forget every note of every project."""
    folder = _memory_folder(call)
    try:
        await asyncio.to_thread(shutil.rmtree, folder)
    except FileNotFoundError:
        pass
    except OSError as error:
        raise SpindleError(f"the notes in {folder} cannot be removed: {error.strerror or error}") from error
    return Nothing()


def _memory_folder(call: Call) -> str:
    from spindle.tools.memory_folder import FOLDER  # few ask

    return f"{os.path.realpath(call.server.home)}/{FOLDER}"


def _count_notes(folder: str) -> tuple[int, int]:
    from spindle.tools.memory_folder import SUFFIX  # few ask

    projects = notes = 0
    for _, folders, names in os.walk(folder):
        projects = projects or len(folders)
        notes += sum(name.endswith(SUFFIX) for name in names)
    return projects, notes


# ---- tokens ----------------------------------------------------------------------------------------


async def usage_read(call: Call, params: UsageParams) -> Wire:
    """What the threads of this home have used, as recorded; what was used elsewhere with the account is not known."""
    from spindle.thread.usage_days import usage_of  # seldom

    usage = await asyncio.to_thread(usage_of, call.server.home)
    days = usage.tokens_by_day
    return UsageResult(
        summary=UsageSummary(
            lifetime_tokens=days.total(),
            peak_daily_tokens=max(days.values(), default=0),
            longest_running_turn_sec=usage.longest_turn_s,
            current_streak_days=usage.current_streak(iso_utc(call.server.clock.now())[:10]),
            longest_streak_days=usage.longest_streak(),
        ),
        daily_usage_buckets=[DailyUsage(start_date=day, tokens=days[day]) for day in sorted(days)],
    )


METHODS = (
    Method(name="server/diagnostics", params=Nothing, result=DiagnosticsResult, run=diagnostics, is_experimental=True),
    Method(
        name="memory/status",
        params=MemoryStatusParams,
        result=MemoryStatusResult,
        run=memory_status,
        is_experimental=True,
    ),
    Method(name="memory/reset", params=Nothing, result=Nothing, run=memory_reset, is_experimental=True),
    Method(name="account/usage/read", params=UsageParams, result=UsageResult, run=usage_read),
)
