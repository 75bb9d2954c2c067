"""The network, and the sockets of daemons on this machine."""

from __future__ import annotations

import ctypes
import os
import socket
import struct
import threading
import time
from collections.abc import Callable
from typing import Any

from escape.case import WITHOUT_NETWORK, Place, attack
from escape.judge import heard
from escape.kernel import call

ROOT_ONLY = {"user": "only root may open such a socket"}


def say(p: Place, family: int, kind: int, where: Any, protocol: int = 0) -> None:
    with socket.socket(family, kind, protocol) as one:
        one.settimeout(2)
        one.connect(where)
        one.send(p.mark.encode())


# ---- the network ----------------------------------------------------------------------------------------


@attack(seen=heard, modes=WITHOUT_NETWORK)
def connects_to_a_server_on_loopback(p: Place) -> None:
    say(p, socket.AF_INET, socket.SOCK_STREAM, ("127.0.0.1", p.tcp4))


@attack(seen=heard, modes=WITHOUT_NETWORK)
def connects_to_a_server_on_the_address_of_the_machine(p: Place) -> None:
    say(p, socket.AF_INET, socket.SOCK_STREAM, (p.address, p.tcp4))


@attack(seen=heard, modes=WITHOUT_NETWORK)
def connects_by_ip_version_six(p: Place) -> None:
    say(p, socket.AF_INET6, socket.SOCK_STREAM, ("::1", p.tcp6))


@attack(seen=heard, modes=WITHOUT_NETWORK)
def connects_by_a_mapped_address(p: Place) -> None:
    say(p, socket.AF_INET6, socket.SOCK_STREAM, ("::ffff:127.0.0.1", p.tcp4))


@attack(seen=heard, modes=WITHOUT_NETWORK)
def sends_a_datagram_to_loopback(p: Place) -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as one:
        one.sendto(p.mark.encode(), ("127.0.0.1", p.udp4))


@attack(seen=heard, modes=WITHOUT_NETWORK)
def sends_a_datagram_to_the_address_of_the_machine(p: Place) -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as one:
        one.sendto(p.mark.encode(), (p.address, p.udp4))


@attack(seen=heard, modes=WITHOUT_NETWORK)
def sends_a_datagram_by_ip_version_six(p: Place) -> None:
    with socket.socket(socket.AF_INET6, socket.SOCK_DGRAM) as one:
        one.sendto(p.mark.encode(), ("::1", p.udp6))


@attack(seen=heard, modes=WITHOUT_NETWORK)
def sends_data_with_the_first_packet(p: Place) -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as one:
        one.sendto(p.mark.encode(), getattr(socket, "MSG_FASTOPEN", 0x20000000), ("127.0.0.1", p.tcp4))


@attack(seen=heard, modes=WITHOUT_NETWORK)
def connects_by_multipath(p: Place) -> None:
    try:
        say(p, socket.AF_INET, socket.SOCK_STREAM, ("127.0.0.1", p.tcp4), 262)
    except OSError:
        if p.bare:  # the kernel has no multipath: the plain way is the control
            say(p, socket.AF_INET, socket.SOCK_STREAM, ("127.0.0.1", p.tcp4))


@attack(modes=WITHOUT_NETWORK)
def finds_an_interface_other_than_loopback(p: Place) -> None:
    for _, name in socket.if_nameindex():
        with open(f"/sys/class/net/{name}/operstate") if p.bare else open("/proc/net/dev") as file:
            text = file.read()
        if name != "lo" and (p.bare or f"{name}:" in text):
            p.reached(name)


@attack(modes=WITHOUT_NETWORK)
def finds_a_route_to_somewhere(p: Place) -> None:
    with open("/proc/net/route") as file:
        for line in file.readlines()[1:]:
            p.reached(line.split()[0])


@attack(no_control=ROOT_ONLY)
def opens_a_raw_socket(p: Place) -> None:
    socket.socket(socket.AF_INET, socket.SOCK_RAW, socket.IPPROTO_ICMP).close()
    p.reached()


@attack(no_control=ROOT_ONLY)
def opens_a_packet_socket(p: Place) -> None:
    socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(3)).close()
    p.reached()


