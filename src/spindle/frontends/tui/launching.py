"""What the command line asks of the interface. Light: it is read before the first paint."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING, Any

from spindle.config.schema import Config
from spindle.errors import UsageError
from spindle.frontends.options import Parsed, whole_number
from spindle.frontends.tui.lacking import missing_credential

if TYPE_CHECKING:
    from collections.abc import Sequence

    from spindle.model.client import ModelClient


class Launch:
    """Which thread to open, and what to say first. (No Struct: defining one takes time before the first paint.)"""

    def __init__(self, parsed: Parsed, words: list[str], config: Config) -> None:
        self.parsed = parsed
        self.config = config
        self.action = parsed.command[0] if parsed.command else ""
        """"resume" or "fork"; empty for a new thread."""
        self.is_newest = parsed.flag("last")
        rest = list(words)
        self.thread: str | None = None
        """The id, the beginning of it, or the name of the thread to go on with."""
        if self.action and not self.is_newest and rest:
            self.thread = rest.pop(0)
        if len(rest) > 1:
            raise UsageError(f"unexpected argument {rest[1]!r}; put the prompt into quotes")
        self.prompt = rest[0] if rest else ""
        self.images = [os.path.abspath(path) for path in parsed.many("image")]
        self.bypass = parsed.flag("dangerously_bypass_approvals_and_sandbox")
        self.client: ModelClient | None = None
        """A model to talk to instead of the configured provider's (the demo)."""
        self.notes: Sequence[str] = ()
        """Said when the thread is open."""
        self.draft = ""
        """What stands in the composer then, if nothing else was typed."""

    @property
    def picks(self) -> bool:
        """A person is to choose the thread."""
        return bool(self.action) and self.thread is None and not self.is_newest

    @property
    def asks_first(self) -> bool:
        """A question, or a list to choose from, comes before the composer."""
        return self.picks or self.config.trust_level is None or missing_credential(self.config) is not None

    @property
    def is_plain(self) -> bool:
        """Plain lines were asked for, or are all that the terminal can do."""
        from spindle.frontends.terminal import is_dumb  # light

        is_hinted = os.environ.get("SPINDLE_A11Y", "") not in ("", "0")
        return self.parsed.flag("plain") or self.config.tui.plain or is_hinted or is_dumb(os.environ)

    def request_fields(self) -> dict[str, Any]:
        """The fields of the SessionRequest beside the configuration."""
        return {
            "source": "cli",
            "originator": "codex_cli_rs",
            "thread": self.thread,
            "newest": self.is_newest,
            "any_folder": self.parsed.flag("all"),
            "fork": self.action == "fork",
            "fork_at": fork_point(self.parsed.value("at")),
            "bypass": self.bypass,
            "client": self.client,
            "pursues_goals": True,
        }


def clean_up() -> None:
    """Remove the folders of the demo, if it was played: the process may end without any tear-down of Python's."""
    if (practice := sys.modules.get("spindle.frontends.tui.practice")) is not None:
        practice.remove_scratch()


def fork_point(given: str | None) -> str | int | None:
    number = None if given is None else whole_number(given)
    return given if number is None else number
