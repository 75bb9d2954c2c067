"""What all front ends share of starting up: the way from the common options to a Config."""

from __future__ import annotations

import os
import sys
from typing import Any

import msgspec

from spindle.config.keys import FEATURES, REFERENCE_FEATURES
from spindle.config.load import LoadOptions, load_config
from spindle.config.providers import INSIDE, OSS_MODELS
from spindle.config.schema import Config
from spindle.config.sources import resolve_home
from spindle.errors import UsageError
from spindle.frontends.options import Parsed, nearest
from spindle.protocol.ops import ConfigureSession
from spindle.protocol.quote import shell_join
from spindle.protocol.settings import SandboxPolicy
from spindle.workspace.git import find_repository


def config_from(
    parsed: Parsed,
    *,
    headless: bool = False,
    cwd: str | None = None,
    config: dict[str, Any] | None = None,
    flags: dict[str, Any] | None = None,
    profile: str | None = None,
) -> Config:
    """Everything the user configured, for the folder the command line names; `config` is what a client adds.

    `flags` and `profile` are what a client says in the place of the command line's.
    """
    return load_config(
        cwd=working_folder(cwd or parsed.value("cd")),
        config=config,
        env=os.environ,
        overrides=overrides_from(parsed),
        flags=flags_from(parsed) | (flags or {}),
        profile=profile or parsed.value("profile"),
        options=LoadOptions(
            headless=headless,
            strict=parsed.flag("strict_config"),
            ignore_user_config=parsed.flag("ignore_user_config"),
            ignore_rules=parsed.flag("ignore_rules"),
            skip_hook_consent=parsed.flag("dangerously_bypass_hook_trust"),
        ),
    )


async def use_local_server(config: Config, parsed: Parsed) -> Config:
    """With --oss: a model server on this machine and, unless one is named, its usual model."""
    asked_for = parsed.value("local_provider")
    if not parsed.flag("oss") and asked_for is None:
        return config
    if (asked_for or config.oss_provider) == INSIDE.id:
        return msgspec.structs.replace(config, provider=config.providers[INSIDE.id], model=parsed.value("model"))
    from spindle.config.oss import check_oss_server, choose_oss_provider, has_model  # only --oss asks servers first

    provider = await choose_oss_provider(asked_for, config.oss_provider, config.providers, os.environ)
    await check_oss_server(provider, os.environ)
    model = parsed.value("model") or OSS_MODELS[provider.id]
    if not await has_model(provider, model, os.environ):
        from spindle.frontends.pulling import get_model  # once for each model

        await get_model(provider, model)
    return msgspec.structs.replace(config, provider=provider, model=model)


def kept_options(parsed: Parsed, config: Config, model: str | None) -> list[str]:
    """What the command that goes on with a thread must ask for, because this command line did; `model` is today's.

    What was said to a model on this computer must not go to another one unasked.
    """
    words = ["--oss"] if parsed.flag("oss") else []
    for name, key in (("--local-provider", "local_provider"), ("-p", "profile"), ("-m", "model"), ("-C", "cd")):
        if (value := parsed.value(key)) is not None and (key != "model" or value == model):
            words += [name, value]
    if config.origins.get("model_provider") == "-c":
        words += ["-c", f"model_provider={config.provider.id}"]
    return words


def way_back(thread_id: str, config: Config, parsed: Parsed) -> str:
    """The command that goes on with a thread of `exec` as this command line asked, but never with the run of the
    machine."""
    words = kept_options(parsed, config, parsed.value("model"))
    mode = config.sandbox.mode
    if config.origins.get("sandbox_mode") == "command line" and mode == "workspace-write":
        words += ["-s", mode]
    return shell_join(["spindle", "exec", "resume", *words, thread_id])


def working_folder(given: str | None) -> str:
    try:
        cwd = os.path.realpath(given or os.getcwd())
        if os.path.isdir(cwd):
            return cwd
    except FileNotFoundError as error:
        raise UsageError("the current folder no longer exists; use -C DIR") from error
    except ValueError:  # no path at all: a NUL, or text that no file name can hold
        pass
    if given is None:  # a folder above it may not be searched, or its path is longer than the system takes
        raise UsageError("the current folder cannot be reached by its path; use -C DIR")
    raise UsageError(f"{given!r}: no such folder (-C)")


