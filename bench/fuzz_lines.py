"""Feed mutated lines to `spindle proto` and `spindle app-server`, and see whether they stay alive.

    python bench/fuzz_lines.py [--lines 200000] [--seed 1] [--spindle PATH] [proto] [app-server]

Lines that real clients send are cut, nested, filled with NUL, given other types, huge numbers, odd characters, members
twice and wrong ids. The program runs in a throw-away home and folder, read-only, with a model server that is not there.
After every batch it must answer a valid request; its memory is printed at the beginning, on the way and at the end.
Needs nothing but the standard library.
"""

from __future__ import annotations

import argparse
import copy
import json
import os
import random
import re
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

REPOSITORY = Path(__file__).parent.parent
BATCH = 2_000
WAIT_S = 60
OVERLOADED = -32001
"""Many requests are still being answered; a client asks again."""
ODD_TEXTS = (
    "",
    "\0",
    "a\0b",
    "\ud83d\ude00",
    "\u202e\u2028",
    "é" * 300,
    "x" * 5000,
    "/" + "y" * 300,
    "../" * 60,
    "~",
    "-1",
)
ODD_VALUES: tuple[Any, ...] = (
    *(None, True, [], {}, 0, -1, 2**31, 2**63, 10**30, 1.5, -0.0, 1e308),
    *([[]], {"": {}}, ["\0"], {"\0": 1}, {"type": "text"}, [{"type": "text", "text": 5}]),
    *ODD_TEXTS,
)
DEEP = (5, 100, 127, 129, 250, 990, 1_100, 20_000)


def texts(*said: str) -> list[dict[str, Any]]:
    return [{"type": "text", "text": text} for text in said]


def proto_lines() -> list[dict[str, Any]]:
    """Every op, as clients send it; none that ends the program or runs a command."""
    ops: list[dict[str, Any]] = [
        {"type": "configure_session", "cwd": ".", "approval_policy": "never", "sandbox_policy": {"type": "read-only"}},
        {"type": "user_turn", "items": texts("hi"), "cwd": ".", "model": "gpt-5.2-codex", "effort": "low"},
        {"type": "user_turn", "items": [{"type": "local_image", "path": "none.png"}, *texts("a", "b")]},
        {"type": "user_turn", "items": texts("x"), "final_output_json_schema": {"type": "object"}},
        {"type": "user_input", "items": texts("more"), "mode": "steer"},
        {"type": "override_turn_context", "cwd": ".", "summary": "auto", "sandbox_policy": {"type": "read-only"}},
        {"type": "interrupt"},
        {"type": "exec_approval", "id": "1", "decision": "approved"},
        {"type": "patch_approval", "id": "1", "decision": {"approved": {}}},
        {"type": "resolve_elicitation", "server_name": "s", "request_id": 1, "decision": "accept", "content": {}},
        {"type": "user_input_answer", "id": "1", "response": {"answers": {"q": {"answers": ["a"]}}}},
        {"type": "dynamic_tool_response", "id": "1", "response": {"content_items": [], "success": True}},
        {"type": "list_mcp_tools"},
        {"type": "list_skills", "cwds": ["."], "force_reload": True},
        {"type": "list_grants"},
        {"type": "revoke_grant", "id": "g1"},
        {"type": "list_models"},
        {"type": "get_context"},
        {"type": "pin", "text": "a fact"},
        {"type": "unpin", "text": "a fact"},
        {"type": "thread_rollback", "num_turns": 1},
        {"type": "set_thread_name", "name": "a name"},
        {"type": "get_path"},
    ]
    return [{"id": f"s{n}", "op": op} for n, op in enumerate(ops)]


