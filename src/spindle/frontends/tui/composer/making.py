"""What the configuration puts around the composer."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from spindle.config.schema import Config
from spindle.frontends.tui.composer.composer import Composer, Host
from spindle.frontends.tui.composer.past_messages import PastMessages
from spindle.frontends.tui.composer.popup import Command, Skill
from spindle.frontends.tui.composer.saved import DraftFile
from spindle.protocol.clock import Clock

if TYPE_CHECKING:
    from spindle.frontends.tui.composer.files import FileSearch


def furnish(
    composer: Composer,
    config: Config,
    host: Host,
    clock: Clock,
    *,
    commands: Callable[[], Sequence[Command]] = tuple,
    skills: Callable[[], Sequence[Skill]] = tuple,
) -> None:
    """Give a composer what the configuration puts around it. `commands` and `skills` are asked when a list opens."""

    def files(found: Callable[[], None]) -> FileSearch:
        from spindle.frontends.tui.composer.files import FileSearch  # only with the first @

        return FileSearch(config.cwd, clock, found)

    is_kept = config.history_persistence == "save-all"
    composer.furnish(
        host,
        cwd=config.cwd,
        past=PastMessages(config.home, clock, is_kept=is_kept, max_bytes=config.history_max_bytes),
        draft_file=DraftFile(config.home, config.cwd, clock),
        commands=commands,
        skills=skills,
        files=files,
    )
