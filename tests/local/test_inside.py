"""The provider `local`, from the command line to llama.cpp and back, with a model of two megabytes that tests write.

What a real model does is in `test_real_model.py`.
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import msgspec
import pytest

from browser import visit
from installed import Done, Spindle, wait_for
from local.tiny_model import ANSWERS, LISTS, write_model
from spindle.errors import ConfigError, ModelError
from spindle.local import endpoint as endpoint_module
from spindle.local.engine import Engine, borrow, child_environment, give_back
from spindle.local.plan import Plan, plan_for
from spindle.local.serving import Order
from spindle.local.store import ModelStore, copy_in
from spindle.protocol.clock import SystemClock

pytest.importorskip("xllamacpp")
pytestmark = pytest.mark.slow

ASK = ("exec", "--json", "-c", "model_provider=local")


@pytest.fixture
def add(home: Path, tmp_path: Path) -> Callable[..., str]:
    """Adds a model that knows what follows what, and gives its name."""

    def added(name: str, follows: dict[str, str], **changed: Any) -> str:
        file = write_model(tmp_path / f"{name}.gguf", follows, **changed)
        return copy_in(ModelStore(str(home)), str(file), name, None, lambda done, total: None).name

    return added


def said(done: Done) -> list[str]:
    return [item["text"] for item in done.items("agent_message")]


def notes(done: Done) -> str:
    return "\n".join([item["message"] for item in done.items("error")])


# ---- the whole way -------------------------------------------------------------------------------------


def test_a_model_that_was_added_answers(spindle: Spindle, tmp_path: Path, home: Path) -> None:
    """Added by the command, started, asked, and asked again in the same thread."""
    file = write_model(tmp_path / "Tiny Model.gguf")
    added = spindle("local", "add", str(file))
    assert added.code == 0 and added.out.startswith("added Tiny-Model\nsha256 ")
    assert "Use it with: spindle -c model_provider=local -m Tiny-Model" in added.out
    first = spindle(*ASK, "hello")
    assert (first.code, said(first)) == (0, ["hi!"]), first.err
    figures = notes(first)
    assert "Tiny-Model runs on this computer: a file of 2 MB, about 0.16 GB of memory" in figures
    assert "does not fix bugs reliably" in figures
    assert "Tiny-Model reads " in figures and " tokens a second on this computer." in figures
    again = spindle("exec", "resume", first.thread_id, "--json", "--oss", "--local-provider", "local", "more")
    assert said(again) == ["hi!"] and "it last read " in notes(again)
    assert again.events[-1]["usage"]["input_tokens"] > first.events[-1]["usage"]["input_tokens"] > 1000
    listed = spindle("local", "list", "--json")
    assert json.loads(listed.out)["writes_per_second"] > 0
    models = json.loads(spindle("models", "--provider", "local", "--json").out)["models"]
    assert [(row["slug"], row["provider"], row["context_window"]) for row in models] == [("Tiny-Model", "local", 16384)]
    assert spindle("local", "remove", "Tiny-Model").code == 0
    assert "no model has been added" in spindle("local").err


def test_calls_are_run_and_a_model_that_goes_round_in_circles_is_stopped(
    spindle: Spindle, add: Callable[..., str], workspace: Path
) -> None:
    (workspace / "found.txt").write_text("x")
    done = spindle(*ASK, "-m", add("lister", LISTS), "-s", "read-only", "list the files")
    runs = done.items("command_execution")
    assert {run["aggregated_output"] for run in runs} == {"found.txt\n"} and len(runs) == 6
    assert done.code == 1 and "6 times with the same arguments" in done.events[-1]["error"]["message"]


def test_an_answer_fits_the_schema_that_was_asked_for(
    spindle: Spindle, add: Callable[..., str], tmp_path: Path
) -> None:
    """With a window and threads of the user's choice."""
    schema = {"type": "object", "properties": {"ok": {"type": "boolean"}}, "required": ["ok"]}
    (tmp_path / "schema.json").write_text(json.dumps({**schema, "additionalProperties": False}))
    spindle.configure("[spindle.local]\ncontext = 9000\nthreads = 2\n")
    name = add("talker", {**ANSWERS, ":": "{t"})
    done = spindle(*ASK, "-m", name, "--output-schema", str(tmp_path / "schema.json"), "is it?")
    assert done.code == 0 and json.loads(said(done)[0]) == {"ok": True}
    assert "2 threads, a window of 9000 tokens" in notes(done)


