"""Calls to MCP servers as front ends show them to people. Pure."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from spindle.frontends.plain_text import BAD, TITLE
from spindle.protocol.events import Msg
from spindle.protocol.quote import readable, visible, without_terminal_codes
from spindle.protocol.tool_servers import McpToolCallBegin, McpToolCallEnd
from spindle.tools.mcp_output import model_output


def tool_call_text(
    msg: Msg,
    paint: Callable[[str, str], str],
    indented: Callable[[list[str]], list[str]],
    signs: Mapping[str, str],
) -> str:
    """`mcp: server/tool started`, then how it ended with what came back, without the last newline."""
    assert isinstance(msg, McpToolCallBegin | McpToolCallEnd)
    name = visible(f"{msg.invocation['server']}/{msg.invocation['tool']}")
    if isinstance(msg, McpToolCallBegin):
        return f"{paint(TITLE, 'mcp:')} {name} started"
    took = f"{msg.duration.secs * 1000 + msg.duration.nanos // 1_000_000}ms"
    answer = msg.result.get("Ok")
    failed = answer is None or answer.get("isError") is True
    sign = paint(BAD if failed else "32", signs["failed" if failed else "ok"])
    verdict = paint(BAD if failed else "32", f"{name} {'failed' if failed else 'succeeded'} in {took}:")
    text = msg.result.get("Err", "") if answer is None else _shown(answer)
    lines = indented(readable(without_terminal_codes(text)).rstrip("\n").split("\n"))
    return "\n".join([f"{sign} {paint(TITLE, 'mcp:')} {verdict}", *lines])


def _shown(answer: dict[str, Any]) -> str:
    output = model_output(answer, 0.0, accepts_images=False)
    if isinstance(output, list):
        return "\n".join(part.get("text", "") for part in output)
    return output.partition("Output:\n")[2] if output.startswith("Wall time: ") else output
