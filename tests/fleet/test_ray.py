"""Fleets on Ray: clusters of others, nodes that die, and what a killed driver leaves. Skipped where Ray is not."""

from __future__ import annotations

import itertools
import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

from fake_server import custom_call, message, turn
from fleet_runs import Held, Runs, is_running, kill
from installed import Done, finish, wait_for

pytestmark = [
    pytest.mark.slow,
    pytest.mark.timeout(180),
    pytest.mark.skipif(find_spec("ray") is None, reason="Ray is not installed"),
]
LONG = 170.0
CLUSTER = """
import json, sys
from ray.cluster_utils import Cluster
cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 1, "include_dashboard": False})
nodes = [cluster.head_node, *(cluster.add_node(num_cpus=1) for _ in range(int(sys.argv[1]) - 1))]
raylets = [node.all_processes["raylet"][0].process.pid for node in nodes]
print(json.dumps({"address": cluster.address, "raylets": raylets}), flush=True)
sys.stdin.read()
cluster.shutdown()
"""


@contextmanager
def running_cluster(runs: Runs, nodes: int, **auth: str) -> Iterator[dict[str, Any]]:
    """A cluster that somebody else started, with its address and the processes that are its nodes."""
    environment = {**runs.spindle.environment, "RAY_USAGE_STATS_ENABLED": "0", **auth}
    process = subprocess.Popen(
        [sys.executable, "-c", CLUSTER, str(nodes)],
        env=environment,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )
    assert process.stdin is not None and process.stdout is not None
    try:
        yield json.loads(process.stdout.readline())
    finally:
        process.stdin.close()
        process.wait(60)
        process.stdout.close()


@pytest.fixture
def token(tmp_path: Path, runs: Runs) -> dict[str, str]:
    """Variables of a cluster that asks for a token."""
    path = tmp_path / "token"
    path.write_text("0123456789abcdef" * 4)
    path.chmod(0o600)
    auth = {"RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN_PATH": str(path)}
    runs.spindle.environment.update(auth)
    return auth


def run_on(runs: Runs, *options: object) -> Done:
    return finish(runs.start("--engine", "ray", *options), timeout=LONG)


def test_a_node_that_dies_takes_no_task_with_it_and_nothing_of_ray_gets_among_the_events(
    runs: Runs, token: dict[str, str]
) -> None:
    runs.tasks(count=6)
    large = "".join(f"+line {number} of a patch that does not fit into one piece\n" for number in range(40_000))
    patch = f"*** Begin Patch\n*** Add File: large.txt\n{large}*** End Patch"
    answers = itertools.cycle([turn(custom_call("apply_patch", patch, "c1")), turn(message("large"))])
    runs.answers["t000"] = lambda: next(answers)
    for task in runs.ids[1:]:
        runs.answers[task] = lambda: turn(message("ok"), delay_s=20.0)
    with running_cluster(runs, 2, **token) as cluster:
        driver = runs.start("--engine", "ray", "--address", cluster["address"], "--jobs", 4, "--workers", 2, "--json")
        wait_for(lambda: len({line["pid"] for line in runs.attempts(event="started")}) == 2, "two workers", LONG)
        kill(cluster["raylets"][1])
        wait_for(lambda: [line for line in runs.attempts(event="ended") if line["outcome"] == "lost"], "a loss", LONG)
        runs.answers = {"t000": runs.answers["t000"]}
        done = finish(driver, timeout=LONG)
    assert done.code == 0, done.err
    runs.exactly_once()
    assert done.events[0]["type"] == "fleet.started" and done.events[-1]["by_status"] == {"ok": 6}
    assert (runs.out / "tasks" / "t000" / "patch.diff").stat().st_size > 2 << 20
    runs.nothing_left()


def test_a_cluster_that_lets_in_anybody_is_joined_only_by_request(runs: Runs) -> None:
    runs.tasks("a")
    with running_cluster(runs, 1, RAY_AUTH_MODE="disabled") as cluster:
        refused = run_on(runs, "--address", cluster["address"])
        assert refused.code == 2 and "asks for no token" in refused.err and "--insecure-cluster" in refused.err
        assert not runs.server.turns_asked
        runs.spindle.environment["RAY_AUTH_MODE"] = "disabled"
        joined = run_on(runs, "--address", cluster["address"], "--insecure-cluster")
        assert joined.code == 0, joined.err
    runs.exactly_once()


def test_a_node_with_another_version_ends_the_run_before_anything_is_asked(
    runs: Runs, token: dict[str, str], tmp_path: Path
) -> None:
    older = tmp_path / "older"
    older.mkdir()
    (older / "sitecustomize.py").write_text("import spindle\nspindle.__version__ = '0.0.1'\n")
    runs.tasks("a")
    with running_cluster(runs, 1, PYTHONPATH=str(older), **token) as cluster:
        done = run_on(runs, "--address", cluster["address"])
    assert done.code == 2 and "has Spindle 0.0.1, and the driver" in done.err and os.uname().nodename in done.err
    assert not runs.server.turns_asked and not runs.attempts()


