"""Hooks in configuration files: where they are read from, whose word lets them run, and what is said about them."""

from __future__ import annotations

import json
import tomllib
from pathlib import Path
from typing import Any

import pytest

from config.throwaway import Setup
from spindle.config.hook_consent import give_consent, take_consent_back
from spindle.config.seen import changes_since_last_run
from spindle.errors import ConfigError


def hook(command: str, **more: Any) -> dict[str, Any]:
    return {"type": "command", "command": command, **more}


def listed(**events: list[dict[str, Any]]) -> str:
    return json.dumps({"hooks": {event: [{"hooks": hooks}] for event, hooks in events.items()}})


def test_the_hooks_of_all_files_are_added_up_in_the_order_of_who_wrote_them(setup: Setup):
    setup.write("etc/hooks.json", listed(Stop=[hook("system")]))
    setup.write("home/hooks.json", listed(Stop=[hook("json")], PreToolUse=[hook("guard")]))
    setup.user('[[hooks.Stop]]\nhooks = [{ type = "command", command = "toml", timeout = 5 }]\n' + setup.trust())
    setup.write("repo/.codex/hooks.json", listed(Stop=[hook("project")]))
    config = setup.load('hooks.Stop=[{hooks=[{type="command",command="flag"}]}]')
    home, repo = setup.path("home"), setup.path("repo")
    assert [(one.key, one.command, one.source, one.order) for one in config.hooks] == [
        (f"{setup.path('etc')}/hooks.json:stop:0:0", "system", "system", 0),
        (f"{home}/hooks.json:pre_tool_use:0:0", "guard", "user", 1),
        (f"{home}/hooks.json:stop:0:0", "json", "user", 2),
        (f"{home}/config.toml:stop:0:0", "toml", "user", 3),
        (f"{repo}/.codex/hooks.json:stop:0:0", "project", "project", 4),
        ("/<session-flags>/config.toml:stop:0:0", "flag", "sessionFlags", 5),
    ]
    assert [one.may_run for one in config.hooks] == [True, True, True, True, False, True]


@pytest.mark.parametrize(
    ("event", "matcher", "handler", "expected"),
    [  # as Codex 0.166 computes them
        (
            "PreToolUse",
            "^Bash$",
            hook("echo a", timeout=7),
            "c0b47c09a5d3b9cf070bdbc587de8abe966e2bfd54a2086134c2357a98e42899",
        ),
        (
            "PreToolUse",
            "^Bash$",
            {**hook("echo b", timeout=0), "async": True},
            "b8a59f32a87959a6cc90342d3ac0933baee49e83bbbb36a9e32c8ab60d26a095",
        ),
        (
            "Stop",
            "ignored",
            hook("echo c", timeout=99999999, statusMessage="checking"),
            "7b30d39d521d10de54639b5c166211c37d23ac1843caae9a6dccb26f854dabbc",
        ),
        ("SessionEnd", None, hook("echo se"), "89387e00d9cc3123ccdf94b9a3695ec2f5101eb08ac4fbf5fa4a3e7a6efe9868"),
        (
            "UserPromptSubmit",
            "zz",
            hook("echo u", additionalContextLimit=10),
            "0b6bbf3698975174d3d18097a4a60838000118d2c2c9bf237310305326a41ee1",
        ),
        ("PreToolUse", "", hook("echo p"), "64985ca7eb5638687890db455bd4675f34edb104c1933e6752eaf997da793850"),
    ],
)
def test_a_definition_has_the_hash_that_codex_gives_it(
    setup: Setup, event: str, matcher: str | None, handler: dict[str, Any], expected: str
):
    group = {"hooks": [handler]} if matcher is None else {"matcher": matcher, "hooks": [handler]}
    setup.write("home/hooks.json", json.dumps({"hooks": {event: [group]}}))
    [found] = setup.load().hooks
    assert found.hash == f"sha256:{expected}"


def test_hooks_of_a_project_that_is_not_trusted_are_not_even_read(setup: Setup):
    path = setup.write("repo/.codex/hooks.json", b"\xff{")
    config = setup.load(cwd="repo/sub")
    assert config.hooks == ()
    assert config.warnings == [f"{path} is ignored: {setup.path('repo')} is not a trusted project"]


