"""`/ps`, `/stop` and `/agents`: what goes on beside the conversation."""

from __future__ import annotations

from collections.abc import Sequence

from spindle.errors import SpindleError
from spindle.frontends.fit import counted
from spindle.frontends.plain_text import duration_words
from spindle.frontends.tui.commands.lines import INDENT, block, clean, note
from spindle.frontends.tui.desk import AgentSeen, BackgroundCommand, Desk
from spindle.frontends.tui.shown import Line, Span
from spindle.frontends.tui.status_line import tokens_words
from spindle.protocol.answers import BackgroundStopped
from spindle.protocol.ops import CleanBackgroundTerminals


async def ps(desk: Desk, argument: str) -> None:
    running = desk.seen.background
    if not running:
        desk.say("No command runs in the background.")
        return
    lines = [line for place, command in enumerate(running, 1) for line in _command(place, command)]
    hint = "/stop ends them all, /stop NUMBER one of them"
    desk.say(*block(f"{counted(len(running), 'command')} in the background", [*lines, note(hint)]))


def _command(place: int, command: BackgroundCommand) -> list[Line]:
    start = f"{INDENT}{place}. "
    head = Line(
        (Span(start), Span(clean(command.command)), Span(f"  {duration_words(command.seconds)}", "dim")),
        (Span(" " * len(start)),),
    )
    return [head, note(f"   {clean(command.last_line)}")] if command.last_line else [head]


async def stop(desk: Desk, argument: str) -> None:
    """End background commands: all of them, or the one with this number."""
    running = list(desk.seen.background)
    wanted = running
    if argument:
        wanted = [command for place, command in enumerate(running, 1) if argument in (str(place), command.process_id)]
        if not wanted:
            raise SpindleError(f"there is no background command {argument!r}; /ps lists them")
    # By their numbers: a command that the running turn waits for is not one of them.
    answer = await desk.call(CleanBackgroundTerminals(process_ids=[command.process_id for command in wanted]))
    ended = answer.process_ids if isinstance(answer, BackgroundStopped) else []
    if not ended:
        desk.say("No command runs in the background.")
        return
    names = {command.process_id: clean(command.command) for command in running}
    desk.say(f"Ended {counted(len(ended), 'background command')}: {', '.join(names.get(one, one) for one in ended)}")


async def agents(desk: Desk, argument: str) -> None:
    """Sub-agents as a tree, with state, tokens and task."""
    seen = desk.seen.agents
    if not seen:
        desk.say("There are no sub-agents in this session.")
        return
    known = {agent.thread_id for agent in seen}
    tops = [agent for agent in seen if agent.parent_id not in known]
    lines = [line for agent in tops for line in _agent(agent, seen, 0)]
    desk.say(*block(counted(len(seen), "sub-agent"), lines))


def _agent(agent: AgentSeen, seen: Sequence[AgentSeen], depth: int) -> list[Line]:
    start = INDENT * (depth + 1)
    tokens = f", {tokens_words(agent.tokens)} tokens" if agent.tokens else ""
    name = clean(agent.role or "agent")
    head = Line(
        (
            Span(f"{start}{name} "),
            Span(f"{clean(agent.state)}{tokens} ", "dim"),
            Span(clean(agent.doing)),
        ),
        (Span(start + INDENT),),
    )
    below = [one for one in seen if one.parent_id == agent.thread_id and one.thread_id != agent.thread_id]
    return [head, *(line for one in below for line in _agent(one, seen, min(depth + 1, 6)))]
