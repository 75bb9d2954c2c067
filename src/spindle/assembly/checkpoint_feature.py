"""The checkpoints of a session, from its configuration."""

from __future__ import annotations

from spindle.assembly.record import Draft
from spindle.features.checkpoints.feature import Checkpoints
from spindle.features.checkpoints.recorder import Options


def make_checkpoints(draft: Draft) -> Checkpoints:
    config = draft.request.config
    spindle = config.spindle
    options = Options(
        enabled=spindle.checkpoints_enabled,
        max_bytes=spindle.checkpoints_max_bytes,
        max_age_days=spindle.checkpoints_max_age_days,
        max_file_bytes=spindle.checkpoints_max_file_bytes,
    )
    return Checkpoints(config.home, draft.thread_id, options, draft.request.clock, spindle.fence.protected)
