"""What plain text is made of, for every front end that writes to a terminal: its look, its signs, common phrases."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import msgspec

from spindle.protocol.quote import readable, shell_join, visible, without_terminal_codes
from spindle.protocol.settings import PermissionProfile, SandboxPolicy

SIGNS = {
    "completed": "✓",
    "in_progress": "→",
    "pending": "•",
    "ok": "✓",
    "failed": "✗",
    "more": "…",
    "between": "·",
    "tail": "│",
}
ASCII_SIGNS = {
    "completed": "[x]",
    "in_progress": "[>]",
    "pending": "[ ]",
    "ok": "[ok]",
    "failed": "[failed]",
    "more": "...",
    "between": "-",
    "tail": "|",
}
TITLE, YOURS, BAD = "1;35", "1;36", "1;31"
"""How the beginning of a block looks: of ours, of yours, of what failed. Bold, because red and magenta are dark in many
schemes."""
SHELLS = ("bash", "dash", "fish", "ksh", "sh", "zsh")


def unlimited() -> int | None:
    return None


class Look(msgspec.Struct, frozen=True, kw_only=True):
    """How text is shown where it is read: a terminal, or a file that stderr was sent to."""

    color: bool = False
    plain_ascii: bool = False
    """Our own signs keep to ASCII. What others wrote stays UTF-8, whatever the terminal knows."""
    hide_reasoning: bool = False
    max_output_lines: int | None = None
    """None = all: what is piped into a file should be whole."""
    width: Callable[[], int | None] = unlimited
    """The columns there are now; None = lines of any length."""

    @property
    def signs(self) -> Mapping[str, str]:
        return ASCII_SIGNS if self.plain_ascii else SIGNS


def command_text(command: list[str]) -> str:
    """What is run, as a person would type it: a script without the shell that reads it."""
    script = _script_of(command)
    return visible(shell_join(command) if script is None else script.strip("\n"), keep="\n\t")


def script_in(command_line: str) -> str:
    """The same of a command line, with nothing made visible: the script that a shell is given, else the whole line."""
    import shlex  # only an export has command lines

    try:
        script = _script_of(shlex.split(command_line))
    except ValueError:  # a quote that is not closed: not a line of ours
        script = None
    return command_line if script is None else script


def _script_of(command: list[str]) -> str | None:
    if len(command) == 3 and command[0].rpartition("/")[2] in SHELLS and command[1] in ("-c", "-lc"):
        return command[2]
    return None


def output_lines(output: str) -> list[str]:
    """What a program printed, line by line. A line it wrote over itself, as progress bars do, counts as several."""
    text = printable(output.replace("\r\n", "\n").replace("\r", "\n")).strip("\n")
    return text.split("\n") if text.strip() else []


def duration_words(seconds: float, *, precise: bool = False) -> str:
    """`14s`, `2m 05s`, `1h 02m`; precise: also `340ms` and `2.41s`."""
    if precise and seconds < 60:
        return f"{int(seconds * 1000)}ms" if seconds < 1 else f"{seconds:.2f}s"
    whole = int(seconds)
    if whole < 60:
        return f"{whole}s"
    return f"{whole // 60}m {whole % 60:02}s" if whole < 3600 else f"{whole // 3600}h {whole // 60 % 60:02}m"


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


def reading_words(reads: str, profile: PermissionProfile | None = None) -> str:
    """What confined commands can read: as a permission profile says, or by `[spindle.sandbox] read`.

    Where a profile lets everything be read, the setting still narrows that.
    """
    if profile is not None and not profile.reads_everywhere:
        return f"reads what the permission profile {visible(profile.name)} lets it read"
    if reads == "workspace":
        return "reads the workspace, the system and toolchains, nothing else of your home"
    return "reads everything that you can read"


def printable(text: str) -> str:
    """Prose, or what a program printed: it must not drive the terminal, nor hide a part of itself."""
    return readable(without_terminal_codes(text))
