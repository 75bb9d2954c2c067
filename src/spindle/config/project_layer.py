"""The project's own `.codex/config.toml` files: read only where trusted, never able to weaken what the user set."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import msgspec

from spindle.config.keys import NOT_FOR_PROJECTS
from spindle.config.kinds import Layer
from spindle.config.sources import read_layer
from spindle.config.trust import Trust
from spindle.policy.ownership import foreign_owner
from spindle.protocol.settings import SANDBOX_MODES, STRICT_TO_LOOSE, read_approval
from spindle.workspace.files import LeftOut, ProjectFiles, folders_between, is_regular, shown
from spindle.workspace.git import find_root

_SEARCHES = ("disabled", "cached", "live")


class Project(msgspec.Struct, frozen=True, kw_only=True):
    """The folder work is done in, and how far what lies around it is trusted."""

    cwd: str
    home: str
    """The user's own configuration folder. Even where it lies inside a project, it is not a file of the project."""
    trust: Trust
    root_markers: Sequence[str]
    """Names of which one marks the folder where the project begins."""

    def layers(self, warnings: list[str]) -> list[Layer]:
        """The `config.toml` files, outermost first. Those that are not trusted are not even read."""
        paths = self._trusted_files("config.toml", warnings)
        return [layer for path in paths if (layer := read_layer(path, is_project=True)) is not None]

    def hook_files(self, warnings: list[str]) -> list[str]:
        """The `hooks.json` files in trusted folders, outermost first."""
        return list(self._trusted_files("hooks.json", warnings))

    def rule_folders(self, system_dir: str, *, only_system: bool = False) -> tuple[tuple[str, bool], ...]:
        """Where `.rules` files may be, lowest precedence first, and whether what they allow counts."""
        folders = [(f"{system_dir}/rules", True)]
        if not only_system:
            folders.append((f"{self.home}/rules", True))
            folders += [(f"{folder}/.codex/rules", self.trust.covers(folder)) for folder in self._folders()]
        return tuple(folders)

    def readable_files(self, deny_read: Sequence[str]) -> ProjectFiles:
        """What of the project may be read: what lies in it, and is not denied."""
        root = self.trust.folder or os.path.realpath(self.cwd)

        def may_read(path: str) -> bool:
            from spindle.policy import deny  # only where a project names files

            return not deny.is_denied(path, deny.absolute_patterns(deny_read, (root, os.path.realpath(self.cwd))))

        return ProjectFiles(root=root, homes=(os.path.realpath(self.home),), may_read=may_read)

    def _trusted_files(self, name: str, warnings: list[str]) -> Iterator[str]:
        for folder in self._folders():
            path = f"{folder}/.codex/{name}"
            if not is_regular(path):
                continue
            if self.trust.covers(folder) and (uid := foreign_owner(os.path.realpath(path))) is not None:
                warnings.append(f"{shown(path)} is ignored: it belongs to another user ({uid})")
            elif self.trust.covers(folder):
                yield path
            else:
                warnings.append(f"{shown(path)} is ignored: {shown(folder)} is not a trusted project")

    def _folders(self) -> Iterator[str]:
        """The folders from the project's root down to `cwd` whose `.codex` belongs to the project."""
        here, home = os.path.realpath(self.cwd), os.path.realpath(self.home)
        for folder in folders_between(find_root(here, self.root_markers) or here, here):
            if os.path.realpath(f"{folder}/.codex") != home:
                yield folder


def drop_forbidden(layer: Layer, warnings: list[str]) -> None:
    """Take out the keys that no project file can set."""
    for key in sorted(NOT_FOR_PROJECTS):
        *tables, last = key.split(".")
        values: Any = layer.values
        for name in tables:
            values = values.get(name)
            if not isinstance(values, dict):
                break
        if isinstance(values, dict) and last in values:
            place = layer.place((*tables, last))
            del values[last]
            warnings.append(f"{place}: {key} is ignored: a project file cannot set it")


