"""The command line: finds the subcommand, loads its front end, and turns errors into sentences and exit codes."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence

from spindle.errors import SpindleError, UsageError
from spindle.frontends.options import FLAG, Option, Parsed, help_lines, parse

HELP = Option(("-h", "--help"), FLAG, "show this help")

COMMANDS = {
    "exec": "run one prompt without a UI and exit (also: exec resume, exec fork)",
    "proto": "speak protocol v1 over stdio",
    "app-server": "serve editors and SDKs over stdio (also: generate-json-schema --out DIR, generate-ts --out DIR)",
    "threads": "list recorded threads",
    "context": "what the model saw, request by request: context THREAD [--json | --html [FILE]] [--request N]",
    "archive": "put a thread away",
    "unarchive": "bring an archived thread back",
    "delete": "delete a thread for good",
    "apply-patch": "apply a patch in the *** Begin Patch format",
    "sandbox": "run a command as the agent would: sandbox [--mode MODE] [--] COMMAND",
    "execpolicy": "what the rules say about a command: execpolicy check [--rules FILE] [--] COMMAND",
    "mcp": "MCP servers: mcp list, get, add, remove, trust, untrust, login, logout",
    "grants": "what you allowed for good: grants [list], grants revoke ID",
    "hooks": "commands that run at named moments: hooks [list], hooks trust [KEY], hooks distrust [KEY]",
    "doctor": "try what Spindle needs on this system, above all the sandbox",
    "login": "store an API key (login --with-api-key, login status)",
    "logout": "forget the stored login",
    "debug": "debug prompt-input [PROMPT]: print the request that would be sent; debug context [THREAD]",
    "demo": "see it work: offline, with a practice model",
}
ALIASES = {"e": "exec"}

Runner = Callable[[Parsed, list[str]], int]


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command. Foreseen errors become one sentence on stderr; nothing else is caught."""
    arguments = list(sys.argv[1:] if argv is None else argv)
    try:
        return dispatch(arguments)
    except SpindleError as error:
        from spindle.protocol.quote import readable  # only when something is wrong; the text may quote anything

        print(f"error: {readable(str(error))}", file=sys.stderr)
        return 2 if isinstance(error, UsageError) else 1
    except KeyboardInterrupt:
        return 130


def dispatch(arguments: list[str]) -> int:
    if arguments and arguments[0] in ("apply-patch", "--codex-run-as-apply-patch"):
        return _apply_patch(arguments[1:])
    from spindle.frontends.launch import COMMON  # after apply-patch, which needs no configuration

    place = _command_place(arguments, COMMON)
    if place is None:
        if set(arguments) & {"-h", "--help"} or not arguments:
            print_help(None, COMMON)
            return 0 if arguments else 2
        parse(arguments, (*COMMON, HELP))  # names a bad option, if that is what is wrong
        raise UsageError(f"unknown command {_first_word(arguments)!r}; commands: {', '.join(COMMANDS)}")
    name = ALIASES.get(arguments[place], arguments[place])
    rest = arguments[place + 1 :]
    if name in ("sandbox", "execpolicy"):
        # Their last words are a command with options of its own.
        if name == "sandbox":
            from spindle.frontends import sandbox as front_end
        else:
            from spindle.frontends import execpolicy as front_end

        shared = [option for option in COMMON if option.key in front_end.SHARED_OPTIONS]
        table, run = (*shared, *front_end.OPTIONS, HELP), front_end.run
        rest = front_end.separate(rest, table)
    else:
        options, run = _front_end(name)
        table = (*COMMON, *options, HELP)
    # Apart, so that a list of pictures before the command does not swallow it.
    parsed = parse(rest, table, parse(arguments[:place], table))
    if parsed.flag("help"):
        print_help(name, table)
        return 0
    return run(parsed, parsed.words)


def _command_place(arguments: list[str], common: Sequence[Option]) -> int | None:
    """Where the subcommand stands: the first word that is neither an option nor the value of one."""
    takes_value = {name for option in common if option.kind != FLAG for name in option.names}
    skip = False
    for index, token in enumerate(arguments):
        if skip:
            skip = False
        elif token in takes_value:
            skip = True
        elif not token.startswith("-"):
            return index if token in COMMANDS or token in ALIASES else None
    return None


def _first_word(arguments: list[str]) -> str:
    return next((token for token in arguments if not token.startswith("-")), "")


def _front_end(name: str) -> tuple[Sequence[Option], Runner]:
    """Each front end is loaded only when it is asked for: start-up is a product feature."""
    if name == "exec":
        from spindle.frontends.exec import command as exec_command

        return exec_command.OPTIONS, exec_command.run
    if name == "proto":
        from spindle.frontends.proto import command as proto_command

        return proto_command.OPTIONS, proto_command.run
    if name == "app-server":
        from spindle.frontends.app_server import command as app_server_command

        return app_server_command.OPTIONS, app_server_command.run
    if name == "demo":
        from spindle.frontends.demo import command as demo_command

        return demo_command.OPTIONS, demo_command.run
    if name in ("threads", "archive", "unarchive", "delete"):
        from spindle.frontends import threads

        return threads.OPTIONS, lambda parsed, words: threads.run(name, parsed, words)
    if name == "context":
        from spindle.frontends.context import command as context_command

        return context_command.OPTIONS, context_command.run
    if name == "mcp":
        from spindle.frontends.mcp import command as mcp_command

        return mcp_command.OPTIONS, mcp_command.run
    if name == "grants":
        from spindle.frontends import grants

        return grants.OPTIONS, grants.run
    if name == "hooks":
        from spindle.frontends import hooks

        return hooks.OPTIONS, hooks.run
    if name == "doctor":
        from spindle.frontends import doctor

        return doctor.OPTIONS, doctor.run
    if name in ("login", "logout"):
        from spindle.frontends import login

        return login.OPTIONS, lambda parsed, words: login.run(name, parsed, words)
    from spindle.frontends import debug

    return debug.OPTIONS, debug.run


def _apply_patch(arguments: list[str]) -> int:
    from spindle.frontends import apply_patch

    return apply_patch.main(arguments, sys.stdin, sys.stdout, sys.stderr)


def print_help(name: str | None, options: Sequence[Option]) -> None:
    if name is None:
        print("Spindle, a coding agent for your terminal.\n\nUsage: spindle [OPTIONS] COMMAND [ARGS]\n\nCommands:")
        width = max(map(len, COMMANDS))
        print("\n".join(f"  {command:<{width}}  {text}" for command, text in COMMANDS.items()))
    else:
        print(f"spindle {name}: {COMMANDS[name]}\n\nUsage: spindle {name} [OPTIONS] [ARGS]")
    print("\nOptions:")
    print("\n".join(help_lines(options)))
    if name is None:
        print(
            "  -V, --version                       show the version\n\n`spindle COMMAND --help` shows a command's own."
        )
