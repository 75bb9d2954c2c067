"""Threads go from Spindle to the real Codex and back: each program resumes what the other one wrote.

The two generations of Codex whose files are in `fixtures/rollouts` come from npm; `INTEROP_CODEX` names another
version to take instead of the newer one, for example "latest". The files themselves are resumed without npm.
"""

from __future__ import annotations

import itertools
import json
import os
import re
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from app_server.client import Client
from fake_server import FakeServer, Item, Received, call, custom_call, message, reasoning, turn
from npm_cache import installed

# Room for the first run, which downloads the programs; later runs take seconds.
pytestmark = pytest.mark.timeout(240)

FIXTURES = Path(__file__).parents[1] / "fixtures" / "rollouts"
RECORDED_FOLDER = "/home/dev/project"
RECORDED_TEXT = "Text of the recorded program."
PATCH = "*** Begin Patch\n*** Add File: {name}\n+from the patch\n*** End Patch\n"
FULL_ACCESS = "--dangerously-bypass-approvals-and-sandbox"


# ---- the programs --------------------------------------------------------------------------------------


class Agent:
    """A program that has the command line of Codex. All agents of a test share home, workspace and model server."""

    def __init__(self, command: list[str], workspace: Path, environment: dict[str, str]) -> None:
        self.command, self.workspace, self.environment = command, workspace, environment

    def __call__(self, *args: str) -> list[dict[str, Any]]:
        """The events of one run that must succeed."""
        done = subprocess.run(
            [*self.command, "exec", "--json", *args],
            cwd=self.workspace,
            env=self.environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=50,
        )
        assert done.returncode == 0, done.stderr[-2000:] + done.stdout[-2000:]
        return [json.loads(line) for line in done.stdout.splitlines()]

    def start(self, prompt: str) -> str:
        return self(FULL_ACCESS, prompt)[0]["thread_id"]

    def resume(self, thread: str, prompt: str) -> list[dict[str, Any]]:
        """`thread` may be `--last`."""
        return self(FULL_ACCESS, "resume", thread, prompt)


@pytest.fixture
def quiet_environment(environment: dict[str, str], tmp_path: Path) -> dict[str, str]:
    """A user without shell profiles and skills of their own."""
    folder = tmp_path / "user"
    folder.mkdir()
    return {**environment, "HOME": str(folder), "ALL_PROXY": environment["HTTP_PROXY"]}


@pytest.fixture
def spindle(spindle_cmd: list[str], workspace: Path, quiet_environment: dict[str, str]) -> Agent:
    return Agent(spindle_cmd, workspace, quiet_environment)


@pytest.fixture(scope="session", params=["0.101.0", "0.166.0"])
def codex_program(request: pytest.FixtureRequest) -> str:
    version = request.param if request.param == "0.101.0" else os.environ.get("INTEROP_CODEX") or request.param
    place = installed(f"codex-{version}", f"@openai/codex@{version}")
    native = (place / "node_modules" / "@openai").glob("codex-*/vendor/*/*/codex")
    program = next((path for path in sorted(native) if path.is_file()), None)
    if program is None:
        pytest.skip(f"Codex {version} has no program for this platform")
    return str(program)


@pytest.fixture
def codex(codex_program: str, workspace: Path, quiet_environment: dict[str, str]) -> Agent:
    return Agent([codex_program], workspace, quiet_environment)


# ---- what requests say ---------------------------------------------------------------------------------


def base_text(request: Received) -> str:
    """The newer Codex sends the base text to some models as the first message."""
    body = request.json
    return body["instructions"] if "instructions" in body else body["input"][0]["content"][0]["text"]


def conversation(request: Received) -> list[tuple[Any, ...]]:
    body = request.json
    return [gist(item) for item in (body["input"] if "instructions" in body else body["input"][1:])]


def gist(item: Item) -> tuple[Any, ...]:
    """What an item says, whatever program sent or recorded it."""
    kind = item["type"]
    if kind == "message":
        return item["role"], *[part["text"] for part in item["content"]]
    if kind == "reasoning":
        return kind, [part["text"] for part in item["summary"]], item["encrypted_content"]
    if kind.endswith("_output"):
        return kind, item["call_id"], output_text(item["output"])
    return kind, item["call_id"], item["name"], item.get("arguments", item.get("input"))


def output_text(output: str) -> str:
    """Codex 0.101 records the result of a patch as JSON and sends it as text."""
    if output.startswith('{"output":'):
        return json.loads(output)["output"]
    return output.partition("Output:\n")[2] or output


def answer(text: str) -> tuple[str, str]:
    return "assistant", text


def prompt(text: str) -> tuple[str, str]:
    return "user", text