def flags_from(parsed: Parsed) -> dict[str, Any]:
    """Command-line flags as configuration keys; these beat every file."""
    flags: dict[str, Any] = {}
    if (model := parsed.value("model")) is not None:
        flags["model"] = model
    bypass = parsed.flag("dangerously_bypass_approvals_and_sandbox")
    if bypass and (parsed.value("ask_for_approval") or parsed.flag("full_auto")):
        raise UsageError("--dangerously-bypass-approvals-and-sandbox does not go with -a or --full-auto")
    if parsed.flag("full_auto"):
        flags |= {"approval_policy": "on-request", "sandbox_mode": "workspace-write"}
    if (sandbox := parsed.value("sandbox")) is not None:
        flags["sandbox_mode"] = sandbox
    if (permissions := parsed.value("permission_profile")) is not None:
        flags["default_permissions"] = permissions
    if (policy := parsed.value("ask_for_approval")) is not None:
        flags["approval_policy"] = policy
    if bypass:
        flags |= {"approval_policy": "never", "sandbox_mode": "danger-full-access"}
    if parsed.flag("search"):
        flags["web_search"] = "live"
    if folders := parsed.many("add_dir"):
        flags["add_dirs"] = [os.path.abspath(folder) for folder in folders]
    return flags


def warn_of_bypass(parsed: Parsed) -> None:
    """Say that nothing is fenced in: whoever reads the log may not be the one who started this run."""
    if parsed.flag("dangerously_bypass_approvals_and_sandbox"):
        print("warning: no sandbox and no approvals; commands of the model run with all your rights", file=sys.stderr)


def overrides_from(parsed: Parsed) -> list[str]:
    """What `-c`, --enable, --disable and --max-… say, as `key=value`."""
    return [*parsed.many("config"), *_feature_overrides(parsed), *_budget_overrides(parsed)]


def unknown_feature(name: str) -> str | None:
    """What to say of a feature's name that neither we nor Codex know; None for one that is known."""
    known = (*FEATURES, *REFERENCE_FEATURES)
    if name in known:
        return None
    near = nearest(name, known)
    hint = f"did you mean `{near}`?" if near else "`spindle features list` shows those there are"
    return f"unknown feature {name!r}; {hint}"


def _feature_overrides(parsed: Parsed) -> list[str]:
    for name in (*parsed.many("enable"), *parsed.many("disable")):
        if (problem := unknown_feature(name)) is not None:
            raise UsageError(problem)
    return [f"features.{name}=true" for name in parsed.many("enable")] + [
        f"features.{name}=false" for name in parsed.many("disable")
    ]


def _budget_overrides(parsed: Parsed) -> list[str]:
    """What a turn may use, as the command line says it."""
    overrides: list[str] = []
    for name, kind in (("max_requests", int), ("max_tokens", int), ("max_cost", float)):
        if (given := parsed.value(name)) is None:
            continue
        try:
            value = kind(given)
            if not 0 <= value < 1e18:
                raise ValueError
        except ValueError:
            what = "a number" if kind is float else "an integer"
            raise UsageError(f"--{name.replace('_', '-')} takes {what} of 0 or more, not {given!r}") from None
        overrides.append(f"spindle.budget.{name}={value!r}")
    return overrides


def is_inside_repository(cwd: str) -> bool:
    return find_repository(cwd) is not None


def image_items(paths: list[str]) -> list[dict[str, Any]]:
    return [{"type": "local_image", "path": os.path.abspath(path)} for path in paths]


def home_from() -> str:
    """The home of the user's files, for commands that need nothing else of the configuration."""
    return resolve_home(os.environ)


def config_for_op(config: Config, op: ConfigureSession, parsed: Parsed) -> Config:
    """The configuration for a session that a client asks for; a field it leaves out keeps the user's value."""
    given: dict[str, Any] = dict(op.config or {})
    if op.provider is not None:
        provider_id = str(op.provider.get("name") or "client")
        if provider_id not in config.providers:
            table = {key: value for key, value in op.provider.items() if value is not None}
            given["model_providers"] = {provider_id: table}
        given["model_provider"] = provider_id
    sandbox = SandboxPolicy.from_wire(op.sandbox_policy) if op.sandbox_policy is not None else None
    wanted = {
        "model": op.model,
        "model_provider": op.model_provider,
        "approval_policy": op.approval_policy,
        "sandbox_mode": sandbox.mode if sandbox is not None else None,
        "model_reasoning_effort": op.effort or op.model_reasoning_effort,
        "model_reasoning_summary": op.summary or op.model_reasoning_summary,
        "personality": op.personality,
        "developer_instructions": op.developer_instructions,
    }
    given |= {key: value for key, value in wanted.items() if value is not None}
    if not given and op.cwd is None:
        return config
    loaded = config_from(parsed, cwd=op.cwd or config.cwd, config=given)
    return msgspec.structs.replace(loaded, sandbox=sandbox) if sandbox is not None else loaded
