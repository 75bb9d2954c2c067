"""`spindle exec`: one turn of one thread, or many for a goal, shown to a program or to a person, and an exit code.

Exit codes: 0 the turn, or the goal, is complete · 1 it failed, was interrupted, or could not be set up ·
2 bad arguments · 130 a second Ctrl-C · 143 SIGTERM · 129 SIGHUP.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Sequence
from typing import TYPE_CHECKING

import msgspec

from spindle.api.door import OpenThread, SessionRequest, open_thread
from spindle.frontends import standard_streams
from spindle.frontends.exec import arguments
from spindle.frontends.exec.ending import Ending, Signals
from spindle.frontends.exec.printer import Judge, Printer
from spindle.frontends.launch import config_from, image_items, use_local_server, warn_of_bypass
from spindle.frontends.options import Parsed
from spindle.protocol.clock import SystemClock
from spindle.protocol.events import AgentMessageContentDelta, ExecCommandOutputDelta, Msg, ReasoningContentDelta
from spindle.protocol.ops import Op, UserTurn
from spindle.thread.layout import is_thread_id
from spindle.thread.store import ThreadStore

if TYPE_CHECKING:
    from spindle.workspace.output_file import OutputFile

UNSHOWN: tuple[type[Msg], ...] = (AgentMessageContentDelta, ReasoningContentDelta, ExecCommandOutputDelta)


def run(parsed: Parsed, words: list[str]) -> int:
    """Run one prompt and give the exit code."""
    args = arguments.read_args(parsed, words)
    goal = arguments.read_goal(parsed)
    schema = arguments.check_files(parsed)
    prompt = arguments.read_first_words(args, parsed, has_goal=goal is not None)
    config = config_from(parsed, headless=True)
    output = arguments.named_output(parsed, config)
    arguments.check_folder(parsed, config)
    warn_of_bypass(parsed)
    request = SessionRequest(
        config=config,
        source="exec",
        originator="codex_exec",
        is_attended=False,
        ephemeral=parsed.flag("ephemeral"),
        thread=_thread_id(args.thread, config.home),
        newest=args.last,
        any_folder=parsed.flag("all"),
        fork=args.action == "fork",
        fork_at=arguments.fork_point(parsed.value("at")),
        bypass=parsed.flag("dangerously_bypass_approvals_and_sandbox"),
        pursues_goals=True,
        pursues_foreign_goals=prompt is None,
        budget=arguments.run_budget(parsed, config),
    )
    ops = arguments.goal_ops(args, goal)
    if prompt is not None:
        items = [*image_items(parsed.many("image")), {"type": "text", "text": prompt}]
        ops.append(UserTurn(items=items, final_output_json_schema=schema))
    return asyncio.run(drive(request, ops, parsed, output))


def _thread_id(given: str | None, home: str) -> str | None:
    """The thread that a person names by its id, the beginning of it, or its name."""
    if given is None or is_thread_id(given):
        return given
    return ThreadStore(home, SystemClock()).choose(given).id


async def drive(
    request: SessionRequest,
    ops: Sequence[Op],
    options: Parsed,
    output: OutputFile | None = None,
    judge: Judge | None = None,
) -> int:
    """Open the thread, run the turn or turns that the ops lead to, show what happens, and leave nothing running."""
    config = await use_local_server(request.config, options)
    thread = await open_thread(msgspec.structs.replace(request, config=config))
    printer = make_printer(thread, request, options)
    events = thread.subscribe(skip=() if printer.wants_deltas else UNSHOWN)
    thread.begin()
    signals = Signals(thread, printer)
    ids = [thread.submit(op) for op in ops]
    ending = Ending(ids[-1] if ids else None)
    try:
        async for event in events:
            if signals.caught is None or not printer.is_json:
                printer.show(event.msg)
            if judge is not None:
                judge.hear(event.msg)
            if ending.hear(event, is_planning=thread.settings.collaboration_mode.mode == "plan"):
                break
        else:
            ending.cut_short()  # closing it raises why
    finally:
        printer.close()
    code = signals.exit_code if signals.caught is not None else int(ending.failed)
    last_message = ending.last_message
    if output is not None:
        from spindle.frontends.exec.files import write_last_message  # few lines name a file

        code = code or int(not write_last_message(output, last_message))
    printer.finish(last_message)
    if judge is not None:
        code = code or judge.code()
    await thread.close()
    # Everything is recorded and closed, and to tear the interpreter down would take longer than a tool round.
    os._exit(standard_streams.flush(code))


def make_printer(thread: OpenThread, request: SessionRequest, options: Parsed) -> Printer:
    if options.flag("json"):
        from spindle.frontends.exec.programs import JsonPrinter  # a run prints in one way or the other

        return JsonPrinter(thread, request)
    from spindle.frontends.exec.people import TextPrinter  # a run prints in one way or the other

    return TextPrinter(thread, request, options)
