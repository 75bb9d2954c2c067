"""Many threads in one app-server: is anything lost or out of order, what does an idle thread hold, does it grow?

    python3 bench/app_server_load.py [--threads 100] [--rounds 50] [--at-a-time 8] [--repeats 3]
                                     [--order rounds|threads] [--agent PATH]

Each repetition opens threads, runs rounds in all of them, some at a time, and archives them. A round is a turn whose
answer arrives in pieces that name the thread and the round; every tenth round also runs a command. In the last
repetition a second client follows every thread and never reads. `--order rounds` goes round all threads, so that each
waits for all others after every round; `--order threads` finishes some threads before it begins the next. Prints
figures and verdicts; exits with 1 if one is not met. Memory is the resident size of the server. The model server and
the client are in this process.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Callable
from pathlib import Path
from typing import Any

from harness import CONFIG, environment

Json = dict[str, Any]
PIECES = 6
COMMAND_EVERY = 10
MAX_LINE = 64 << 20
IDLE_MB = 0.2
"""What an idle thread may hold, without its history."""
MAX_FACTOR = 1.5
"""What the history of a thread may take in memory, for each byte that is recorded of it."""
LEFT_MB = 2.0
"""What may be left of a whole repetition when its threads are put away."""
SETTLE_S = 3.0
"""After so long nothing goes on in the server."""


# ---- the model -------------------------------------------------------------------------------------


def answer_to(body: Json) -> bytes:
    """Says after the person what they said, in pieces; runs a command first if they ask for one."""
    last = body["input"][-1]
    said = next(
        part["text"]
        for item in reversed(body["input"])
        if item.get("role") == "user"
        for part in reversed(item["content"])
        if part["type"] == "input_text"
    )
    if said.endswith("run") and last.get("type") == "message":
        item: Json = {"type": "function_call", "name": "exec_command", "call_id": f"c {said}", "id": "fc"}
        item["arguments"] = json.dumps({"cmd": f"echo {said}"})
        events = [{"type": "response.output_item.done", "item": item}]
    else:
        pieces = [f"[{said} {number}]" for number in range(PIECES)]
        item = {"type": "message", "role": "assistant", "id": "m", "content": []}
        events = [{"type": "response.output_item.added", "item": item}]
        events += [{"type": "response.output_text.delta", "item_id": "m", "delta": piece} for piece in pieces]
        whole = {**item, "content": [{"type": "output_text", "text": "".join(pieces)}]}
        events.append({"type": "response.output_item.done", "item": whole})
    usage = {"input_tokens": 100, "output_tokens": 10, "total_tokens": 110}
    events.append({"type": "response.completed", "response": {"id": "r", "usage": usage}})
    data = b"".join(f"data: {json.dumps(event)}\n\n".encode() for event in events)
    head = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ncontent-length: %d\r\n\r\n" % len(data)
    return head + data


async def serve_model(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    try:
        while True:
            head = (await reader.readuntil(b"\r\n\r\n")).lower()
            length = int(head.partition(b"content-length:")[2].split(b"\r\n")[0] or 0)
            body = await reader.readexactly(length)
            if not head.startswith(b"post"):
                writer.write(b"HTTP/1.1 404 Not Found\r\ncontent-length: 0\r\n\r\n")
                continue
            writer.write(answer_to(json.loads(body)))
            await writer.drain()
    except (asyncio.IncompleteReadError, ConnectionError):
        writer.close()


# ---- a client --------------------------------------------------------------------------------------


class Client:
    """One connection. What is told of each thread is kept in its order."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader, self._writer = reader, writer
        self._count = 0
        self._answers: dict[int, asyncio.Future[Json]] = {}
        self._ends: dict[str, asyncio.Future[None]] = {}
        self.told: defaultdict[str, list[Json]] = defaultdict(list)
        self._task = asyncio.ensure_future(self._read())

    async def _read(self) -> None:
        while line := await self._reader.readline():
            message = json.loads(line)
            if "method" not in message:
                self._answers.pop(message["id"]).set_result(message)
                continue
            params = message["params"]
            if "threadId" in params:
                self.told[params["threadId"]].append(message)
            if message["method"] == "turn/completed":
                self._ends.pop(params["threadId"]).set_result(None)

    async def ask(self, method: str, params: Json | None = None) -> Json:
        self._count += 1
        answer = self._answers[self._count] = asyncio.get_running_loop().create_future()
        self._writer.write(json.dumps({"method": method, "id": self._count, "params": params or {}}).encode() + b"\n")
        reply = await answer
        if "error" in reply:
            raise RuntimeError(f"{method}: {reply['error']['message']}")
        return reply["result"]

    async def turn(self, thread_id: str, text: str) -> list[Json]:
        """Run a turn; gives what was told of the thread meanwhile."""
        self.told[thread_id].clear()
        end = self._ends[thread_id] = asyncio.get_running_loop().create_future()
        await self.ask("turn/start", {"threadId": thread_id, "input": [{"type": "text", "text": text}]})
        await end
        return list(self.told[thread_id])

    async def close(self) -> None:
        self._writer.close()
        self._task.cancel()


