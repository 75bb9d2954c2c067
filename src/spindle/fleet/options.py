"""What the command line of a run asks for: options that a run remembers, and the part of the list that one is about."""

from __future__ import annotations

import os
from fnmatch import fnmatchcase
from typing import Any, Literal

import msgspec

from spindle.errors import UsageError

Keep = Literal["never", "failed", "always"]


class RunOptions(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What holds for the whole run: what is not given when it is resumed is as before."""

    engine: Literal["local", "ray"] = "local"
    address: str | None = None
    insecure_cluster: bool = False
    jobs: int | None = None
    workers: int | None = None
    per_worker: int | None = None
    timeout: float = 3600.0
    retries: int = 2
    max_cost: float | None = None
    max_tokens: int | None = None
    rpm: float | None = None
    tpm: float | None = None
    keep: Keep = "never"
    speculate: bool = False
    model: str | None = None
    profile: str | None = None
    sandbox: str = "workspace-write"
    config: list[str] = []
    """`-c KEY=VALUE`, in order."""
    output_schema: dict[str, Any] | None = None
    prompt: str | None = None


class Shape(msgspec.Struct, frozen=True, kw_only=True):
    """How much at a time."""

    jobs: int
    workers: int
    per_worker: int


def shape_of(options: RunOptions, nodes: int | None = None) -> Shape:
    """With the defaults of this machine, or of a cluster with so many nodes."""
    jobs = options.jobs or (8 * cores() if nodes is None else 32 * nodes)
    workers = min(jobs, options.workers or (min(cores(), jobs) if nodes is None else nodes))
    per_worker = options.per_worker or -(-jobs // workers)
    return Shape(jobs=min(jobs, workers * per_worker), workers=workers, per_worker=per_worker)


def cores() -> int:
    """Those that this process may use."""
    try:
        return len(os.sched_getaffinity(0))
    except AttributeError:
        return os.cpu_count() or 1


class Part(msgspec.Struct, frozen=True, kw_only=True):
    """Which tasks of the list one run is about; the next run does not remember it."""

    select: str | None = None
    limit: int | None = None
    shard: tuple[int, int] | None = None
    """Number I, from 1, of N."""
    retry: tuple[str, ...] = ()
    """Recorded tasks with these statuses are done again."""

    def of(self, ids: list[str]) -> list[str]:
        chosen = ids
        if self.shard is not None:
            number, count = self.shard
            chosen = chosen[number - 1 :: count]
        if self.select is not None:
            chosen = [task_id for task_id in chosen if fnmatchcase(task_id, self.select)]
        return chosen if self.limit is None else chosen[: self.limit]


def check_overrides(overrides: list[str]) -> None:
    """Refuse a secret in `-c`: it would be kept in the folder of the run, and told to workers on other machines."""
    if not overrides:
        return
    from spindle.policy.secrets import Secrets, is_telling  # few lines have -c

    for override in overrides:
        key, _, value = override.partition("=")
        last = key.strip().rpartition(".")[2].strip("\"'")
        names_variable = last.startswith("env_") or last.endswith(("_env_var", "_limit", "_url", "_path"))
        if (is_telling(last) and not names_variable) or Secrets().mask(value) != value:
            raise UsageError(
                f"-c {key.strip()}: a secret is refused here, because the options of a run are kept in its folder; put "
                "it into a variable or into config.toml"
            )