def app_server_lines(thread_id: str) -> list[dict[str, Any]]:
    """Methods as clients call them; none that runs a command, writes outside the home or signs anybody in."""
    there = {"threadId": thread_id}
    calls: list[tuple[str, dict[str, Any]]] = [
        ("thread/start", {"cwd": ".", "approvalPolicy": "never", "sandbox": "read-only", "config": {"model": "m"}}),
        ("thread/resume", {**there, "excludeTurns": True}),
        ("thread/fork", {**there, "lastTurnId": "t"}),
        ("thread/list", {"limit": 5, "sortKey": "created_at", "cwd": ".", "searchTerm": "x", "archived": False}),
        ("thread/list", {"cursor": "5b302c22225d", "modelProviders": ["fake"], "sourceKinds": ["cli"]}),
        ("thread/loaded/list", {"cursor": None, "limit": 3}),
        ("thread/read", {**there, "includeTurns": True}),
        ("thread/turns/list", {**there, "limit": 2, "sortDirection": "asc", "itemsView": "full"}),
        ("thread/items/list", {**there, "turnId": "x", "limit": 2}),
        ("thread/name/set", {**there, "name": "a name"}),
        ("thread/rollback", {**there, "numTurns": 1}),
        ("thread/unsubscribe", there),
        ("thread/inject_items", {**there, "items": [{"type": "message", "role": "user", "content": []}]}),
        ("turn/start", {**there, "input": texts("hi"), "effort": "low", "outputSchema": {"type": "object"}}),
        ("turn/start", {**there, "input": [{"type": "localImage", "path": "none.png"}], "cwd": "."}),
        ("turn/steer", {**there, "expectedTurnId": "t", "input": texts("more")}),
        ("turn/interrupt", {**there, "turnId": "t"}),
        ("model/list", {"limit": 2, "includeHidden": True}),
        ("skills/list", {"cwds": ["."], "forceReload": True}),
        ("hooks/list", {"cwds": ["."]}),
        ("config/read", {"includeLayers": True, "cwd": "."}),
        ("configRequirements/read", {}),
        ("account/read", {"refreshToken": False}),
        ("account/rateLimits/read", {}),
        ("collaborationMode/list", {}),
        ("experimentalFeature/list", {"limit": 2}),
        ("mcpServerStatus/list", {"limit": 2}),
        ("fuzzyFileSearch", {"query": "read", "roots": ["."], "cancellationToken": "c"}),
        ("initialize", {"clientInfo": {"name": "fuzz", "version": "1"}, "capabilities": {"experimentalApi": True}}),
        ("initialized", {}),
    ]
    answers = [{"id": 0, "result": {"decision": "decline"}}, {"id": 1, "error": {"code": 1, "message": "no"}}]
    return [{"id": 1000 + n, "method": method, "params": params} for n, (method, params) in enumerate(calls)] + answers


