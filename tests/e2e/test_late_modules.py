"""What asyncio and msgspec seldom need is loaded when somebody uses it, not before; nobody can tell the difference."""

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
loaded = {*sys.modules}  # from 3.13 on, `python -c` itself loads linecache
from spindle.frontends import late_modules
late_modules.put_off()
sys.modules["typing_extensions"] = None  # it loads some of them
import asyncio, msgspec
from asyncio import base_events, selector_events
assert "ssl" not in sys.modules and "_ssl" not in sys.modules
assert base_events.ssl is selector_events.ssl is None
late = {"inspect", "linecache", "locale", "logging", "traceback", "asyncio.sslproto", "msgspec.inspect"} - loaded
assert not late & set(sys.modules), late & set(sys.modules)
asyncio.run(asyncio.sleep(0))
assert not late & set(sys.modules), late & set(sys.modules)
"""
HANDED_OVER = """
import ssl
from asyncio import sslproto
assert base_events.ssl is selector_events.ssl is sslproto.ssl is sys.modules["ssl"] is ssl
assert base_events.sslproto.SSLProtocol is sslproto.SSLProtocol
assert sslproto.SSLAgainErrors == (ssl.SSLWantReadError, ssl.SSLSyscallError)
assert type(ssl.__loader__) is type(ssl.__spec__.loader) is type(asyncio.__loader__) is type(sslproto.__loader__)
assert sys.meta_path == before
"""

USED = {
    "a function's kind": (
        "import functools\nasync def f(): pass\ndef g(): pass\n"
        "class A:\n    async def f(self): pass\n    def g(self): pass\n"
        "no = [asyncio.iscoroutinefunction(one) for one in (g, A.g, A().g, len, A, f())]\n"
        "yes = [asyncio.iscoroutinefunction(one) for one in (f, A.f, A().f, functools.partial(f))]\n"
        "assert not any(no) and all(yes)"
    ),
    "a signal": (
        "import signal\nasync def f():\n    loop, heard = asyncio.get_running_loop(), asyncio.Event()\n"
        "    loop.add_signal_handler(signal.SIGTERM, heard.set)\n    signal.raise_signal(signal.SIGTERM)\n"
        "    await heard.wait()\nasyncio.run(f())"
    ),
    "a schema": "assert msgspec.json.schema(int) == {'type': 'integer'} and msgspec.json.schema_components([int])[0]",
    "a type's description": "assert type(msgspec.inspect.type_info(int)) is msgspec.inspect.IntType",
    "a stack": (
        "async def f(): return asyncio.current_task().get_stack()[-1].f_code.co_name\nassert asyncio.run(f()) == 'f'"
    ),
    "debugging": "asyncio.run(asyncio.sleep(0), debug=True)\nassert 'traceback' in sys.modules",
    "an encoding": (
        "import subprocess\nassert subprocess.run(['echo', 'ä'], capture_output=True, text=True).stdout == 'ä\\n'"
    ),
}
LOGGED = """
import logging, io
heard = io.StringIO()
logging.basicConfig(stream=heard, level=logging.DEBUG)
async def fail():
    asyncio.get_running_loop().call_exception_handler({"message": "something went wrong"})
asyncio.run(fail())
assert "DEBUG:asyncio:Using selector" in heard.getvalue(), heard.getvalue()
assert "ERROR:asyncio:something went wrong" in heard.getvalue(), heard.getvalue()
"""
UNHEARD = """
async def fail():
    asyncio.get_running_loop().call_exception_handler({"message": "something went wrong"})
    raise ValueError("the end")
asyncio.run(fail())
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
        "import sys, ssl\nbefore = [*sys.meta_path]\n"
        "from spindle.frontends import late_modules\nlate_modules.put_off()\n"
        "import asyncio\nassert asyncio.base_events.ssl is ssl and sys.meta_path == before\n"
    )


@pytest.mark.parametrize("then", USED.values(), ids=USED.keys())
def test_what_was_put_off_is_there_for_whoever_uses_it(then: str) -> None:
    run_python(PUT_OFF + then)


def test_who_logs_hears_asyncio() -> None:
    run_python(PUT_OFF + LOGGED)


def test_errors_that_nobody_logs_are_printed_as_ever() -> None:
    done = subprocess.run([sys.executable, "-c", PUT_OFF + UNHEARD], capture_output=True, text=True, timeout=30)
    assert done.returncode == 1
    assert done.stderr.startswith("something went wrong\nTraceback") and done.stderr.endswith("ValueError: the end\n")


def run_python(code: str) -> None:
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=30)
    assert done.returncode == 0, done.stderr
