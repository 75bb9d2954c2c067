"""Where settings come from, and which source wins."""

from __future__ import annotations

from typing import Any

import pytest

from config.throwaway import Setup
from spindle.errors import ConfigError, UsageError


def test_without_any_file_the_defaults_hold_and_nothing_is_said(setup: Setup):
    config = setup.load()
    assert (config.home, config.provider.id, config.model, config.warnings) == (setup.path("home"), "openai", None, [])
    assert (config.approval_policy, config.sandbox.mode, config.trust_level) == ("on-request", "read-only", None)
    assert config.project_doc_max_bytes == 32768 and config.web_search == "cached" and config.features["unified_exec"]


def test_each_source_beats_the_ones_below_it(setup: Setup):
    setup.write("etc/config.toml", 'model = "system"\n')
    assert setup.load().model == "system"
    setup.user(f'model = "user"\n{setup.trust()}[profiles.p]\nmodel = "profile"\n')
    assert setup.load().model == "user"
    setup.write("repo/.codex/config.toml", 'model = "project"\n')
    assert setup.load().model == "project"
    setup.write("repo/sub/.codex/config.toml", 'model = "nearer"\n')
    assert setup.load(cwd="repo/sub").model == "nearer"
    assert setup.load(profile="p", cwd="repo/sub").model == "profile"
    assert setup.load('model="override"', profile="p").model == "override"
    config = setup.load("model=override", profile="p", flags={"model": "flag"})
    assert (config.model, config.origins["model"], config.warnings) == ("flag", "command line", [])


def test_tables_are_merged_key_by_key_and_arrays_are_replaced(setup: Setup):
    setup.write(
        "etc/config.toml", 'project_doc_fallback_filenames = ["a", "b"]\n[features]\nundo = true\ncollab = true\n'
    )
    setup.user('project_doc_fallback_filenames = ["c"]\n[features]\nundo = false\n')
    config = setup.load()
    assert config.project_doc_fallback_filenames == ("c",)
    assert (config.features["undo"], config.features["collab"]) == (False, True)


@pytest.mark.parametrize(
    ("override", "field", "value"),
    [
        ("model=gpt-x", "model", "gpt-x"),
        ("model='gpt-x'", "model", "gpt-x"),
        ("model = a=b", "model", "a=b"),
        ("model_context_window=1000", "model_context_window", 1000),
        ("hide_agent_reasoning=true", "hide_agent_reasoning", True),
        ('notify=["a", "b"]', "notify", ("a", "b")),
        ('developer_instructions="x\\ny"', "developer_instructions", "x\ny"),
        ("developer_instructions=5 apples", "developer_instructions", "5 apples"),
        ('developer_instructions=1\nmodel="injected"', "developer_instructions", '1\nmodel="injected"'),
        ("tools.view_image=false", "view_image", False),
        ("tools={update_plan={enabled=false}}", "update_plan", False),
    ],
)
def test_an_override_is_toml_or_else_the_text_itself(setup: Setup, override: str, field: str, value: Any):
    config = setup.load(override)
    assert getattr(config, field) == value
    assert field == "model" or config.model is None


@pytest.mark.parametrize("override", ["model", "=x", "", "a..b=1"])
def test_an_override_without_key_and_value_is_a_usage_error(setup: Setup, override: str):
    with pytest.raises(UsageError):
        setup.load(override)


def test_quoted_parts_of_an_override_keep_their_dots(setup: Setup):
    folder = setup.path("repo")
    config = setup.load(f'projects."{folder}".trust_level="trusted"')
    assert config.trust_level == "trusted"


def test_a_client_gives_overrides_as_an_object(setup: Setup):
    config = setup.load(
        config={"model": "m", "features.undo": True, "sandbox_workspace_write": {"network_access": True}}
    )
    assert (config.model, config.features["undo"], config.workspace_write.network_access) == ("m", True, True)


def test_an_empty_profile_is_one(setup: Setup):
    setup.user('model = "mine"\n[profiles.empty]\n')
    assert setup.load(profile="empty").model == "mine"


@pytest.mark.parametrize("effort", ["none", "xhigh", "max", "ultra", "persistent"])
def test_every_effort_that_an_sdk_may_pass_is_taken(setup: Setup, effort: str):
    assert setup.load(f'model_reasoning_effort="{effort}"').model_reasoning_effort == effort


def test_a_profile_is_a_table_or_else_a_file(setup: Setup):
    setup.user('profile = "fast"\n[profiles.fast]\nmodel = "table"\n')
    setup.write("home/fast.config.toml", 'model = "file"\n')
    setup.write("home/slow.config.toml", 'model = "slow"\nmodel_instructions_file = "base.md"\n')
    setup.write("home/base.md", "BASE\n")
    assert setup.load().model == "table"
    config = setup.load(profile="slow")
    assert (config.model, config.base_instructions) == ("slow", "BASE")


@pytest.mark.parametrize("name", ["missing", "../home/x", "a\nb"])
def test_a_profile_that_does_not_exist_is_an_error(setup: Setup, name: str):
    setup.write("home/x.config.toml", "")
    with pytest.raises(ConfigError, match=r"profile .* not found"):
        setup.load(profile=name)


def test_the_users_file_can_be_left_out(setup: Setup):
    setup.user("model = [broken")
    assert setup.load(ignore_user_config=True).model is None


