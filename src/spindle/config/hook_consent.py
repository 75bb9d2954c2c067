"""A person's consent to hooks: in their config.toml, under `[hooks.state]`, where the reference program has it too."""

from __future__ import annotations

from collections.abc import Iterable

from spindle.config.writing import Edit, write_user_config
from spindle.protocol.hook_records import Hook


def give_consent(home: str, hooks: Iterable[Hook]) -> None:
    """From now on these hooks may run, as they are now."""
    _write(home, {hook.key: {"trusted_hash": hook.hash} for hook in hooks})


def take_consent_back(home: str, keys: Iterable[str]) -> None:
    _write(home, dict.fromkeys(keys))


def _write(home: str, state: dict[str, dict[str, str] | None]) -> None:
    write_user_config(home, [Edit(key="hooks.state", value=state, strategy="upsert")])
