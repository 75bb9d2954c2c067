"""The tools of our own as models see them: name, parameters, and the place of the code that answers a call.

Every request carries these words, so this file is loaded before the first one. The code is not: each tool is one file,
which holds all that it does and is loaded when it is first called.

All threads of a process have the same tools, so each is made once: a process may hold many threads. Nobody changes one.
"""

from __future__ import annotations

import sys
from functools import cache, cached_property
from typing import TYPE_CHECKING, Any

from spindle.context.truncate import DEFAULT_LIMIT
from spindle.tools.descriptions import description
from spindle.tools.tool import ToolCall, ToolContext, ToolResult, function_spec

if TYPE_CHECKING:
    from types import CoroutineType

TIMEOUT_MS = 10_000
"""How long a one-shot command may run, if the call does not say."""
YIELD_MS, TYPED_YIELD_MS = 10_000, 250
"""How long a call waits for output of a command it started, and of one it types into, if it does not say."""
READ_LINES = 2_000
LIST_ENTRIES, LIST_DEPTH = 25, 2
GREP_FILES, GREP_MOST = 100, 2_000
RECALL_MATCHES = 8


class BuiltIn:
    """A tool whose words are here and whose code is loaded with its first call."""

    def __init__(
        self, name: str, runs: str, properties: dict[str, Any], required: list[str], *, parallel: bool = False
    ) -> None:
        self.name = name
        self.runs = runs
        """`module:function` in this package."""
        self.parallel = parallel
        self._properties = properties
        self._required = required

    def spec(self) -> dict[str, Any]:
        return self._words

    @cached_property
    def _words(self) -> dict[str, Any]:
        return function_spec(self.name, description(self.name), self._properties, self._required)

    def run(self, call: ToolCall, ctx: ToolContext) -> CoroutineType[Any, Any, ToolResult]:
        """The code that answers the call, loaded and ready to be awaited."""
        module, _, function = self.runs.partition(":")
        __import__(f"spindle.tools.{module}")
        return getattr(sys.modules[f"spindle.tools.{module}"], function)(call, ctx)


# ---- commands ----------------------------------------------------------------------------------------


@cache
def exec_command(*, request_rule: bool = True) -> BuiltIn:
    properties = {
        "cmd": _text("The shell command."),
        "workdir": _WORKDIR,
        "shell": _text("Shell to use instead of the user's."),
        "login": _LOGIN,
        "tty": _flag("Give the command a terminal (false by default)."),
        "yield_time_ms": _number(_YIELD.format(default=YIELD_MS)),
        "max_output_tokens": _MAX_TOKENS,
        **_permission_parameters(request_rule),
    }
    return BuiltIn("exec_command", "exec_command:run", properties, ["cmd"], parallel=True)


@cache
def write_stdin() -> BuiltIn:
    properties = {
        "session_id": _number("The id that exec_command gave."),
        "chars": _text('What to type, e.g. "yes\\n", or "\\u0003" for Ctrl-C; empty only waits.'),
        "yield_time_ms": _number(_YIELD.format(default=TYPED_YIELD_MS)),
        "max_output_tokens": _MAX_TOKENS,
    }
    return BuiltIn("write_stdin", "write_stdin:run", properties, ["session_id"], parallel=True)


@cache
def shell(*, request_rule: bool = True) -> BuiltIn:
    properties = {
        "command": {**_TEXTS, "description": "The program and its arguments."},
        "workdir": _WORKDIR,
        "timeout_ms": _TIMEOUT,
        **_permission_parameters(request_rule),
    }
    return BuiltIn("shell", "shell:run", properties, ["command"], parallel=True)


@cache
def shell_command(*, request_rule: bool = True) -> BuiltIn:
    properties = {
        "command": _text("The script."),
        "login": _LOGIN,
        "workdir": _WORKDIR,
        "timeout_ms": _TIMEOUT,
        **_permission_parameters(request_rule),
    }
    return BuiltIn("shell_command", "shell:run_script", properties, ["command"], parallel=True)


# ---- files -------------------------------------------------------------------------------------------