async def connect(path: str) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    for _ in range(200):
        try:
            return await asyncio.open_unix_connection(path, limit=MAX_LINE)
        except (FileNotFoundError, ConnectionRefusedError):
            await asyncio.sleep(0.05)
    raise RuntimeError("the server does not listen")


async def introduce(client: Client) -> Client:
    await client.ask("initialize", {"clientInfo": {"name": "load", "version": "1"}})
    return client


# ---- what is looked at -----------------------------------------------------------------------------


def faults_of(told: list[Json], text: str) -> int:
    """What is missing, doubled or out of order in the notifications of one turn."""
    expected = "".join(f"[{text} {number}]" for number in range(PIECES))
    kinds = [
        message["method"] + (f" {message['params']['item']['type']}" if message["method"].startswith("item/c") else "")
        for message in told
        if message["method"] in ("turn/started", "item/completed", "turn/completed")
    ]
    command = ["item/completed commandExecution"] if text.endswith("run") else []
    wanted = ["turn/started", "item/completed userMessage", *command, "item/completed agentMessage", "turn/completed"]
    deltas = [message["params"]["delta"] for message in told if message["method"] == "item/agentMessage/delta"]
    done = [message["params"]["item"] for message in told if message["method"] == "item/completed"]
    answers = [item["text"] for item in done if item["type"] == "agentMessage"]
    outputs = [item["aggregatedOutput"] for item in done if item["type"] == "commandExecution"]
    is_right = (
        kinds == wanted
        and "".join(deltas) == expected
        and answers == [expected]
        and outputs == ([f"{text}\n"] if command else [])
    )
    return 0 if is_right else 1


def resident_mb(pid: int) -> float:
    with open(f"/proc/{pid}/status") as file:
        line = next(line for line in file if line.startswith("VmRSS:"))
    return int(line.split()[1]) / 1024


def cpu_s(pid: int) -> float:
    """Without the commands that it has run."""
    with open(f"/proc/{pid}/stat") as file:
        fields = file.read().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def size_mb(folder: Path) -> float:
    return sum(file.stat().st_size for file in folder.rglob("*.jsonl")) / (1 << 20)


class Figures:
    """What one repetition showed."""

    def __init__(self) -> None:
        self.faults = 0
        self.seconds = 0.0
        self.cpu_s = 0.0
        """Of the server, for the rounds alone."""
        self.opened_mb = 0.0
        """What each thread took when it was opened."""
        self.used_mb = 0.0
        """What each took when its rounds were over."""
        self.history_mb = 0.0
        """What was recorded of each."""
        self.left_mb = 0.0
        """The server when all were put away."""


async def repetition(client: Client, pid: int, home: Path, options: argparse.Namespace, silent: str | None) -> Figures:
    figures = Figures()
    before = resident_mb(pid)
    started = {"approvalPolicy": "never", "sandbox": "danger-full-access"}
    ids = [(await client.ask("thread/start", started))["thread"]["id"] for _ in range(options.threads)]
    figures.opened_mb = (resident_mb(pid) - before) / options.threads
    stopped = await connect(silent) if silent is not None else None
    if stopped is not None:
        await follow_and_stop_reading(stopped, ids)
    places = asyncio.Semaphore(options.at_a_time)
    whole_threads = asyncio.Semaphore(options.at_a_time if options.order == "threads" else options.threads)

    async def run(number: int, thread_id: str) -> None:
        async with whole_threads:
            for turn in range(options.rounds):
                text = f"thread {number} round {turn}" + (" run" if turn % COMMAND_EVERY == 0 else "")
                async with places:
                    figures.faults += faults_of(await client.turn(thread_id, text), text)

    began, used = time.monotonic(), cpu_s(pid)
    await asyncio.gather(*(run(number, thread_id) for number, thread_id in enumerate(ids)))
    figures.seconds, figures.cpu_s = time.monotonic() - began, cpu_s(pid) - used
    await asyncio.sleep(SETTLE_S)
    figures.used_mb = (resident_mb(pid) - before) / options.threads
    figures.history_mb = size_mb(home / "sessions") / options.threads
    for thread_id in ids:
        kept = await client.ask("thread/read", {"threadId": thread_id, "includeTurns": True})
        figures.faults += abs(len(kept["thread"]["turns"]) - options.rounds)
        await client.ask("thread/archive", {"threadId": thread_id})
    if stopped is not None:
        stopped[1].close()
    await asyncio.sleep(SETTLE_S)
    figures.left_mb = resident_mb(pid)
    return figures


