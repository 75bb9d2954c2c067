"""The list of tasks: where it comes from, and what is refused before anything starts."""

from __future__ import annotations

import json
from typing import Any

import pytest

from fleet_attempts import make_repo
from fleet_runs import Runs

FINE = {"id": "fine", "prompt": "p"}


@pytest.mark.parametrize(
    ("line", "why"),
    [
        ('{"id":"b",', "not a JSON object"),
        ("[1]", "expected an object"),
        ('"text"', "expected an object"),
        ({"id": "b", "prompt": "p", "promt": "x"}, "did you mean `prompt`? Nothing was started"),
        ({"prompt": "p"}, "`id` is missing"),
        ({"id": 5, "prompt": "p"}, "`id`: expected a text, got a whole number"),
        ({"id": "b", "prompt": "p", "timeout": "9"}, "`timeout`: expected a number or null, got a text"),
        ({"id": "../x", "prompt": "p"}, "the id '../x' cannot be used"),
        ({"id": ".hidden", "prompt": "p"}, "cannot be used"),
        ({"id": "a/b", "prompt": "p"}, "cannot be used"),
        ({"id": "a\nb", "prompt": "p"}, "cannot be used"),
        ({"id": "", "prompt": "p"}, "cannot be used"),
        ({"id": "x" * 129, "prompt": "p"}, "cannot be used"),
        ({"id": "FINE", "prompt": "p"}, "there already"),
        ({"id": "b"}, "`prompt` is missing"),
        ({"id": "b", "prompt": "  "}, "`prompt` is empty"),
        ({"id": "b", "prompt": "p", "timeout": 0}, "`timeout` must be above 0"),
        ({"id": "b", "prompt": "p", "timeout": True}, "`timeout`: expected"),
        ({"id": "b", "prompt": "p", "max_tokens": -1}, "`max_tokens` must be above 0"),
        ({"id": "b", "prompt": "p", "restore": ["../x"]}, "is not a path inside the repository"),
        ({"id": "b", "prompt": "p", "restore": ["/etc"]}, "is not a path inside the repository"),
        ({"id": "b", "prompt": "p", "base": "--upload-pack=x"}, "is not a commit, tag or branch"),
        ({"id": "b", "prompt": "p", "image": ["nowhere.png"]}, "no file 'nowhere.png'"),
        ({"id": "b", "prompt": "p", "output_schema": "nowhere.json"}, "`output_schema`"),
        ({"id": "b", "prompt": "p", "config": {"modle": "x"}}, "unknown key modle"),
        ({"id": "b", "prompt": "p", "config": {"model_verbosity": "loud"}}, "model_verbosity"),
    ],
)
def test_a_line_that_cannot_be_used_is_named_and_nothing_starts(
    runs: Runs, line: dict[str, Any] | str, why: str
) -> None:
    text = line if isinstance(line, str) else json.dumps(line)
    runs.list.write_text(f"{json.dumps(FINE)}\n\n{text}\n")
    done = runs.run()
    assert done.code == 2 and "tasks.jsonl, line 3: " in done.err and why in done.err, done.err
    assert "Traceback" not in done.err and len(done.err.splitlines()) == 1
    assert not runs.server.requests and not runs.out.exists()


@pytest.mark.parametrize(
    "repo",
    [
        "ext::sh -c true",
        "fd::17/foo",
        "git://example.invalid/x",
        "http://example.invalid/x",
        "ftp://example.invalid/x",
        "ssh://-oProxyCommand=x/y",
        "https://token@example.invalid/x",
        "https://user:password@example.invalid/x",
        "HTTPS://user:password@example.invalid/x",
    ],
)
def test_a_transport_that_could_run_something_and_a_password_are_refused(runs: Runs, repo: str) -> None:
    runs.list.write_text(json.dumps({**FINE, "repo": repo}) + "\n")
    done = runs.run()
    assert done.code == 2 and "line 1: `repo`" in done.err and "password@" not in done.err


@pytest.mark.parametrize(
    "config",
    [
        {"sandbox_mode": "danger-full-access"},
        {"sandbox_workspace_write.network_access": True},
        {"sandbox_workspace_write": {"network_access": True}},
        {'"sandbox_mode"': "danger-full-access"},
        {"approval_policy": "never"},
        {"features.hooks": True},
        {"features": {"shell_tool": True}},
        {"mcp_servers.x.command": "true"},
        {"model_providers.x.base_url": "http://127.0.0.1"},
        {"model_provider": "other"},
        {"hooks": {}},
        {"notify": ["true"]},
        {"shell_environment_policy.inherit": "all"},
        {"permissions.x": {}},
        {"default_permissions": "x"},
        {"spindle.sandbox.read": "all"},
        {"spindle": {"sandbox": {"backend": "none"}}},
        {"spindle.fleet.setup_network": True},
        {"spindle.budget.max_cost": 5},
        {"profile": "x"},
        {"openai_base_url": "http://127.0.0.1"},
        {"model_instructions_file": "/etc/passwd"},
        {"agents.x.config_file": "/etc/passwd"},
    ],
)
def test_a_task_cannot_loosen_the_fence_by_its_configuration(runs: Runs, config: dict[str, Any]) -> None:
    runs.list.write_text(json.dumps({**FINE, "config": config}) + "\n")
    done = runs.run()
    assert done.code == 2 and "line 1: `config`" in done.err and "cannot be set by a task" in done.err, done.err