class _FreeformPatch(BuiltIn):
    @cached_property
    def _words(self) -> dict[str, Any]:
        return {
            "type": "custom",
            "name": self.name,
            "description": "Edits files with a patch. Send the patch itself as plain text that follows the grammar; "
            "do not wrap it in JSON.",
            "format": {"type": "grammar", "syntax": "lark", "definition": PATCH_GRAMMAR},
        }


@cache
def apply_patch(*, freeform: bool) -> BuiltIn:
    """Listed in one of two flavours; answers calls of both."""
    flavour = _FreeformPatch if freeform else BuiltIn
    return flavour("apply_patch", "apply_patch:run", {"input": _text("The whole patch.")}, ["input"])


@cache
def read_file() -> BuiltIn:
    indentation = {
        "type": "object",
        "description": 'Only with mode "indentation".',
        "properties": {
            "anchor_line": _number("A line of the block; `offset` by default."),
            "include_header": _flag("With the comments right above it (true by default)."),
            "include_siblings": _flag("With the blocks beside it (false by default)."),
            "max_levels": _number(
                "How many levels of indentation to go outwards; 0 (the default) goes to the outermost."
            ),
            "max_lines": _number("How many lines to read at most; `limit` by default."),
        },
        "additionalProperties": False,
    }
    properties = {
        "file_path": _text("The file, as an absolute path."),
        "offset": _number("The first line to read, counted from 1 (1 by default)."),
        "limit": _number(f"How many lines to read ({READ_LINES} by default)."),
        "mode": _text(
            '"slice" (the default) reads consecutive lines; "indentation" reads the block of code around a line.'
        ),
        "indentation": indentation,
    }
    return BuiltIn("read_file", "read_file:run", properties, ["file_path"], parallel=True)


@cache
def list_dir() -> BuiltIn:
    properties = {
        "dir_path": _text("The folder, as an absolute path."),
        "offset": _number("The first entry to list, counted from 1 (1 by default)."),
        "limit": _number(f"How many entries to list ({LIST_ENTRIES} by default)."),
        "depth": _number(f"How many levels to go down ({LIST_DEPTH} by default)."),
    }
    return BuiltIn("list_dir", "list_dir:run", properties, ["dir_path"], parallel=True)


@cache
def grep_files() -> BuiltIn:
    properties = {
        "pattern": _text("The regular expression to look for."),
        "include": _text('Only files whose path fits this glob, e.g. "*.{ts,tsx}".'),
        "path": _text("Folder or file to search; the working directory by default."),
        "limit": _number(f"How many paths to return ({GREP_FILES} by default, {GREP_MOST} at most)."),
    }
    return BuiltIn("grep_files", "grep_files:run", properties, ["pattern"], parallel=True)


@cache
def view_image() -> BuiltIn:
    path = _text("The file, absolute or relative to the working directory.")
    return BuiltIn("view_image", "view_image:run", {"path": path}, ["path"], parallel=True)


# ---- the work itself ---------------------------------------------------------------------------------


@cache
def update_plan() -> BuiltIn:
    step = {
        "type": "object",
        "properties": {
            "status": {
                "type": "string",
                "enum": ["pending", "in_progress", "completed"],
                "description": "How far the step is.",
            },
            "step": _text("The step in a few words."),
        },
        "required": ["step", "status"],
        "additionalProperties": False,
    }
    properties = {
        "explanation": _text("Why the plan changed; leave out when it is obvious."),
        "plan": {"type": "array", "items": step, "description": "The whole list, in order."},
    }
    return BuiltIn("update_plan", "update_plan:run", properties, ["plan"])


@cache
def request_permissions() -> BuiltIn:
    files = _closed_object({"read": _PATHS, "write": _PATHS})
    network = _closed_object({"enabled": _flag("Whether commands are to use the network.")})
    wanted = _closed_object({"file_system": files, "network": network})
    for part in (files, network, wanted):
        del part["required"]
    properties = {
        "permissions": wanted,
        "reason": _text("Why they are needed, in one sentence that the user is shown."),
    }
    return BuiltIn("request_permissions", "request_permissions:run", properties, ["permissions"])