def drop_loosening(
    layer: Layer, users: Mapping[str, Any], defaults: tuple[str, str], warnings: list[str], *, uses_profile: bool
) -> None:
    """Take out sandbox and approval values that allow more than the user's own (or else default) ones.

    Any mode would take the place of the user's permission profile, and open what that denies.
    """
    default_approval, default_sandbox = defaults
    policy = layer.values.get("approval_policy")
    own_policy = users.get("approval_policy", default_approval)
    if policy is not None and _asks_less(policy, own_policy):
        _drop(layer, ("approval_policy",), layer.values, warnings)
    if uses_profile and "sandbox_mode" in layer.values:
        _drop(layer, ("sandbox_mode",), layer.values, warnings)
    mode = layer.values.get("sandbox_mode")
    own_mode = users.get("sandbox_mode", default_sandbox)
    if mode is not None and SANDBOX_MODES.index(mode) > SANDBOX_MODES.index(own_mode):
        _drop(layer, ("sandbox_mode",), layer.values, warnings)
    details = layer.values.get("sandbox_workspace_write")
    if isinstance(details, dict):
        own = users.get("sandbox_workspace_write", {})
        looser = {
            "network_access": lambda value: value and not own.get("network_access", False),
            "exclude_tmpdir_env_var": lambda value: not value and own.get("exclude_tmpdir_env_var", False),
            "exclude_slash_tmp": lambda value: not value and own.get("exclude_slash_tmp", False),
            "writable_roots": lambda value: not set(value) <= set(own.get("writable_roots", ())),
        }
        for key, is_looser in looser.items():
            if key in details and is_looser(details[key]):
                _drop(layer, ("sandbox_workspace_write", key), details, warnings)

    excluded = users.get("shell_environment_policy", {}).get("exclude", ())
    policy = layer.values.get("shell_environment_policy")
    if isinstance(policy, dict) and not set(excluded) <= set(policy.get("exclude", excluded)):
        _drop(layer, ("shell_environment_policy", "exclude"), policy, warnings)
    if layer.values.get("allow_login_shell") and not users.get("allow_login_shell", True):
        _drop(layer, ("allow_login_shell",), layer.values, warnings)
    _drop_looser_search(layer, users, warnings)

    for name, role in layer.values.get("agents", {}).items():
        own_role = users.get("agents", {}).get(name)
        if isinstance(role, dict) and isinstance(own_role, dict):
            _drop_loosening_role(layer, name, role, own_role, warnings)


def drop_files_elsewhere(layer: Layer, project: Project, users: Mapping[str, Any], warnings: list[str]) -> None:
    """Take out files that are read into a prompt and are none of the project's own, wherever links lead."""
    named = [(values, (*path, key)) for values, path, key in _named_files(layer.values)]
    if not named:
        return
    files = project.readable_files(users.get("spindle", {}).get("sandbox", {}).get("deny_read", ()))
    for values, path in named:
        try:
            files.read(values[path[-1]], 0)
        except LeftOut as error:
            place = layer.place(path)
            del values[path[-1]]
            warnings.append(f"{place}: {'.'.join(path)} is ignored: {error.strerror}")
        except (OSError, ValueError):
            continue  # told when it is read


def _named_files(values: dict[str, Any]) -> Iterator[tuple[dict[str, Any], tuple[str, ...], str]]:
    """Where a layer names files for the prompt: the table, its path, and the key."""
    for key in ("model_instructions_file", "experimental_instructions_file", "experimental_compact_prompt_file"):
        if key in values:
            yield values, (), key
    for name, role in values.get("agents", {}).items():
        if isinstance(role, dict) and "config_file" in role:
            yield role, ("agents", name), "config_file"


def _drop_looser_search(layer: Layer, users: Mapping[str, Any], warnings: list[str]) -> None:
    """What is searched for leaves the machine, so a project cannot widen a search that the user has limited, nor by old
    keys."""
    tools = users.get("tools", {})
    own = users.get("web_search") or ("disabled" if tools.get("web_search") is False else None)
    if own is None or own == "live":
        return
    wanted = layer.values.get("web_search")
    if wanted is not None and _SEARCHES.index(wanted) > _SEARCHES.index(own):
        _drop(layer, ("web_search",), layer.values, warnings)
    for table, key in (("tools", "web_search"), ("features", "web_search_request"), ("features", "web_search_cached")):
        values = layer.values.get(table)
        if isinstance(values, dict) and values.get(key):
            _drop(layer, (table, key), values, warnings)


def _drop_loosening_role(
    layer: Layer, name: str, role: dict[str, Any], own: Mapping[str, Any], warnings: list[str]
) -> None:
    """A project can describe one of the user's roles in its own way, but not take away what confines it: neither what
    its table says, nor the file that the table names."""
    mode, own_mode = role.get("sandbox_mode"), own.get("sandbox_mode")
    if mode is not None and own_mode is None and "config_file" in own:
        from spindle.config.roles import mode_in_file  # few have roles, and fewer a file for one

        own_mode = mode_in_file(own["config_file"])
    if mode is not None and own_mode is not None and SANDBOX_MODES.index(mode) > SANDBOX_MODES.index(own_mode):
        _drop(layer, ("agents", name, "sandbox_mode"), role, warnings)
    if "config_file" in role and "config_file" in own:
        _drop(layer, ("agents", name, "config_file"), role, warnings)


def _asks_less(policy: Any, own: Any) -> bool:
    """Does it allow more than the user's: less is asked, or asked what the user wants to be refused?"""
    (name, granular), (own_name, own_granular) = read_approval(policy), read_approval(own)
    if own_granular is not None and (granular is None or granular.within(own_granular) != granular):
        return True
    return STRICT_TO_LOOSE.index(name) > STRICT_TO_LOOSE.index(own_name)


def _drop(layer: Layer, path: tuple[str, ...], values: dict[str, Any], warnings: list[str]) -> None:
    place = layer.place(path)
    del values[path[-1]]
    warnings.append(f"{place}: {'.'.join(path)} is ignored: a project file cannot allow more than the user does")
