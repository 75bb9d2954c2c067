"""The model server of the benchmark: a process of its own that answers from memory and keeps exact times.

Every answer is encoded before the program under test starts; during a run the server only counts bytes and writes.
It is driven by JSON lines on stdin and answers each with one JSON line on stdout:

    {"do": "load", "turns": [turn, ...]}          encode a script, forget the old requests; a turn is a list of items,
                                                  or {"items", "gap_s", "hang_s"}: a pause after each piece of text, and
                                                  one before the end. "wire": "chat" or "messages" for another dialect
    {"do": "watch", "pid": 123}                   note this process's CPU time at each request
    {"do": "count"}                               how many requests arrived since "load"
    {"do": "report"}                              what arrived since then

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

from dialects import PATHS, chat_answer, messages_answer

Item = dict[str, Any]


Answer = list[tuple[bytes, float]]
"""The parts of an HTTP answer, each with the pause after it in seconds."""


def encode_turn(number: int, turn: list[Item] | Item, wire: str = "responses") -> Answer:
    """One whole HTTP answer: an event stream with these items, kept alive afterwards. In one part unless it pauses."""
    items: list[Item] = turn if isinstance(turn, list) else turn["items"]
    if wire != "responses":
        body = (chat_answer if wire == "chat" else messages_answer)(number, items)
        return [(HEAD + chunk(body) + b"0\r\n\r\n", 0.0)]
    gap_s, hang_s = (0.0, 0.0) if isinstance(turn, list) else (turn.get("gap_s", 0.0), turn.get("hang_s", 0.0))
    groups = paced(number, items, gap_s, hang_s)
    parts = [chunk(b"".join(map(frame, events))) for events, _ in groups]
    parts[0] = HEAD + parts[0]
    parts[-1] += b"0\r\n\r\n"
    return list(zip(parts, (wait_s for _, wait_s in groups), strict=True))


def paced(number: int, items: list[Item], gap_s: float, hang_s: float) -> list[tuple[list[Item], float]]:
    """The events of an answer in groups that are sent together, and how long to wait after each group."""
    groups: list[tuple[list[Item], float]] = []
    together: list[Item] = []
    for event in events_of(number, items):
        if event["type"] == "response.completed" and hang_s:
            groups.append((together, hang_s))
            together = []
        together.append(event)
        if gap_s and event["type"] == "response.output_text.delta":
            groups.append((together, gap_s))
            together = []
    return [*groups, (together, 0.0)]


def events_of(number: int, items: list[Item]) -> list[Item]:
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
    return events


def frame(event: Item) -> bytes:
    return f"event: {event['type']}\ndata: {json.dumps(event, separators=(',', ':'))}\n\n".encode()


def chunk(body: bytes) -> bytes:
    return f"{len(body):x}\r\n".encode() + body + b"\r\n"


HEAD = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n"
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
        self.answers: list[Answer] = []
        self.requests: list[dict[str, Any]] = []
        self.connections = 0
        self.watched: int | None = None
        self.path = PATHS["responses"]

    def obey(self, order: dict[str, Any]) -> dict[str, Any]:
        match order["do"]:
            case "load":
                wire = order.get("wire", "responses")
                self.path = PATHS[wire]
                self.answers = [encode_turn(number, turn, wire) for number, turn in enumerate(order["turns"])]
                self.answers.reverse()
                self.requests = []
                self.watched = None
                return {}
            case "watch":
                self.watched = order["pid"]
                return {}
            case "count":
                return {"requests": len(self.requests)}
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
        if method != "POST" or not path.split("?")[0].endswith(self.state.path):
            self.transport.write(NOT_HERE)
            return rest
        state = self.state
        record: dict[str, Any] = {"arrived_s": now, "bytes": self.size, "connection": self.number}
        if state.watched is not None:
            record["cpu_s"] = cpu_of(state.watched)
        answer: Answer = state.answers.pop() if state.answers else [(NOT_HERE, 0.0)]
        state.requests.append(record)
        record["answered_s"] = time.monotonic()
        self._send(answer, 0)
        return rest

    def _send(self, answer: Answer, at: int) -> None:
        assert self.transport is not None
        part, wait_s = answer[at]
        self.transport.write(part)
        if at + 1 < len(answer) and not self.transport.is_closing():
            asyncio.get_running_loop().call_later(wait_s, self._send, answer, at + 1)


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
