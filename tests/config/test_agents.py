"""Sub-agents in the configuration: limits, roles, and what a project may say about them."""

from __future__ import annotations

from pathlib import Path

import pytest

from spindle.config.load import load_config
from spindle.config.roles import config_for_agent
from spindle.config.schema import Config
from spindle.errors import ConfigError
from spindle.protocol.settings import AgentRole, ThreadSettings


@pytest.fixture
def home(tmp_path: Path) -> Path:
    folder = tmp_path / "home"
    folder.mkdir()
    return folder


def load(home: Path, text: str, cwd: Path | None = None) -> Config:
    (home / "config.toml").write_text(text)
    return load_config(cwd=str(cwd or home.parent), env={"CODEX_HOME": str(home)}, system_dir=str(home / "none"))


def test_limits_have_defaults_and_can_be_set(home: Path) -> None:
    plain = load(home, "")
    assert (plain.agents_max_threads, plain.agents_max_depth, plain.agent_roles) == (6, 1, {})
    assert (plain.spindle.agents_max_tokens, plain.spindle.agents_max_requests) == (0, 0)
    given = load(
        home, "[agents]\nmax_threads = 8\nmax_depth = 2\n[spindle.agents]\nmax_tokens = 1000\nmax_requests = 10\n"
    )
    assert (given.agents_max_threads, given.agents_max_depth) == (8, 2)
    assert (given.spindle.agents_max_tokens, given.spindle.agents_max_requests) == (1000, 10)


def test_a_role_is_its_table_over_its_file(home: Path) -> None:
    (home / "scout.toml").write_text(
        'description = "of the file"\ndeveloper_instructions = "Look."\nmodel = "small"\nnotify = ["x"]\n'
    )
    config = load(
        home,
        """
        [agents.writer]
        instructions = "Write."
        [agents.scout]
        description = "of the table"
        config_file = "scout.toml"
        sandbox_mode = "read-only"
        model_reasoning_effort = "low"
        """,
    )
    assert list(config.agent_roles) == ["scout", "writer"]
    assert config.agent_roles["scout"] == AgentRole(
        name="scout",
        description="of the table",
        instructions="Look.",
        model="small",
        effort="low",
        sandbox_mode="read-only",
    )
    assert config.agent_roles["writer"] == AgentRole(name="writer", instructions="Write.")
    assert config.warnings == [f"{home}/scout.toml: notify has no effect for a role of sub-agents"]


def test_a_sub_agent_has_the_persons_configuration_but_for_what_its_order_says(home: Path) -> None:
    config = load(home, 'notify = ["bell"]\ndeveloper_instructions = "Mine."\nnonsense = 1\n')
    assert config.warnings and config.notify
    settings = ThreadSettings(cwd="/w", model="m", model_provider="openai", approval_policy="untrusted")
    role = AgentRole(name="r", instructions="Role.")
    child = config_for_agent(config, settings, role, "Preface.")
    assert (child.notify, child.warnings, child.developer_instructions) == ((), [], "Mine.\n\nPreface.\n\nRole.")
    assert (child.cwd, child.model, child.approval_policy, child.sandbox) == ("/w", "m", "untrusted", settings.sandbox)
    assert config_for_agent(config, settings, None, "Preface.").developer_instructions == "Mine.\n\nPreface."


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ('[agents.x]\nsandbox_mode = "none"\n', "agents.x.sandbox_mode"),
        ("[agents.x]\ndescription = 1\n", "agents.x.description must be a string"),
        ('[agents.x]\nconfig_file = "missing.toml"\n', "agents.x.config_file: there is no file"),
        ("[agents]\nmax_threads = -1\n", "agents.max_threads"),
        ("[spindle.agents]\nmax_tokens = 'x'\n", "spindle.agents.max_tokens"),
    ],
)
def test_a_mistake_is_named(home: Path, text: str, reason: str) -> None:
    with pytest.raises(ConfigError, match=reason):
        load(home, text)


