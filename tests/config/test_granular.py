"""What a granular approval policy closes stays closed wherever its settings are handed on."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from config.throwaway import Setup
from spindle.assembly.options import settings_from
from spindle.assembly.review_feature import _reviewer_config  # pyright: ignore[reportPrivateUsage]
from spindle.config.roles import config_for_agent
from spindle.config.schema import Config
from spindle.core.settings import apply_op
from spindle.frontends.acp.modes import change
from spindle.frontends.tui.commands.status import permission_words
from spindle.frontends.tui.commands.threads import going_on
from spindle.protocol.ops import OverrideTurnContext
from spindle.protocol.settings import Allowed, Granular, ThreadSettings

CLOSED = Granular(rules=True)
TABLE = {"granular": {"rules": True}}


@pytest.mark.parametrize(
    "handed_on",
    [
        lambda config, settings: config_for_agent(config, settings, None, ""),
        _reviewer_config,
        going_on,
    ],
    ids=["sub-agent", "reviewer", "new thread"],
)
def test_who_goes_on_with_a_threads_settings_asks_no_more(
    setup: Setup, handed_on: Callable[[Config, ThreadSettings], Config]
) -> None:
    config = setup.load()
    settings = apply_op(settings_from(config, "m"), OverrideTurnContext(approval_policy=TABLE), Allowed())
    assert (config.granular, settings.granular) == (None, CLOSED)
    assert handed_on(config, settings).granular == CLOSED


def test_a_mode_of_an_editor_asks_no_more(setup: Setup) -> None:
    setup.user("approval_policy = { granular = { rules = true } }")
    config = setup.load()
    assert settings_from(config, "m").granular == CLOSED
    changed = apply_op(settings_from(config, "m"), change("auto", config), Allowed())
    assert (changed.sandbox.mode, changed.granular) == ("workspace-write", CLOSED)


def test_status_names_what_gets_a_no(setup: Setup) -> None:
    setup.user("approval_policy = { granular = { rules = true, sandbox_approval = true, skill_approval = true } }")
    words = permission_words(settings_from(setup.load(), "m"))
    assert words.endswith("; a no without asking: request_permissions, mcp_elicitations")
