"""The command line: finds the command, loads what runs it, and turns errors into sentences and exit codes."""

from __future__ import annotations

import sys

from spindle.errors import SpindleError, ThreadNotFound, UsageError
from spindle.frontends.command_line import Line, check_words, read, unknown_command
from spindle.frontends.terminal import STDIN, STDOUT, is_terminal

RUN_AS_APPLY_PATCH = "--codex-run-as-apply-patch"


def main() -> int:
    """Run the command that was typed. Foreseen errors become one sentence on stderr; nothing else is caught."""
    arguments = sys.argv[1:]
    try:
        if arguments[:1] == [RUN_AS_APPLY_PATCH]:
            from spindle.frontends import apply_patch  # only to apply one

            return apply_patch.main(arguments[1:], sys.stdin, sys.stdout, sys.stderr)
        line = read(arguments)
        if line.parsed.flag("help") or line.parsed.flag("version") or not line.command.run:
            return show(line)
        check_words(line)
        if line.doubtful and not (is_terminal(STDIN) and is_terminal(STDOUT)):
            raise unknown_command(line.doubtful)
        return load(line.command.run)(line.parsed, line.parsed.words)
    except SpindleError as error:
        from spindle.protocol.quote import readable  # only when something is wrong; the text may quote anything

        options = "--all --archived" if arguments[:1] == ["unarchive"] else "--all"
        hint = f"; `spindle threads {options}` lists those there are" if isinstance(error, ThreadNotFound) else ""
        print(f"error: {readable(str(error))}{hint}", file=sys.stderr)
        return 2 if isinstance(error, UsageError) else 1
    except KeyboardInterrupt:
        return 130


def show(line: Line) -> int:
    """Print the page that a line asks for, or needs, instead of running something."""
    if line.parsed.flag("version") and not line.parsed.flag("help"):
        from spindle import __version__  # only to be read

        print(f"spindle {__version__}")
        return 0
    from spindle.frontends import help_pages  # only to be read

    return help_pages.show(line.path, sys.stdout) if line.parsed.flag("help") else help_pages.show_instead(line.path)


def load(place: str):
    """The function of a front end. Each is loaded only when it is asked for: start-up is a product feature."""
    module, _, name = place.partition(":")
    __import__(f"spindle.frontends.{module}")
    return getattr(sys.modules[f"spindle.frontends.{module}"], name)
