"""`spindle fleet run`: from the command line to a driver, what it shows, and its exit code."""

from __future__ import annotations

import asyncio
import math
import os
import signal
import sys
from collections.abc import Callable
from typing import Any

from spindle.errors import ConfigError, SpindleError, UsageError
from spindle.fleet.driver import Driver
from spindle.fleet.engine import EngineFailed
from spindle.fleet.engines import Chosen, chosen_engine
from spindle.fleet.exchange import STATUSES
from spindle.fleet.opening import Opened, Order, open_run
from spindle.fleet.options import Part, check_overrides
from spindle.fleet.task_rules import read_schema
from spindle.fleet.tasks import read_prompt
from spindle.fleet.watching import Watch
from spindle.frontends.launch import config_from, working_folder
from spindle.frontends.options import Parsed, whole_number
from spindle.frontends.page_file import check_named
from spindle.protocol.clock import SystemClock

_COUNTS = ("jobs", "workers", "per_worker", "max_tokens")
_NUMBERS = ("timeout", "max_cost", "rpm", "tpm")
_TEXTS = ("engine", "address", "keep", "model", "profile", "sandbox")
STOPPED, KILLED = 3, 130


def run(parsed: Parsed, words: list[str]) -> int:
    order = read_order(parsed, words)
    try:
        config = config_from(parsed)
    except ConfigError as error:  # no task could begin
        raise UsageError(str(error)) from error
    check_named(order.out, config)
    opened = open_run(order, os.environ, SystemClock())
    try:
        with chosen_engine(opened.options, opened.terms, is_needed=bool(opened.todo)) as engine:
            return asyncio.run(_drive(opened, engine, parsed))
    except EngineFailed as error:
        raise UsageError(str(error)) from error
    finally:
        opened.lock.release()


def read_order(parsed: Parsed, words: list[str]) -> Order:
    """What the line asks for. Raises UsageError at anything that makes no sense."""
    out, cwd = parsed.value("out"), working_folder(None)
    if not out:
        raise UsageError("--out DIR is missing: the folder that the run is recorded in")
    given: dict[str, Any] = {name: _number(parsed, name, int) for name in _COUNTS}
    given |= {name: _number(parsed, name, float) for name in _NUMBERS}
    given |= {name: parsed.value(name) for name in _TEXTS}
    given |= {name: parsed.flag(name) or None for name in ("speculate", "insecure_cluster")}
    given["retries"] = _number(parsed, "retries", int, least=0)
    given["config"] = parsed.many("config") or None
    check_overrides(parsed.many("config"))
    given["prompt"] = read_prompt(parsed.value("prompt"), cwd)
    schema = parsed.value("output_schema")
    given["output_schema"] = None if schema is None else read_schema(os.path.abspath(schema))
    return Order(
        tasks=words[0] if words else None,
        out=out,
        cwd=cwd,
        given={name: value for name, value in given.items() if value is not None},
        part=_part(parsed),
        resume=parsed.flag("resume"),
    )


def _part(parsed: Parsed) -> Part:
    retry = tuple(name.strip() for name in (parsed.value("retry") or "").split(",") if name.strip())
    for name in retry:
        if name not in STATUSES:
            raise UsageError(f"--retry: there is no status {name!r}; use some of {', '.join(STATUSES)}")
    return Part(
        select=parsed.value("select"),
        limit=_number(parsed, "limit", int),
        shard=_shard(parsed.value("shard")),
        retry=retry,
    )


def _shard(text: str | None) -> tuple[int, int] | None:
    if text is None:
        return None
    number, count = (whole_number(part) or 0 for part in (text.partition("/")[::2]))
    if 1 <= number <= count:
        return number, count
    raise UsageError(f"--shard takes I/N, such as 1/4, with I from 1 to N; found {text!r}")


def _number(parsed: Parsed, name: str, kind: Callable[[str], Any], least: float = 1) -> Any:
    """A number above 0; whole ones are at least `least`."""
    text = parsed.value(name)
    if text is None:
        return None
    try:
        number = kind(text)
    except ValueError:
        number = math.nan
    if not (number >= least if kind is int else number > 0) or not number < 1e15:
        what = f"a whole number of {least:g} or more" if kind is int else "a number above 0"
        raise UsageError(f"--{name.replace('_', '-')} takes {what}, not {text!r}")
    return number


async def _drive(opened: Opened, engine: Chosen, parsed: Parsed) -> int:
    watch = make_watch(parsed)
    driver = Driver(opened, engine, watch, SystemClock())
    loop, caught = asyncio.get_running_loop(), list[int]()

    def stop(number: int) -> None:
        caught.append(number)
        if caught.count(signal.SIGINT) > 1:
            engine.end_workers()
            os._exit(KILLED)  # other workers see that their driver is gone, and end by themselves
        driver.interrupt(f"stopped by {signal.Signals(number).name}")

    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        # What was ignored when we were started (nohup) stays ignored.
        if signal.getsignal(number) != signal.SIG_IGN:
            loop.add_signal_handler(number, stop, number)
    try:
        summary = await driver.drive()
    except EngineFailed:
        raise
    except BrokenPipeError:
        return STOPPED  # nobody hears what happens any more
    except SpindleError as error:
        watch.warning(f"{error}; the run has stopped, and --resume goes on")
        return STOPPED
    return summary.exit_code


def make_watch(parsed: Parsed) -> Watch:
    if parsed.flag("json"):
        from spindle.frontends.fleet.programs import JsonWatch  # a run is shown in one way or the other

        return JsonWatch(sys.stdout, sys.stderr)
    from spindle.frontends.fleet.people import LineWatch  # a run is shown in one way or the other

    return LineWatch(sys.stderr)