class Mutator:
    """Makes other lines of good ones; the same ones for the same seed."""

    def __init__(self, seed: int, lines: list[dict[str, Any]]) -> None:
        self._random = random.Random(seed)
        self.lines = lines

    def __iter__(self) -> Iterator[bytes]:
        while True:
            pick = self._random
            message = json.loads(json.dumps(pick.choice(self.lines)))
            for _ in range(pick.randint(0, 3)):
                self._change(message)
            line = json.dumps(message, ensure_ascii=pick.random() < 0.5).encode("utf-8", "surrogatepass")
            if pick.random() < 0.5:
                line = self._damage(line)
            yield line.replace(b"\n", b" ").replace(b"shutdown", b"shut") + b"\n"

    def _change(self, message: dict[str, Any]) -> None:
        """Replace, add or remove a member somewhere."""
        pick, holder = self._random, message
        while True:
            inner = [value for value in holder.values() if isinstance(value, dict)]
            inner += [
                entry for value in holder.values() if isinstance(value, list) for entry in value if type(entry) is dict
            ]
            if not inner or pick.random() < 0.35:
                break
            holder = pick.choice(inner)
        name = pick.choice([*holder, "extra", pick.choice(ODD_TEXTS)]) if holder else "extra"
        if pick.random() < 0.1:
            holder.pop(name, None)
        elif pick.random() < 0.1:
            holder[name] = self._nested(pick.choice(DEEP[:5]))
        else:
            holder[name] = copy.deepcopy(pick.choice(ODD_VALUES))

    def _nested(self, depth: int) -> Any:
        value: Any = 1
        for _ in range(depth):
            value = [value] if self._random.random() < 0.5 else {"a": value}
        return value

    def _damage(self, line: bytes) -> bytes:
        """What no encoder would write."""
        pick = self._random
        at = pick.randrange(len(line) + 1)
        match pick.randrange(9):
            case 0:
                return line[:at]
            case 1:
                return line[:at] + bytes([pick.randrange(256)]) + line[at + 1 :]
            case 2:
                depth = pick.choice(DEEP)
                return line[:at] + b"[" * depth + b"]" * depth + line[at:]
            case 3:
                return line[:at] + b"\\u0000" + line[at:]
            case 4:
                return line[:at] + b"\\ud800" + line[at:]
            case 5:
                return re.sub(rb"\d+", lambda _: str(pick.choice((2**64, -(10**40), 0))).encode(), line, count=1)
            case 6:
                return line[:-1] + b"," + line[1:] if line.startswith(b"{") else line * 2
            case 7:
                return line[at:] + line[:at]
            case _:
                return b'{"a":' * pick.choice(DEEP) + line


class Program:
    """The program under test, and a thread that reads all it writes."""

    def __init__(self, command: list[str], folder: Path) -> None:
        home, work = folder / "home", folder / "work"
        home.mkdir()
        work.mkdir()
        (home / "config.toml").write_text(
            'model = "gpt-5.2-codex"\nmodel_provider = "dead"\napproval_policy = "never"\nsandbox_mode = "read-only"\n'
            '[model_providers.dead]\nname = "dead"\nbase_url = "http://127.0.0.1:9/v1"\nwire_api = "responses"\n'
            "request_max_retries = 0\nstream_max_retries = 0\n"
        )
        environment = {**os.environ, "CODEX_HOME": str(home), "HOME": str(folder), "NO_PROXY": "*"}
        self.process = subprocess.Popen(
            command, cwd=work, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
        )
        self.lines = 0
        self.internal: list[str] = []
        """What it said of bugs of its own."""
        self._seen = threading.Condition()
        self._wanted: Callable[[dict[str, Any]], bool] | None = None
        self._found: dict[str, Any] | None = None
        self._is_over = False
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            message = json.loads(line)
            self.lines += 1
            if b"internal error" in line:
                self.internal.append(line.decode()[:400])
            with self._seen:
                if self._wanted is not None and self._wanted(message):
                    self._found, self._wanted = message, None
                    self._seen.notify_all()
        with self._seen:
            self._is_over = True
            self._seen.notify_all()

    def write(self, line: bytes) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(line)

    def ask(self, line: dict[str, Any], is_answer: Callable[[dict[str, Any]], bool]) -> dict[str, Any]:
        """The answer to a valid request; fails when there is none."""
        assert self.process.stdin is not None
        with self._seen:
            self._found, self._wanted = None, is_answer
        self.write(json.dumps(line).encode() + b"\n")
        self.process.stdin.flush()
        with self._seen:
            end = time.monotonic() + WAIT_S
            while self._found is None and not self._is_over and time.monotonic() < end:
                self._seen.wait(1)
            if self._found is None:
                raise SystemExit(f"no answer: {'it has ended' if self._is_over else 'it is deaf'}; {line}")
            return self._found

    def memory_mb(self) -> float:
        status = Path(f"/proc/{self.process.pid}/status").read_text()
        found = re.search(r"VmRSS:\s+(\d+) kB", status)
        return int(found[1]) / 1024 if found else 0.0

    def close(self) -> int:
        assert self.process.stdin is not None
        self.process.stdin.close()
        code = self.process.wait(WAIT_S)
        self._reader.join()
        assert self.process.stdout is not None
        self.process.stdout.close()
        return code


