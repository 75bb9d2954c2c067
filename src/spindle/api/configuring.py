"""From the options of a client and of a thread to a `Config`: what a program says is laid over the user's files."""

from __future__ import annotations

import os
from collections.abc import Mapping
from datetime import date, time
from typing import TYPE_CHECKING, Any

import msgspec

from spindle.api.options import ThreadOptions, check_text
from spindle.api.taking_over import RecordedTurn
from spindle.config.keys import KEYS
from spindle.config.kinds import Layer, check_layer, dotted, unknown_key
from spindle.config.load import LoadOptions, load_config
from spindle.config.schema import Config
from spindle.config.sources import merge, overrides_layer, resolve_home
from spindle.errors import ConfigError, SpindleError, UsageError
from spindle.protocol.settings import PERSONALITIES, SUMMARIES, SandboxPolicy

if TYPE_CHECKING:
    from spindle.thread.reading import RolloutData

_TOML_TYPES = (str, int, float, list, date, time)


class ClientOptions(msgspec.Struct, frozen=True, kw_only=True):
    """What a client is made with."""

    config: Mapping[str, Any] | None = None
    home: str | os.PathLike[str] | None = None
    profile: str | None = None
    client_name: str = "spindle_python"

    def check(self) -> None:
        """Raise ValueError for a value that cannot be. Nothing is read for it."""
        check_text("profile", self.profile)
        name = self.client_name
        if not isinstance(name, str) or not name.strip() or not (name.isascii() and name.isprintable()):
            # It is a header of every request.
            raise ValueError(f"client_name must be a name of printable ASCII characters, not {name!r}")
        if self.home is not None:
            home = os.fspath(self.home) if isinstance(self.home, os.PathLike) else self.home
            if not isinstance(home, str) or not home or "\0" in home:
                raise ValueError(f"home must be the path of a folder, not {self.home!r}")


def home_of(options: ClientOptions) -> str:
    """The folder of the user's files. One that the program names is made; an explicit $CODEX_HOME must exist."""
    if options.home is None:
        return resolve_home(os.environ)
    home = os.path.realpath(os.path.expanduser(os.fspath(options.home)))
    try:
        os.makedirs(home, 0o700, exist_ok=True)
    except OSError as error:
        raise ConfigError(f"home {home!r} cannot be made: {error.strerror}") from error
    return home


def load(options: ClientOptions, home: str, thread: ThreadOptions) -> Config:
    """The configuration for a new thread, or (with empty thread options) for the client itself."""
    cwd = str(thread.cwd) if thread.cwd is not None else _current_folder()
    values = _laid_over(options.config, thread.config, cwd)
    asks = thread.on_approval is not None
    env = {**os.environ, "CODEX_HOME": home} if options.home is not None else os.environ

    how = LoadOptions(headless=not asks)

    def read(flags: dict[str, Any]) -> Config:
        return load_config(cwd=cwd, env=env, config=values, flags=flags, profile=options.profile, options=how)

    flags = _flags(thread)
    if (provider := flags.pop("model_provider", None)) is not None:
        known = read({}).providers
        if provider not in known:
            raise ValueError(f"model_provider is {provider!r}, but must be one of {', '.join(known)}")
        flags["model_provider"] = provider
    config = read(flags)
    is_chosen = {"sandbox_mode", "default_permissions"} & set(config.origins)
    allowed = config.allowed_sandbox_modes
    if asks and not is_chosen and (allowed is None or "read-only" in allowed):
        # As in `exec`: a trusted folder alone is no reason to write to it.
        config = msgspec.structs.replace(config, sandbox=SandboxPolicy(mode="read-only"))
    return config