@cache
def request_user_input() -> BuiltIn:
    option = _closed_object(
        {
            "label": _text("What the user picks, in one to five words."),
            "description": _text("One sentence on what picking it means."),
        }
    )
    question = _closed_object(
        {
            "id": _text("A snake_case name for the question; the answer comes back under it."),
            "header": _text("A heading for the user interface, at most 12 characters."),
            "question": _text("The question, in one sentence."),
            "options": {
                "type": "array",
                "description": "Two or three options that exclude each other, the recommended one first; no Other.",
                "items": option,
            },
        }
    )
    questions = {"type": "array", "description": "One to three questions; one is best.", "items": question}
    return BuiltIn("request_user_input", "request_user_input:run", {"questions": questions}, ["questions"])


@cache
def remember() -> BuiltIn:
    fact = _text("The fact, complete in itself.")
    return BuiltIn("remember", "recollection:remember", {"fact": fact}, ["fact"], parallel=True)


@cache
def recall() -> BuiltIn:
    properties = {
        "query": _text("Words that must all occur."),
        "entry": _number("The number of an entry to read in full."),
        "limit": _number(f"Most entries to show; {RECALL_MATCHES} if not given."),
    }
    return BuiltIn("recall", "recollection:recall", properties, [], parallel=True)


@cache
def web_search(*, external_web_access: bool) -> dict[str, Any]:
    """The entry of the hosted web search: the server runs it, there is nothing to call here.

    Cached pages only, unless `external_web_access` allows the live web. Fixed when a thread starts.
    """
    return {"type": "web_search", "external_web_access": external_web_access}


# ---- words that several tools share ------------------------------------------------------------------


def _text(words: str) -> dict[str, Any]:
    return {"type": "string", "description": words}


def _number(words: str) -> dict[str, Any]:
    return {"type": "number", "description": words}


def _flag(words: str) -> dict[str, Any]:
    return {"type": "boolean", "description": words}


def _closed_object(properties: dict[str, Any]) -> dict[str, Any]:
    """All properties required and no others allowed; required in reading order, properties in alphabetical order."""
    return {
        "type": "object",
        "properties": dict(sorted(properties.items())),
        "required": list(properties),
        "additionalProperties": False,
    }


_TEXTS = {"type": "array", "items": {"type": "string"}}
_PATHS = {**_TEXTS, "description": "Absolute paths; leave it out when none is needed."}
_WORKDIR = _text("Folder to run it in; the working directory by default.")
_LOGIN = _flag("Read the user's profile first (true by default).")
_TIMEOUT = _number(f"When to end the command, in milliseconds ({TIMEOUT_MS} by default); allow builds and tests more.")
_YIELD = "How long to wait for output, in milliseconds ({default} by default, at most 30000)."
_MAX_TOKENS = _number(f"How much of the output to return, in tokens ({DEFAULT_LIMIT} by default); the middle is cut.")


def _permission_parameters(request_rule: bool) -> dict[str, Any]:
    """Parameters by which a call asks for more than the sandbox allows."""
    parameters = {
        "sandbox_permissions": _text(
            'Where the command runs: "use_default", or "require_escalated" to ask the user to let it run outside of '
            "the sandbox."
        ),
        "justification": _text(
            "Only with require_escalated: one short question to the user saying why this is needed."
        ),
    }
    if request_rule:
        parameters["prefix_rule"] = {
            **_TEXTS,
            "description": "Only with require_escalated: the first words of the command, if the user may want to allow "
            'every later command that begins with them, e.g. ["npm", "install"].',
        }
    return parameters


PATCH_GRAMMAR = r"""start: begin_patch hunk+ end_patch
begin_patch: "*** Begin Patch" LF
end_patch: "*** End Patch" LF?

hunk: add_hunk | delete_hunk | update_hunk
add_hunk: "*** Add File: " filename LF add_line+
delete_hunk: "*** Delete File: " filename LF
update_hunk: "*** Update File: " filename LF change_move? change?

filename: /(.+)/
add_line: "+" /(.*)/ LF -> line

change_move: "*** Move to: " filename LF
change: (change_context | change_line)+ eof_line?
change_context: ("@@" | "@@ " /(.+)/) LF
change_line: ("+" | "-" | " ") /(.*)/ LF
eof_line: "*** End of File" LF

%import common.LF
"""