@attack(no_control={"user": "only root may change links", "root": "changing the links of the host would disturb it"})
def changes_an_interface_by_netlink(p: Place) -> None:
    if p.bare:
        return
    with socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, 0) as one:
        one.bind((0, 0))
        # RTM_NEWLINK for interface 1: up
        body = struct.pack("=BBHiII", 0, 0, 0, 1, 1, 1)
        one.send(struct.pack("=IHHII", 16 + len(body), 16, 5, 1, 0) + body)
        answer = one.recv(4096)
        if struct.unpack("=i", answer[16:20])[0] == 0:
            p.reached()


NOT_THE_HOSTS = {"user": "only root may change links", "root": "changing the links of the host would disturb it"}


def _raise_loopback(p: Place, send: Callable[[socket.socket, bytes], object]) -> None:
    """Ask the kernel to bring up an interface that is up: nothing changes, but it says whether we might."""
    if p.bare:
        return
    with socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, 0) as one:
        one.bind((0, 0))
        one.settimeout(2)
        body = struct.pack("=BBHiII", 0, 0, 0, 1, 1, 1)  # RTM_NEWLINK for interface 1: up
        send(one, struct.pack("=IHHII", 16 + len(body), 16, 5, 1, 0) + body)
        if struct.unpack("=i", one.recv(4096)[16:20])[0] == 0:
            p.reached()


@attack(no_control=NOT_THE_HOSTS)
def changes_an_interface_by_a_message_with_an_address(p: Place) -> None:
    """With an address the kernel looks at the rights of whoever makes the call, not of whoever opened the socket."""
    _raise_loopback(p, lambda one, data: one.sendto(data, (0, 0)))


@attack(no_control=NOT_THE_HOSTS)
def changes_an_interface_beside_a_datagram_socket(p: Place) -> None:
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM):
        _raise_loopback(p, lambda one, data: one.sendmsg([data], [], 0, (0, 0)))


@attack(no_control=NOT_THE_HOSTS)
def changes_an_interface_through_a_connected_socket(p: Place) -> None:
    def send(one: socket.socket, data: bytes) -> None:
        one.connect((0, 0))
        one.send(data)

    _raise_loopback(p, send)


@attack(no_control={"user": "only root may listen to the kernel's audit", "root": "the kernel may have no audit"})
def opens_the_audit_of_the_kernel(p: Place) -> None:
    with socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, 9) as one:
        one.send(struct.pack("=IHHII", 16, 1000, 5, 1, 0))
        one.settimeout(0.2)
        if struct.unpack("=i", one.recv(4096)[16:20])[0] == 0:
            p.reached()


@attack(no_control="few machines have all of these")
def opens_sockets_of_unusual_families(p: Place) -> None:
    """Families nobody needs for development, each with a kernel's worth of code behind it; vsock reaches the host."""
    families = {
        "vsock": 40,
        "alg": 38,
        "bluetooth": 31,
        "tipc": 30,
        "can": 29,
        "rds": 21,
        "xdp": 44,
        "qrtr": 42,
        "kcm": 41,
        "smc": 43,
        "key": 15,
        "llc": 26,
        "ax25": 3,
        "ipx": 4,
        "appletalk": 5,
        "x25": 9,
        "nfc": 39,
        "phonet": 35,
        "ieee802154": 36,
        "caif": 37,
        "mctp": 45,
        "rxrpc": 33,
        "pppox": 24,
    }
    for name, family in families.items():
        for kind in (socket.SOCK_STREAM, socket.SOCK_DGRAM, socket.SOCK_SEQPACKET, socket.SOCK_RAW):
            try:
                socket.socket(family, kind).close()
                p.reached(name)
                break
            except OSError:
                pass


@attack(no_control="few machines have vsock")
def connects_to_the_host_of_a_virtual_machine(p: Place) -> None:
    with socket.socket(40, socket.SOCK_STREAM) as one:
        p.reached("a vsock socket")
        one.settimeout(0.5)
        one.connect((2, 9999))


@attack(no_control="the kernel may have no such sockets")
def asks_the_kernel_to_encrypt(p: Place) -> None:
    with socket.socket(38, socket.SOCK_SEQPACKET) as one:
        p.reached()
        one.bind(("hash", "sha256"))


# ---- sockets of daemons ---------------------------------------------------------------------------------


@attack(seen=heard, modes=WITHOUT_NETWORK)
def connects_to_an_abstract_socket_of_the_host(p: Place) -> None:
    say(p, socket.AF_UNIX, socket.SOCK_STREAM, p.stream_abstract)


