"""What happens in a turn, in half a line each. Pure."""

from __future__ import annotations

from spindle.protocol import events
from spindle.protocol.events import Msg
from spindle.protocol.quote import shell_join, visible
from spindle.protocol.tool_servers import McpToolCallBegin

_MAX = 200


def describe(msg: Msg) -> str | None:
    """What a person who waits is told of an event; None for most of them."""
    text = _text(msg)
    if text is None:
        return None
    line = visible(next(iter(text.strip().splitlines()), ""))
    return line if len(line) <= _MAX else line[:_MAX] + "…"


def _text(msg: Msg) -> str | None:
    match msg:
        case events.TaskStarted():
            return "the turn has begun"
        case events.ExecCommandBegin(command=command):
            return f"running {shell_join(command)}"
        case events.ExecCommandEnd(exit_code=code):
            return f"the command has ended with exit code {code}"
        case events.PatchApplyBegin(changes=changes):
            return f"changing {', '.join(changes)}"
        case McpToolCallBegin(invocation=about):
            return f"calling {about.get('server')}/{about.get('tool')}"
        case events.WebSearchEnd(query=query):
            return f"searched the web for {query}"
        case events.PlanUpdate(plan=plan):
            now = next((step["step"] for step in plan if step.get("status") == "in_progress"), "")
            done = sum(step.get("status") == "completed" for step in plan)
            return f"plan: {done} of {len(plan)} steps done{f'; now {now}' if now else ''}"
        case events.AgentReasoning(text=text):
            return f"thinking: {text.strip().strip('*')}"
        case events.AgentMessage(message=message):
            return f"says: {message}"
        case events.StreamError(message=message):
            return message
        case events.ContextCompacted():
            return "the thread was compacted"
        case events.ExecApprovalRequest() | events.ApplyPatchApprovalRequest():
            return "waits for approval"
        case events.TaskComplete():
            return "the turn is complete"
        case events.TurnAborted():
            return "the turn was interrupted"
        case _:
            return None