def test_what_does_not_fit_into_the_window_is_told_as_such(spindle: Spindle, add: Callable[..., str]) -> None:
    done = spindle(*ASK, "-m", add("talker", ANSWERS), "-c", "spindle.local.context=1000", "hello")
    assert done.code == 1 and "context window" in done.events[-1]["error"]["message"]


def test_a_thread_may_come_from_another_provider_and_go_back(
    spindle: Spindle, add: Callable[..., str], server: Any
) -> None:
    from fake_server import call, message, turn

    server.script(
        turn(call("exec_command", {"cmd": "echo one"}, "c1")), turn(message("remote")), turn(message("remote again"))
    )
    first = spindle("exec", "--json", "-s", "danger-full-access", "start")
    inside = spindle(
        "exec", "resume", first.thread_id, "--json", "-c", "model_provider=local", "-m", add("t", ANSWERS), "go"
    )
    assert (inside.code, said(inside)) == (0, ["hi!"]), inside.err
    back = spindle("exec", "resume", first.thread_id, "--json", "-m", "gpt-5.2-codex", "on")
    assert said(back) == ["remote again"]
    texts = json.dumps(server.requests[-1].json["input"])
    assert "hi!" in texts and "echo one" in texts


@pytest.mark.parametrize(
    ("words", "reason"),
    [
        ((), "no model has been added for the provider `local`"),
        (("-m", "other"), "the provider `local` has no model 'other'; there is: talker. Choose one with -m"),
    ],
)
def test_a_model_that_is_not_there_is_told_in_a_sentence(
    spindle: Spindle, add: Callable[..., str], words: tuple[str, ...], reason: str
) -> None:
    if words:
        add("talker", ANSWERS)
    done = spindle("exec", "-c", "model_provider=local", *words, "hi")
    assert done.code == 1 and reason in done.err and "Traceback" not in done.err


def test_a_provider_of_the_users_own_with_that_name_stays_theirs(spindle: Spindle, server: Any) -> None:
    from fake_server import message, turn

    server.script(turn(message("mine")))
    table = f'model_providers.local={{name="Mine",base_url="{server.base_url}"}}'
    assert said(spindle(*ASK, "-c", table, "-m", "gpt-5.2-codex", "hi")) == ["mine"]


# ---- the child -----------------------------------------------------------------------------------------


@pytest.fixture
def plan(tmp_path: Path) -> Plan:
    file = write_model(tmp_path / "tiny.gguf")
    model = copy_in(ModelStore(str(tmp_path / "home")), str(file), "tiny", None, lambda done, total: None)
    return plan_for(model, context=2048, threads=1, free_bytes=None)


def child_of(engine: Engine) -> int:
    assert engine._child is not None
    return engine._child._popen.pid


def serving_below(pid: int) -> int | None:
    """The process below this one that runs a model."""
    for path in Path(f"/proc/{pid}/task").glob("*/children"):
        for child in map(int, path.read_text().split()):
            with suppress(OSError):  # it may be over by now
                if b"spindle.local.serving" in Path(f"/proc/{child}/cmdline").read_bytes():
                    return child
    return None


def test_the_child_ends_with_the_program_however_that_ends(spindle: Spindle, add: Callable[..., str]) -> None:
    endless = add("endless", {'"': "ha", "h": "h"})
    running = spindle.start(*ASK, "-m", endless, "hello")
    child = wait_for(lambda: serving_below(running.pid), "the model is started")
    running.kill()
    running.communicate(timeout=20)
    wait_for(lambda: not Path(f"/proc/{child}").exists(), "the child has ended")


