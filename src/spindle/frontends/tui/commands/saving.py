"""Keeping what was chosen: changes to the user's `config.toml`, and what to say about them."""

from __future__ import annotations

import asyncio
from typing import Any

from spindle.config.schema import Config
from spindle.config.writing import Edit, write_user_config
from spindle.errors import ConfigError
from spindle.frontends.tui.desk import Desk


async def save(desk: Desk, **values: Any) -> str:
    """Write keys (`__` for a dot) to the user's file; gives the end of a sentence about it. None takes a key out."""
    return await save_keys(desk.config, {name.replace("__", "."): value for name, value in values.items()})


async def save_keys(config: Config, values: dict[str, Any]) -> str:
    edits = [Edit(key=key, value=value) for key, value in values.items()]
    try:
        await asyncio.to_thread(write_user_config, config.home, edits)
    except ConfigError as error:
        return f"for this session only, since it could not be saved: {error}"
    stronger = [origin for key in values if (origin := config.origins.get(key)) and _is_stronger(origin, config)]
    where = f"{config.home}/config.toml"
    if stronger:
        return f"saved in {where}, though {stronger[0]} has the last word here at the next start"
    return f"saved in {where}"


def _is_stronger(origin: str, config: Config) -> bool:
    """Does this place overrule the user's own file?"""
    return not origin.startswith((f"{config.home}/config.toml", "/etc/codex/config.toml"))
