"""Sub-agents of the installed command: what the server sees, what exec prints, what is left on the disk."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

from fake_server import FakeServer, Received, Turn, call, message, turn


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