def test_a_trusted_projects_hooks_wait_for_consent_to_each_as_it_is(setup: Setup):
    setup.user(setup.trust())
    path = setup.write("repo/.codex/hooks.json", listed(Stop=[hook("one"), hook("two")]))
    config = setup.load()
    assert [one.trust for one in config.hooks] == ["untrusted", "untrusted"]
    [warning] = config.warnings
    assert warning == (
        f"{path}: hooks that you have not agreed to do not run (Stop); "
        "`spindle hooks list` shows them, `spindle hooks trust` lets them run"
    )
    give_consent(config.home, config.hooks[:1])
    assert [one.trust for one in setup.load().hooks] == ["trusted", "untrusted"]
    setup.write("repo/.codex/hooks.json", listed(Stop=[hook("one --force"), hook("two")]))
    changed = setup.load()
    assert [one.trust for one in changed.hooks] == ["modified", "untrusted"]
    assert "(Stop, changed since you agreed to them)" in changed.warnings[0]


def test_a_project_cannot_agree_to_its_own_hooks(setup: Setup):
    setup.user(setup.trust())
    setup.write("repo/.codex/hooks.json", listed(Stop=[hook("one")]))
    [found] = setup.load().hooks
    state = f'[hooks.state."{found.key}"]\ntrusted_hash = "{found.hash}"\n'
    setup.write("repo/.codex/config.toml", state)
    table = {**json.loads(listed(Stop=[hook("one")]))["hooks"], "state": {found.key: {"trusted_hash": found.hash}}}
    setup.write("repo/.codex/hooks.json", json.dumps({"hooks": table}))
    [again] = setup.load().hooks
    assert not again.may_run


def test_a_project_cannot_let_its_hooks_out_of_the_sandbox(setup: Setup):
    setup.user(setup.trust())
    setup.write("repo/.codex/hooks.json", listed(Stop=[hook("one", sandbox=False)]))
    config = setup.load(skip_hook_consent=True)
    assert config.hooks == () and "cannot run outside of the sandbox" in config.warnings[0]
    setup.write("repo/.codex/hooks.json", listed(Stop=[hook("one")]))
    assert [(one.may_run, one.is_confined) for one in setup.load(skip_hook_consent=True).hooks] == [(True, True)]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("{", "this is not valid JSON"),
        ("[]", 'must be an object with the member "hooks"'),
        ('{"hooks": {"Stop": {}}}', "hooks.Stop must be an array of tables, found a table"),
        ('{"hooks": {"Stop": [[]]}}', "hooks.Stop[0] must be a table"),
        ('{"hooks": {"Stop": [{"hooks": [{"type": "command", "command": 1}]}]}}', "command must be a string, found"),
        ('{"hooks": {"Stop": [{"hooks": [{"timeout": true}]}]}}', "timeout must be an integer, found a boolean"),
    ],
)
def test_a_file_that_makes_no_sense_is_refused_with_its_place(setup: Setup, text: str, said: str):
    path = setup.write("home/hooks.json", text)
    with pytest.raises(ConfigError) as caught:
        setup.load()
    assert str(caught.value).startswith(path) and said in str(caught.value)


def test_what_cannot_be_run_is_named_and_the_rest_runs(setup: Setup):
    groups = [
        {"matcher": "([", "hooks": [hook("a")]},
        {"hooks": [hook(" "), {"type": "prompt", "prompt": "x"}, hook("good")]},
    ]
    setup.write("home/hooks.json", json.dumps({"hooks": {"PreToolUse": groups, "Interrupt": [], "Nonsense": []}}))
    config = setup.load()
    assert [one.command for one in config.hooks] == ["good"]
    assert [warning.split(": ", 1)[1] for warning in config.warnings] == [
        "hooks.Interrupt is ignored: it is not run by this version",
        "hooks.Nonsense is ignored: it is none of PreToolUse, PermissionRequest, PostToolUse, PreCompact, PostCompact, "
        "SessionStart, SessionEnd, UserPromptSubmit, SubagentStart, SubagentStop, Stop",
        "hooks.PreToolUse[0] is ignored: its matcher ([ is not a regular expression",
        "hooks.PreToolUse[1].hooks[0] is ignored: it has no command",
        'hooks.PreToolUse[1].hooks[1] is ignored: type is prompt, and only "command" is supported',
    ]