def test_a_project_can_add_roles_but_raise_no_limit_and_loosen_no_role(home: Path, tmp_path: Path) -> None:
    project = tmp_path / "project"
    (project / ".git").mkdir(parents=True)
    (project / ".codex").mkdir()
    (project / ".codex" / "other.toml").write_text('instructions = "PROJECT"\n')
    (project / ".codex" / "config.toml").write_text(
        """
        [agents]
        max_threads = 100
        max_depth = 9
        [agents.scout]
        description = "of the project"
        sandbox_mode = "danger-full-access"
        config_file = "other.toml"
        [agents.extra]
        sandbox_mode = "danger-full-access"
        [spindle.agents]
        max_tokens = 0
        """
    )
    (home / "own.toml").write_text('instructions = "MINE"\n')
    mine = """
        [agents.scout]
        sandbox_mode = "read-only"
        config_file = "own.toml"
        [spindle.agents]
        max_tokens = 5
        """
    assert load(home, mine, project).agent_roles.keys() == {"scout"}  # nobody trusts it
    trusted = load(home, mine + f'[projects."{project}"]\ntrust_level = "trusted"\n', project)
    assert (trusted.agents_max_threads, trusted.agents_max_depth, trusted.spindle.agents_max_tokens) == (6, 1, 5)
    assert trusted.agent_roles["scout"] == AgentRole(
        name="scout", description="of the project", instructions="MINE", sandbox_mode="read-only"
    )
    assert trusted.agent_roles["extra"].sandbox_mode == "danger-full-access"  # within its parent's rights all the same
    assert len([text for text in trusted.warnings if "is ignored" in text]) == 5


@pytest.mark.parametrize(
    ("own", "in_file", "project", "mode"),
    [
        ("", 'sandbox_mode = "read-only"', 'sandbox_mode = "workspace-write"', "read-only"),
        ("", 'sandbox_mode = "read-only"', 'sandbox_mode = "danger-full-access"', "read-only"),
        ("", 'sandbox_mode = "workspace-write"', 'sandbox_mode = "danger-full-access"', "workspace-write"),
        (
            'sandbox_mode = "read-only"',
            'sandbox_mode = "workspace-write"',
            'sandbox_mode = "workspace-write"',
            "read-only",
        ),
        ("", 'sandbox_mode = "read-only"', 'config_file = "theirs.toml"', "read-only"),
        ('sandbox_mode = "read-only"', None, 'config_file = "theirs.toml"', "read-only"),
        # A project may confine more, and say what it likes where nothing is confined.
        ("", 'sandbox_mode = "workspace-write"', 'sandbox_mode = "read-only"', "read-only"),
        ("", 'model = "x"', 'sandbox_mode = "workspace-write"', "workspace-write"),
    ],
)
def test_row_22_a_project_cannot_loosen_a_role_that_its_file_confines(
    home: Path, tmp_path: Path, own: str, in_file: str | None, project: str, mode: str
) -> None:
    folder = tmp_path / "project"
    (folder / ".codex").mkdir(parents=True)
    (folder / ".git").mkdir()
    (folder / ".codex/config.toml").write_text(f"[agents.scout]\n{project}\n")
    (folder / ".codex/theirs.toml").write_text('sandbox_mode = "danger-full-access"')
    named = ""
    if in_file is not None:
        (home / "scout.toml").write_text(in_file)
        named = 'config_file = "scout.toml"'
    mine = f'[projects."{folder}"]\ntrust_level = "trusted"\n[agents.scout]\n{named}\n{own}\n'
    config = load(home, mine, folder)
    assert config.agent_roles["scout"].sandbox_mode == mode
    is_dropped = mode not in project
    assert any("a project file cannot allow more" in text for text in config.warnings) == (
        is_dropped and (in_file is not None or "config_file" not in project)
    )