@attack(seen=heard, modes=WITHOUT_NETWORK)
def sends_to_an_abstract_socket_of_the_host(p: Place) -> None:
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as one:
        one.sendto(p.mark.encode(), p.dgram_abstract)


@attack(seen=heard, modes=WITHOUT_NETWORK)
def connects_to_a_daemon_outside(p: Place) -> None:
    say(p, socket.AF_UNIX, socket.SOCK_STREAM, p.stream_outside)


@attack(seen=heard, modes=WITHOUT_NETWORK)
def connects_to_a_daemon_in_the_home(p: Place) -> None:
    say(p, socket.AF_UNIX, socket.SOCK_STREAM, p.stream_home)


@attack(seen=heard, modes=WITHOUT_NETWORK)
def connects_to_a_daemon_in_slash_tmp(p: Place) -> None:
    say(p, socket.AF_UNIX, socket.SOCK_STREAM, p.stream_tmp)


@attack(seen=heard, modes=WITHOUT_NETWORK)
def connects_to_a_daemon_that_listens_in_the_workspace(p: Place) -> None:
    say(p, socket.AF_UNIX, socket.SOCK_STREAM, p.stream_ws)


@attack(seen=heard, modes=WITHOUT_NETWORK)
def connects_to_the_agent_that_holds_ssh_keys(p: Place) -> None:
    say(p, socket.AF_UNIX, socket.SOCK_STREAM, p.ssh_auth_sock)


@attack(seen=heard, modes=WITHOUT_NETWORK)
def connects_to_a_socket_that_runs_containers(p: Place) -> None:
    with socket.socket(socket.AF_UNIX) as one:
        one.connect(p.docker_sock)
        one.send(f"POST /containers/create?{p.mark} HTTP/1.1\r\n\r\n".encode())


@attack(seen=heard, modes=WITHOUT_NETWORK)
def connects_by_packets_to_a_daemon_outside(p: Place) -> None:
    say(p, socket.AF_UNIX, socket.SOCK_SEQPACKET, p.seqpacket_outside)


@attack(seen=heard, modes=WITHOUT_NETWORK)
def connects_from_the_folder_of_the_daemon(p: Place) -> None:
    os.chdir(p.outside)
    say(p, socket.AF_UNIX, socket.SOCK_STREAM, "host.sock")


@attack(seen=heard, modes=WITHOUT_NETWORK)
def connects_through_a_folder_descriptor(p: Place) -> None:
    fd = os.open(p.outside, os.O_PATH | os.O_DIRECTORY)
    say(p, socket.AF_UNIX, socket.SOCK_STREAM, f"/proc/self/fd/{fd}/host.sock")


@attack(seen=heard, modes=WITHOUT_NETWORK)
def connects_through_a_descriptor_of_the_socket_file(p: Place) -> None:
    fd = os.open(p.stream_outside, os.O_PATH)
    say(p, socket.AF_UNIX, socket.SOCK_STREAM, f"/proc/self/fd/{fd}")


@attack(seen=heard, modes=WITHOUT_NETWORK)
def connects_through_proc_self_root(p: Place) -> None:
    say(p, socket.AF_UNIX, socket.SOCK_STREAM, f"/proc/self/root{p.stream_outside}")


@attack(seen=heard, modes=WITHOUT_NETWORK[1:])
def connects_through_a_link_in_the_workspace(p: Place) -> None:
    os.symlink(p.stream_outside, f"{p.ws}/{p.case}")
    say(p, socket.AF_UNIX, socket.SOCK_STREAM, f"{p.ws}/{p.case}")


@attack(seen=heard, modes=WITHOUT_NETWORK[1:])
def connects_to_a_daemon_whose_socket_it_renamed(p: Place) -> None:
    os.rename(p.dgram_ws, f"{p.ws}/{p.case}")
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as one:
        one.sendto(p.mark.encode(), f"{p.ws}/{p.case}")


@attack(seen=heard, modes=WITHOUT_NETWORK[1:])
def connects_to_a_daemon_through_a_hard_link(p: Place) -> None:
    os.link(p.stream_ws, f"{p.ws}/{p.case}")
    say(p, socket.AF_UNIX, socket.SOCK_STREAM, f"{p.ws}/{p.case}")


