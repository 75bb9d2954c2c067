"""What clients have changed until this server ends, kept in no file: feature flags, roots of skills."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

from spindle.config.schema import Config
from spindle.config.writing import merged, read_layers
from spindle.frontends.app_server.notifications import SkillsChanged
from spindle.frontends.launch import config_from, overrides_from, working_folder
from spindle.workspace.skills import SkillSet, skill_roots

if TYPE_CHECKING:
    from spindle.frontends.app_server.server import Server
    from spindle.frontends.app_server.watching import Watched

MAX_SKILL_FOLDERS = 200
"""Folders with skills that are watched; changes in others are not told."""


class Runtime:
    """Changes that hold for threads that are opened from now on."""

    def __init__(self, server: Server) -> None:
        self._server = server
        self.features: dict[str, bool] = {}
        """Flags that clients have set. A flag that the user's files or the command line set counts more."""
        self.skill_roots: tuple[str, ...] = ()
        self._watched: dict[str, Watched] = {}
        """Folders with skills, since a client has asked which there are."""

    def config_for(self, cwd: str | None, given: dict[str, Any] | None = None) -> Config:
        """The user's configuration for a folder, with what a client says about one thread."""
        server = self._server
        folder = cwd or server.config.cwd
        config = config_from(server.parsed, cwd=folder, config={**self._features_for(folder), **(given or {})})
        return msgspec.structs.replace(config, extra_skill_roots=self.skill_roots) if self.skill_roots else config

    def _features_for(self, cwd: str) -> dict[str, bool]:
        if not self.features:
            return {}
        server = self._server
        said = merged(read_layers(working_folder(cwd), server.home, overrides_from(server.parsed))).get("features")
        named = said if isinstance(said, dict) else {}
        return {f"features.{name}": value for name, value in self.features.items() if name not in named}

    # ---- skills --------------------------------------------------------------------------------

    def set_skill_roots(self, roots: list[str]) -> None:
        if tuple(roots) != self.skill_roots:
            self.skill_roots = tuple(roots)
            self.tell_of_skills()

    def tell_of_skills(self) -> None:
        self._server.tell_all(SkillsChanged())

    def watch_skills(self, cwd: str, config: Config, found: SkillSet) -> None:
        """A client knows these skills: from now on it hears when there may be others."""
        roots = [*skill_roots(cwd, config.home, config.project_root_markers), *self.skill_roots]
        files = [path for skill in found.skills for path in (skill.path.rpartition("/")[0], skill.path)]
        for path in (*roots, *files):
            if path not in self._watched and len(self._watched) < MAX_SKILL_FOLDERS:
                self._watched[path] = self._server.watches.add(path, lambda _: self.tell_of_skills())
