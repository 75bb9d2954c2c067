"""Events → the running text that a person reads in a plain terminal. Pure: gives text, writes nothing."""

from __future__ import annotations

from typing import Any

from spindle.protocol.events import (
    Error,
    ExecCommandBegin,
    ExecCommandEnd,
    HookCompleted,
    ItemCompleted,
    Msg,
    PatchApplyEnd,
    PlanUpdate,
    SessionConfigured,
    StreamError,
    TaskComplete,
    TokenCount,
    TurnAborted,
    UserMessage,
    ViewImageToolCall,
    Warning,
    WebSearchEnd,
)
from spindle.protocol.quote import readable, shell_join, visible, without_terminal_codes
from spindle.protocol.settings import SandboxPolicy

RULE = "-" * 8
MAX_OUTPUT_LINES = 20
MAX_DIFF_LINES = 40
DIFF_STYLES = {"+": "32", "-": "31", "@": "36"}
MARKS = {"completed": "✓", "in_progress": "→", "pending": "•"}
CHANGE_LETTERS = {"add": "A", "delete": "D", "update": "M"}


class Transcript:
    """Turns events into blocks of text; remembers only the last usage and the last failure."""

    def __init__(
        self,
        *,
        version: str,
        color: bool,
        summary: str,
        hide_reasoning: bool = False,
        max_output_lines: int | None = None,
    ) -> None:
        self._version = version
        self._color = color
        self._summary = summary
        self._hide_reasoning = hide_reasoning
        self._max_output_lines = max_output_lines or (MAX_OUTPUT_LINES if color else None)
        """None = all: what is piped into a file should be whole."""
        self._tokens = 0

    def translate(self, msg: Msg) -> str:
        """The text for one event, with its newline; "" for events that people do not see."""
        match msg:
            case SessionConfigured():
                return self._header(msg)
            case UserMessage(message=text):
                return self._block("user", text, "36")
            case ItemCompleted(item={"type": "Reasoning", "summary_text": summary}):
                if self._hide_reasoning or not any(summary):
                    return ""
                return self._block("thinking", "\n\n".join(summary), "35;3")
            case ItemCompleted(item={"type": "AgentMessage", "content": content}):
                return self._block("spindle", "".join(part["text"] for part in content), "35")
            case ExecCommandBegin(command=command, cwd=cwd):
                shown = self._paint("1", visible(shell_join(command), keep="\n\t"))
                return f"{self._paint('35', 'exec')}\n{shown} in {visible(cwd)}\n"
            case ExecCommandEnd():
                return self._command_end(msg)
            case PatchApplyEnd():
                return self._patch_end(msg)
            case PlanUpdate(plan=plan, explanation=why):
                steps = [f"  {MARKS.get(step['status'], '•')} {step['step']}" for step in plan]
                return self._block("plan update", "\n".join([*([why] if why else []), *steps]), "35")
            case WebSearchEnd(query=query):
                return f"🌐 Searched: {visible(query)}\n"
            case ViewImageToolCall(path=path):
                return f"viewed image {visible(path)}\n"
            case Warning(message=message):
                return self._paint("33", "warning:") + f" {printable(message)}\n"
            case StreamError(message=message):
                return self._paint("33", printable(message)) + "\n"
            case Error(message=message):
                return self._paint("31", "ERROR:") + f" {printable(message)}\n"
            case TokenCount(info=info) if info is not None:
                self.set_usage(info["total_token_usage"])
                return ""
            case TurnAborted():
                return self._paint("31", "turn interrupted") + "\n"
            case TaskComplete():
                return f"tokens used\n{self._tokens:,}\n"
            case _ if str(msg.__struct_config__.tag).startswith("mcp_tool_call_"):
                from spindle.frontends.tool_servers import tool_call_text  # with the first call to a server

                return tool_call_text(msg, self._paint)
            case HookCompleted(run=run):
                return self._hook(run)
            case _ if str(msg.__struct_config__.tag).startswith("collab_"):
                from spindle.frontends.agents import agent_text  # with the first sub-agent

                return agent_text(msg)
            case _:
                return ""

    def set_usage(self, total: dict[str, int]) -> None:
        """Tokens that cost full price: input that was not cached, and output."""
        fresh = total.get("input_tokens", 0) - total.get("cached_input_tokens", 0)
        self._tokens = max(0, fresh) + total.get("output_tokens", 0)

    def _header(self, msg: SessionConfigured) -> str:
        rows = (
            ("workdir", msg.cwd),
            ("model", msg.model),
            ("provider", msg.model_provider_id),
            ("approval", msg.approval_policy),
            ("sandbox", sandbox_line(SandboxPolicy.from_wire(msg.sandbox_policy))),
            ("reasoning effort", msg.reasoning_effort or "none"),
            ("reasoning summaries", self._summary),
            ("session id", msg.session_id),
        )
        body = "\n".join(f"{self._paint('1', name + ':')} {visible(value)}" for name, value in rows)
        return f"Spindle {self._version}\n{RULE}\n{body}\n{RULE}\n"

    def _hook(self, run: dict[str, Any]) -> str:
        """That it ran and how it ended; what it told the model is the model's."""
        name = "".join(word.capitalize() for word in run["event_name"].split("_"))
        texts = [entry["text"] for entry in run["entries"] if entry["kind"] != "context"]
        style = {"completed": "2", "failed": "33"}.get(run["status"], "31")
        return "\n".join((self._paint(style, f"hook {name} {run['status']}"), *map(printable, texts))) + "\n"

    def _command_end(self, msg: ExecCommandEnd) -> str:
        took = f"{msg.duration.secs * 1000 + msg.duration.nanos // 1_000_000}ms"
        head = f"succeeded in {took}:" if msg.exit_code == 0 else f"exited {msg.exit_code} in {took}:"
        lines = printable(msg.aggregated_output).split("\n")
        limit = self._max_output_lines
        if limit is not None and len(lines) > limit:
            lines = [*lines[:limit], f"… {len(lines) - limit} more lines"]
        body = "\n".join(lines).rstrip("\n")
        painted = self._paint("32" if msg.exit_code == 0 else "31", head)
        return f"{painted}\n{self._paint('2', body)}\n" if body else f"{painted}\n"

    def _patch_end(self, msg: PatchApplyEnd) -> str:
        """Each file with its letter and its diff."""
        lines = [self._paint("35", "file update" if msg.success else "file update failed")]
        for path, change in msg.changes.items():
            target = f" -> {change['move_path']}" if change.get("move_path") else ""
            lines.append(f"{CHANGE_LETTERS.get(change['type'], '?')} {visible(path + target)}")
            lines += self._diff(change)
        if not msg.success:
            lines.append(printable(msg.stderr))
        return "\n".join(lines) + "\n"

    def _diff(self, change: dict[str, Any]) -> list[str]:
        if change["type"] == "delete":
            return []
        text = change.get("unified_diff") or "\n".join(f"+{line}" for line in change.get("content", "").splitlines())
        lines = printable(text).rstrip("\n").split("\n") if text else []
        cut = len(lines) - MAX_DIFF_LINES
        shown = [self._paint(DIFF_STYLES.get(line[:1], "2"), line) for line in lines[:MAX_DIFF_LINES]]
        return [*shown, f"… {cut} more lines"] if cut > 0 else shown

    def _block(self, title: str, text: str, style: str) -> str:
        return f"{self._paint(style, title)}\n{printable(text)}\n"

    def _paint(self, style: str, text: str) -> str:
        return f"\x1b[{style}m{text}\x1b[0m" if self._color else text


def sandbox_line(policy: SandboxPolicy) -> str:
    """`workspace-write [workdir, /tmp, $TMPDIR] (network access enabled)` and its like."""
    profile = f" (profile {visible(policy.permissions.name)})" if policy.permissions is not None else ""
    if policy.mode != "workspace-write":
        return policy.mode + profile
    roots = ["workdir"]
    roots += [] if policy.exclude_slash_tmp else ["/tmp"]
    roots += [] if policy.exclude_tmpdir_env_var else ["$TMPDIR"]
    roots += policy.writable_roots
    network = " (network access enabled)" if policy.network_access else ""
    return f"workspace-write [{', '.join(roots)}]{network}{profile}"


def printable(text: str) -> str:
    """Prose, or what a program printed: it must not drive the terminal, nor hide a part of itself."""
    return readable(without_terminal_codes(text))