def test_a_task_may_choose_its_model_and_how_hard_it_thinks(runs: Runs) -> None:
    runs.tasks(
        runs.task("a", model="gpt-5.1-codex"), runs.task("b", config={"model_reasoning_effort": "low"}), runs.task("c")
    )
    assert runs.run("--jobs", 1).code == 0
    asked = [received.json for received in runs.server.turns_asked]
    assert [body["model"] for body in asked] == ["gpt-5.1-codex", "gpt-5.2-codex", "gpt-5.2-codex"]
    assert asked[1]["reasoning"]["effort"] == "low" != asked[2]["reasoning"]["effort"]
    assert runs.record("a")["model"] == "gpt-5.1-codex"


def test_a_list_comes_from_stdin_with_one_prompt_for_all(runs: Runs) -> None:
    runs.ids = ["a", "b"]
    (runs.spindle.workspace / "prompt.txt").write_text("TASK:{id} in {repo}\n")
    lines = "".join(json.dumps({"id": name, "repo": str(runs.repo)}) + "\n" for name in runs.ids)
    done = runs.spindle("fleet", "run", "-", "--out", str(runs.out), "--prompt", "@prompt.txt", stdin="\ufeff" + lines)
    assert done.code == 0, done.err
    runs.exactly_once()
    assert (
        f"TASK:a in {runs.repo}" in runs.server.turns_asked[0].body.decode() + runs.server.turns_asked[1].body.decode()
    )


@pytest.mark.parametrize("given", ["many", "many/*", "many/[ab]*"])
def test_a_folder_of_repositories_is_a_list(runs: Runs, given: str) -> None:
    for name in ("beta", "alpha"):
        make_repo(runs.spindle.workspace / "many" / name)
    (runs.spindle.workspace / "many" / "no-repository").mkdir()
    (runs.spindle.workspace / "many" / "notes.txt").write_text("")
    runs.ids = ["alpha", "beta"]
    done = runs.spindle("fleet", "run", given, "--out", str(runs.out), "--prompt", "TASK:{id}")
    assert done.code == 0, done.err
    runs.exactly_once()
    assert [task["id"] for task in runs.lines("tasks.jsonl")] == ["alpha", "beta"]


@pytest.mark.parametrize(
    ("words", "why"),
    [
        (["nowhere.jsonl", "--out", "o"], "there is no such file or folder"),
        (["nowhere/*", "--out", "o", "--prompt", "p"], "there is no git repository in it"),
        (["odd", "--out", "o", "--prompt", "p"], "odd name: the id 'odd name' cannot be used"),
        (["odd", "--out", "o", "--prompt", "p"], "rename the folder, or write a list"),
        (["empty.jsonl", "--out", "o"], "there is no task in it"),
        (["empty.jsonl"], "--out DIR is missing"),
        (["--out", "o"], "name the list of tasks"),
        (["--out", "o", "--resume"], "there is no run in o"),
        (["one.jsonl", "--out", "o", "--jobs", "0"], "--jobs takes"),
        (["one.jsonl", "--out", "o", "--max-cost", "nan"], "--max-cost takes"),
        (["one.jsonl", "--out", "o", "--retries", "-1"], "--retries takes"),
        (["one.jsonl", "--out", "o", "--shard", "3/2"], "--shard takes I/N"),
        (["one.jsonl", "--out", "o", "--retry", "ok"], "--retry goes with --resume"),
        (["one.jsonl", "--out", "o", "--resume", "--retry", "bad"], "there is no status 'bad'"),
        (["one.jsonl", "--out", "o", "--select", "x*"], "no task of the list is in the part"),
        (["one.jsonl", "--out", "o", "--prompt", "@nowhere"], "--prompt: nowhere cannot be read"),
        (["one.jsonl", "--out", "one.jsonl"], "cannot be used"),
        (["one.jsonl", "--out", "o", "-c", "model_providers.x.experimental_bearer_token=abc"], "a secret is refused"),
        (["one.jsonl", "--out", "o", "-c", "model_verbosity=loud"], "model_verbosity"),
        (["one.jsonl", "--out", "o", "-p", "nobody"], "profile 'nobody' not found"),
    ],
)
def test_a_command_line_that_makes_no_sense_ends_with_a_sentence(runs: Runs, words: list[str], why: str) -> None:
    make_repo(runs.spindle.workspace / "odd" / "odd name")
    (runs.spindle.workspace / "empty.jsonl").write_text("\n")
    (runs.spindle.workspace / "one.jsonl").write_text(json.dumps(FINE) + "\n")
    done = runs.spindle("fleet", "run", *words)
    assert (done.code, len(done.err.splitlines())) == (2, 1) and why in done.err, done.err
    assert not runs.server.requests


def test_a_limit_in_dollars_without_a_price_is_refused(runs: Runs) -> None:
    runs.tasks("a", runs.task("b", model="some-model-nobody-knows"))
    done = runs.run("--max-cost", 5)
    assert done.code == 2 and "'b' costs is not known" in done.err and not runs.server.requests
    runs.tasks("a", runs.task("b", model="some-model-nobody-knows", max_cost=1))
    assert runs.run().code == 2
    runs.tasks("a", runs.task("b", model="some-model-nobody-knows"))
    assert runs.run().code == 0 and runs.record("b")["cost_usd"] is None and runs.status()["cost_usd"] is None