@attack(seen=heard, modes=WITHOUT_NETWORK)
def connects_from_a_thread(p: Place) -> None:
    def connect() -> None:
        _quietly(lambda: say(p, socket.AF_UNIX, socket.SOCK_STREAM, p.stream_outside))

    thread = threading.Thread(target=connect)
    thread.start()
    thread.join()


@attack(seen=heard, modes=WITHOUT_NETWORK)
def connects_from_a_grandchild(p: Place) -> None:
    if os.fork() == 0:
        if os.fork() == 0:
            _quietly(lambda: say(p, socket.AF_UNIX, socket.SOCK_STREAM, p.stream_outside))
            os._exit(0)
        os.wait()
        os._exit(0)
    os.wait()


@attack(seen=heard, modes=WITHOUT_NETWORK)
def connects_without_waiting(p: Place) -> None:
    with socket.socket(socket.AF_UNIX) as one:
        one.setblocking(False)
        try:
            one.connect(p.stream_outside)
        except BlockingIOError:
            time.sleep(0.2)
        one.send(p.mark.encode())


def _datagram(p: Place, where: str, how: str) -> None:
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as one:
        if how == "sendto":
            one.sendto(p.mark.encode(), where)
        elif how == "sendmsg":
            one.sendmsg([p.mark.encode()], [], 0, where)
        elif how == "connect":
            one.connect(where)
            one.send(p.mark.encode())
        else:
            _send_many(one.fileno(), p.mark.encode(), where)


def _send_many(fd: int, data: bytes, where: str) -> None:
    address = ctypes.create_string_buffer(struct.pack("=H", socket.AF_UNIX) + where.encode() + b"\0")
    text = ctypes.create_string_buffer(data)
    vector = (ctypes.c_size_t * 2)(ctypes.addressof(text), len(data))
    header = (ctypes.c_size_t * 8)(ctypes.addressof(address), len(where) + 3, ctypes.addressof(vector), 1, 0, 0, 0, 0)
    call("sendmmsg", fd, header, 1, 0)


@attack(seen=heard, modes=WITHOUT_NETWORK)
def sends_a_datagram_to_a_daemon_outside(p: Place) -> None:
    _datagram(p, p.dgram_outside, "sendto")


@attack(seen=heard, modes=WITHOUT_NETWORK)
def sends_a_message_to_a_daemon_outside(p: Place) -> None:
    _datagram(p, p.dgram_outside, "sendmsg")


@attack(seen=heard, modes=WITHOUT_NETWORK)
def connects_a_datagram_socket_to_a_daemon_outside(p: Place) -> None:
    _datagram(p, p.dgram_outside, "connect")


@attack(seen=heard, modes=WITHOUT_NETWORK)
def sends_many_messages_to_a_daemon_outside(p: Place) -> None:
    _datagram(p, p.dgram_outside, "sendmmsg")


@attack(seen=heard, modes=WITHOUT_NETWORK)
def sends_a_datagram_to_a_daemon_in_slash_tmp(p: Place) -> None:
    _datagram(p, p.dgram_tmp, "sendto")


@attack(seen=heard, modes=WITHOUT_NETWORK)
def sends_a_message_to_a_daemon_in_slash_tmp(p: Place) -> None:
    _datagram(p, p.dgram_tmp, "sendmsg")


@attack(seen=heard, modes=WITHOUT_NETWORK)
def sends_a_descriptor_to_a_daemon_outside(p: Place) -> None:
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as one:
        rights = (socket.SOL_SOCKET, socket.SCM_RIGHTS, struct.pack("i", os.open("/etc/passwd", os.O_RDONLY)))
        one.sendmsg([p.mark.encode()], [rights], 0, p.dgram_outside)


def _late(p: Place, folder: str, ending: str, send: Callable[[str], None]) -> None:
    """Wait for a socket that was not there when the command started.

    The control waits until it comes, however busy the machine is; inside, it may never be seen.
    """
    known = set(os.listdir(folder))
    limit = time.monotonic() + (60 if p.bare else 4)
    while time.monotonic() < limit:
        for name in set(os.listdir(folder)) - known:
            if name.startswith("late-") and name.endswith(ending):
                try:
                    send(f"{folder}/{name}")
                except (ConnectionRefusedError, PermissionError) as error:
                    if isinstance(error, PermissionError) and not p.bare:
                        raise
                    break  # it has its name, but does not listen yet, or not yet to everybody
                return
        time.sleep(0.01)


