"""Where rules are read from, and whose rules may allow something."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from spindle.config.load import LoadOptions, load_config


def folders(
    tmp_path: Path, *, trust: str | None = None, cwd: str = "project/sub", ignore_rules: bool = False, **more: Any
) -> list[tuple[str, bool]]:
    project = tmp_path / "project"
    (project / ".git").mkdir(parents=True, exist_ok=True)
    (project / "sub").mkdir(exist_ok=True)
    home = tmp_path / "home"
    home.mkdir(exist_ok=True)
    config: dict[str, Any] = {"projects": {str(project): {"trust_level": trust}}} if trust else {}
    config |= more.pop("config", {})
    env = {"CODEX_HOME": str(more.pop("home", home)), "HOME": str(tmp_path)}
    system = str(tmp_path / "etc")
    options = LoadOptions(ignore_rules=ignore_rules)
    loaded = load_config(cwd=str(tmp_path / cwd), env=env, system_dir=system, config=config, options=options, **more)
    return [(folder.removeprefix(f"{tmp_path}/"), may_allow) for folder, may_allow in loaded.rule_folders]


def test_the_administrator_then_the_user_then_the_project_from_its_root_down(tmp_path: Path) -> None:
    own = [("etc/rules", True), ("home/rules", True)]
    project = ["project/.codex/rules", "project/sub/.codex/rules"]
    assert folders(tmp_path) == own + [(folder, False) for folder in project]
    assert folders(tmp_path, trust="untrusted") == own + [(folder, False) for folder in project]
    assert folders(tmp_path, trust="trusted") == own + [(folder, True) for folder in project]


def test_rules_can_be_ignored_or_switched_off(tmp_path: Path) -> None:
    assert folders(tmp_path, trust="trusted", ignore_rules=True) == [("etc/rules", True)]
    assert folders(tmp_path, config={"features": {"exec_policy": False}}) == []


def test_a_project_cannot_switch_rules_off(tmp_path: Path) -> None:
    settings = tmp_path / "project" / ".codex" / "config.toml"
    settings.parent.mkdir(parents=True)
    settings.write_text("[features]\nexec_policy = false\n")
    assert len(folders(tmp_path, trust="trusted")) == 4


def test_the_home_in_a_project_is_read_once(tmp_path: Path) -> None:
    home = tmp_path / "project" / ".codex"
    home.mkdir(parents=True)
    assert folders(tmp_path, home=home, cwd="project") == [("etc/rules", True), ("project/.codex/rules", True)]