def assert_calls_are_paired(said: list[tuple[Any, ...]]) -> None:
    calls = [each[1] for each in said if each[0].endswith("_call")]
    outputs = [each[1] for each in said if each[0].endswith("_call_output")]
    assert calls == outputs


def work(server: FakeServer, number: int) -> None:
    """Script a turn with reasoning, a command, a patch and an answer."""
    server.script(
        turn(reasoning(f"**Step {number}**"), call("exec_command", {"cmd": f"echo out-{number}"}, f"run-{number}")),
        turn(custom_call("apply_patch", PATCH.format(name=f"n{number}.txt"), f"patch-{number}")),
        turn(message(f"answer {number}")),
    )


def rollout_of(home: Path, thread: str) -> Path:
    (path,) = (home / "sessions").rglob(f"rollout-*-{thread}.jsonl")
    return path


def recorded_base_text(home: Path, thread: str) -> str:
    with rollout_of(home, thread).open() as lines:
        return json.loads(next(lines))["payload"]["base_instructions"]["text"]


# ---- live: each program goes on with the other one's thread ---------------------------------------------


@pytest.mark.parametrize("by", ["id", "--last"])
def test_codex_resumes_a_thread_of_spindle(
    spindle: Agent, codex: Agent, server: FakeServer, home: Path, by: str
) -> None:
    work(server, 1)
    work(server, 2)
    thread = spindle.start("first")
    spindle.resume(thread, "second")
    written = conversation(server.turns_asked[-1])
    events = codex.resume(thread if by == "id" else by, "third")

    asked = server.turns_asked[-1]
    said = conversation(asked)
    assert said[: len(written) + 1] == [*written, answer("answer 2")]
    assert said[-1] == prompt("third")
    assert_calls_are_paired(said)
    assert ("function_call_output", "run-1", "out-1\n") in said
    assert base_text(asked) == base_text(server.turns_asked[0])
    assert asked.json["prompt_cache_key"] == thread
    assert events[0]["thread_id"] == thread
    # Six requests of Spindle's and one of its own.
    assert events[-1]["usage"]["input_tokens"] == 700
    assert '"third"' in rollout_of(home, thread).read_text()


def test_codex_resumes_a_thread_that_changed_its_provider_at_every_turn(
    spindle: Agent, codex: Agent, server: FakeServer, spindle_cmd: list[str]
) -> None:
    """Twelve turns over three wires; then Codex goes on with it, and Spindle with what Codex made of it."""
    numbers = range(12)
    providers = ("fake", "to_chat", "to_messages")
    told = f'name="other", base_url="{server.base_url}", env_key="HOME"'
    tables = [f'model_providers.to_{wire}={{{told}, wire_api="{wire}"}}' for wire in ("chat", "messages")]
    options = [word for table in tables for word in ("-c", table)]
    client = Client(
        [*spindle_cmd, "app-server", "--listen", "stdio://", *options], spindle.workspace, spindle.environment
    )
    try:
        client.initialize()
        thread = client.start_thread()
        for number in numbers:
            work(server, number)
            ended, _ = client.turn(thread, f"prompt {number}", modelProvider=providers[number * 5 % 3])
            assert ended["status"] == "completed", ended
    finally:
        client.close()
    assert server.problems == []
    codex.resume(thread, "prompt of codex")
    said = conversation(server.turns_asked[-1])
    for number in numbers:
        assert ("function_call_output", f"run-{number}", f"out-{number}\n") in said
        assert prompt(f"prompt {number}") in said and answer(f"answer {number}") in said
    assert_calls_are_paired(said)
    work(server, 12)
    spindle.resume(thread, "prompt 12")
    assert prompt("prompt of codex") in conversation(server.turns_asked[-1]) and server.problems == []


@pytest.mark.parametrize("by", ["id", "--last"])
def test_spindle_resumes_a_thread_of_codex(
    spindle: Agent, codex: Agent, server: FakeServer, home: Path, workspace: Path, by: str
) -> None:
    (workspace / "AGENTS.md").write_text("Be kind.\n")
    work(server, 1)
    work(server, 2)
    thread = codex.start("first")
    codex.resume(thread, "second")
    written = conversation(server.turns_asked[-1])
    events = spindle.resume(thread if by == "id" else by, "third")

    asked = server.turns_asked[-1]
    said = conversation(asked)
    assert said[: len(written) + 1] == [*written, answer("answer 2")]
    # Codex has put its own skills into the home and describes them in its own words.
    assert [text.partition(" for ")[0] for _, text in said[len(written) + 1 : -1]] == ["# AGENTS.md instructions"]
    assert said[-1] == prompt("third")
    assert_calls_are_paired(said)
    # The newer Codex leaves chapters about tools it does not offer out of what it sends.
    assert base_text(asked) == recorded_base_text(home, thread)
    assert asked.json["prompt_cache_key"] == events[0]["thread_id"] == thread
    assert events[-1]["usage"]["input_tokens"] == 700
    assert '"third"' in rollout_of(home, thread).read_text()


