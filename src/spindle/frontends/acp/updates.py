"""Events of a thread → `session/update`s of an editor. One translator for each session; no I/O.

It knows which calls are open and what has streamed already, so that every call is begun once and ended once, and
nothing is said twice.
"""

from __future__ import annotations

import codecs
from collections.abc import Callable
from typing import Any

from spindle.api.tool_items import agent_call_step
from spindle.frontends.acp.tool_calls import (
    MAX_OUTPUT,
    Update,
    command_call,
    image_call,
    other_call,
    output_content,
    patch_call,
    plan_entries,
    proposed_entries,
    server_content,
    text_content,
)
from spindle.protocol import events
from spindle.protocol.events import Msg
from spindle.protocol.questions import PlanDelta
from spindle.protocol.tool_servers import McpToolCallBegin, McpToolCallEnd

Diffs = Callable[[str], list[dict[str, Any]]]
"""The diffs of a patch, by its call."""


def chunk(kind: str, text: str, message_id: str | None = None) -> Update:
    """A piece of what somebody says."""
    named = {"messageId": message_id} if message_id else {}
    return {"sessionUpdate": kind, "content": {"type": "text", "text": text}, **named}


class _Output:
    """What a command has printed so far, and how much of it the editor has seen."""

    def __init__(self) -> None:
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._text = ""
        self._total = 0
        self._next = 1

    def take(self, data: bytes) -> str | None:
        """The whole output, when it has grown by so much that showing it again is worth it; else None.

        An update replaces the one before, so showing each piece would take the square of what is printed.
        """
        piece = self._decoder.decode(data)
        self._total += len(piece)
        self._text = (self._text + piece)[-2 * MAX_OUTPUT :]
        if self._total < self._next:
            return None
        self._next = max(self._total * 5 // 4, self._total + 256)
        return self._text


class Updates:
    """What one session has shown so far."""

    def __init__(self, diffs: Diffs) -> None:
        self._diffs = diffs
        self._open: dict[str, str] = {}
        """Calls that were begun and not ended, with their status."""
        self._turn = ""
        self._ended: dict[str, str] = {}
        """Calls that were ended, with their turn: what is heard of one later is not shown, and ids may come again."""
        self._outputs: dict[str, _Output] = {}
        self._streamed: set[str] = set()

    def of(self, msg: Msg) -> list[Update]:
        """What an editor is told of an event; of most events one thing, or nothing."""
        match msg:
            case events.TaskStarted(turn_id=turn_id):
                self._turn = turn_id
                self._streamed.clear()
                return []
            case events.TaskComplete() | events.TurnAborted():
                # What a turn leaves running counts as done; what was stopped has ended already.
                status = "completed" if isinstance(msg, events.TaskComplete) else "failed"
                return [self._update(call_id, status=status) for call_id in list(self._open)]
            case events.PlanUpdate(plan=plan):
                return [{"sessionUpdate": "plan", "entries": plan_entries(plan)}]
            case events.TokenCount(info=dict(info)):
                return _usage(info)
            case events.ThreadNameUpdated(thread_name=name):
                return [{"sessionUpdate": "session_info_update", "title": name}]
            case _:
                return self._of_text(msg) or self._of_commands(msg) or self._of_tools(msg)

    # ---- text ----------------------------------------------------------------------------------

    def _of_text(self, msg: Msg) -> list[Update]:
        match msg:
            case events.AgentMessageContentDelta(item_id=item_id, delta=delta):
                return self._piece("agent_message_chunk", item_id, delta)
            case PlanDelta(item_id=item_id, delta=delta):
                return self._piece("agent_message_chunk", item_id, delta)
            case events.ReasoningContentDelta(item_id=item_id, delta=delta):
                return self._piece("agent_thought_chunk", item_id, delta)
            case events.AgentReasoningSectionBreak(item_id=item_id) if item_id in self._streamed:
                return self._piece("agent_thought_chunk", item_id, "\n\n")
            case events.ItemCompleted(item=item):
                return self._finished(item)
            case _:
                return []

    def _piece(self, kind: str, item_id: str, delta: str) -> list[Update]:
        self._streamed.add(item_id)
        return [chunk(kind, delta, item_id)]

    def _finished(self, item: dict[str, Any]) -> list[Update]:
        """An item that is whole; its text is said only if it has not streamed."""
        item_id = str(item.get("id") or "")
        has_streamed = item_id in self._streamed
        match item.get("type"):
            case "AgentMessage" if not has_streamed:
                text = "".join(str(part.get("text") or "") for part in item.get("content") or ())
                return [chunk("agent_message_chunk", text, item_id)] if text else []
            case "Reasoning" if not has_streamed:
                text = "\n\n".join(map(str, item.get("summary_text") or ()))
                return [chunk("agent_thought_chunk", text, item_id)] if text else []
            case "Plan":
                text = str(item.get("text") or "")
                said = [] if has_streamed or not text else [chunk("agent_message_chunk", text, item_id)]
                return [*said, {"sessionUpdate": "plan", "entries": proposed_entries(text)}]
            case _:
                return []

    # ---- calls ---------------------------------------------------------------------------------

    def _of_commands(self, msg: Msg) -> list[Update]:
        match msg:
            case events.ExecApprovalRequest(thread_id=None):
                return self._begin(command_call(msg.call_id, msg.command, msg.cwd, msg.parsed_cmd, "pending"))
            case events.ApplyPatchApprovalRequest(call_id=call_id, changes=changes, thread_id=None):
                return self._begin(patch_call(call_id, changes, self._diffs(call_id), "pending"))
            case events.ExecCommandBegin():
                return self._begin(command_call(msg.call_id, msg.command, msg.cwd, msg.parsed_cmd, "in_progress"))
            case events.ExecCommandOutputDelta(call_id=call_id, chunk=data) if call_id in self._open:
                text = self._outputs.setdefault(call_id, _Output()).take(data)
                return [] if text is None else [self._update(call_id, content=output_content(text))]
            case events.ExecCommandEnd():
                call = command_call(msg.call_id, msg.command, msg.cwd, msg.parsed_cmd, "in_progress")
                begun = self._begin(call, msg.turn_id)
                raw = {"exitCode": msg.exit_code, "output": msg.aggregated_output[-MAX_OUTPUT:]}
                content = output_content(msg.aggregated_output)
                return [*begun, *self._end(msg.call_id, msg.exit_code == 0, content=content, rawOutput=raw)]
            case events.PatchApplyBegin(call_id=call_id, changes=changes):
                return self._begin(patch_call(call_id, changes, self._diffs(call_id), "in_progress"))
            case events.PatchApplyEnd(call_id=call_id, changes=changes, success=success, stderr=stderr):
                begun = self._begin(patch_call(call_id, changes, self._diffs(call_id), "in_progress"))
                why = {} if success else {"content": [*self._diffs(call_id), text_content(stderr)]}
                return [*begun, *self._end(call_id, success, **why)]
            case _:
                return []

    def _of_tools(self, msg: Msg) -> list[Update]:
        match msg:
            case McpToolCallBegin(call_id=call_id, invocation=about):
                return self._begin(_server_call(call_id, about))
            case McpToolCallEnd(call_id=call_id, invocation=about, result=result):
                answer = result.get("Ok")
                is_good = isinstance(answer, dict) and answer.get("isError") is not True
                begun = self._begin(_server_call(call_id, about))
                return [*begun, *self._end(call_id, is_good, content=server_content(result), rawOutput=answer)]
            case events.WebSearchBegin(call_id=call_id):
                return self._begin(other_call(call_id, "Search the web", {}, "in_progress", "fetch"))
            case events.WebSearchEnd(call_id=call_id, query=query):
                begun = self._begin(other_call(call_id, "Search the web", {}, "in_progress", "fetch"))
                return [
                    *begun,
                    *self._end(call_id, True, title=f"Searched the web: {query}", rawInput={"query": query}),
                ]
            case events.ViewImageToolCall(call_id=call_id, path=path):
                return [*self._begin(image_call(call_id, path, "in_progress")), *self._end(call_id, True)]
            case _ if str(msg.__struct_config__.tag).startswith("collab_"):
                return self._of_agents(msg)
            case _:
                return []

    def _of_agents(self, msg: Msg) -> list[Update]:
        step = agent_call_step(msg, lambda call_id: call_id)
        if step is None:
            return []
        kind, item = step
        title = ": ".join(filter(None, (item["tool"].replace("_", " "), item["prompt"])))
        begun = self._begin(other_call(item["id"], title, {"prompt": item["prompt"]}, "in_progress"))
        if kind == "item.started":
            return begun
        said = [text_content(state["message"]) for state in item["agents_states"].values() if state["message"]]
        return [*begun, *self._end(item["id"], item["status"] == "completed", content=said)]

    @property
    def running(self) -> dict[str, str]:
        """The calls that were begun and not ended, by their ids, with their status."""
        return dict(self._open)

    def refused(self, call_id: str) -> list[Update]:
        """A person said no: the call is over, though nothing of it ever ran."""
        return self._end(call_id, False)

    def _begin(self, call: Update, turn_id: str | None = None) -> list[Update]:
        """A call is shown; one that is shown already is shown to go on."""
        call_id = call["toolCallId"]
        if self._ended.get(call_id) == (turn_id or self._turn):
            return []
        if call_id not in self._open:
            self._open[call_id] = call["status"]
            return [{"sessionUpdate": "tool_call", **call}]
        if self._open[call_id] == call["status"] or call["status"] == "pending":
            return []
        self._open[call_id] = call["status"]
        return [self._update(call_id, status=call["status"])]

    def _end(self, call_id: str, is_good: bool, **more: Any) -> list[Update]:
        if call_id not in self._open:
            return []
        return [self._update(call_id, status="completed" if is_good else "failed", **more)]

    def _update(self, call_id: str, **what: Any) -> Update:
        if what.get("status") in ("completed", "failed"):
            self._open.pop(call_id, None)
            self._outputs.pop(call_id, None)
            self._ended[call_id] = self._turn
        return {"sessionUpdate": "tool_call_update", "toolCallId": call_id, **what}


def _server_call(call_id: str, about: dict[str, Any]) -> Update:
    title = f"{about.get('server')}/{about.get('tool')}"
    return other_call(call_id, title, about.get("arguments"), "in_progress")


def _usage(info: dict[str, Any]) -> list[Update]:
    """How full the window is."""
    last, window = info.get("last_token_usage"), info.get("model_context_window")
    used = last.get("total_tokens") if isinstance(last, dict) else None
    if not isinstance(used, int) or not isinstance(window, int):
        return []
    return [{"sessionUpdate": "usage_update", "used": used, "size": window}]
