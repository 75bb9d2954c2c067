"""What a WebSocket brings over HTTP: rounds of a thread with few and with many calls, by both ways, taking turns.

    python bench/websocket.py [--rounds 20] [--calls 10 1000] [--write]

Run with the interpreter Spindle is installed in, with the packages for development. The server is a process of its own
behind TLS, in a network of its own (`unshare`, and a device of packets) that takes 15 ms each way for packets of 1,500
bytes; where that cannot be had, the figures are those of the bare loopback device. A round is one question with one
more call and its output of 2 KB, to the end of the answer, after a second of rest, as a model takes to answer. CPU is
that of the asking process; bytes are those of questions, before TLS.
"""

from __future__ import annotations

import argparse
import asyncio
import fcntl
import json
import os
import select
import ssl
import statistics
import struct
import subprocess
import sys
import tempfile
import time
from collections import deque
from pathlib import Path
from typing import Any

import trustme
from websockets.asyncio.server import ServerConnection, serve

from run import write_page
from spindle.model.credential import StaticCredential
from spindle.model.endpoint import Endpoint
from spindle.model.headers import Identity
from spindle.model.provider import Provider
from spindle.model.remote import RemoteModel
from spindle.protocol.clock import SystemClock
from spindle.protocol.request import Request, VisibleItem

DELAY_MS = 15
FAR = "10.9.0.2"
REST_S = 1.0
"""The network forgets in it how fast it could go."""
INSIDE = "SPINDLE_BENCH_INSIDE"
BEGIN, END = "<!-- websocket: begin -->", "<!-- websocket: end -->"
OUTPUT = "line of the output of a command\n" * 64
FRAME = {"instructions": json.dumps("x" * 14_000).encode(), "tools": json.dumps([{"d": "y" * 16_000}]).encode()}
"""As much as instructions and tools are in an ordinary thread."""


def call(number: int) -> dict[str, Any]:
    arguments = '{"cmd":"make test"}'
    at = {"id": f"fc_{number}", "call_id": f"call_{number}"}
    return {"type": "function_call", "name": "exec_command", "arguments": arguments, **at}


def answer(number: int) -> list[str]:
    name = {"id": f"resp_{number}"}
    events = [
        {"type": "response.created", "response": name},
        {"type": "response.output_item.done", "item": call(number)},
        {"type": "response.completed", "response": name},
    ]
    return [json.dumps(event) for event in events]


# ---- the network ----------------------------------------------------------------------------------------


def reflect() -> None:
    """A device behind which the same machine has another address, some milliseconds away."""
    device = os.open("/dev/net/tun", os.O_RDWR)
    fcntl.ioctl(device, 0x400454CA, struct.pack("16sH", b"slow0", 0x1001))  # TUNSETIFF; a device of packets
    for step in ("addr add 10.9.0.1/24 dev slow0", "link set slow0 txqueuelen 20000 up", "link set lo up"):
        subprocess.run(["ip", *step.split()], check=True)
    print("ready", flush=True)
    late: deque[tuple[float, bytes]] = deque()
    while True:
        wait_s = max(0.0, late[0][0] - time.monotonic()) if late else None
        ready, _, _ = select.select([device, sys.stdin], [], [], wait_s)
        if sys.stdin in ready:
            return
        if device in ready:
            packet = os.read(device, 2048)
            if packet[0] >> 4 == 4:
                # Sender and receiver change places: what goes to the other address comes back from it.
                turned = packet[:12] + packet[16:20] + packet[12:16] + packet[20:]
                late.append((time.monotonic() + DELAY_MS / 1000, turned))
        while late and late[0][0] <= time.monotonic():
            os.write(device, late.popleft()[1])


# ---- the server -----------------------------------------------------------------------------------------