def test_an_address_where_no_cluster_is_gets_a_sentence(runs: Runs) -> None:
    runs.tasks("a")
    done = run_on(runs, "--address", "127.0.0.1:1")
    assert done.code == 2 and "no Ray cluster answers at 127.0.0.1:1" in done.err
    assert "Traceback" not in done.err and not runs.server.turns_asked


@pytest.mark.parametrize(
    "options",
    [
        ("-s", "danger-full-access"),
        ("-c", "sandbox_workspace_write.network_access=true"),
        ("-c", "spindle.fleet.setup_network=true"),
    ],
    ids=["full access", "commands", "set-up"],
)
def test_tasks_that_reach_the_network_are_refused_beside_ray(runs: Runs, options: tuple[str, str]) -> None:
    runs.tasks("a")
    done = run_on(runs, *options)
    assert done.code == 2 and "spindle.fleet.network_beside_ray=true" in done.err
    assert not runs.server.turns_asked


def test_a_driver_that_is_killed_leaves_no_process_and_the_next_one_removes_its_folders(
    runs: Runs, tmp_path: Path
) -> None:
    ray_folder = tmp_path / "ray"
    ray_folder.mkdir()
    runs.spindle.environment["RAY_TMPDIR"] = str(ray_folder)
    runs.tasks(count=3)
    held = runs.answers["t000"] = Held()
    driver = runs.start("--engine", "ray", "--jobs", 3)
    assert held.is_asked.wait(LONG)
    (closed,) = ray_folder.iterdir()
    assert closed.stat().st_mode & 0o777 == 0o700
    kill(driver.pid)
    driver.wait()
    pids = [line["pid"] for line in runs.attempts(event="started")]
    wait_for(lambda: not any(map(is_running, pids)), "the end of the workers", LONG)
    assert closed.exists()
    runs.answers.clear()
    done = run_on(runs, "--resume")
    assert done.code == 0, done.err
    runs.exactly_once()
    assert not [*ray_folder.iterdir()]
    drivers = Path(runs.spindle.environment["XDG_CACHE_HOME"]) / "spindle" / "drivers"
    assert not [*drivers.iterdir()]


def test_ctrl_c_ends_a_run_on_ray_and_it_can_go_on_without_ray(runs: Runs) -> None:
    runs.tasks(count=3)
    held = runs.answers["t002"] = Held()
    driver = runs.start("--engine", "ray", "--jobs", 3)
    assert held.is_asked.wait(LONG)
    wait_for(lambda: len(runs.results) == 2, "two records", LONG)
    os.killpg(driver.pid, signal.SIGINT)
    assert finish(driver, timeout=30).code == 3
    runs.nothing_left()
    runs.answers.clear()
    done = runs.run("--resume", "--engine", "local")
    assert done.code == 0, done.err
    runs.exactly_once()


def test_what_outlives_a_killed_driver_is_taken_over_and_not_paid_again(runs: Runs, token: dict[str, str]) -> None:
    runs.tasks(count=5)
    patch = "*** Begin Patch\n*** Add File: made.txt\n+made\n*** End Patch"
    for task, delay_s in (("t000", 0.0), ("t001", 3.0)):
        answers = iter([turn(custom_call("apply_patch", patch, "c1"), delay_s=delay_s), turn(message("done"))])
        runs.answers[task] = lambda answers=answers: next(answers)
    for task in ("t002", "t003"):
        runs.answers[task] = lambda: turn(message("done"), delay_s=3.0)
    with running_cluster(runs, 1, **token) as cluster:
        driver = runs.start("--engine", "ray", "--address", cluster["address"], "--jobs", 4)
        wait_for(lambda: {"t001", "t002", "t003"} <= runs.asked().keys(), "requests that last", LONG)
        kill(driver.pid)
        driver.wait()
        recorded = runs.statuses
        done = run_on(runs, "--resume", "--address", cluster["address"])
        assert done.code == 0, done.err
        runs.nothing_left()
    assert not recorded.keys() & {"t001", "t002", "t003"}
    runs.exactly_once()
    assert runs.asked() == {"t000": 2, "t001": 2, "t002": 1, "t003": 1, "t004": 1}
    assert {record["attempts"] for record in runs.results} == {1}
    assert {record["id"]: record["usage"]["requests"] for record in runs.results} == runs.asked()
    assert len(runs.lines("spend.jsonl")) == 7 and runs.record("t001")["patch"]["files"] == 1
    assert [line["outcome"] for line in runs.attempts(event="ended")] == ["ok"] * 5


def test_workers_that_nobody_takes_over_end(runs: Runs, token: dict[str, str]) -> None:
    runs.tasks(count=2)
    held = runs.answers["t001"] = Held()
    with running_cluster(runs, 1, **token) as cluster:
        patience = ("-c", "spindle.fleet.orphan_ttl_s=3")
        driver = runs.start("--engine", "ray", "--address", cluster["address"], *patience)
        assert held.is_asked.wait(LONG)
        kill(driver.pid)
        driver.wait()
        pids = [line["pid"] for line in runs.attempts(event="started")]
        wait_for(lambda: not any(map(is_running, pids)), "the end of the workers", LONG)
        assert not [*runs.cache.glob("spindle/attempts/*")]
