"""Ordinary work with sockets: servers on loopback, Unix sockets of one's own, pairs."""

from __future__ import annotations

import array
import asyncio
import ctypes
import http.server
import os
import select
import socket
import struct
import subprocess
import threading
import time
import urllib.request
from multiprocessing.connection import Client, Listener
from typing import Any

from escape.case import MODES, WITHOUT_NETWORK, Place, work
from escape.cases.work_files import sh
from escape.kernel import call


def talk(listener: socket.socket, client: socket.socket, where: Any) -> None:
    """One connection, one message there and back."""
    listener.listen(5)
    client.connect(where)
    server, _ = listener.accept()
    with server:
        client.sendall(b"ping")
        assert server.recv(16) == b"ping"
        server.sendall(b"pong")
        assert client.recv(16) == b"pong"


@work(modes=MODES)
def serves_and_connects_on_loopback(p: Place) -> None:
    with socket.socket() as listener, socket.socket() as client:
        listener.bind(("127.0.0.1", 0))
        talk(listener, client, listener.getsockname())


@work(modes=MODES)
def serves_and_connects_by_name(p: Place) -> None:
    with socket.create_server(("localhost", 0)) as listener, socket.socket() as client:
        talk(listener, client, ("localhost", listener.getsockname()[1]))


@work(modes=MODES)
def serves_and_connects_by_ip_version_six(p: Place) -> None:
    with socket.socket(socket.AF_INET6) as listener, socket.socket(socket.AF_INET6) as client:
        listener.bind(("::1", 0))
        talk(listener, client, listener.getsockname())


@work(modes=MODES)
def exchanges_datagrams_on_loopback(p: Place) -> None:
    with socket.socket(type=socket.SOCK_DGRAM) as one, socket.socket(type=socket.SOCK_DGRAM) as other:
        one.bind(("127.0.0.1", 0))
        one.settimeout(5)
        other.sendto(b"x", one.getsockname())
        other.sendmsg([b"y"], [], 0, one.getsockname())
        assert {one.recv(9), one.recv(9)} == {b"x", b"y"}


@work(modes=MODES)
def serves_the_web_to_itself(p: Place) -> None:
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), http.server.SimpleHTTPRequestHandler)
    threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    with opener.open(f"http://127.0.0.1:{server.server_port}/", timeout=5) as answer:
        assert answer.status == 200
    server.shutdown()
    server.server_close()


@work("curl", modes=MODES)
def serves_the_web_to_curl(p: Place) -> None:
    server = http.server.HTTPServer(("127.0.0.1", 0), http.server.SimpleHTTPRequestHandler)
    threading.Thread(target=server.handle_request, daemon=True).start()
    sh(f"curl -sf --noproxy '*' -o /dev/null http://127.0.0.1:{server.server_port}/")
    server.server_close()


@work(modes=MODES)
def serves_from_an_event_loop(p: Place) -> None:
    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write((await reader.readline()).upper())
        await writer.drain()
        writer.close()

    async def run() -> bytes:
        async with await asyncio.start_server(answer, "127.0.0.1", 0) as server:
            reader, writer = await asyncio.open_connection(*server.sockets[0].getsockname())
            writer.write(b"hello\n")
            line = await reader.readline()
            writer.close()
            return line

    assert asyncio.run(run()) == b"HELLO\n"


@work()
def serves_from_an_event_loop_on_a_unix_socket(p: Place) -> None:
    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write((await reader.readline()).upper())
        await writer.drain()
        writer.close()

    async def run() -> bytes:
        async with await asyncio.start_unix_server(answer, "loop.sock"):
            reader, writer = await asyncio.open_unix_connection("loop.sock")
            writer.write(b"hello\n")
            line = await reader.readline()
            writer.close()
            return line

    assert asyncio.run(run()) == b"HELLO\n"


@work(modes=MODES)
def talks_through_pairs_of_every_kind(p: Place) -> None:
    for kind in (socket.SOCK_STREAM, socket.SOCK_DGRAM, socket.SOCK_SEQPACKET):
        one, other = socket.socketpair(socket.AF_UNIX, kind)
        with one, other:
            one.send(b"x")
            one.sendmsg([b"y"])
            assert other.recv(1) + other.recv(1) == b"xy"


@work()
def connects_to_its_own_unix_sockets(p: Place) -> None:
    for kind in (socket.SOCK_STREAM, socket.SOCK_SEQPACKET):
        with socket.socket(socket.AF_UNIX, kind) as listener, socket.socket(socket.AF_UNIX, kind) as client:
            listener.bind(os.path.abspath(f"own-{int(kind)}.sock"))
            talk(listener, client, listener.getsockname())


@work()
def connects_to_its_own_unix_socket_by_a_relative_path(p: Place) -> None:
    with socket.socket(socket.AF_UNIX) as listener, socket.socket(socket.AF_UNIX) as client:
        listener.bind("relative.sock")
        talk(listener, client, "./relative.sock")