async def serve_both(certificate: str) -> None:
    """WebSockets on one port, HTTP on another; the n-th question of each gets the n-th call."""
    tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    tls.load_cert_chain(certificate)
    count = {"ws": 0, "http": 0}

    async def talk(connection: ServerConnection) -> None:
        async for _ in connection:
            for event in answer(count["ws"]):
                await connection.send(event)
            count["ws"] += 1

    async def take(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while True:
            try:
                head = await reader.readuntil(b"\r\n\r\n")
            except (asyncio.IncompleteReadError, asyncio.CancelledError):
                return writer.close()
            length = next(line for line in head.lower().split(b"\r\n") if line.startswith(b"content-length:"))
            await reader.readexactly(int(length.split(b":")[1]))
            body = "".join(f"data: {event}\n\n" for event in answer(count["http"])).encode()
            count["http"] += 1
            fields = f"content-type: text/event-stream\r\ncontent-length: {len(body)}"
            writer.write(f"HTTP/1.1 200 OK\r\n{fields}\r\n\r\n".encode() + body)

    sockets = await serve(talk, "0.0.0.0", 0, ssl=tls, max_size=None, compression=None)
    plain = await asyncio.start_server(take, "0.0.0.0", 0, ssl=tls, limit=1 << 24)
    ports = [next(iter(server.sockets)).getsockname()[1] for server in (sockets, plain)]
    print(json.dumps(ports), flush=True)
    await asyncio.get_running_loop().run_in_executor(None, sys.stdin.read)


# ---- the client -----------------------------------------------------------------------------------------


class Thread:
    """A thread that grows by a call and its output each round, asked one way."""

    def __init__(self, port: int, authority: str, calls: int, *, is_socket: bool) -> None:
        provider = Provider(
            id="bench",
            name="Bench",
            base_url=f"https://{FAR if INSIDE in os.environ else '127.0.0.1'}:{port}/v1",
            supports_websockets=is_socket,
            ca_file=authority,
        )
        identity = Identity(thread_id="T", version="0")
        self.client = RemoteModel(Endpoint(provider, StaticCredential("key"), identity, environ={}), SystemClock())
        self.items = [VisibleItem.of({"type": "message", "role": "user", "content": []})]
        for number in range(calls):
            self._add({**call(number), "id": f"fc_old{number}", "call_id": f"old_{number}"})
        self.wall: list[float] = []
        self.cpu: list[float] = []
        self.bytes: list[int] = []
        self.is_socket = is_socket

    def _add(self, made: dict[str, Any]) -> None:
        output = {"type": "function_call_output", "call_id": made["call_id"], "output": OUTPUT}
        self.items += [VisibleItem.of(made), VisibleItem.of(output)]

    async def round(self) -> None:
        request = Request(model="gpt-5.2-codex", items=list(self.items), prompt_cache_key="T", **FRAME)
        began, worked, sent = time.perf_counter(), time.process_time(), self._sent()
        made = [event.item async for event in self.client.stream(request) if hasattr(event, "origin")]
        self.wall.append(time.perf_counter() - began)
        self.cpu.append(time.process_time() - worked)
        self.bytes.append(self._sent() - sent)
        assert len(made) == 1, made
        self._add(made[0])

    def _sent(self) -> int:
        """What its connections have sent, as TLS was given it."""
        return sum(_written(connection.transport) for connection in self.client.endpoint.http._live)


def _written(transport: Any) -> int:
    return getattr(transport, "bench_bytes", 0)


def count_writes() -> None:
    """Let every TLS transport count what is written to it."""
    from asyncio.sslproto import _SSLProtocolTransport as Transport  # only here, and only for counting

    write = Transport.write

    def counting(self: Any, data: Any) -> None:
        self.bench_bytes = getattr(self, "bench_bytes", 0) + len(data)
        write(self, data)

    Transport.write = counting  # type: ignore[method-assign]


async def measure(ports: list[int], authority: str, calls: int, rounds: int) -> dict[str, dict[str, float]]:
    threads = {
        "HTTP": Thread(ports[1], authority, calls, is_socket=False),
        "WebSocket": Thread(ports[0], authority, calls, is_socket=True),
    }
    for number in range(rounds + 3):
        for thread in threads.values() if number % 2 else reversed(threads.values()):
            await thread.round()
            await asyncio.sleep(REST_S)
    figures = {}
    for name, thread in threads.items():
        assert (thread.client.endpoint._line is not None) == thread.is_socket
        figures[name] = {
            "wall_ms": statistics.median(thread.wall[3:]) * 1000,
            "cpu_ms": statistics.median(thread.cpu[3:]) * 1000,
            "bytes": statistics.median(thread.bytes[3:]),
        }
        await thread.client.aclose()
    return figures


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--calls", type=int, nargs="+", default=[10, 1000])
    parser.add_argument("--write", action="store_true", help="put the table into docs/performance.md")
    parser.add_argument("--serve", help=argparse.SUPPRESS)
    parser.add_argument("--reflect", action="store_true", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.reflect:
        reflect()
        return 0
    if given.serve:
        asyncio.run(serve_both(given.serve))
        return 0
    if INSIDE not in os.environ and (inside := network_of_its_own()):
        return subprocess.call([*inside, sys.executable, *sys.argv], env={**os.environ, INSIDE: "1"})
    if INSIDE not in os.environ:
        return compare(given)
    command = [sys.executable, __file__, "--reflect"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as reflector:
        assert reflector.stdout is not None and reflector.stdout.readline() == "ready\n"
        return compare(given)


def compare(given: argparse.Namespace) -> int:
    count_writes()
    rows = ["| after | by | round | CPU of a round | sent in a round |", "|---|---|--:|--:|--:|"]
    with tempfile.TemporaryDirectory() as folder:
        authority, certificate = Path(folder, "ca.pem"), Path(folder, "server.pem")
        ca = trustme.CA()
        ca.cert_pem.write_to_path(str(authority))
        ca.issue_cert(FAR, "127.0.0.1").private_key_and_cert_chain_pem.write_to_path(str(certificate))
        command = [sys.executable, __file__, "--serve", str(certificate)]
        for calls in given.calls:
            with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as server:
                assert server.stdout is not None
                ports = json.loads(server.stdout.readline())
                for name, figure in asyncio.run(measure(ports, str(authority), calls, given.rounds)).items():
                    sizes = f"{figure['cpu_ms']:.2f} ms | {figure['bytes'] / 1000:.1f} KB"
                    rows.append(f"| {calls:,} calls | {name} | {figure['wall_ms']:.1f} ms | {sizes} |")
    where = f"TLS, {2 * DELAY_MS} ms there and back" if INSIDE in os.environ else "TLS, no delay"
    text = "\n".join([f"{where}; medians of {given.rounds} rounds, taking turns", "", *rows, ""])
    print(text)
    if given.write:
        write_page(text, BEGIN, END)
    return 0


def network_of_its_own() -> list[str]:
    """How to run a command in a network of its own; nothing where that cannot be had."""
    inside = ["unshare", "--user", "--map-root-user", "--net"]
    try:
        os.close(os.open("/dev/net/tun", os.O_RDWR))
        works = subprocess.run([*inside, "ip", "link"], capture_output=True, check=False).returncode == 0
    except OSError:
        works = False
    return inside if works else []


if __name__ == "__main__":
    sys.exit(main())