def test_a_thread_goes_back_and_forth_and_every_request_extends_the_one_before(
    spindle: Agent, codex: Agent, server: FakeServer, home: Path
) -> None:
    for number in range(1, 5):
        work(server, number)
    thread = spindle.start("from spindle")
    codex.resume(thread, "from codex")
    spindle.resume(thread, "spindle again")
    codex.resume(thread, "codex again")

    said = [conversation(request) for request in server.turns_asked]
    assert len(said) == 12
    for before, after in itertools.pairwise(said):
        assert after[: len(before)] == before
    assert_calls_are_paired(said[-1])
    assert len({base_text(request) for request in server.turns_asked}) == 1
    assert {request.json["prompt_cache_key"] for request in server.turns_asked} == {thread}
    assert [path.name for path in (home / "sessions").rglob("*.jsonl")] == [rollout_of(home, thread).name]


# ---- recorded: files of both generations ----------------------------------------------------------------


@pytest.fixture
def recorded(home: Path, workspace: Path) -> Callable[[str], tuple[str, list[Item]]]:
    """Puts the recorded threads into the home as if made in the workspace; gives the id and the items of one."""
    folder = home / "sessions" / "2026" / "11" / "15"
    folder.mkdir(parents=True)
    records: dict[str, list[dict[str, Any]]] = {}
    for path in FIXTURES.glob("*.jsonl"):
        text = path.read_text().replace(RECORDED_FOLDER, str(workspace))
        records[path.stem] = [json.loads(line) for line in text.splitlines()]
        thread = records[path.stem][0]["payload"]["id"]
        (folder / f"rollout-2026-11-15T19-34-02-{thread}.jsonl").write_text(text)

    def pick(name: str) -> tuple[str, list[Item]]:
        lines = records[name]
        return lines[0]["payload"]["id"], [line["payload"] for line in lines if line["type"] == "response_item"]

    return pick


def resume_recorded(spindle: Agent, name: str, thread: str) -> None:
    model = "gpt-5.2-codex" if name.startswith("codex-0.101") else "gpt-5.5"
    spindle("-m", model, FULL_ACCESS, "resume", thread, "go on")


@pytest.mark.parametrize("name", ["codex-0.101.0", "codex-0.166.0"])
def test_a_recorded_thread_is_sent_whole_and_nothing_is_repeated(
    spindle: Agent, server: FakeServer, workspace: Path, recorded: Callable[[str], tuple[str, list[Item]]], name: str
) -> None:
    thread, items = recorded(name)
    if name == "codex-0.101.0":
        # What that file says about the project's instructions.
        (workspace / "AGENTS.md").write_text(RECORDED_TEXT)
    resume_recorded(spindle, name, thread)

    (asked,) = server.turns_asked
    said = conversation(asked)
    assert said == [*[gist(item) for item in items], prompt("go on")]
    assert_calls_are_paired(said)
    assert base_text(asked) == RECORDED_TEXT
    assert asked.json["prompt_cache_key"] == thread
    assert "internal_chat_message_metadata_passthrough" not in asked.body.decode()


@pytest.mark.parametrize("name", ["codex-0.101.0-fork", "codex-0.166.0-fork"])
def test_a_recorded_fork_is_sent_as_its_compaction_rollback_and_interrupt_left_it(
    spindle: Agent, server: FakeServer, workspace: Path, recorded: Callable[[str], tuple[str, list[Item]]], name: str
) -> None:
    thread, _ = recorded(name)
    is_old = name.startswith("codex-0.101")
    if is_old:
        (workspace / "AGENTS.md").write_text(RECORDED_TEXT)
    resume_recorded(spindle, name, thread)

    (asked,) = server.turns_asked
    said = conversation(asked)
    told = [f"{each[1]}".partition("\n")[0] for each in said]
    # The older one rolled the turn after the compaction back, and repeats its context in front.
    context = ["<permissions instructions>", f"# AGENTS.md instructions for {workspace}", "<environment_context>"]
    assert told == [
        *(context if is_old else []),
        "Please add a file",
        "And list the folder",
        *([] if is_old else ["<skills_instructions>", "<environment_context>"]),
        "Only in the fork",
        "Another model began this work.",
        *([] if is_old else ["After compaction", "After compaction."]),
        "Wait a while",
        "call_9",
        "call_9",
        "<turn_aborted>",
        "go on",
    ]
    assert_calls_are_paired(said)
    assert base_text(asked) == RECORDED_TEXT


