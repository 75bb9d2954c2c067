"""The operator's configuration: read once by the driver, handed on as data without a secret, and made a `Config` for
each task by the workers.

What a worker's own node knows, keys above all, it reads there itself: the data is laid over the node's own files.
Nothing of a repository is read for it.
"""

from __future__ import annotations

import copy
import os
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import msgspec

from spindle.config.load import LoadOptions, load_config, read_values
from spindle.config.schema import Config
from spindle.fleet.attempt.places import Place
from spindle.fleet.exchange import Task, Terms
from spindle.model.catalog import Catalog
from spindle.model.prices import known_prices
from spindle.policy.secrets import Secrets, is_telling
from spindle.protocol.request import Prices

_CREDENTIALS = (
    *(".ssh", ".gnupg", ".aws", ".azure", ".kube", ".netrc", ".git-credentials", ".pypirc", ".password-store"),
    *(".docker/config.json", ".config/gcloud", ".config/gh", ".config/git/credentials", ".config/containers/auth.json"),
)
"""Where people keep what opens other doors, below their home."""
_OF_DRIVER = ("profile", "profiles", "projects", "hooks", "notify", "tui", "history")
"""What is settled by now, or is for somebody who sits before a screen."""


def read_settings(
    *,
    env: Mapping[str, str],
    cwd: str,
    overrides: Sequence[str] = (),
    model: str | None = None,
    profile: str | None = None,
) -> dict[str, Any]:
    """`Terms.settings`: what the operator's files, `-c`, `-m` and `-p` come to, without secrets. Raises ConfigError."""
    flags = {} if model is None else {"model": model}
    values = read_values(cwd=cwd, env=env, overrides=overrides, flags=flags, profile=profile)
    kept = {key: value for key, value in values.items() if key not in _OF_DRIVER}
    return _without_secrets(kept, Secrets())


def _without_secrets(table: Mapping[str, Any], secrets: Secrets) -> dict[str, Any]:
    """A worker adds what is left out here from its own node."""
    return {
        key: _without_secrets(value, secrets) if isinstance(value, Mapping) and not _names_variables(key) else value
        for key, value in table.items()
        if _names_variables(key) or not _is_secret(key, value, secrets)
    }


def _names_variables(key: str) -> bool:
    """The names of variables that hold secrets are none."""
    return key.startswith("env_") or key.endswith("_env_var")


def _is_secret(key: str, value: Any, secrets: Secrets) -> bool:
    if isinstance(value, list):
        return any(_is_secret(key, one, secrets) for one in value)
    return isinstance(value, str) and (is_telling(key) or secrets.mask(value) != value)


class Operator:
    """The configuration of a worker's attempts, made once and varied for each."""

    def __init__(self, terms: Terms, nowhere: str, environ: Mapping[str, str] | None = None) -> None:
        """`nowhere` is an empty folder: no project is around it."""
        self._terms = terms
        self._nowhere = nowhere
        self._environ = {**(os.environ if environ is None else environ), "CODEX_HOME": terms.home}
        self._hidden = tuple(map(os.path.realpath, (terms.cache, terms.out, terms.home)))
        self._skills = os.path.realpath(f"{terms.home}/skills")
        self._made: dict[bytes, Config] = {}
        self._prices: dict[tuple[str, str, str | None], Prices | None] = {}

    def config_for(self, task: Task, place: Place, base_mirror: str) -> Config:
        """What a session for the task is opened with. Raises ConfigError."""
        config = self._config(task)
        spindle = config.spindle
        fence = msgspec.structs.replace(
            spindle.fence,
            hidden=(*spindle.fence.hidden, *self._hidden),
            shown=(*spindle.fence.shown, self._skills, *map(os.path.realpath, (base_mirror, place.home))),
            deny_read=(*spindle.fence.deny_read, *self._credentials()),
        )
        if config.sandbox.is_full_access:
            fence = spindle.fence
        environment = msgspec.structs.replace(
            config.environment,
            set={**config.environment.set, "CODEX_HOME": place.home, "TMPDIR": place.tmp},
        )
        return msgspec.structs.replace(
            config,
            home=place.home,
            operator_home=self._terms.home,
            cwd=place.work,
            environment=environment,
            log_dir=f"{place.home}/log",
            spindle=msgspec.structs.replace(spindle, fence=fence, checkpoints_enabled=False, memory=False),
        )

    def _config(self, task: Task) -> Config:
        key = msgspec.json.encode((task.model, task.config))
        if key not in self._made:
            flags: dict[str, Any] = {"sandbox_mode": self._terms.sandbox}
            if task.model is not None:
                flags["model"] = task.model
            config = load_config(
                cwd=self._nowhere,
                env=self._environ,
                config={**copy.deepcopy(self._terms.settings), **dict(_flat(task.config))},
                flags=flags,
                options=LoadOptions(headless=True),
            )
            # The programs of the operator's own desk have no part in a run without one.
            self._made[key] = msgspec.structs.replace(config, notify=(), trust_level=None)
        return self._made[key]

    def _credentials(self) -> list[str]:
        person = self._environ.get("HOME", "")
        places = [f"{person}/{name}" for name in _CREDENTIALS] if os.path.isabs(person) else []
        return [path for path in places if os.path.lexists(path)]

    # ---- prices --------------------------------------------------------------------------------

    def prices(self, task: Task, provider: str, model: str, tier: str | None) -> Prices | None:
        """In dollars a million tokens; None where nobody knows."""
        key = (provider, model, tier)
        if key not in self._prices:
            self._prices[key] = find_prices(self._config(task), provider, model, tier)
        return self._prices[key]

    def has_price(self, task: Task) -> bool:
        """Is it known what the task's model costs? Raises ConfigError when the task's configuration cannot be."""
        config = self._config(task)
        model = config.model or _catalog(config).default_slug
        return self.prices(task, config.provider.id, model, config.service_tier) is not None


def _flat(table: Mapping[str, Any], before: str = "") -> Iterator[tuple[str, Any]]:
    """Tables as dotted keys, so that they are laid over what is there and do not take its place."""
    for key, value in table.items():
        name = f"{before}{key}" if not before or key.replace("_", "").replace("-", "").isalnum() else f'{before}"{key}"'
        if isinstance(value, Mapping):
            yield from _flat(value, f"{name}.")
        else:
            yield name, value


def find_prices(config: Config, provider: str, model: str, tier: str | None) -> Prices | None:
    found = known_prices(model, _catalog(config), config.spindle.price_list, provider=provider)
    if found is None:
        return None
    return found.prices if found.source.startswith("configuration") else found.prices.at_tier(tier)


def _catalog(config: Config) -> Catalog:
    return Catalog.load(config.model_catalog_json, config.spindle.models)
