"""Models there are, and who is signed in."""

from __future__ import annotations

from spindle.api.shown import Account, ModelEntry
from spindle.auth.login import NotAKey, store_api_key
from spindle.auth.login import sign_out as forget_login
from spindle.auth.store import read_login
from spindle.config.schema import Config
from spindle.model.catalog import Catalog


def list_models(config: Config, include_hidden: bool) -> list[ModelEntry]:
    catalog = Catalog.load(config.model_catalog_json, config.spindle.models)
    rows = catalog.named if include_hidden else catalog.listed
    default = config.model or catalog.default_slug
    if default not in [row.slug for row in rows]:
        default = catalog.default_slug
    return [
        ModelEntry(
            id=row.slug,
            name=row.display_name,
            description=row.description or "",
            is_default=row.slug == default,
            hidden=row.visibility != "list",
            efforts=[level.effort for level in row.supported_reasoning_levels],
            default_effort=row.default_reasoning_level,
            context_window=row.context_window,
            input_modalities=list(row.input_modalities),
        )
        for row in rows
    ]


def read_account(config: Config) -> Account:
    provider = config.provider
    is_needed = (provider.is_openai or provider.requires_openai_auth) and not provider.env_key
    nobody = Account(type=None, provider=provider.id, requires_login=is_needed)
    login = read_login(config.login) if is_needed else None
    if login is None:
        return nobody
    if not login.uses_chatgpt:
        return Account(type="api_key", provider=provider.id, requires_login=is_needed)
    return Account(type="chatgpt", email=login.email, plan=login.plan, provider=provider.id, requires_login=is_needed)


def sign_in(config: Config, key: str) -> None:
    try:
        store_api_key(config.login, key.strip() if isinstance(key, str) else "")
    except NotAKey as error:
        raise ValueError(str(error)) from None  # the cause might quote the key


async def sign_out(config: Config) -> None:
    await forget_login(config.login)
