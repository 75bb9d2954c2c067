"""What is asked before the composer: whether the folder is trusted, then how to reach a model. Usually nothing.

    ready = await before_composer(desk, reload)
    if ready is None:
        return            # the person quit
    request = ready.apply(request)

`/login` asks the second question again (`ask_credentials`).
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping

import msgspec

from spindle.api.door import SessionRequest
from spindle.config.schema import Config
from spindle.errors import ConfigError, SpindleError
from spindle.frontends.tui.desk import Desk
from spindle.frontends.tui.lacking import missing_credential
from spindle.frontends.tui.views.trust import TrustView
from spindle.workspace.git import find_root

PRACTICE_PROVIDER = "practice"
"""What the demo calls the provider that it does not have."""
PROBE_S = 0.3
"""How long servers on this computer may take to answer before the list is shown without them."""


class Ready(msgspec.Struct, frozen=True, kw_only=True):
    """A session can be opened: with this configuration, or as the whole request says (the demo)."""

    config: Config
    request: SessionRequest | None = None

    def apply(self, request: SessionRequest) -> SessionRequest:
        """The request for the session, with what was decided here."""
        return self.request if self.request is not None else msgspec.structs.replace(request, config=self.config)


async def before_composer(
    desk: Desk, reload: Callable[[], Config], environ: Mapping[str, str] = os.environ
) -> Ready | None:
    """Trust, then credentials; each only where the answer is not known. None when the person quits."""
    config = desk.config
    was_asked = config.trust_level is None
    if was_asked:
        trusted = await ask_trust(desk, config, reload)
        if trusted is None:
            return None
        config = trusted
    missing = missing_credential(config, environ)
    if missing is None:
        return Ready(config=config)
    return await ask_credentials(desk, config, reload, environ=environ, missing=missing, comes_up=not was_asked)


async def sign_in_again(desk: Desk, reload: Callable[[], Config]) -> Ready | None:
    """`/login`: another way to a model; from the demo, the way to a first one. None when nothing changes."""
    config: Config | None = desk.config
    if is_practice(desk.config):
        config = reload()
        if config.trust_level is None:
            config = await ask_trust(desk, config, reload)
    return None if config is None else await ask_credentials(desk, config, reload)


def is_practice(config: Config) -> bool:
    """The session is the demo's: nothing of it is the user's."""
    return config.provider.id == PRACTICE_PROVIDER


# ---- trust -----------------------------------------------------------------------------------------


async def ask_trust(desk: Desk, config: Config, reload: Callable[[], Config]) -> Config | None:
    """Ask, save the answer, and read the configuration anew. None when the person quits."""
    folder = trust_folder(config.cwd)
    level = await desk.ask(TrustView(folder))
    if level is None or level == "quit":
        return None
    try:
        save_trust(config.home, folder, level)
        return reload()
    except SpindleError as error:
        desk.warn(f"{error}; going on without trust")
        return config


def trust_folder(cwd: str) -> str:
    """The folder that trust is about: the root of the git working tree around it, else the folder itself."""
    real = os.path.realpath(cwd)
    return find_root(real) or real


def save_trust(home: str, folder: str, level: str) -> None:
    from spindle.config.writing import Edit, write_user_config  # only those who change the file

    try:
        # As a table: in a dotted key not every path could be spelt.
        write_user_config(home, [Edit(key="projects", value={folder: {"trust_level": level}}, strategy="upsert")])
    except UnicodeEncodeError as error:
        raise ConfigError(f"{folder!r} is not valid text, so trust in it cannot be saved") from error


# ---- credentials -----------------------------------------------------------------------------------


async def ask_credentials(
    desk: Desk,
    config: Config,
    reload: Callable[[], Config],
    *,
    environ: Mapping[str, str] = os.environ,
    missing: str = "",
    comes_up: bool = False,
) -> Ready | None:
    """Ask until there is a way to a model. None when the person quits, or leaves `/login` as it was.

    `missing` is why it is asked; it `comes_up` when nobody asked for it, while a person may be typing already.
    """
    from spindle.frontends.tui.credential_choice import CredentialChoice  # most sessions have a credential

    return await CredentialChoice(desk, config, reload, environ).ask(missing, comes_up=comes_up)
