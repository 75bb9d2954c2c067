"""Help pages, made from the table of commands: `spindle help exec` and `spindle exec --help`."""

from __future__ import annotations

import os
import sys
import textwrap
from collections.abc import Iterable, Sequence
from typing import TextIO

from spindle.frontends.command_line import descend
from spindle.frontends.command_table import GROUPS, SPINDLE
from spindle.frontends.commands import HELP, Command, common_of, shown_options, usage_lines
from spindle.frontends.options import FLAG, OPTIONAL, Option, Parsed

WIDEST, NARROWEST = 100, 50
LEFT_COLUMN = 34


def run(parsed: Parsed, words: list[str]) -> int:
    """`spindle help [COMMAND...]`"""
    return show(descend((SPINDLE,), words), sys.stdout)


def show(path: tuple[Command, ...], out: TextIO) -> int:
    print(page(path, width_of(out)), file=out, end="")
    return 0


def show_instead(path: tuple[Command, ...]) -> int:
    """The line names nothing that can be run: say what can be."""
    print(f"error: `{' '.join(step.name for step in path)}` needs a subcommand\n", file=sys.stderr)
    show(path, sys.stderr)
    return 2


def width_of(out: TextIO) -> int:
    """100 columns, or as many as the terminal has."""
    try:
        columns = os.get_terminal_size(out.fileno()).columns if out.isatty() else WIDEST
    except (OSError, ValueError):
        columns = WIDEST
    return max(NARROWEST, min(WIDEST, columns or WIDEST))


def page(path: tuple[Command, ...], width: int = WIDEST) -> str:
    """The page of one command."""
    command = path[-1]
    summary = "Spindle, a coding agent for your terminal." if len(path) == 1 else sentence(command.summary)
    parts = [_wrapped(summary, width), _usage(path, width)]
    parts += [_wrapped(paragraph, width) for paragraph in paragraphs(command)]
    parts += _sections(path, width)
    return "\n\n".join("\n".join(part) for part in parts) + "\n"


def sentence(summary: str) -> str:
    return summary[0].upper() + summary[1:] + ("" if summary.endswith((".", "?", "…")) else ".")


def paragraphs(command: Command) -> list[str]:
    return [" ".join(text.split()) for text in command.about.split("\n\n") if text.strip()]


def _usage(path: tuple[Command, ...], width: int) -> list[str]:
    lines: list[str] = []
    for number, line in enumerate(usage_lines(path)):
        start = "       " if number else "Usage: "
        lines += textwrap.wrap(
            line,
            width,
            initial_indent=start,
            subsequent_indent=" " * 11,
            break_long_words=False,
            break_on_hyphens=False,
        )
    return lines


def _sections(path: tuple[Command, ...], width: int) -> Iterable[list[str]]:
    command = path[-1]
    if len(path) == 1:
        for title, commands in GROUPS:
            yield [f"{title}:", *columns([(_named(below), below.summary) for below in commands], width)]
    elif command.shown:
        rows = [(_named(below), below.summary + _default_mark(command, below)) for below in command.shown]
        yield ["Commands:", *columns(rows, width)]
    if command.words:
        yield ["Arguments:", *columns([(word, text) for word, text in command.words], width)]
    own, common = shown_options(path), common_of(path)
    if len(path) > 1:
        own = [*own, HELP]
    yield ["Options:", *option_lines(own, width)]
    if common:
        yield ["Common options:", *option_lines(common, width)]
    if command.exit_codes:
        yield ["Exit codes:", *columns(exit_codes(command), width)]
    if command.examples:
        yield ["Examples:", *_examples(command, width)]


def _default_mark(command: Command, below: Command) -> str:
    return f" (also without `{below.name}`)" if below.name == command.default else ""


def _named(command: Command) -> str:
    return ", ".join((command.name, *command.aliases))


def exit_codes(command: Command) -> list[tuple[str, str]]:
    """The exit codes of the command, with 2 sorted in among them."""
    codes = [*command.exit_codes]
    if not any(code in ("2", "other") for code, _ in codes):
        small = sum(code in ("0", "1") for code, _ in codes)
        codes.insert(small, ("2", "the command line cannot be used"))
    return codes


def _examples(command: Command, width: int) -> list[str]:
    left = max(len(line) for line, text in command.examples)
    if all(left + len(text) + 6 <= width for _, text in command.examples):
        return [f"  {line:<{left}}  # {text}" if text else f"  {line}" for line, text in command.examples]
    rows: list[str] = []
    for line, text in command.examples:
        rows += textwrap.wrap(text, width, initial_indent="  # ", subsequent_indent="  # ", break_on_hyphens=False)
        rows.append(f"  {line}")
    return rows


def option_lines(options: Sequence[Option], width: int = WIDEST) -> list[str]:
    return columns([(spelled(option), told(option)) for option in options], width)


def spelled(option: Option) -> str:
    """`-m, --model MODEL`"""
    names = ", ".join(sorted(option.names, key=len))
    if option.kind == OPTIONAL:
        return f"{names} [{option.metavar or 'VALUE'}]"
    return names if option.kind == FLAG else f"{names} {option.metavar or 'VALUE'}"


def told(option: Option) -> str:
    return option.help + (f" [{', '.join(option.choices)}]" if option.choices else "")


def columns(rows: Sequence[tuple[str, str]], width: int) -> list[str]:
    """Two columns; what is too long for the left one stands on a line of its own."""
    widest = max((len(left) for left, _ in rows), default=0)
    left_width = min(widest, LEFT_COLUMN, width // 3)
    indent = " " * (left_width + 4)
    lines: list[str] = []
    for left, right in rows:
        wrapped = textwrap.wrap(right, width - len(indent), break_on_hyphens=False) or [""]
        if len(left) > left_width:
            lines += textwrap.wrap(left, width - 2, initial_indent="  ", subsequent_indent="  ", break_on_hyphens=False)
        else:
            lines.append(f"  {left:<{left_width}}  {wrapped.pop(0)}".rstrip())
        lines += [indent + text for text in wrapped]
    return lines


def _wrapped(text: str, width: int) -> list[str]:
    return textwrap.wrap(text, width, break_on_hyphens=False)
