"""`ssl` is loaded when a server is reached by TLS, not before; and asyncio then has it as if it always had."""

from __future__ import annotations

import ssl
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import trustme

from fake_server import FakeServer, call, message, turn

PUT_OFF = """
import sys
before = [*sys.meta_path]
from spindle.frontends import late_tls
late_tls.put_off()
import asyncio
from asyncio import base_events, selector_events, sslproto
assert "ssl" not in sys.modules and "_ssl" not in sys.modules
assert base_events.ssl is selector_events.ssl is sslproto.ssl is None
"""
HANDED_OVER = """
import ssl
assert base_events.ssl is selector_events.ssl is sslproto.ssl is sys.modules["ssl"] is ssl
assert sslproto.SSLAgainErrors == (ssl.SSLWantReadError, ssl.SSLSyscallError)
assert type(ssl.__loader__) is type(ssl.__spec__.loader) is type(asyncio.__loader__) is type(sslproto.__loader__)
assert sys.meta_path == before
"""


@pytest.fixture(scope="module")
def authority() -> trustme.CA:
    return trustme.CA()


@pytest.fixture
def server(authority: trustme.CA) -> Iterator[FakeServer]:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert("127.0.0.1").configure_cert(context)
    with FakeServer(tls=context) as running:
        yield running


def test_the_command_talks_to_a_server_by_tls(
    spindle_cmd: list[str],
    environment: dict[str, str],
    server: FakeServer,
    workspace: Path,
    authority: trustme.CA,
    tmp_path: Path,
) -> None:
    authority.cert_pem.write_to_path(str(tmp_path / "ca.pem"))
    server.script(turn(call("exec_command", {"cmd": "echo hi"}, "c1")), turn(message("done by TLS")))
    done = subprocess.run(
        [*spindle_cmd, "exec", "--json", "hello"],
        cwd=workspace,
        env={**environment, "SSL_CERT_FILE": str(tmp_path / "ca.pem")},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=30,
    )
    assert done.returncode == 0, done.stderr
    assert "done by TLS" in done.stdout
    assert len(server.turns_asked) == 2 and server.connections == 1


@pytest.mark.parametrize("then", ["", HANDED_OVER])
def test_asyncio_loads_without_ssl_and_gets_it_with_the_first_import(then: str) -> None:
    run_python(PUT_OFF + then)


def test_where_ssl_is_loaded_already_nothing_is_put_off() -> None:
    run_python(
        "import sys, ssl\nbefore = [*sys.meta_path]\nfrom spindle.frontends import late_tls\nlate_tls.put_off()\n"
        "import asyncio\nassert asyncio.base_events.ssl is ssl and sys.meta_path == before\n"
    )


def run_python(code: str) -> None:
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=30)
    assert done.returncode == 0, done.stderr