def recorded(config: Config, thread: ThreadOptions, data: RolloutData, turn: RecordedTurn) -> Config:
    """The same for a recorded thread: what the program leaves out is as in the thread's last turn, if that is ours.

    `thread` is as the program gave it.
    """
    context, said = turn.context, set(thread.config or ())
    changes = turn.permissions(
        config,
        approval=thread.on_approval is not None and thread.approval_policy is None and "approval_policy" not in said,
        sandbox=thread.sandbox is None and not {"sandbox_mode", "default_permissions"} & said,
        cwd=thread.cwd is None,
    )
    # A model of another provider is no use here.
    is_same_provider = turn.provider in (None, config.provider.id)
    if thread.model is None and "model" not in said and is_same_provider and isinstance(context.get("model"), str):
        changes["model"] = context["model"]
        if thread.effort is None and "model_reasoning_effort" not in said:
            changes["model_reasoning_effort"] = context.get("effort")
    if thread.summary is None and "model_reasoning_summary" not in said and context.get("summary") in SUMMARIES:
        changes["model_reasoning_summary"] = context["summary"]
    if thread.personality is None and "personality" not in said and context.get("personality") in PERSONALITIES:
        changes["personality"] = context["personality"]
    return msgspec.structs.replace(config, **changes) if changes else config


def recorded_options(thread: ThreadOptions, turn: RecordedTurn) -> ThreadOptions:
    """The options with the folder and the mode of the thread's last turn where they name none."""
    mode = turn.context.get("collaboration_mode")
    is_planning = isinstance(mode, dict) and mode.get("mode") == "plan"
    return msgspec.structs.replace(
        thread,
        cwd=thread.cwd if thread.cwd is not None else turn.folder(_current_folder()),
        mode=thread.mode or ("plan" if is_planning else None),
    )


def _flags(thread: ThreadOptions) -> dict[str, Any]:
    said = {
        "model": thread.model,
        "model_provider": thread.model_provider,
        "sandbox_mode": thread.sandbox,
        "approval_policy": thread.approval_policy,
        "model_reasoning_effort": thread.effort,
        "model_reasoning_summary": thread.summary,
        "personality": thread.personality,
        "developer_instructions": thread.developer_instructions,
        "add_dirs": thread.add_dirs,
    }
    return {key: value for key, value in said.items() if value is not None}


def _laid_over(below: Mapping[str, Any] | None, above: Mapping[str, Any] | None, cwd: str) -> dict[str, Any]:
    """The two mappings as one of nested tables, checked: a mistake in a program is an error, not a warning."""
    values: dict[str, Any] = {}
    for given in (below, above):
        if given is not None:
            merge(values, _checked(given, cwd), {})
    return values


def _checked(given: Mapping[str, Any], cwd: str) -> Layer:
    if not isinstance(given, Mapping):
        raise ConfigError(f"config must be a mapping, not {type(given).__name__}")
    try:
        layer = overrides_layer((), _plain(given), cwd)
    except UsageError as error:
        raise ConfigError(f"config: {str(error).removeprefix('-c: ')}") from error
    layer.label = "config"
    hooks = layer.values.pop("hooks", None)
    _refuse_foreign(layer.values)
    check_layer(layer, KEYS, _refuse_unknown)
    if hooks is not None:
        layer.values["hooks"] = hooks
    return layer


def _refuse_foreign(values: Mapping[str, Any], *above: str) -> None:
    """What no file could say: TOML has no word for other objects of Python."""
    for key, value in values.items():
        if isinstance(value, Mapping):
            _refuse_foreign(value, *above, key)
        elif not isinstance(value, _TOML_TYPES):
            raise ConfigError(f"config: {dotted((*above, key))} cannot be of the type {type(value).__name__}")


def _refuse_unknown(layer: Layer, path: tuple[str, ...], known: Mapping[str, Any]) -> None:
    raise ConfigError(f"config: {unknown_key(path, known)}")


def _plain(value: Any) -> Any:
    """A copy in the types that a file would give, None left out; the program's own mapping is never changed."""
    if isinstance(value, Mapping):
        return {str(key): _plain(entry) for key, entry in value.items() if entry is not None}
    if isinstance(value, list | tuple):
        return [_plain(entry) for entry in value]
    return os.fspath(value) if isinstance(value, os.PathLike) else value


def _current_folder() -> str:
    try:
        return os.getcwd()
    except OSError as error:
        raise SpindleError("the current folder no longer exists; give the thread a cwd") from error