@work()
def connects_to_its_own_unix_socket_through_a_link(p: Place) -> None:
    with socket.socket(socket.AF_UNIX) as listener, socket.socket(socket.AF_UNIX) as client:
        listener.bind("linked.sock")
        os.symlink("linked.sock", "link.sock")
        talk(listener, client, "link.sock")


@work()
def connects_to_its_own_unix_socket_in_temporary_folders(p: Place) -> None:
    for folder in (p.slash_tmp, os.environ["TMPDIR"], p.extra):
        with socket.socket(socket.AF_UNIX) as listener, socket.socket(socket.AF_UNIX) as client:
            listener.bind(f"{folder}/own.sock")
            talk(listener, client, f"{folder}/own.sock")
        os.unlink(f"{folder}/own.sock")


@work()
def connects_to_a_unix_socket_of_another_process(p: Place) -> None:
    program = (
        "import socket; s=socket.socket(socket.AF_UNIX); s.bind('other.sock'); s.listen(); s.accept()[0].sendall(b'hi')"
    )
    with subprocess.Popen([p.python, "-c", program]):
        limit = time.monotonic() + 10
        while time.monotonic() < limit:
            try:
                with socket.socket(socket.AF_UNIX) as client:
                    client.connect("other.sock")
                    assert client.recv(9) == b"hi"
                    return
            except (FileNotFoundError, ConnectionRefusedError):
                time.sleep(0.02)
    raise AssertionError("the server never came")


@work()
def sends_datagrams_to_its_own_unix_sockets(p: Place) -> None:
    with (
        socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as one,
        socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as other,
    ):
        one.bind("one.dgram")
        one.settimeout(5)
        other.bind("other.dgram")
        other.sendto(b"a", "one.dgram")
        assert one.recvfrom(9) == (b"a", "other.dgram")
        other.sendmsg([b"b"], [], 0, "one.dgram")
        assert one.recv(9) == b"b"
        other.connect("one.dgram")
        other.send(b"c")
        assert one.recv(9) == b"c"