def is_alive(program: Program, kind: str, number: int) -> None:
    if kind == "proto":
        sub_id = f"alive-{number}"
        program.ask({"id": sub_id, "op": {"type": "list_models"}}, lambda said: said.get("id") == sub_id)
    else:
        request = {"id": f"alive-{number}", "method": "model/list", "params": {"limit": 1}}
        end = time.monotonic() + WAIT_S
        while "result" not in (answer := program.ask(request, lambda said: said.get("id") == request["id"])):
            if answer["error"]["code"] != OVERLOADED or time.monotonic() > end:
                raise SystemExit(f"a valid request was refused: {answer}")
            time.sleep(0.1)


def new_thread(program: Program, number: int) -> str:
    """A thread for the next batch: that one thread grows with what is said in it is no leak."""
    request = {"id": f"thread-{number}", "method": "thread/start", "params": {}}
    answer = program.ask(request, lambda said: said.get("id") == request["id"])
    return answer["result"]["thread"]["id"]


def greet(program: Program, kind: str) -> list[dict[str, Any]]:
    if kind == "proto":
        return proto_lines()
    hello = {"clientInfo": {"name": "fuzz", "version": "1"}, "capabilities": {"experimentalApi": True}}
    program.ask({"id": "hello", "method": "initialize", "params": hello}, lambda said: said.get("id") == "hello")
    return app_server_lines(new_thread(program, -1))


def fuzz(command: list[str], kind: str, count: int, seed: int, tell: Callable[[str], None]) -> list[str]:
    """Feed `count` lines; gives what the program said of bugs of its own."""
    folder = Path(tempfile.mkdtemp(prefix="spindle-fuzz-", dir="/var/tmp"))
    try:
        program = Program([*command, kind], folder)
        mutator = Mutator(seed, greet(program, kind))
        lines = iter(mutator)
        is_alive(program, kind, 0)
        tell(f"{kind}: {program.memory_mb():.1f} MB at the beginning")
        for fed in range(0, count, BATCH):
            for _ in range(min(BATCH, count - fed)):
                program.write(next(lines))
            is_alive(program, kind, fed + 1)
            if kind == "app-server":
                mutator.lines = app_server_lines(new_thread(program, fed))
            if (fed // BATCH) % 10 == 0:
                tell(f"{kind}: {program.memory_mb():.1f} MB after {min(fed + BATCH, count):,} lines")
        memory = program.memory_mb()
        code = program.close()
        tell(f"{kind}: {memory:.1f} MB after {count:,} lines; {program.lines:,} lines came back; exit code {code}")
        if code != 0:
            raise SystemExit(f"{kind}: exit code {code}")
        return program.internal
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def say(text: str) -> None:
    print(text, flush=True)


def command_of(said: str) -> list[str]:
    """The words of `--spindle`. The program is named from here, and runs in a folder of its own."""
    words = said.split()
    found = shutil.which(words[0]) if words else None
    if found is None:
        raise SystemExit(f"--spindle: there is no program {said!r} to feed")
    return [os.path.abspath(found), *words[1:]]


def main() -> int:
    parser = argparse.ArgumentParser(description="Feed mutated lines to the front ends that programs talk to.")
    parser.add_argument("kinds", nargs="*", help="proto, app-server; default: both")
    parser.add_argument("--lines", type=int, default=200_000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--spindle", default=str(REPOSITORY / ".venv/bin/spindle"), help="the command to feed")
    arguments = parser.parse_args()
    command = command_of(arguments.spindle)
    found: list[str] = []
    for kind in arguments.kinds or ["proto", "app-server"]:
        found += fuzz(command, kind, arguments.lines, arguments.seed, say)
    for line in sorted({re.sub(r'"id":[^,]*,', "", line) for line in found}):
        print(line, file=sys.stderr)
    print(f"{len(found)} internal errors")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
