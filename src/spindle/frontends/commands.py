"""What a command is: its place in the table, its words and options, and where the code is that runs it.

The table itself is `command_table.py`. Help pages, completion scripts and docs/cli.md are all made from it.
"""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from spindle.frontends.options import FLAG, LIST, PICTURES, VALUE, Option
from spindle.protocol.settings import APPROVAL_POLICIES, SANDBOX_MODES

COMMON = (
    Option(("-c", "--config"), LIST, "override one setting; VALUE is TOML, or else a plain string", "KEY=VALUE"),
    Option(("--enable",), LIST, "switch a feature on", "FEATURE"),
    Option(("--disable",), LIST, "switch a feature off", "FEATURE"),
    Option(("-m", "--model"), VALUE, "the model", "MODEL"),
    Option(("-p", "--profile"), VALUE, "use [profiles.NAME] or NAME.config.toml", "NAME"),
    Option(
        ("-i", "--image"),
        PICTURES,
        "attach pictures to the prompt; the list ends at `--`, or at the first word that does not name a picture",
        "FILE...",
    ),
    Option(("-s", "--sandbox"), VALUE, "what commands may do", "MODE", SANDBOX_MODES),
    Option(("-a", "--ask-for-approval"), VALUE, "when to ask (interactive only)", "POLICY", APPROVAL_POLICIES),
    Option(("--full-auto",), FLAG, "short for -a on-request -s workspace-write"),
    Option(
        ("--dangerously-bypass-approvals-and-sandbox", "--yolo"),
        FLAG,
        "no approvals and no sandbox; only inside your own container or VM",
    ),
    Option(
        ("--dangerously-bypass-hook-trust",),
        FLAG,
        "run the hooks of a trusted project without your consent to each of them",
    ),
    Option(("-C", "--cd"), VALUE, "work in this folder", "DIR"),
    Option(("--add-dir",), LIST, "one more folder that may be written", "DIR"),
    Option(("--search",), FLAG, "live web search"),
    Option(("--oss",), FLAG, "a model on this machine (Ollama, LM Studio, or `spindle local`)"),
    Option(
        ("--local-provider",),
        VALUE,
        "which one; `local`: a model that you have added",
        "NAME",
        ("ollama", "lmstudio", "local"),
    ),
    Option(("--no-alt-screen",), FLAG, "stay in the normal screen (interactive only)"),
    Option(("--strict-config",), FLAG, "an unknown configuration key is an error"),
)
"""The options that Codex takes everywhere. A command's page lists those that have an effect there."""

# Which common options have an effect where.
FOLDER = ("cd",)
CONFIG = ("config", "enable", "disable", "profile", "cd", "strict_config")
PERMISSIONS = ("sandbox", "full_auto", "add_dir")
SESSION = (
    *CONFIG,
    *PERMISSIONS,
    "model",
    "search",
    "dangerously_bypass_approvals_and_sandbox",
    "dangerously_bypass_hook_trust",
)
PROMPT = (*SESSION, "image", "oss", "local_provider")
REVIEW = (*CONFIG, "model", "search", "dangerously_bypass_hook_trust", "oss", "local_provider")
SERVER = (*SESSION, "ask_for_approval")

HELP = Option(("-h", "--help"), FLAG, "show this page")
JSON_LINES = Option(("--json",), FLAG, "print JSON lines")
VERSION = Option(("-V", "--version"), FLAG, "show the version")


class Command(msgspec.Struct, frozen=True, kw_only=True):
    """One command or subcommand, and all there is to say about it."""

    name: str
    summary: str
    """What it does, in half a line."""
    run: str = ""
    """`module:function` below `spindle.frontends`, called with (parsed, words). Empty: a subcommand must be named."""
    words: tuple[tuple[str, str], ...] = ()
    """Its positional words: `THREAD`, `[PROMPT]`, `KEY...`, `[KEY...]`; each with a sentence."""
    usage: tuple[str, ...] = ()
    """Usage lines without `spindle NAME`, where they cannot be made from `words`."""
    about: str = ""
    """What one has to know to use it; paragraphs are separated by a blank line."""
    options: tuple[Option, ...] = ()
    common: tuple[str, ...] = ()
    """Keys of the common options that have an effect."""
    commands: tuple[Command, ...] = ()
    default: str = ""
    """The subcommand that is meant when none is named."""
    extends: bool = False
    """A subcommand that takes the options of the command above it too."""
    aliases: tuple[str, ...] = ()
    is_hidden: bool = False
    """Accepted for older callers, listed nowhere."""
    verbatim_from: int | None = None
    """After this many words, the rest of the line is a command with options of its own."""
    exit_codes: tuple[tuple[str, str], ...] = ()
    """Listed where they mean more than 0, 1 and 2 do for every command."""
    examples: tuple[tuple[str, str], ...] = ()
    """Each a command line, and what it does."""

    def find(self, name: str) -> Command | None:
        return next((command for command in self.commands if name == command.name or name in command.aliases), None)

    @property
    def is_group(self) -> bool:
        """Whether its first word can only be a subcommand."""
        return bool(self.commands) and not self.words

    @property
    def shown(self) -> list[Command]:
        return [command for command in self.commands if not command.is_hidden]

    def word_counts(self) -> tuple[int, int | None]:
        """How many words it takes, at least and at most."""
        at_least = sum(not word.startswith("[") for word, _ in self.words)
        is_open = any("..." in word for word, _ in self.words)
        return at_least, None if is_open else len(self.words)


def walk(command: Command, above: tuple[Command, ...] = ()) -> Iterator[tuple[Command, ...]]:
    """Every path of the table, from the top: (spindle,), (spindle, exec), (spindle, exec, resume), …"""
    path = (*above, command)
    yield path
    for below in command.shown:
        yield from walk(below, path)


def usage_lines(path: tuple[Command, ...]) -> list[str]:
    """The real ways to type this command."""
    command = path[-1]
    start = " ".join(step.name for step in path)
    if command.usage:
        return [f"{start} {line}".rstrip() for line in command.usage]
    words = "".join(f" {word}" for word, _ in command.words)
    options = " [OPTIONS]" if options_of(path) or common_of(path) else ""
    lines = [f"{start}{options}{words}"] if command.run or command.default else []
    return [*lines, f"{start}{options} COMMAND ..."] if command.shown else lines


def shown_options(path: tuple[Command, ...]) -> list[Option]:
    """What its page lists as its own."""
    return [option for option in options_of(path) if not option.is_hidden]


def options_of(path: tuple[Command, ...]) -> list[Option]:
    """What it takes as its own: its options, and those of the command it extends or means by default."""
    command = path[-1]
    options = [*command.options]
    if command.default and (meant := command.find(command.default)) is not None:
        options += meant.options
    if command.extends:
        options += path[-2].options
    return options


def common_of(path: tuple[Command, ...]) -> list[Option]:
    command = path[-1]
    keys = {*command.common}
    if command.default and (meant := command.find(command.default)) is not None:
        keys |= {*meant.common}
    return [option for option in COMMON if option.key in keys]
