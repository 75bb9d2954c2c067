"""A permission profile at work in one folder: the names and globs of its rules as absolute paths, and what they allow.

Of all rules that hold for a path, those count that name the most of it; of several such, `deny` before `write` before
`read`. What no rule names is closed. How that becomes mounts is `process/sandbox`.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping

import msgspec

from spindle.policy import deny
from spindle.protocol.settings import ACCESSES, Access, PathRule, PermissionProfile

ROOT, MINIMAL, WORKSPACE, TMPDIR, SLASH_TMP = ":root", ":minimal", ":workspace_roots", ":tmpdir", ":slash_tmp"
SPECIAL_PLACES = (ROOT, MINIMAL, WORKSPACE, ":project_roots", TMPDIR, SLASH_TMP)

_MINIMAL_SYSTEM = (
    *("/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32", "/usr", "/etc"),
    *("/nix/store", "/run/current-system/sw"),
)
"""`:minimal`: programs, libraries and their settings; no home, no mounted disks, nothing that services keep."""
_NAME_SERVERS = "/etc/resolv.conf"
"""Often a link to where a service keeps it."""


class Rule(msgspec.Struct, frozen=True):
    """A rule with an absolute path, or a glob where it denies."""

    pattern: str
    access: Access
    is_glob: bool = False

    def names(self, path: str) -> bool:
        return deny.matches(self.pattern, path) if self.is_glob else self.pattern == path


class Rules(msgspec.Struct, frozen=True):
    """All rules of a profile, as they hold in one folder."""

    rules: tuple[Rule, ...]
    closed: tuple[str, ...] = ()
    """Absolute globs of what stays closed whatever the rules say, with all that is below."""

    def access(self, real: str) -> Access:
        """What may be done with a path; it must be resolved."""
        if deny.is_denied(real, self.closed):
            return "deny"
        while True:
            found = {rule.access for rule in self.rules if rule.names(real)}
            if found:
                return next(access for access in ACCESSES if access in found)
            if real == "/":
                return "deny"
            real = os.path.dirname(real)

    def plain(self, access: Access) -> tuple[str, ...]:
        """The paths that rules without wild cards name and that have, in the end, this access."""
        paths = dict.fromkeys(rule.pattern for rule in self.rules if rule.access == access and not rule.is_glob)
        return tuple(path for path in paths if self.access(path) == access)

    @property
    def denied(self) -> tuple[str, ...]:
        """Absolute paths and globs of what is closed by name."""
        rules = [rule for rule in self.rules if rule.access == "deny" and rule.pattern != "/"]
        named = (rule.pattern if rule.is_glob else deny.escape(rule.pattern) for rule in rules)
        return tuple(dict.fromkeys((*named, *self.closed)))

    @property
    def shows_everything(self) -> bool:
        """Whether what no rule mentions can be read."""
        return self.access("/") != "deny"


def rules_at(profile: PermissionProfile, cwd: str, env: Mapping[str, str], is_planted: deny.Planted) -> Rules:
    """The rules of `profile` for work in `cwd`. `is_planted` tells which of the granted paths a command could have
    turned elsewhere by a link: those grant nothing."""
    granted: list[Rule] = []
    denied: list[Rule] = []
    for rule in profile.rules:
        patterns = _patterns(rule.place, profile, cwd, env)
        if rule.access == "deny":
            denied += map(denying, deny.absolute_patterns(patterns, ()))
        else:
            granted += [Rule(path, rule.access) for path in map(deny.only_path, patterns) if path is not None]
    writable = [rule.pattern for rule in granted if rule.access == "write"]
    rules: dict[Rule, None] = {}
    for rule in granted:
        is_sure = rule.pattern == cwd or not is_planted(rule.pattern, writable)
        # A link is named as it stands, too: what is shown of the system must be found under the usual names, and what
        # may only be read in a folder that can be written must not be replaced by a link.
        if is_sure or rule.access == "read":
            rules[rule] = None
        if is_sure:
            rules[Rule(os.path.realpath(rule.pattern), rule.access)] = None
    return Rules((*rules, *denied))


def denying(pattern: str) -> Rule:
    path = deny.only_path(pattern)
    return Rule(pattern, "deny", is_glob=True) if path is None else Rule(path, "deny")


def pinned(profile: PermissionProfile, cwd: str) -> PermissionProfile:
    """The same for work in another folder: `:workspace_roots` stays what it is in `cwd`."""
    rules: list[PathRule] = []
    for rule in profile.rules:
        name, _, below = rule.place.partition("/")
        if name == WORKSPACE:
            rules += [PathRule(_below(base, below), rule.access) for base in _workspace(profile, cwd)]
        else:
            rules.append(rule)
    return msgspec.structs.replace(profile, rules=tuple(rules), workspace_roots=())


def _patterns(place: str, profile: PermissionProfile, cwd: str, env: Mapping[str, str]) -> list[str]:
    """Where a rule holds, as absolute globs."""
    if not place.startswith(":"):
        return [place]
    name, _, below = place.partition("/")
    return [_below(base, below) for base in _bases(name, profile, cwd, env)]


def _bases(name: str, profile: PermissionProfile, cwd: str, env: Mapping[str, str]) -> Iterable[str]:
    match name:
        case ":root":
            return ("/",)
        case ":minimal":
            paths = [path for path in _MINIMAL_SYSTEM if os.path.isdir(path)]
            return [*paths, *([os.path.realpath(_NAME_SERVERS)] if os.path.exists(_NAME_SERVERS) else [])]
        case ":tmpdir":
            from spindle.policy.sandbox import temporary_folder  # it is above this module

            tmpdir = temporary_folder(cwd, env)
            return [os.path.normpath(tmpdir)] if tmpdir is not None else ()
        case ":slash_tmp":
            return ("/tmp",) if os.path.isdir("/tmp") else ()
        case _:
            return _workspace(profile, cwd)


def _workspace(profile: PermissionProfile, cwd: str) -> list[str]:
    return list(dict.fromkeys((cwd, *profile.workspace_roots)))


def _below(base: str, rest: str) -> str:
    """A pattern: of `rest` wild cards may be wild, of `base` none is."""
    return f"{deny.escape(base.rstrip('/'))}/{rest}" if rest else deny.escape(base)
