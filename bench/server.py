"""The model server of the benchmark: a process of its own that answers from memory and keeps exact times.

Every answer is encoded before the program under test starts; during a run the server only counts bytes and writes.
It is driven by JSON lines on stdin and answers each with one JSON line on stdout:

    {"do": "load", "turns": [[item, ...], ...]}   encode a script, forget the old requests
    {"do": "watch", "pid": 123}                   note this process's CPU time at each request
    {"do": "report"}                              what arrived since "load"

Times are CLOCK_MONOTONIC seconds, comparable with the harness on the same machine.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import sys
import threading
import time
from typing import Any

Item = dict[str, Any]


def encode_turn(number: int, items: list[Item]) -> bytes:
    """One whole HTTP answer: an event stream with these items, kept alive afterwards."""
    name = f"resp_{number}"
    events: list[Item] = [{"type": "response.created", "response": {"id": name}}]
    for index, scripted in enumerate(items):
        item = {**scripted, "id": f"{'msg' if scripted['type'] == 'message' else 'fc'}_{number}_{index}"}
        pieces = item.pop("pieces", None)
        opened = {**item, "content": []} if pieces else item
        events.append({"type": "response.output_item.added", "output_index": index, "item": opened})
        where = {"item_id": item["id"], "output_index": index, "content_index": 0}
        events += [{"type": "response.output_text.delta", **where, "delta": piece} for piece in pieces or ()]
        events.append({"type": "response.output_item.done", "output_index": index, "item": item})
    usage = {
        "input_tokens": 100,
        "input_tokens_details": {"cached_tokens": 0},
        "output_tokens": 10,
        "output_tokens_details": {"reasoning_tokens": 0},
        "total_tokens": 110,
    }
    events.append({"type": "response.completed", "response": {"id": name, "usage": usage}})
    body = b"".join(
        f"event: {event['type']}\ndata: {json.dumps(event, separators=(',', ':'))}\n\n".encode() for event in events
    )
    head = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n"
    return head + f"{len(body):x}\r\n".encode() + body + b"\r\n0\r\n\r\n"


NOT_HERE = b"HTTP/1.1 404 Not Found\r\ncontent-type: application/json\r\ncontent-length: 2\r\n\r\n{}"


def cpu_of(pid: int) -> float | None:
    """CPU seconds of all threads of a process; finer than the ticks of /proc/PID/stat."""
    total = 0
    with contextlib.suppress(OSError):
        for task in os.listdir(f"/proc/{pid}/task"):
            with contextlib.suppress(OSError), open(f"/proc/{pid}/task/{task}/schedstat", "rb") as file:
                total += int(file.read().split()[0])
        return total / 1e9
    return None


class State:
    def __init__(self) -> None:
        self.answers: list[bytes] = []
        self.requests: list[dict[str, Any]] = []
        self.connections = 0
        self.watched: int | None = None

    def obey(self, order: dict[str, Any]) -> dict[str, Any]:
        match order["do"]:
            case "load":
                self.answers = [encode_turn(number, items) for number, items in enumerate(order["turns"])]
                self.answers.reverse()
                self.requests = []
                self.watched = None
                return {}
            case "watch":
                self.watched = order["pid"]
                return {}
            case "report":
                return {"requests": self.requests, "unused": len(self.answers)}
            case other:
                raise ValueError(f"unknown order {other!r}")


class Connection(asyncio.Protocol):
    def __init__(self, state: State) -> None:
        self.state = state
        self.head = b""
        self.missing = 0
        self.transport: asyncio.Transport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self.transport = transport
        self.number = self.state.connections
        self.state.connections += 1

    def data_received(self, data: bytes) -> None:
        while data:
            if self.missing:
                # Bodies are only counted: a request with a long history has megabytes.
                self.missing -= len(data)
                assert self.missing >= 0, "the benchmark's server does not take pipelined requests"
                data = b""
            else:
                self.head += data
                head, found, data = self.head.partition(b"\r\n\r\n")
                if not found:
                    return
                self.head = head
                self.size = self.missing = content_length(head)
                if not self.missing:
                    data = self._finish(data)
                continue
            if not self.missing:
                self._finish(b"")

    def _finish(self, rest: bytes) -> bytes:
        now = time.monotonic()
        assert self.transport is not None
        start, self.head = self.head.split(b"\r\n", 1)[0], b""
        method, path, _ = start.decode().split(" ", 2)
        if method != "POST" or not path.split("?")[0].endswith("/responses"):
            self.transport.write(NOT_HERE)
            return rest
        state = self.state
        record: dict[str, Any] = {"arrived_s": now, "bytes": self.size, "connection": self.number}
        if state.watched is not None:
            record["cpu_s"] = cpu_of(state.watched)
        answer = state.answers.pop() if state.answers else NOT_HERE
        state.requests.append(record)
        record["answered_s"] = time.monotonic()
        self.transport.write(answer)
        return rest


def content_length(head: bytes) -> int:
    for line in head.split(b"\r\n")[1:]:
        name, _, value = line.partition(b":")
        if name.strip().lower() == b"content-length":
            return int(value)
    return 0


async def serve() -> None:
    state = State()
    loop = asyncio.get_running_loop()
    server = await loop.create_server(lambda: Connection(state), "127.0.0.1", 0)
    stopped = asyncio.Event()

    def say(answer: dict[str, Any]) -> None:
        sys.stdout.write(json.dumps(answer) + "\n")
        sys.stdout.flush()

    def obey(line: str) -> None:
        say(state.obey(json.loads(line)))

    def take_orders() -> None:
        for line in sys.stdin:
            loop.call_soon_threadsafe(obey, line)
        loop.call_soon_threadsafe(stopped.set)

    say({"port": server.sockets[0].getsockname()[1]})
    threading.Thread(target=take_orders, daemon=True).start()
    await stopped.wait()
    server.close()


if __name__ == "__main__":
    asyncio.run(serve())