def test_nobody_waits_long_for_the_last_words_of_a_session(setup: Setup):
    path = setup.write("home/hooks.json", listed(SessionEnd=[hook("one", timeout=3000), hook("two", timeout=2)]))
    config = setup.load()
    assert [one.timeout_s for one in config.hooks] == [3, 2]
    assert config.warnings == [f"{path}: hooks.SessionEnd[0].hooks[0].timeout is 3: nobody waits longer at the end"]


@pytest.mark.parametrize("name", ["hooks", "codex_hooks"])
def test_all_hooks_can_be_switched_off(setup: Setup, name: str):
    setup.write("home/hooks.json", listed(Stop=[hook("one")]))
    assert setup.load(f"features.{name}=false").hooks == ()


def test_one_hook_can_be_switched_off(setup: Setup):
    path = setup.write("home/hooks.json", listed(Stop=[hook("one"), hook("two")]))
    setup.user(f'[hooks.state."{path}:stop:0:0"]\nenabled = false\n')
    assert [one.may_run for one in setup.load().hooks] == [False, True]


# ---- consent in the user's file --------------------------------------------------------------------


STATES = [
    "",
    '[hooks.state."other:stop:0:0"]\ntrusted_hash = "x"\n',
    '[[hooks.Stop]]\n[[hooks.Stop.hooks]]\ntype = "command"\ncommand = "mine"\n',
]


@pytest.mark.parametrize("state", STATES)
def test_consent_leaves_the_rest_of_the_users_file_as_it_is(setup: Setup, state: str):
    text = f"{state}# mine\n{setup.trust()}# its end\n"
    path = setup.user(text)
    before = tomllib.loads(text)
    setup.write("repo/.codex/hooks.json", listed(Stop=[hook("one")]))
    give_consent(setup.path("home"), [one for one in setup.load().hooks if one.source == "project"])
    found = setup.load().hooks[-1]
    assert found.source == "project" and found.may_run
    written = Path(path).read_text()
    assert "# mine\n" in written and "# its end\n" in written
    after = tomllib.loads(written)
    assert after["hooks"]["state"].pop(found.key) == {"trusted_hash": found.hash}
    before.setdefault("hooks", {}).setdefault("state", {})
    assert after == before
    take_consent_back(setup.path("home"), [found.key])
    assert not setup.load().hooks[-1].may_run and found.key not in Path(path).read_text()


def test_consent_is_written_where_there_was_no_file(setup: Setup):
    setup.write("repo/.codex/hooks.json", listed(Stop=[hook("one")]))
    trusted = f'projects={{"{setup.path("repo")}"={{trust_level="trusted"}}}}'
    [found] = setup.load(trusted).hooks
    give_consent(setup.path("home"), [found])
    assert setup.load(trusted).hooks[0].may_run
    assert (Path(setup.path("home/config.toml")).stat().st_mode & 0o777) == 0o600


# ---- what changed since the last run ---------------------------------------------------------------


def test_a_new_or_changed_hook_of_the_user_is_named_once(setup: Setup):
    path = setup.write("home/hooks.json", listed(SessionStart=[hook("curl evil")]))
    [warning] = changes_since_last_run(setup.load())
    assert warning.startswith(f"{path}: this SessionStart hook is new or has changed since the last run: curl evil; ")
    assert changes_since_last_run(setup.load()) == []
    setup.write("home/hooks.json", listed(SessionStart=[hook("curl worse")]))
    assert len(changes_since_last_run(setup.load())) == 1
    assert changes_since_last_run(setup.load()) == []
    state = Path(setup.path("home/spindle/seen-hooks.json"))
    assert (state.stat().st_mode & 0o777, state.parent.stat().st_mode & 0o777) == (0o600, 0o700)


def test_a_new_or_changed_notify_program_is_named_once(setup: Setup):
    path = setup.user('notify = ["say", "done"]')
    [warning] = changes_since_last_run(setup.load())
    assert warning.startswith(f"{path}: the notify program is new or has changed since the last run: say done; ")
    assert changes_since_last_run(setup.load()) == []
    assert changes_since_last_run(setup.load('notify=["x"]')) == []
    setup.user('notify = ["say", "gone"]')
    assert len(changes_since_last_run(setup.load())) == 1


def test_a_damaged_list_of_what_was_seen_only_means_that_it_is_said_again(setup: Setup):
    setup.write("home/spindle/seen-hooks.json", b"\xff")
    setup.write("home/hooks.json", listed(Stop=[hook("one")]))
    assert len(changes_since_last_run(setup.load())) == 1
    assert changes_since_last_run(setup.load()) == []
