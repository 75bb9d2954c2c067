"""How to reach a model: a list of the ways that there really are, and the field for a key. Nothing is fetched here."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Literal

import msgspec

from spindle.config.oss import LocalServer
from spindle.config.schema import Config
from spindle.frontends.fit import counted, cut
from spindle.frontends.tui.keys import Key
from spindle.frontends.tui.shown import BLANK, Line, Span, line
from spindle.frontends.tui.text.clean import safe
from spindle.frontends.tui.view import View
from spindle.frontends.tui.views.field import Field
from spindle.frontends.tui.views.list import ListView, Row
from spindle.frontends.tui.views.rows import words
from spindle.model.provider import Provider

_SHOWN_MODELS = 4


class FromVariable(msgspec.Struct, frozen=True, kw_only=True):
    """A key that is in the environment already."""

    provider: Provider
    variable: str


class FromServer(msgspec.Struct, frozen=True, kw_only=True):
    """A model server on this computer."""

    server: LocalServer


class Other(msgspec.Struct, frozen=True):
    kind: Literal["chatgpt", "key", "demo", "quit"]


Way = FromVariable | FromServer | Other

KEY, CHATGPT, DEMO, QUIT = Other("key"), Other("chatgpt"), Other("demo"), Other("quit")


def ways(
    config: Config, environ: Mapping[str, str], servers: Sequence[LocalServer], *, can_quit: bool = True
) -> list[Row[Way]]:
    """Every way there is, the ones that need least first."""
    rows: list[Row[Way]] = []
    for way in _variables(config, environ):
        about = f"the key in {way.variable}"
        is_current = config.provider.id == way.provider.id and config.provider.env_key in (None, way.variable)
        rows.append(Row(value=way, name=f"Use {way.provider.name}", about=about, is_current=is_current))
    for server in servers:
        shown = ", ".join(server.models[:_SHOWN_MODELS])
        more = f" and {len(server.models) - _SHOWN_MODELS} more" if len(server.models) > _SHOWN_MODELS else ""
        place = "run by Spindle itself" if server.provider.runs_inside else server.provider.public_base_url
        about = f"on this computer, {place}: {shown}{more}"
        rows.append(
            Row(
                value=FromServer(server=server),
                name=f"Use {server.provider.name}",
                about=about if server.models else f"on this computer, {server.provider.public_base_url}",
                why_not="" if server.models else "it has no model yet",
                is_current=config.provider.id == server.provider.id,
            )
        )
    only_chatgpt = "forced_login_method is chatgpt" if config.forced_login_method == "chatgpt" else ""
    rows.append(Row(value=KEY, name="Enter an API key", about=_about_key(key_provider(config)), why_not=only_chatgpt))
    only_key = "forced_login_method is api" if config.forced_login_method == "api" else ""
    about = "in a browser, or with a code on another device"
    rows.append(Row(value=CHATGPT, name="Sign in with ChatGPT", about=about, why_not=only_key))
    rows.append(Row(value=DEMO, name="Try the offline demo", about="a practice model; no account, no network"))
    if can_quit:
        rows.append(Row(value=QUIT, name="Quit"))
    return rows


def key_provider(config: Config) -> Provider:
    """Which provider a key that is typed in is for: the configured one, unless it needs none."""
    provider = config.provider
    return provider if provider.env_key or provider.requires_openai_auth else config.providers["openai"]


def takes_stored_key(provider: Provider) -> bool:
    """Whether a key that is kept in auth.json would ever be sent to this provider."""
    return not provider.env_key and not provider.bearer_token and (provider.is_openai or provider.requires_openai_auth)


def _about_key(provider: Provider) -> str:
    if takes_stored_key(provider):
        return f"for {provider.name}; kept in auth.json, which only you can read"
    return f"for {provider.name}; for this session only"


def _variables(config: Config, environ: Mapping[str, str]) -> list[FromVariable]:
    """Which providers could be used with what is in the environment, the configured one first."""
    found: list[FromVariable] = []
    for variable in ("OPENAI_API_KEY", "CODEX_API_KEY") if config.forced_login_method != "chatgpt" else ():
        if environ.get(variable, "").strip():
            found.append(FromVariable(provider=config.providers["openai"], variable=variable))
    for provider in config.providers.values():
        if provider.env_key and environ.get(provider.env_key, "").strip():
            found.append(FromVariable(provider=provider, variable=provider.env_key))
    return sorted(found, key=lambda way: way.provider.id != config.provider.id)


class CredentialsView(ListView[Way]):
    """Which way to take; None when the person leaves, which means quit where nothing can be done without one."""

    def __init__(self, rows: list[Row[Way]], missing: str, *, comes_up: bool = False) -> None:
        """`missing` says why the question is asked; it `comes_up` where a person may be typing already."""
        super().__init__("How shall Spindle reach a model?", rows, note=f"{missing} /login changes it later.".strip())
        self.guards_typing = comes_up


class KeyView(View[str | None]):
    """A key that is typed or pasted, never shown. None = back to the list."""

    def __init__(self, provider: Provider, problem: str = "") -> None:
        """`problem` is what was wrong with the last one."""
        super().__init__()
        self._title = f"API key for {safe(provider.name)}"
        self._problem = problem
        self._field = Field(is_secret=True)
        self._cursor: tuple[int, int] | None = None

    @property
    def is_secret(self) -> bool:
        return True

    def key(self, key: Key) -> None:
        if key.name in ("esc", "ctrl-c"):
            self.settle(None)
        elif key.name == "enter":
            if text := self._field.text.strip():
                self.settle(text)
        else:
            self._field.key(key)

    def paste(self, text: str) -> None:
        self._field.paste(text.strip())

    def lines(self, width: int, height: int) -> list[Line]:
        head = words(self._title, width, "bold")
        if self._problem:
            head += words(f"■ {safe(self._problem)}", width, "error", hang=2)
        count = len(self._field.text)
        field = self._field.lines(width)
        if len(field) > 2:  # a key is long; how long is all there is to see of it
            field = [line(Span("> ", "accent"), Span(f"({counted(count, 'character')})", "dim"))]
        hint = [BLANK, line(Span(cut("Enter checks it with one request · Esc goes back", width), "dim"))]
        made = [*head, *field, *hint] if len(head) + len(field) + 2 <= height else [*head, *field]
        made = made[-max(1, height) :]
        above = next(number for number, each in enumerate(made) if each.spans[:1] == field[0].spans[:1])
        row, column = self._field.cursor() if len(field) == self._field.rows else (0, len("> "))
        self._cursor = above + row, min(column, width - 1)
        return made

    def cursor(self) -> tuple[int, int] | None:
        return self._cursor