def test_codex_home_must_exist_if_it_is_set_and_the_default_need_not(setup: Setup):
    setup.env["CODEX_HOME"] = setup.path("missing")
    with pytest.raises(ConfigError, match=r"CODEX_HOME points to .*missing, which does not exist"):
        setup.load()
    setup.env["CODEX_HOME"] = setup.write("file", "")
    with pytest.raises(ConfigError, match="is not a folder"):
        setup.load()
    del setup.env["CODEX_HOME"]
    assert setup.load().home == setup.path(".codex")


def test_paths_are_relative_to_the_file_they_stand_in(setup: Setup):
    setup.user(
        f'log_dir = "logs"\nsandbox_mode = "workspace-write"\n{setup.trust()}'
        '[sandbox_workspace_write]\nwritable_roots = ["../x", "/abs"]\n'
    )
    setup.write("repo/.codex/config.toml", 'model_instructions_file = "base.md"\n')
    setup.write("repo/.codex/base.md", " project base \n")
    config = setup.load(flags={"add_dirs": ["extra", "/abs"]})
    assert config.log_dir == setup.path("home/logs")
    assert config.base_instructions == "project base"
    assert config.sandbox.writable_roots == (setup.path("x"), "/abs", setup.path("repo/extra"))
    assert setup.load('log_dir="here"').log_dir == setup.path("repo/here")


@pytest.mark.parametrize(
    ("write", "message"),
    [(None, "there is no file"), (" \n", "is empty"), (b"\xff", "not valid UTF-8")],
)
def test_an_instructions_file_that_cannot_be_used_is_an_error(setup: Setup, write: str | bytes | None, message: str):
    setup.user('model_instructions_file = "base.md"\n')
    if write is not None:
        setup.write("home/base.md", write)
    with pytest.raises(ConfigError, match=f"model_instructions_file.*{message}|{message}"):
        setup.load()


def test_the_reference_programs_other_keys_are_accepted_without_a_word(setup: Setup):
    setup.user(
        "suppress_unstable_features_warning = true\nmodel_max_output_tokens = 5\n"
        "[tui]\ntheme = 'x'\n[otel]\nexporter = 'none'\n"
        "[features]\nmulti_agent = true\n[notice]\nhide_full_access_warning = true\n[memories]\nuse_memories = true\n"
        "[hooks]\nStop = []\n[skills.bundled]\nenabled = false\n"
        "[mcp_servers.a]\ncommand = 'x'\nexperimental_environment = 'y'\n"
    )
    config = setup.load()
    assert (config.warnings, config.tui.theme) == ([], "x")


def test_the_tables_become_typed_values(setup: Setup):
    setup.user(
        """
approval_policy = { granular = { sandbox_approval = true } }
web_search = "live"
[shell_environment_policy]
inherit = "core"
exclude = ["A*"]
set = { B = "1" }
[history]
persistence = "none"
[agents]
max_threads = 2
[[skills.config]]
path = "skills/x"
enabled = false
[[skills.config]]
name = "y"
enabled = false
[[skills.config]]
path = "skills/z"
enabled = true
[spindle]
environment_extras = ["date"]
[spindle.limits]
max_steps = 3
[spindle.sandbox]
backend = "bwrap"
[mcp_servers.docs]
command = "docs"
args = ["--stdio"]
env_vars = ["A", { name = "B" }]
startup_timeout_ms = 1500
tool_timeout_sec = 30
"""
    )
    config = setup.load()
    assert config.approval_policy == "on-request" and config.web_search == "live"
    policy = config.environment
    assert (policy.inherit, policy.exclude, policy.set, policy.ignore_default_excludes) == (
        "core",
        ("A*",),
        {"B": "1"},
        None,
    )
    assert (config.history_persistence, config.agents_max_threads) == ("none", 2)
    assert config.disabled_skills == (setup.path("home/skills/x"), "y")
    assert (config.spindle.environment_extras, config.spindle.max_steps) == (("date",), 3)
    assert config.spindle.fence.backend == "bwrap"
    server = config.mcp_servers["docs"]
    assert (server.command, server.args, server.env_vars) == ("docs", ("--stdio",), ("A", "B"))
    assert (server.startup_timeout_s, server.tool_timeout_s, server.enabled_tools) == (1.5, 30.0, None)


@pytest.mark.parametrize(
    ("overrides", "mode"),
    [
        ([], "cached"),
        (['sandbox_mode="danger-full-access"'], "live"),
        (["web_search=disabled", 'sandbox_mode="danger-full-access"'], "disabled"),
        (["tools.web_search=false"], "disabled"),
        (["tools.web_search=true"], "live"),
        (["features.web_search_request=true"], "live"),
        (["features.web_search_cached=true", "tools.web_search=true"], "cached"),
    ],
)
def test_old_spellings_of_web_search_still_count(setup: Setup, overrides: list[str], mode: str):
    assert setup.load(*overrides).web_search == mode


@pytest.mark.parametrize(
    ("server", "message"),
    [
        ("[mcp_servers.a]\nargs = []\n", "needs either a command or a url"),
        ('[mcp_servers.a]\ncommand = "x"\nurl = "http://y"\n', "needs either a command or a url"),
        ('[mcp_servers.a]\nurl = "http://y"\nbearer_token = "t"\n', "bearer_token_env_var"),
        ('[mcp_servers."a b"]\ncommand = "x"\n', "letters, digits"),
        ('[mcp_servers.a]\ncommand = "x"\nenv_vars = [1]\n', "array of variable names"),
    ],
)
def test_a_tool_server_that_cannot_work_is_an_error(setup: Setup, server: str, message: str):
    path = setup.user(server)
    with pytest.raises(ConfigError, match=message) as raised:
        setup.load()
    assert str(raised.value).startswith(f"{path}: mcp_servers.")