def test_instructions_that_the_newer_codex_has_told_are_not_repeated(
    spindle: Agent,
    server: FakeServer,
    home: Path,
    workspace: Path,
    recorded: Callable[[str], tuple[str, list[Item]]],
) -> None:
    thread, items = recorded("codex-0.166.0")
    rollout = rollout_of(home, thread)
    told = json.dumps({"directory": str(workspace), "text": "Be kind.\n"})
    rollout.write_text(rollout.read_text().replace('"agents_md":{}', f'"agents_md":{told}'))
    (workspace / "AGENTS.md").write_text("Be kind.\n")
    resume_recorded(spindle, "codex-0.166.0", thread)
    (workspace / "AGENTS.md").write_text("Be short.\n")
    resume_recorded(spindle, "codex-0.166.0", thread)

    first, second = (conversation(request)[len(items) :] for request in server.turns_asked)
    assert first == [prompt("go on")]
    assert [text.partition("\n")[0] for _, text in second] == [
        "go on",
        "done",
        f"# AGENTS.md instructions for {workspace}",
        "go on",
    ]


def test_what_differs_from_the_record_is_said_once(
    spindle: Agent, server: FakeServer, workspace: Path, recorded: Callable[[str], tuple[str, list[Item]]]
) -> None:
    thread, items = recorded("codex-0.101.0")
    (workspace / "AGENTS.md").write_text("Another text.")
    spindle("-s", "workspace-write", "resume", thread, "go on")
    spindle("-s", "workspace-write", "resume", thread, "and on")

    first, second = (conversation(request)[len(items) :] for request in server.turns_asked)
    assert [text.partition("\n")[0] for _, text in first] == [
        "<permissions instructions>",
        f"# AGENTS.md instructions for {workspace}",
        "go on",
    ]
    assert second == [*first, answer("done"), prompt("and on")]


# ---- killed ---------------------------------------------------------------------------------------------


def processes_running(*argv: str) -> list[int]:
    wanted = "\0".join(argv).encode() + b"\0"
    found: list[int] = []
    for name in os.listdir("/proc"):
        try:
            if name.isdigit() and Path("/proc", name, "cmdline").read_bytes() == wanted:
                found.append(int(name))
        except OSError:
            pass  # gone meanwhile
    return found


def wait_until(holds: Callable[[], bool], what: str) -> None:
    end = time.monotonic() + 20
    while not holds():
        assert time.monotonic() < end, what
        time.sleep(0.02)


@pytest.fixture
def nap() -> Iterator[list[str]]:
    """A command that nobody else runs; nothing of it survives the test."""
    argv = ["sleep", f"30.{os.getpid()}{time.monotonic_ns()}"]
    yield argv
    for pid in processes_running(*argv):
        os.kill(pid, 9)


@pytest.mark.skipif(not os.path.isdir("/proc/self"), reason="needs /proc")
@pytest.mark.parametrize("sandbox", ["workspace-write", "danger-full-access"])
def test_a_thread_goes_on_after_its_program_was_killed_in_the_middle_of_a_command(
    spindle: Agent, server: FakeServer, home: Path, nap: list[str], sandbox: str
) -> None:
    server.script(turn(reasoning("**Waiting**"), call("exec_command", {"cmd": " ".join(nap)}, "c1")))
    process = subprocess.Popen(
        [*spindle.command, "exec", "--json", "-s", sandbox, "first"],
        cwd=spindle.workspace,
        env=spindle.environment,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
    )
    with process:
        assert process.stdout
        thread = json.loads(process.stdout.readline())["thread_id"]
        try:
            wait_until(lambda: bool(processes_running(*nap)), "the command did not start")
        finally:
            process.kill()
    if sandbox == "workspace-write":
        wait_until(lambda: not processes_running(*nap), "the command outlived its agent")

    left = rollout_of(home, thread).read_text()
    assert left.endswith("\n")
    assert [json.loads(line)["type"] for line in left.splitlines()][-2:] == ["response_item", "response_item"]
    spindle("-s", sandbox, "resume", thread, "go on")

    before, after = (conversation(request) for request in server.turns_asked)
    assert after == [
        *before,
        ("reasoning", ["**Waiting**"], "sealed"),
        ("function_call", "c1", "exec_command", json.dumps({"cmd": " ".join(nap)})),
        ("function_call_output", "c1", "aborted"),
        prompt("go on"),
    ]
    grown = rollout_of(home, thread).read_text()
    assert grown.startswith(left)
    assert re.search(r'"type":"task_complete"[^\n]*\n\Z', grown)