async def follow_and_stop_reading(stream: tuple[asyncio.StreamReader, asyncio.StreamWriter], ids: list[str]) -> None:
    """A client that asks for everything and takes nothing of it from the socket."""
    reader, writer = stream
    writer.write(json.dumps({"method": "initialize", "id": 0, "params": {"clientInfo": {"name": "silent"}}}).encode())
    writer.write(b"\n")
    await reader.readline()
    for number, thread_id in enumerate(ids, 1):
        order = {"method": "thread/resume", "id": number, "params": {"threadId": thread_id, "excludeTurns": True}}
        writer.write(json.dumps(order).encode() + b"\n")
        while json.loads(await reader.readline()).get("id") != number:
            pass
    writer.transport.pause_reading()  # type: ignore[attr-defined]


# ---- the whole -------------------------------------------------------------------------------------


async def measure(options: argparse.Namespace, scratch: Path) -> bool:
    model = await asyncio.start_server(serve_model, "127.0.0.1", 0, limit=MAX_LINE)
    port = model.sockets[0].getsockname()[1]
    home, path = scratch / "home", str(scratch / "socket")
    home.mkdir()
    (scratch / "work").mkdir()
    (home / "config.toml").write_text(CONFIG.format(model="gpt-5.2-codex", port=port, wire="responses"))
    server = subprocess.Popen(
        [options.agent, "app-server", "--listen", f"unix://{path}"],
        cwd=scratch / "work",
        env=environment(home, scratch),
        stderr=subprocess.DEVNULL,
    )
    try:
        client = await introduce(Client(*await connect(path)))
        first = (await client.ask("thread/start", {}))["thread"]["id"]
        await client.turn(first, "warm up run")
        await client.ask("thread/archive", {"threadId": first})
        shutil.rmtree(home / "archived_sessions", ignore_errors=True)
        rows: list[Figures] = []
        for number in range(options.repeats):
            silent = path if number + 1 == options.repeats else None
            rows.append(await repetition(client, server.pid, home, options, silent))
            report(number, rows[-1], options, has_silent=silent is not None)
        await client.close()
        return verdicts(rows)
    finally:
        server.terminate()
        server.wait()
        model.close()


def report(number: int, row: Figures, options: argparse.Namespace, *, has_silent: bool) -> None:
    turns = options.threads * options.rounds
    beside = ", beside a client that does not read" if has_silent else ""
    print(
        f"repetition {number + 1}{beside}: {turns} rounds in {row.seconds:.1f} s ({turns / row.seconds:.0f}/s, "
        f"{1000 * row.cpu_s / turns:.1f} ms of CPU each), "
        f"{row.faults} faults; a thread: {row.opened_mb:.3f} MB opened, {row.used_mb:.3f} MB after its rounds, "
        f"{row.history_mb:.3f} MB recorded; server afterwards: {row.left_mb:.1f} MB",
        flush=True,
    )


def verdicts(rows: list[Figures]) -> bool:
    """Print what must hold and whether it does."""
    faults = sum(row.faults for row in rows)
    opened, used = (max(getattr(row, name) for row in rows) for name in ("opened_mb", "used_mb"))
    # The silent client's last repetition is apart: it may leave behind what the allocator keeps of its backlog.
    alone = rows[:-1] if len(rows) > 1 else rows
    factor = max((row.used_mb - row.opened_mb) / row.history_mb for row in alone)
    grown = alone[-1].left_mb - alone[0].left_mb
    dearer = rows[-1].cpu_s / alone[-1].cpu_s
    checks: list[tuple[str, str, bool]] = [
        ("rounds with something lost, doubled or out of order", f"{faults}", faults == 0),
        ("an idle thread, opened", f"{opened:.3f} MB (≤ {IDLE_MB})", opened <= IDLE_MB),
        ("an idle thread, used", f"{used:.3f} MB (≤ {IDLE_MB})", used <= IDLE_MB),
        ("its history in memory, for each byte recorded", f"{factor:.1f} (≤ {MAX_FACTOR})", factor <= MAX_FACTOR),
        ("growth of the server from one repetition to the last", f"{grown:.1f} MB (≤ {LEFT_MB})", grown <= LEFT_MB),
        ("its CPU beside a client that does not read", f"{dearer:.2f} × (≤ 1.5)", dearer <= 1.5),
    ]
    for what, reading, holds in checks:
        print(f"{'meets ' if holds else 'MISSES'}  {what}: {reading}")
    return all(holds for *_, holds in checks)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    number: Callable[[str, int], Any] = lambda name, usual: parser.add_argument(name, type=int, default=usual)  # noqa: E731
    number("--threads", 100)
    number("--rounds", 50)
    number("--at-a-time", 8)
    number("--repeats", 3)
    parser.add_argument("--order", choices=["rounds", "threads"], default="rounds")
    parser.add_argument("--agent", type=os.path.abspath, default=str(Path(__file__).parents[1] / ".venv/bin/spindle"))
    options = parser.parse_args()
    scratch = Path(tempfile.mkdtemp(prefix="spindle-load-"))
    try:
        sys.exit(0 if asyncio.run(measure(options, scratch)) else 1)
    finally:
        shutil.rmtree(scratch, ignore_errors=True)


if __name__ == "__main__":
    main()
