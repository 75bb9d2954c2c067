"""A throw-away user: `setup.write("home/config.toml", …)`, then `setup.load()`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from spindle.config.load import LoadOptions, load_config
from spindle.config.schema import Config


class Setup:
    """A home, a system folder and a git repository `repo`, all empty."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.env = {"CODEX_HOME": str(root / "home"), "HOME": str(root)}
        for name in ("home", "etc", "repo/.git", "repo/sub"):
            (root / name).mkdir(parents=True)

    def path(self, name: str) -> str:
        return str(self.root / name)

    def write(self, name: str, text: str | bytes) -> str:
        path = self.root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(text.encode() if isinstance(text, str) else text)
        return str(path)

    def user(self, text: str | bytes) -> str:
        return self.write("home/config.toml", text)

    def trust(self, folder: str = "repo", level: str = "trusted") -> str:
        return f'[projects."{self.path(folder)}"]\ntrust_level = "{level}"\n'

    def load(self, *overrides: str, cwd: str = "repo", **more: Any) -> Config:
        """`more` are fields of `LoadOptions` and parameters of `load_config`."""
        options = LoadOptions(**{name: more.pop(name) for name in LoadOptions.__struct_fields__ if name in more})
        system = self.path("etc")
        return load_config(
            cwd=self.path(cwd), env=self.env, overrides=overrides, options=options, system_dir=system, **more
        )