async def test_a_child_that_was_killed_is_started_anew(plan: Plan) -> None:
    engine = borrow(plan, SystemClock())
    try:
        before = await engine.ready()
        assert before.base_url.startswith("http://127.0.0.1:") and len(before.key) > 40
        os.kill(child_of(engine), signal.SIGKILL)
        assert engine._child is not None and await engine._child.ends_within(10)
        after = await engine.ready()
        assert after != before and engine.is_running
    finally:
        await give_back(engine)
    assert not engine.is_running


def test_the_child_ends_by_itself_when_nobody_can_tell_it_to(plan: Plan) -> None:
    """Also where the system does not end children with their parent."""
    command = [sys.executable, "-P", "-m", "spindle.local.serving"]
    order = Order(path=plan.model.path, name="tiny", key="k" * 40, context=plan.context, threads=1)
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as child:
        assert child.stdin is not None and child.stdout is not None
        child.stdin.write(msgspec.json.encode(order) + b"\n")
        child.stdin.flush()
        assert b"http://127.0.0.1:" in child.stdout.readline()
        assert child.poll() is None
        child.stdin.close()
        assert child.wait(20) == 0


async def test_threads_share_a_child_and_the_last_one_ends_it(plan: Plan) -> None:
    first, second = borrow(plan, SystemClock()), borrow(plan, SystemClock())
    assert first is second
    running = await first.ready()
    pid = child_of(first)
    for key, is_let_in in (("", False), ("Bearer guessed", False), (f"Bearer {running.key}", True)):
        seen = await asyncio.to_thread(visit, f"{running.base_url}/slots", authorization=key)
        assert (seen.status != 401) is is_let_in, "other programs of this computer get no answer"
    await give_back(first)
    assert second.is_running
    await give_back(second)
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)


async def test_a_file_that_cannot_be_loaded_is_told_with_the_reason(plan: Plan) -> None:
    with open(plan.model.path, "r+b") as file:
        file.seek(0)
        file.write(b"GGUF\xff")
    engine = borrow(plan, SystemClock())
    with pytest.raises(ModelError, match="the model tiny could not be started: "):
        await engine.ready()
    await give_back(engine)


async def test_the_child_can_neither_write_files_nor_see_keys(plan: Plan, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-secret")
    monkeypatch.setenv("MY_TOKEN", "secret")
    assert not {"OPENAI_API_KEY", "MY_TOKEN"} & child_environment(os.environ).keys()
    from spindle.process.sandbox import landlock

    engine = borrow(plan, SystemClock())
    try:
        await engine.ready()
        told = Path(f"/proc/{child_of(engine)}/environ").read_bytes()
        assert b"secret" not in told
        command = Path(f"/proc/{child_of(engine)}/cmdline").read_bytes()
        running = await engine.ready()
        assert running.key.encode() not in command + told
        if landlock.abi() >= landlock.LEAST_ABI:
            assert "NoNewPrivs:\t1" in Path(f"/proc/{child_of(engine)}/status").read_text()
    finally:
        await give_back(engine)


async def test_without_the_extra_it_is_said_what_to_install(plan: Plan, monkeypatch: pytest.MonkeyPatch) -> None:
    from spindle.config.providers import INSIDE
    from spindle.model.headers import Identity

    monkeypatch.setattr(endpoint_module, "find_spec", lambda name: None)
    store = ModelStore("/nowhere")
    identity = Identity(thread_id="T", version="1", originator="o")
    found = endpoint_module.LocalEndpoint(INSIDE, identity, store=store, plan=lambda name: plan, clock=SystemClock())
    with pytest.raises(ModelError, match=r"pip install 'spindle-agent\[local\]'"):
        await found.ready("tiny")
    await found.aclose()


def test_a_local_model_needs_a_name_if_there_are_several(add: Callable[..., str], home: Path) -> None:
    add("a", ANSWERS)
    add("b", ANSWERS)
    with pytest.raises(ConfigError, match="Name one with -m: a, b"):
        ModelStore(str(home)).find(None)
