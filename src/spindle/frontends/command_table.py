"""The table of commands: all there are, by group. Data only; what runs them is loaded by none of this."""

from __future__ import annotations

from spindle.frontends.commands import COMMON, HELP, VERSION, Command
from spindle.frontends.fleet_commands import FLEET
from spindle.frontends.setup_commands import (
    ACP,
    APP_SERVER,
    APPLY_PATCH,
    COMPLETION,
    DOCTOR,
    EXECPOLICY,
    FEATURES,
    GRANTS,
    HOOKS,
    LOCAL,
    LOGIN,
    LOGOUT,
    MCP,
    MCP_SERVER,
    MODELS,
    PROTO,
    SANDBOX,
)
from spindle.frontends.work_commands import (
    ARCHIVE,
    CONTEXT,
    DEBUG,
    DELETE,
    DEMO,
    EXEC,
    FORK,
    INTERFACE_EXIT_CODES,
    INTERFACE_OPTIONS,
    REPLAY,
    RESUME,
    REVIEW_COMMAND,
    THREADS,
    UNARCHIVE,
    UNDO,
)

HELP_COMMAND = Command(
    name="help",
    summary="show the page of a command: help exec resume = exec resume --help",
    run="help_pages:run",
    words=(("[COMMAND...]", "the command and its subcommand"),),
)

GROUPS = (
    ("Work", (EXEC, RESUME, FORK, REVIEW_COMMAND, FLEET, UNDO, DEMO)),
    ("Threads", (THREADS, CONTEXT, REPLAY, ARCHIVE, UNARCHIVE, DELETE)),
    ("Set-up", (LOGIN, LOGOUT, MODELS, LOCAL, DOCTOR, FEATURES, MCP, GRANTS, HOOKS, COMPLETION)),
    ("Servers", (APP_SERVER, ACP, MCP_SERVER, PROTO)),
    ("Trying things out", (SANDBOX, EXECPOLICY, APPLY_PATCH, DEBUG, HELP_COMMAND)),
)
SPINDLE = Command(
    name="spindle",
    summary="a coding agent for your terminal",
    run="tui.command:run",
    words=(("[PROMPT]", "what to do first; sent at once"),),
    usage=("[OPTIONS] [PROMPT]", "[OPTIONS] COMMAND"),
    about="""Without a command it opens the terminal interface; a prompt is sent at once. Without a terminal, use
`spindle exec`. `spindle COMMAND --help` shows what a command takes.""",
    options=(HELP, VERSION, *INTERFACE_OPTIONS),
    common=tuple(option.key for option in COMMON),
    exit_codes=INTERFACE_EXIT_CODES,
    commands=tuple(command for _, commands in GROUPS for command in commands),
)

NOT_HERE = (
    *("a", "agents", "apply", "cloud", "cloud-tasks", "exec-server", "migrate-rollouts", "plugin"),
    *("plugins", "queue", "remote-control", "responses-api-proxy", "update"),
)
"""Commands of Codex that Spindle does not have: never the beginning of a prompt."""
