"""Telling a person who looks elsewhere: notifications, and the title of the terminal."""

from __future__ import annotations

from collections.abc import Callable

from spindle.config.schema import TuiSettings

LONGEST = 80


class Attention:
    """Calls for a person when something waits for them and the terminal has not the focus."""

    def __init__(self, settings: TuiSettings, notify: Callable[[str], None]) -> None:
        self.settings = settings
        self._notify = notify
        self.has_focus = True
        """Terminals that do not tell are taken to be looked at."""

    def call(self, kind: str, text: str) -> None:
        """`kind` as `[tui] notifications` names it: agent-turn-complete, approval-requested, …"""
        wanted = self.settings.notifications
        if wanted is False or (isinstance(wanted, tuple) and kind not in wanted):
            return
        if self.has_focus and self.settings.notification_condition == "unfocused":
            return
        self._notify(text)