@attack(seen=heard, modes=WITHOUT_NETWORK)
def sends_a_message_to_a_daemon_outside_that_started_later(p: Place) -> None:
    _late(p, p.outside, ".dgram", lambda path: _datagram(p, path, "sendmsg"))


@attack(seen=heard, modes=WITHOUT_NETWORK)
def sends_a_message_to_a_daemon_in_the_workspace_that_started_later(p: Place) -> None:
    _late(p, p.ws, ".dgram", lambda path: _datagram(p, path, "sendmsg"))


@attack(seen=heard, modes=WITHOUT_NETWORK)
def sends_many_messages_to_a_daemon_that_started_later(p: Place) -> None:
    _late(p, p.outside, ".dgram", lambda path: _datagram(p, path, "sendmmsg"))


@attack(seen=heard, modes=WITHOUT_NETWORK)
def sends_a_datagram_to_a_daemon_that_started_later(p: Place) -> None:
    _late(p, p.outside, ".dgram", lambda path: _datagram(p, path, "sendto"))


@attack(seen=heard, modes=WITHOUT_NETWORK)
def sends_a_message_to_a_daemon_that_is_known_by_another_path(p: Place) -> None:
    """What the kernel lists is the path it was bound with, not where it lies."""
    _datagram(p, p.dgram_odd, "sendmsg")


@attack(seen=heard, modes=WITHOUT_NETWORK)
def sends_a_message_from_a_raw_socket(p: Place) -> None:
    """The kernel makes a Unix socket that is called raw a datagram socket."""
    _late(p, p.outside, ".dgram", lambda path: _message_from(socket.socket(socket.AF_UNIX, socket.SOCK_RAW), p, path))


@attack(seen=heard, modes=WITHOUT_NETWORK)
def sends_a_message_from_one_end_of_a_pair(p: Place) -> None:
    pair = socket.socketpair(type=socket.SOCK_DGRAM)
    _late(p, p.outside, ".dgram", lambda path: _message_from(pair[0].dup(), p, path))


@attack(seen=heard, modes=WITHOUT_NETWORK)
def sends_a_message_from_a_socket_that_was_passed_on(p: Place) -> None:
    one, other = socket.socketpair()
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as datagrams:
        socket.send_fds(one, [b"x"], [datagrams.fileno()])
    _, fds, _, _ = socket.recv_fds(other, 9, 1)
    _late(p, p.outside, ".dgram", lambda path: _message_from(socket.socket(fileno=os.dup(fds[0])), p, path))


@attack(seen=heard, modes=WITHOUT_NETWORK)
def swaps_its_socket_while_a_message_is_on_its_way(p: Place) -> None:
    """Whoever may send from a stream must not find a datagram socket in its place a moment later."""
    _late(p, p.outside, ".dgram", lambda path: _swap(p, path))


def _message_from(one: socket.socket, p: Place, where: str) -> None:
    """Closes the socket: another attempt needs another one."""
    with one:
        one.sendmsg([p.mark.encode()], [], 0, where)


def _swap(p: Place, where: str) -> None:
    limit = time.monotonic() + 2.5
    while time.monotonic() < limit:
        pid = os.fork()
        if pid == 0:
            stream, _ = socket.socketpair()
            place = stream.fileno()
            swapped = threading.Event()
            threads = [threading.Thread(target=_keep_sending, args=(p, place, where, swapped)) for _ in range(3)]
            for thread in threads:
                thread.start()
            time.sleep(0.002)
            try:
                with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as datagrams:
                    os.dup2(datagrams.fileno(), place)
            finally:
                swapped.set()
            for thread in threads:
                thread.join()
            os._exit(0)
        os.waitpid(pid, 0)


def _keep_sending(p: Place, place: int, where: str, swapped: threading.Event) -> None:
    sender = socket.socket(fileno=place)
    sender.setblocking(False)
    more = 20
    while more:
        more -= swapped.is_set()
        _quietly(lambda: sender.sendmsg([p.mark.encode()], [], 0, where))
    sender.detach()


@attack(seen=heard, modes=WITHOUT_NETWORK)
def connects_to_a_daemon_outside_that_started_later(p: Place) -> None:
    _late(p, p.outside, ".sock", lambda path: say(p, socket.AF_UNIX, socket.SOCK_STREAM, path))