@work()
def sends_messages_of_every_kind_beside_a_datagram_socket(p: Place) -> None:
    """Who has such a socket is watched more closely; nothing else may change for it."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as datagrams:
        datagrams.bind("beside.dgram")
        datagrams.settimeout(5)
        passes_descriptors_to_a_child(p)
        one, other = socket.socketpair()
        data = os.urandom(1 << 22)
        got = bytearray()

        def read() -> None:
            while part := other.recv(1 << 16):
                got.extend(part)

        reader = threading.Thread(target=read)
        reader.start()
        assert one.sendmsg([data[:1000], b"", data[1000:]]) == len(data)
        one.close()
        reader.join()
        assert got == data
        one, other = socket.socketpair()
        one.setblocking(False)
        try:
            while one.sendmsg([b"x" * 4096]):
                pass
        except BlockingIOError:
            pass
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as sender:
            header = _many_headers(sender, ["beside.dgram"] * 3)
            assert header == 3
            assert [datagrams.recv(9) for _ in range(3)] == [b"0", b"1", b"2"]
            for word in ("missing.dgram", "x" * 300):
                try:
                    sender.sendmsg([b"x"], [], 0, word)
                except OSError:
                    continue
                raise AssertionError(word)


def _many_headers(sender: socket.socket, names: list[str]) -> int:
    """How many messages one call sends, the n-th saying n."""
    kept: list[object] = []
    words: list[int] = []
    for number, name in enumerate(names):
        address = ctypes.create_string_buffer(struct.pack("=H", socket.AF_UNIX) + name.encode() + b"\0")
        text = ctypes.create_string_buffer(str(number).encode())
        vector = (ctypes.c_size_t * 2)(ctypes.addressof(text), len(str(number)))
        kept += [address, text, vector]
        words += [ctypes.addressof(address), len(name) + 3, ctypes.addressof(vector), 1, 0, 0, 0, 0]
    headers = (ctypes.c_size_t * len(words))(*words)
    sent = call("sendmmsg", sender.fileno(), headers, len(names), 0)
    assert [headers[8 * at + 7] & 0xFFFFFFFF for at in range(sent)] == [1] * sent
    return sent


@work()
def waits_until_there_is_room_for_a_datagram(p: Place) -> None:
    with (
        socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as one,
        socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as other,
    ):
        one.bind("full.dgram")
        other.setblocking(False)
        count = 0
        try:
            while True:
                other.sendto(b"x", "full.dgram")
                count += 1
        except BlockingIOError:
            pass
        other.setblocking(True)
        threading.Timer(0.1, lambda: one.recv(9)).start()
        assert other.sendmsg([b"y"], [], 0, "full.dgram") == 1
        assert [one.recv(9) for _ in range(count)][-1] == b"y"


@work(modes=MODES)
def connects_to_its_own_abstract_sockets(p: Place) -> None:
    name = f"\0{p.stamp}.own{os.getpid()}"
    with socket.socket(socket.AF_UNIX) as listener, socket.socket(socket.AF_UNIX) as client:
        listener.bind(name)
        talk(listener, client, name)


@work(modes=MODES)
def passes_descriptors_to_a_child(p: Place) -> None:
    one, other = socket.socketpair()
    reader, writer = os.pipe()
    if os.fork() == 0:
        _, rights, _, _ = other.recvmsg(9, socket.CMSG_SPACE(4))
        os.write(array.array("i", rights[0][2])[0], b"through")
        os._exit(0)
    one.sendmsg([b"x"], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", [writer]))])
    os.wait()
    os.close(writer)
    assert os.read(reader, 9) == b"through"
    assert os.read(reader, 9) == b"", "somebody kept the other end"


@work()
def learns_who_connects(p: Place) -> None:
    with socket.socket(socket.AF_UNIX) as listener, socket.socket(socket.AF_UNIX) as client:
        listener.bind("who.sock")
        listener.listen()
        client.connect("who.sock")
        server, _ = listener.accept()
        with server:
            pid, uid, _ = struct.unpack("3i", server.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12))
            peer = struct.unpack("3i", client.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12))
        assert uid == os.getuid() and peer[1] == os.getuid(), (pid, uid, peer)


@work()
def connects_without_waiting_to_its_own_server(p: Place) -> None:
    with socket.socket(socket.AF_UNIX) as listener, socket.socket(socket.AF_UNIX) as client:
        listener.bind("quick.sock")
        listener.listen(1)
        client.setblocking(False)
        client.connect("quick.sock")
        assert select.select([listener], [client], [], 5)[:2] == ([listener], [client])


@work()
def is_refused_by_a_socket_nobody_listens_to(p: Place) -> None:
    with socket.socket(socket.AF_UNIX) as dead:
        dead.bind("dead.sock")
    with socket.socket(socket.AF_UNIX) as client:
        for path, expected in (("dead.sock", ConnectionRefusedError), ("none.sock", FileNotFoundError)):
            try:
                client.connect(path)
            except OSError as error:
                assert type(error) is expected, (path, error)


@work()
def connects_many_times_quickly(p: Place) -> None:
    started = time.monotonic()
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind("busy.sock")
        listener.listen(300)
        for _ in range(200):
            with socket.socket(socket.AF_UNIX) as client:
                client.connect("busy.sock")
            listener.accept()[0].close()
    assert time.monotonic() - started < 30


@work()
def connects_from_many_threads(p: Place) -> None:
    answers: list[bytes] = []
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind("threads.sock")
        listener.listen(64)

        def client() -> None:
            with socket.socket(socket.AF_UNIX) as one:
                one.connect("threads.sock")
                answers.append(one.recv(9))

        threads = [threading.Thread(target=client) for _ in range(20)]
        for thread in threads:
            thread.start()
        for _ in threads:
            with listener.accept()[0] as server:
                server.sendall(b"hi")
        for thread in threads:
            thread.join()
    assert answers == [b"hi"] * 20


@work()
def uses_connections_of_multiprocessing(p: Place) -> None:
    with Listener(os.path.abspath("listener.sock"), authkey=b"k") as listener:
        thread = threading.Thread(target=lambda: Client(listener.address, authkey=b"k").send({"a": 1}))  # pyright: ignore
        thread.start()
        with listener.accept() as connection:
            assert connection.recv() == {"a": 1}
        thread.join()


@work(modes=MODES)
def lists_its_interfaces(p: Place) -> None:
    assert "lo" in [name for _, name in socket.if_nameindex()]


@work("ip", modes=MODES)
def asks_ip_for_addresses(p: Place) -> None:
    assert "127.0.0.1" in sh("ip addr; ip route >/dev/null")


@work(modes=WITHOUT_NETWORK)
def fails_quickly_without_a_network(p: Place) -> None:
    started = time.monotonic()
    for step in (
        lambda: socket.getaddrinfo("example.com", 80),
        lambda: socket.create_connection(("192.0.2.1", 80), timeout=20).close(),
        lambda: socket.create_connection(("127.0.0.1", 1), timeout=20).close(),
    ):
        try:
            step()
            if not p.bare:
                raise AssertionError("there is a network")
        except OSError:
            pass
    assert p.bare or time.monotonic() - started < 8


@work(modes=MODES[2:])
def reaches_a_server_of_the_machine_when_the_network_is_on(p: Place) -> None:
    with socket.create_connection(("127.0.0.1", p.tcp4), timeout=5) as one:
        one.sendall(b"allowed")


@work("ssh-agent", "ssh-add", "ssh-keygen")
def keeps_an_ssh_agent_of_its_own(p: Place) -> None:
    sh(
        "eval $(ssh-agent -a $PWD/agent.sock) >/dev/null; ssh-keygen -q -t ed25519 -N '' -f key; ssh-add -q key;"
        "ssh-add -l; kill $SSH_AGENT_PID"
    )


@work("openssl", modes=MODES)
def encrypts_with_openssl(p: Place) -> None:
    sh("openssl rand -hex 16; echo x | openssl dgst -sha256; openssl version")
