"""Sub-agents of the installed command: what the server sees, what exec prints, what is left on the disk."""

from __future__ import annotations

import json
import os
import signal
import subprocess
from pathlib import Path

from fake_server import FakeServer, Received, Turn, call, message, refuses, turn


def test_exec_shows_a_sub_agent_and_counts_what_it_cost(
    spindle_cmd: list[str], environment: dict[str, str], server: FakeServer, workspace: Path, home: Path
) -> None:
    agents: list[str] = []
    usage = {"input_tokens": 100, "output_tokens": 10, "total_tokens": 110}

    def waits(received: Received) -> Turn:
        outputs = [item for item in received.json["input"] if item["type"] == "function_call_output"]
        agents.append(json.loads(outputs[0]["output"])["agent_id"])
        return turn(call("wait", {"ids": agents}, "c2"), usage=usage)

    def answers(received: Received) -> Turn:
        if received.headers.get("x-openai-subagent") == "collab_spawn":
            return turn(message("FOUND"), usage=usage)
        count = sum(item["type"] == "function_call_output" for item in received.json["input"])
        if count == 0:
            return turn(call("spawn_agent", {"message": "look"}, "c1"), usage=usage)
        return waits(received) if count == 1 else turn(message("done"), usage=usage)

    server.script(answers, answers, answers, answers)
    done = subprocess.run(
        [*spindle_cmd, "exec", "--json", "-c", "features.collab=true", "go"],
        cwd=workspace,
        env=environment,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.returncode == 0, done.stderr
    lines = [json.loads(line) for line in done.stdout.splitlines()]
    items = [line["item"] for line in lines if line["type"] == "item.completed"]
    (agent_id,) = agents
    assert [item.get("tool", item["type"]) for item in items] == ["spawn_agent", "wait", "agent_message"]
    assert items[1]["agents_states"] == {agent_id: {"status": "completed", "message": "FOUND"}}
    assert lines[-1]["usage"]["input_tokens"] == 4 * 100
    threads = {received.headers["session_id"] for received in server.requests}
    assert threads == {agent_id, lines[0]["thread_id"]}
    metas = [json.loads(path.read_text().splitlines()[0])["payload"] for path in home.rglob("rollout-*.jsonl")]
    assert len(metas) == 2
    (child,) = [meta for meta in metas if meta["id"] == agent_id]
    spawned = {"parent_thread_id": lines[0]["thread_id"], "depth": 1}
    assert child["source"] == {"subagent": {"thread_spawn": spawned}}


class Cast:
    """A server that plays the parent, which starts an agent for each task and waits for all, and every child."""

    def __init__(self, tasks: dict[str, list[Turn]]) -> None:
        self.tasks = tasks
        self.asked = dict.fromkeys(tasks, 0)
        self.waited: dict[str, object] = {}

    def __call__(self, received: Received) -> Turn:
        items = received.json["input"]
        outputs = {item["call_id"]: item["output"] for item in items if item["type"] == "function_call_output"}
        if received.headers.get("x-openai-subagent") == "collab_spawn":
            said = "\n".join(part.get("text", "") for item in items for part in item.get("content") or ())
            task = next(name for name in self.tasks if f"task {name}." in said)
            self.asked[task] += 1
            return self.tasks[task].pop(0)
        if not outputs:
            return turn(*(call("spawn_agent", {"message": f"task {name}."}, f"spawn-{name}") for name in self.tasks))
        if "wait" in outputs:
            self.waited = json.loads(outputs["wait"])
            return turn(message("done"))
        ids = [json.loads(outputs[f"spawn-{name}"])["agent_id"] for name in self.tasks]
        return turn(call("wait", {"ids": ids, "timeout_ms": 60_000}, "wait"))

    @property
    def results(self) -> list[str]:
        """What came back from the children, in the order of their tasks."""
        states = self.waited["status"]
        assert isinstance(states, dict) and self.waited["timed_out"] is False
        return [next(iter(state.values())) if isinstance(state, dict) else state for state in states.values()]


def exec_words(spindle_cmd: list[str], *options: str) -> list[str]:
    settings = ["features.collab=true", *options]
    return [*spindle_cmd, "exec", "--json", "--yolo", *(word for text in settings for word in ("-c", text)), "go"]


def run_exec(words: list[str], workspace: Path, environment: dict[str, str]) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        words, cwd=workspace, env=environment, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=60
    )


def test_eight_sub_agents_meet_and_a_ninth_that_crashes_harms_nobody(
    spindle_cmd: list[str], environment: dict[str, str], server: FakeServer, workspace: Path
) -> None:
    """Each child's command ends only when all eight run: one after the other, none would come to an end."""
    meets = "touch here-{}; until [ $(ls here-* | wc -l) = 8 ]; do sleep 0.05; done; echo met"
    tasks = {
        f"n{number}": [turn(call("exec_command", {"cmd": meets.format(number)}, "c")), turn(message(f"R{number}"))]
        for number in range(8)
    }
    cast = Cast({**tasks, "crash": [refuses(400, {"error": {"message": "no such thing"}})]})
    server.otherwise(cast)
    done = run_exec(exec_words(spindle_cmd, "agents.max_threads=9"), workspace, environment)
    assert done.returncode == 0, done.stderr
    *fine, crashed = cast.results
    assert fine == [f"R{number}" for number in range(8)]
    assert "no such thing" in crashed
    assert cast.asked == {**dict.fromkeys(tasks, 2), "crash": 1}


def test_a_budget_stops_all_sub_agents_together(
    spindle_cmd: list[str], environment: dict[str, str], server: FakeServer, workspace: Path
) -> None:
    def plans() -> list[Turn]:
        return [turn(call("update_plan", {"plan": []}, f"p{number}")) for number in range(20)]

    cast = Cast({"a": plans(), "b": plans()})
    server.otherwise(cast)
    done = run_exec(exec_words(spindle_cmd, "spindle.agents.max_requests=5"), workspace, environment)
    assert done.returncode == 0, done.stderr
    reached = "Budget reached: max_requests = 5 (5 used) by the sub-agents of this thread."
    assert all(reached in result for result in cast.results)
    assert sum(cast.asked.values()) == 5


def test_ctrl_c_stops_the_sub_agents_too(
    spindle_cmd: list[str], environment: dict[str, str], server: FakeServer, workspace: Path, home: Path
) -> None:
    ours = f"300.{os.getpid()}"
    command = "echo > {0}-began; sleep " + ours
    cast = Cast({name: [turn(call("exec_command", {"cmd": command.format(name)}, "c"))] for name in ("a", "b")})
    server.otherwise(cast)
    for name in ("a", "b"):
        os.mkfifo(workspace / f"{name}-began")
    process = subprocess.Popen(
        exec_words(spindle_cmd),
        cwd=workspace,
        env=environment,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    for name in ("a", "b"):
        (workspace / f"{name}-began").read_bytes()  # waits for the child's command
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=30)
    assert process.returncode == 1 and b"turn.completed" not in out and b"Traceback" not in err
    assert cast.asked == {"a": 1, "b": 1} and cast.waited == {}
    listed = subprocess.run(["ps", "-eo", "args"], capture_output=True, text=True, check=True).stdout
    assert f"sleep {ours}" not in listed.splitlines()
    records = [path.read_text() for path in home.rglob("rollout-*.jsonl")]
    assert len(records) == 3 and all('"turn_aborted"' in record for record in records)
