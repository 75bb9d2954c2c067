"""The way from "no credentials" to a model: each choice of the list carried out, until one works."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from importlib.util import find_spec
from typing import Literal

import msgspec

from spindle.auth.checking import check_key
from spindle.auth.login import store_api_key, why_no_key
from spindle.config.oss import LocalServer, check_oss_server, find_local_servers
from spindle.config.providers import INSIDE
from spindle.config.schema import Config
from spindle.config.writing import Edit, write_user_config
from spindle.errors import SpindleError
from spindle.frontends.tui.desk import Desk
from spindle.frontends.tui.start import PROBE_S, Ready
from spindle.frontends.tui.text.clean import safe
from spindle.frontends.tui.views.credentials import (
    CredentialsView,
    FromServer,
    FromVariable,
    KeyView,
    Other,
    key_provider,
    takes_stored_key,
    ways,
)
from spindle.frontends.tui.views.list import ListView, Row
from spindle.model.provider import Provider

_FEW_MODELS = 9
_SAME = ""
"""The model that is configured."""


class CredentialChoice:
    """One round of choosing. `missing` is why it is asked; without one it is `/login`, which can be left."""

    def __init__(self, desk: Desk, config: Config, reload: Callable[[], Config], environ: Mapping[str, str]) -> None:
        self._desk = desk
        self._config = config
        self._reload = reload
        self._environ = environ

    async def ask(self, missing: str = "", *, comes_up: bool = False) -> Ready | None:
        while True:
            servers = [*await find_local_servers(self._config.providers, PROBE_S), *self._inside()]
            rows = ways(self._config, self._environ, servers, can_quit=bool(missing))
            view = CredentialsView(rows, missing, comes_up=comes_up)
            comes_up = False
            match await self._desk.ask(view):
                case FromVariable(provider=provider, variable=variable):
                    ready = self._use(msgspec.structs.replace(provider, env_key=variable), provider.id)
                case FromServer(server=server):
                    ready = await self._use_server(server)
                case Other(kind="key"):
                    ready = await self._enter_key()
                case Other(kind="chatgpt"):
                    ready = await self._sign_in()
                case Other(kind="demo"):
                    ready = self._practise()
                case _:
                    return None
            if ready is not None:
                return ready

    def _use(self, provider: Provider, id: str, model: str | None = _SAME) -> Ready | None:
        """Take this provider from now on: the next start finds it in config.toml."""
        config = self._config
        edits = [Edit(key="model_provider", value=id)] if config.provider.id != id else []
        if model not in (_SAME, config.model):
            edits.append(Edit(key="model", value=model))
        if edits:
            try:
                write_user_config(config.home, edits)
                config = self._reload()
            except SpindleError as error:
                self._desk.warn(f"{error}; it holds for this session only")
        model = config.model if model == _SAME else model
        return Ready(config=msgspec.structs.replace(config, provider=provider, model=model))

    # ---- a server on this computer -------------------------------------------------------------

    def _inside(self) -> list[LocalServer]:
        """The models that were added, if there are any and they can be run."""
        provider, home = self._config.providers[INSIDE.id], self._config.home
        if not provider.runs_inside or not os.path.isdir(f"{home}/spindle/models") or find_spec("xllamacpp") is None:
            return []
        from spindle.local.store import ModelStore  # only for those who have any

        models = tuple(model.name for model in ModelStore(home).all())
        return [LocalServer(provider=provider, models=models)] if models else []

    async def _use_server(self, server: LocalServer) -> Ready | None:
        try:
            if not server.provider.runs_inside:
                await check_oss_server(server.provider, self._environ)
        except SpindleError as error:
            self._desk.fail(str(error))
            return None
        model = server.models[0]
        if len(server.models) > 1:
            rows = [Row(value=name, name=name, is_current=name == self._config.model) for name in server.models]
            title = f"Which model of {server.provider.name}?"
            chosen = await self._desk.ask(ListView(title, rows, has_search=len(rows) > _FEW_MODELS))
            if chosen is None:
                return None
            model = chosen
        return self._use(server.provider, server.provider.id, model)

    # ---- ChatGPT -------------------------------------------------------------------------------

    async def _sign_in(self) -> Ready | None:
        from spindle.frontends.tui.chatgpt_sign_in import as_whom, sign_in_with_chatgpt  # once

        try:
            login = await sign_in_with_chatgpt(self._desk, self._config.login, self._environ)
        except SpindleError as error:
            self._desk.fail(f"Nobody was signed in: {error}")
            return None
        if login is None:
            return None
        self._desk.say(safe(as_whom(login)))
        provider = self._config.provider
        if not takes_stored_key(provider):
            provider = self._config.providers["openai"]
        return self._use(provider, provider.id, None if provider.id != self._config.provider.id else _SAME)

    # ---- a key that is typed -------------------------------------------------------------------

    async def _enter_key(self) -> Ready | None:
        provider, problem = key_provider(self._config), ""
        while True:
            key = await self._desk.ask(KeyView(provider, problem))
            if key is None:
                return None
            if (reason := why_no_key(key)) is not None:
                problem = f"this is not an API key: {reason}"
                continue
            if (refused := await check_key(provider, key, self._environ)) is not None:
                problem = refused.sentence
                if refused.is_certain:
                    continue
                kept = await self._desk.ask(_unchecked(problem))
                if kept == "again":
                    continue
                if kept != "keep":
                    return None
            return self._take_key(provider, key)

    def _take_key(self, provider: Provider, key: str) -> Ready | None:
        if not takes_stored_key(provider):
            given = msgspec.structs.replace(provider, env_key=None, bearer_token=key)
            return Ready(config=msgspec.structs.replace(self._config, provider=given))
        try:
            store_api_key(self._config.login, key)
        except SpindleError as error:
            self._desk.fail(str(error))
            return None
        self._desk.say("The key is stored in auth.json, which only you can read.")
        # A model that another provider has is not asked for here: the first of the catalogue is.
        return self._use(provider, provider.id, None if provider.id != self._config.provider.id else _SAME)

    # ---- no model at all -----------------------------------------------------------------------

    def _practise(self) -> Ready | None:
        from spindle.frontends.tui.practice import practice_request  # only for those who try it

        try:
            request = practice_request(self._environ)
        except (OSError, SpindleError) as error:
            self._desk.fail(f"the demo cannot start: {error}")
            return None
        return Ready(config=request.config, request=request)


def _unchecked(problem: str) -> ListView[Literal["again", "keep", "back"]]:
    """What to do with a key that nobody could check."""
    return ListView(
        "The key could not be checked",
        [
            Row(value="again", name="Enter it again"),
            Row(value="keep", name="Keep it unchecked", about="the first message shows whether it is good"),
            Row(value="back", name="Back to the list"),
        ],
        note=problem,
    )
