"""Events → the running text that a person reads in a plain terminal. Pure: gives text, writes nothing."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from spindle.frontends.fit import cells, cut, cut_middle, fit_rule, fold, head_and_tail
from spindle.frontends.plain_text import (
    BAD,
    TITLE,
    YOURS,
    Look,
    command_text,
    duration_words,
    output_lines,
    printable,
    sandbox_line,
)
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
from spindle.protocol.items import name_of_external
from spindle.protocol.quote import visible
from spindle.protocol.settings import SandboxPolicy

RULE = "-" * 8
MAX_DIFF_LINES = 40
MAX_COMMAND_LINES = 8
MAX_ROWS = 3
"""How many rows of the terminal one line of output may take."""
INDENT = "  "
"""Before what others printed, so that nothing they print can pass for a line of ours."""
DIFF_STYLES = {"+": "32", "-": "31", "@": "36"}
CHANGE_LETTERS = {"add": "A", "delete": "D", "update": "M"}
NEVER_RAN = -1
"""The exit code of a command that was not started."""
FIRST_SIGNAL = 128
"""A larger exit code says which signal ended the command."""


class Transcript:
    """Turns events into blocks of text; remembers the commands that run, the last usage, and what was shown last."""

    def __init__(
        self,
        look: Look,
        *,
        version: str,
        summary: str,
        elapsed_s: Callable[[], float] | None = None,
        notes: Mapping[str, str] | None = None,
        way_back: Callable[[str], str] | None = None,
    ) -> None:
        self.look = look
        self.signs = look.signs
        self._version = version
        self._summary = summary
        self._elapsed_s = elapsed_s
        self._notes = notes or {}
        """What stands behind a line of the header, by its name."""
        self._way_back = way_back
        """The command that takes up the thread with this id."""
        self._tokens = 0
        self._thread_id: str | None = None
        self._is_recorded = False
        self._cwd: str | None = None
        self._commands: dict[str, str] = {}
        """The commands that run, by call."""
        self.just_began: str | None = None
        """The call whose command was shown last, with nothing after it."""
        self.is_stopping = False
        """The turn was asked to stop: a command that a signal ends now did not fail."""
        self._goal: str | None = None
        """The status of the thread's goal; while it is active, another turn follows."""
        self._kind: str | None = None
        """What the last block was: another kind of block gets an empty line before it."""

    def translate(self, msg: Msg) -> str:
        """The text for one event, with its newline; "" for events that people do not see."""
        match msg:
            case SessionConfigured():
                return self._header(msg)
            case UserMessage(message=text):
                return self._user(text)
            case ItemCompleted(item={"type": "FunctionCallOutput", "name": str()} as shown):
                return self._external(shown)
            case ItemCompleted(item={"type": "Reasoning", "summary_text": summary}):
                if self.look.hide_reasoning or not any(summary):
                    return ""
                lines = printable("\n\n".join(summary)).split("\n")
                return self._titled("thinking", "1;35;3", "thinking", self._indented(lines, "3"))
            case ItemCompleted(item={"type": "AgentMessage", "content": content}):
                return self.message_title() + self.message_text("".join(part["text"] for part in content)) + "\n"
            case ExecCommandBegin():
                return self._command_begin(msg)
            case ExecCommandEnd():
                return self._command_end(msg)
            case PatchApplyEnd():
                return self._patch_end(msg)
            case PlanUpdate(plan=plan, explanation=why):
                return self._plan(plan, why)
            case WebSearchEnd(query=query):
                return self._line("search", f"searched the web: {visible(query)}")
            case ViewImageToolCall(path=path):
                return self._line("image", f"viewed image {visible(path)}")
            case Warning(message=message):
                return self._line("note", self._paint("33", "warning:") + self._after("warning:", message))
            case StreamError(message=message):
                return self._line("note", self._paint("33", self._after("", message)))
            case Error(message=message):
                return self._line("error", self._paint(BAD, "ERROR:") + self._after("ERROR:", message))
            case TokenCount(info=info) if info is not None:
                self.set_usage(info["total_token_usage"])
                return ""
            case TurnAborted():
                stopped = self._paint(BAD, f"{self.signs['failed']} turn interrupted")
                return self._line("error", stopped) + self.ending()
            case TaskComplete():
                return "" if self._goal == "active" else self.ending()
            case HookCompleted(run=run):
                return self._hook(run)
            case _:
                return self._of_others(msg)

    def _of_others(self, msg: Msg) -> str:
        """Goals, sub-agents, MCP servers and calls that failed, whose events are loaded with them."""
        tag = str(msg.__struct_config__.tag)
        if tag == "tool_call_failed":
            return self._call_failed(msg)
        if tag == "thread_goal_updated":
            return self._goal_line(msg)
        if tag.startswith("mcp_tool_call_"):
            from spindle.frontends.tool_servers import tool_call_text  # with the first call to a server

            return self._line("mcp", tool_call_text(msg, self._paint, self._result, self.signs))
        if not tag.startswith("collab_"):
            return ""
        from spindle.frontends.agent_lines import agent_text  # with the first sub-agent

        return self._line("agent", agent_text(msg))

    def _call_failed(self, msg: Any) -> str:
        head = self._paint(BAD, f"{self.signs['failed']} {visible(msg.tool)} failed:")
        return self._block("result", [head, *self._indented(self.clip_output(output_lines(msg.message)))])

    def _goal_line(self, msg: Msg) -> str:
        from spindle.frontends.goal_words import goal_of, goal_text  # with the first goal

        goal = goal_of(msg)
        before, self._goal = self._goal, None if goal is None else goal.status
        if self._goal == before and (goal is None or before in ("active", None)):
            return ""
        return self._line("goal", self._paint(TITLE, "goal") + self._after("goal", goal_text(goal)))

    def set_usage(self, total: dict[str, int]) -> None:
        """Tokens that cost full price: input that was not cached, and output."""
        fresh = total.get("input_tokens", 0) - total.get("cached_input_tokens", 0)
        self._tokens = max(0, fresh) + total.get("output_tokens", 0)

    def ending(self, *, is_counted: bool = True) -> str:
        """What it cost, and the way back to the thread. Not `is_counted`: the last request is not booked yet."""
        seconds = None if self._elapsed_s is None else self._elapsed_s()
        took = "" if seconds is None else f" in {duration_words(seconds, precise=seconds < 1)}"
        lines = [f"stopped with the turn: {self._label(command, 23)}" for command in self._commands.values()]
        lines.append(f"tokens used: {'' if is_counted else 'at least '}{self._tokens:,}{took}")
        if self._way_back is not None and self._thread_id is not None and self._is_recorded:
            command = self._way_back(self._thread_id)
            # On a line of its own it is whole in most windows.
            width = self.look.width()
            is_long = width is not None and cells(f"to go on: {command}") > width
            lines += ["to go on:", command] if is_long else [f"to go on: {command}"]
        return self._block("end", [self._paint("2", line) for line in lines])

    # ---- what is said ----

    def _header(self, msg: SessionConfigured) -> str:
        self._thread_id, self._is_recorded, self._cwd = msg.session_id, msg.rollout_path is not None, msg.cwd
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
        body = "".join(f"{self._paint('1', name + ':')} {visible(value)}{self._note(name)}\n" for name, value in rows)
        self._kind = "header"
        return f"Spindle {self._version}\n{RULE}\n{body}{RULE}\n"

    def _note(self, name: str) -> str:
        return f" ({visible(self._notes[name])})" if name in self._notes else ""

    def _user(self, text: str) -> str:
        """The prompt; of a long one that was piped in, a terminal gets head and tail."""
        lines = printable(text).rstrip("\n").split("\n")
        return self._titled("user", YOURS, "user", self._indented(self.clip_output(lines), indent=""))

    def _external(self, shown: dict[str, Any]) -> str:
        """What a program brought from outside of the conversation."""
        from spindle.context.external import shown_text  # few threads have one

        lines = self._indented(self.clip_output(printable(shown_text(shown)).split("\n")), indent="")
        return self._titled("external", YOURS, f"message from {visible(name_of_external(shown))}", lines)

    def message_title(self) -> str:
        """What stands before the agent's words."""
        return self._block("message", [self._paint(TITLE, "spindle")])

    def message_text(self, text: str) -> str:
        """The agent's words. They are never cut: they are what was asked for."""
        return printable(text)

    def _plan(self, plan: list[dict[str, str]], why: str | None) -> str:
        steps = [f"{self.signs.get(step['status'], self.signs['pending'])} {printable(step['step'])}" for step in plan]
        return self._titled("plan", TITLE, "plan update", self._indented([*([printable(why)] if why else []), *steps]))

    def _hook(self, run: dict[str, Any]) -> str:
        """That it ran and how it ended; what it told the model is the model's."""
        name = "".join(word.capitalize() for word in run["event_name"].split("_"))
        texts = [entry["text"] for entry in run["entries"] if entry["kind"] != "context"]
        style = {"completed": "2", "failed": "33"}.get(run["status"], BAD)
        head = self._paint(style, f"hook {name} {run['status']}")
        return self._line("note", "\n".join([head, *(INDENT + self._after("", text) for text in texts)]))

    # ---- commands and patches ----

    def _command_begin(self, msg: ExecCommandBegin) -> str:
        shown = self._commands[msg.call_id] = command_text(msg.command)
        first, *others = self._clip(shown.split("\n"), None if self.look.width() is None else MAX_COMMAND_LINES)
        where = "" if msg.cwd == self._cwd else self._paint("2", f" in {visible(msg.cwd)}")
        lines = [f"{self._paint(TITLE, 'exec')} {self._paint('1', first)}"]
        lines += [f"     {self._paint('1', line)}" for line in others]
        text = self._line("exec", "\n".join(lines) + where)
        self.just_began = msg.call_id
        return text

    def _command_end(self, msg: ExecCommandEnd) -> str:
        is_ok = msg.exit_code == 0
        took = duration_words(msg.duration.secs + msg.duration.nanos / 1e9, precise=True)
        verdict = f"succeeded in {took}" if is_ok else f"exited {msg.exit_code} in {took}"
        if msg.exit_code == NEVER_RAN:
            verdict = "did not run"
        elif self.is_stopping and msg.exit_code > FIRST_SIGNAL:
            verdict = f"stopped after {took}"
        head = f"{self.signs['ok' if is_ok else 'failed']} {verdict}:"
        title = self._paint("1;32" if is_ok else BAD, head)
        shown = self._commands.pop(msg.call_id, None) or command_text(msg.command)
        follows = self.just_began == msg.call_id and not self._commands
        if not follows:
            # Another one runs, or something else was shown since this one began: say whose result it is.
            title += " " + self._paint("1", self._label(shown, len(head) + 1))
        body = self._indented(self.clip_output(output_lines(msg.aggregated_output)), "2" if is_ok else "")
        return self._block("result", [title, *body], follows=follows)

    def _label(self, command: str, taken: int) -> str:
        """A command in one line, which still tells two apart that begin alike."""
        line = " ".join(command.split())
        return cut_middle(line, max(12, (self.look.width() or 120) - taken), mark=f" {self.signs['more']} ")

    def _patch_end(self, msg: PatchApplyEnd) -> str:
        """Each file with its letter and its diff."""
        lines: list[str] = []
        for path, change in msg.changes.items():
            target = f" -> {self._place(change['move_path'])}" if change.get("move_path") else ""
            lines.append(f"{CHANGE_LETTERS.get(change['type'], '?')} {visible(self._place(path) + target)}")
            lines += self._diff(change)
        if not msg.success:
            lines += self._indented(printable(msg.stderr).rstrip("\n").split("\n"))
        title = "file update" if msg.success else f"{self.signs['failed']} file update failed"
        return self._titled("patch", TITLE if msg.success else BAD, title, lines)

    def _place(self, path: str) -> str:
        """A path as it is called in the working folder."""
        return path.removeprefix(f"{self._cwd}/") if self._cwd else path

    def _diff(self, change: dict[str, Any]) -> list[str]:
        if change["type"] == "delete":
            return []
        text = change.get("unified_diff") or "\n".join(f"+{line}" for line in change.get("content", "").splitlines())
        lines = printable(text).rstrip("\n").split("\n") if text else []
        shown = self._clip(lines, MAX_DIFF_LINES if self.look.max_output_lines is not None else None)
        return [row for line in shown for row in self._indented([line], DIFF_STYLES.get(line[:1], "2"))]

    # ---- how blocks are put together ----

    def _result(self, lines: list[str]) -> list[str]:
        return self._indented(self.clip_output(lines), "2")

    def clip_output(self, lines: list[str]) -> list[str]:
        """What a program printed, as much as is shown of it."""
        width = self.look.width()
        lines = self._clip(lines, self.look.max_output_lines)
        return lines if width is None else [fit_rule(line, width - len(INDENT)) for line in lines]

    def _clip(self, lines: list[str], most: int | None) -> list[str]:
        """At most this many lines, and on a terminal none that takes more than a few rows."""
        lines = head_and_tail(lines, most, mark=self.signs["more"])
        width = self.look.width()
        if width is None:
            return lines
        room = max(8, MAX_ROWS * width - len(INDENT))
        return [cut(line.expandtabs(8) if "\t" in line else line, room, mark=self.signs["more"]) for line in lines]

    def _indented(self, texts: list[str], style: str = "", *, indent: str = INDENT) -> list[str]:
        """Below a title; on a terminal in rows that end between words."""
        lines = [row for text in texts for line in text.split("\n") for row in self._rows(line, len(indent))]
        return [indent + self._paint(style, line) if line else "" for line in lines]

    def _rows(self, line: str, indent: int) -> list[str]:
        width = self.look.width()
        rows = [line] if width is None else fold(line, max(8, width - indent))
        # What is so long that it was cut to a few rows is not made into more of them.
        return rows if len(rows) <= MAX_ROWS or not line.endswith(self.signs["more"]) else [line]

    def _after(self, label: str, text: str) -> str:
        """A text of one line or more behind a word of ours: its other lines are indented."""
        width = self.look.width()
        first, *others = printable(text).split("\n")
        if width is not None:
            room = max(8, width - len(INDENT))
            first, *more = fold(first, room, taken=cells(f"{label} ") - len(INDENT) if label else 0)
            others = [*more, *(row for line in others for row in fold(line, room))]
        return (" " if label else "") + f"\n{INDENT}".join([first, *others])

    def _titled(self, kind: str, style: str, title: str, lines: list[str]) -> str:
        return self._block(kind, [self._paint(style, title), *lines])

    def _block(self, kind: str, lines: list[str], *, follows: bool = False) -> str:
        """Lines with an empty one before them, unless they belong to what stands above."""
        apart = "" if follows or self._kind is None else "\n"
        self._kind, self.just_began = kind, None
        return apart + "".join(f"{line}\n" for line in lines)

    def _line(self, kind: str, text: str) -> str:
        """A short text; several of a kind stand together."""
        return self._block(kind, [text], follows=self._kind == kind) if text else ""

    def _paint(self, style: str, text: str) -> str:
        return f"\x1b[{style}m{text}\x1b[0m" if self.look.color and style and text else text
