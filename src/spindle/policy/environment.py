"""The environment a command of the model is given. Mappings in, a mapping out."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Literal

import msgspec

CORE_NAMES = frozenset(("HOME", "LOGNAME", "PATH", "SHELL", "USER", "USERNAME", "TMPDIR", "TEMP", "TMP"))
SECRET_WORDS = ("KEY", "SECRET", "TOKEN")
SECRET_NAMES = frozenset(("CODEX_API_KEY", "OPENAI_API_KEY"))
AGENT_SOCKETS = frozenset(("SSH_AUTH_SOCK",))
"""Never handed on unless the user names them; the active provider's and MCP servers' variables come on top."""

FIXED = {
    "CODEX_CI": "1",
    "NO_COLOR": "1",
    "TERM": "dumb",
    "LANG": "C.UTF-8",
    "LC_CTYPE": "C.UTF-8",
    "LC_ALL": "C.UTF-8",
    "COLORTERM": "",
    "PAGER": "cat",
    "GIT_PAGER": "cat",
    "GH_PAGER": "cat",
}
"""Set over everything else: no colours, no pagers, no surprises from a locale."""

NETWORK_DISABLED = "CODEX_SANDBOX_NETWORK_DISABLED"


class EnvironmentPolicy(msgspec.Struct, frozen=True, kw_only=True):
    """`[shell_environment_policy]` of the configuration."""

    inherit: Literal["all", "core", "none"] = "all"
    ignore_default_excludes: bool | None = None
    """True keeps names with KEY, SECRET or TOKEN in them, false drops them; None drops those the user does not name."""
    exclude: tuple[str, ...] = ()
    set: dict[str, str] = {}
    include_only: tuple[str, ...] = ()


def child_environment(
    parent: Mapping[str, str],
    policy: EnvironmentPolicy,
    *,
    secret_names: Collection[str] = (),
    network: bool = True,
    for_person: bool = False,
) -> dict[str, str]:
    """What a command inherits. `secret_names` are variables that hold keys of the agent itself.

    `for_person`: a person sees its output, in colours, a pager and a language of their own.
    """
    withheld = withheld_names(policy, secret_names)
    env: dict[str, str] = {}
    if policy.inherit != "none":
        for name, value in parent.items():
            if policy.inherit == "core" and name.upper() not in CORE_NAMES:
                continue
            if name in withheld or _matches(name, policy.exclude) or is_loader_variable(name):
                continue
            if _is_excluded_by_default(name, policy):
                continue
            env[name] = value
    env.update(policy.set)
    if policy.include_only:
        env = {name: value for name, value in env.items() if _matches(name, policy.include_only)}
    if not for_person:
        env.update(FIXED)
    if not network:
        env[NETWORK_DISABLED] = "1"
    return env


def withheld_names(policy: EnvironmentPolicy, secret_names: Collection[str] = ()) -> frozenset[str]:
    """Variables that no command gets, not even from a profile: those of the agent which the user does not name."""
    names = SECRET_NAMES | AGENT_SOCKETS | frozenset(secret_names)
    return frozenset(name for name in names if name not in policy.set and not _matches(name, policy.include_only))


def _is_excluded_by_default(name: str, policy: EnvironmentPolicy) -> bool:
    if policy.ignore_default_excludes or not any(word in name.upper() for word in SECRET_WORDS):
        return False
    return policy.ignore_default_excludes is not None or not _matches(name, policy.include_only)


def is_loader_variable(name: str) -> bool:
    """These make the dynamic loader run code in every program, whatever the command is."""
    return name in ("LD_PRELOAD", "LD_AUDIT") or name.startswith("DYLD_")


def _matches(name: str, patterns: Collection[str]) -> bool:
    return any(_matches_one(name.lower(), pattern.lower()) for pattern in patterns)


def _matches_one(name: str, pattern: str) -> bool:
    """`*` and `?` only: a bracket in a pattern is a bracket. Never slower than the product of the lengths."""
    at = mark = 0
    star = -1
    index = 0
    while at < len(name):
        if index < len(pattern) and pattern[index] in ("?", name[at]) and pattern[index] != "*":
            at, index = at + 1, index + 1
        elif index < len(pattern) and pattern[index] == "*":
            star, mark = index, at
            index += 1
        elif star >= 0:
            mark += 1
            at, index = mark, star + 1
        else:
            return False
    return pattern[index:].strip("*") == ""