@attack(seen=heard, modes=WITHOUT_NETWORK)
def connects_to_a_daemon_in_the_workspace_that_started_later(p: Place) -> None:
    _late(p, p.ws, ".sock", lambda path: say(p, socket.AF_UNIX, socket.SOCK_STREAM, path))


@attack(seen=heard, modes=WITHOUT_NETWORK[1:])
def swaps_the_address_while_the_connection_is_checked(p: Place) -> None:
    """Race against a supervisor that reads the address and lets the kernel read it again."""
    own = f"{p.ws}/{p.case}.sock"
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(own)
    listener.listen(128)
    addresses = [
        struct.pack("=H", socket.AF_UNIX) + path.encode().ljust(108, b"\0") for path in (own, p.stream_outside)
    ]
    memory = ctypes.create_string_buffer(addresses[1] if p.bare else addresses[0], 110)
    over = threading.Event()

    def swap() -> None:
        while not over.is_set():
            for address in addresses:
                ctypes.memmove(memory, address, 110)

    libc = ctypes.CDLL(None)
    thread = threading.Thread(target=swap)
    thread.start()
    try:
        limit = time.monotonic() + 0.4
        while time.monotonic() < limit:
            with socket.socket(socket.AF_UNIX) as one:
                one.settimeout(0.2)
                one.setblocking(True)
                if libc.connect(one.fileno(), memory, 110) == 0:
                    one.send(p.mark.encode())
            listener.setblocking(False)
            try:
                listener.accept()[0].close()
            except OSError:
                pass
    finally:
        over.set()
        thread.join()


@attack(seen=heard, modes=WITHOUT_NETWORK[1:])
def swaps_the_socket_file_while_the_connection_is_checked(p: Place) -> None:
    """Race against a supervisor that looks at a path and lets the kernel look again: the name is now a link out."""
    own, link = f"{p.ws}/{p.case}.sock", f"{p.ws}/{p.case}.link"
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(own)
    listener.listen(128)
    listener.setblocking(False)
    os.symlink(p.stream_outside, link)
    over = threading.Event()

    def swap() -> None:
        from escape.kernel import exchange

        while not over.is_set():
            exchange(own, link)

    thread = threading.Thread(target=swap)
    thread.start()
    try:
        limit = time.monotonic() + 0.4
        while time.monotonic() < limit:
            _quietly(lambda: say(p, socket.AF_UNIX, socket.SOCK_STREAM, own))
            _quietly(lambda: listener.accept()[0].close())
    finally:
        over.set()
        thread.join()


@attack(seen=heard, modes=WITHOUT_NETWORK[1:])
def swaps_the_descriptor_while_the_connection_is_checked(p: Place) -> None:
    """Race against a supervisor that connects for the process: the descriptor number changes its socket."""
    own = f"{p.ws}/{p.case}.sock"
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(own)
    listener.listen(128)
    listener.setblocking(False)
    over = threading.Event()
    first, second = socket.socket(socket.AF_UNIX), socket.socket(socket.AF_UNIX)
    slot = os.dup(first.fileno())

    def swap() -> None:
        while not over.is_set():
            os.dup2(second.fileno(), slot)
            os.dup2(first.fileno(), slot)

    thread = threading.Thread(target=swap)
    thread.start()
    try:
        limit = time.monotonic() + 0.2
        while time.monotonic() < limit:
            with socket.socket(fileno=os.dup(slot)) as one:
                _quietly(lambda one=one: one.connect(p.stream_outside))
                _quietly(lambda one=one: one.send(p.mark.encode()))
    finally:
        over.set()
        thread.join()


@attack(seen=heard, modes=WITHOUT_NETWORK)
def finds_an_open_connection_in_its_standard_streams(p: Place) -> None:
    """A command's own pipes must not be sockets of the agent through which more can be asked for."""
    if p.bare:
        say(p, socket.AF_UNIX, socket.SOCK_STREAM, p.stream_outside)
        return
    for fd in (0, 1, 2, p.report):
        if os.readlink(f"/proc/self/fd/{fd}").startswith("socket:"):
            p.reached(str(fd))


@attack("{outside}/host.sock", "{outside}/host.dgram")
def removes_the_socket_of_a_daemon(p: Place) -> None:
    os.unlink(p.stream_outside)


def _quietly(step: object) -> None:
    try:
        step()  # pyright: ignore[reportCallIssue]
    except OSError:
        pass
