"""The configuration that a recorded thread goes on with, for front ends whose client names no settings."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import msgspec

from spindle.api.taking_over import RecordedTurn
from spindle.config.schema import Config
from spindle.protocol.clock import Clock

if TYPE_CHECKING:
    from spindle.thread.reading import RolloutData


def recorded_config(
    data: RolloutData, present: Config, clock: Clock, load: Callable[[str | None], Config], cwd: str | None = None
) -> Config:
    """Settings as in the thread's last turn, if the record is ours; `load` reads the configuration for a folder.

    `present` is the configuration of the front end itself, `cwd` the folder that the client names.
    """
    recorded = RecordedTurn.of(data, present.home, clock)
    config = load(cwd or recorded.folder(present.cwd, present.spindle.fence.protected))
    changes: dict[str, Any] = recorded.permissions(config, approval=True, sandbox=True, cwd=cwd is None)
    model = recorded.context.get("model")
    # A model of another provider is no use here.
    if data.meta.get("model_provider") in (None, config.provider.id) and isinstance(model, str) and model:
        changes |= {"model": model, "model_reasoning_effort": recorded.context.get("effort")}
    return msgspec.structs.replace(config, **changes) if changes else config
