"""TLS with private authorities and client certificates; proxies for both kinds of target."""

from __future__ import annotations

import asyncio
import base64
import ssl
from pathlib import Path

import pytest
import trustme

from spindle.errors import ConfigError, ModelError, StreamDropped
from spindle.model.client import Completed, Created
from spindle.model.proxy import is_excepted, proxy_for
from spindle.model.url import join_url, parse_url

ANSWER = [Created("r"), Completed("r")]


@pytest.fixture(scope="module")
def authority() -> trustme.CA:
    return trustme.CA()


@pytest.fixture(scope="module")
def ca_file(authority: trustme.CA, tmp_path_factory: pytest.TempPathFactory) -> str:
    path = tmp_path_factory.mktemp("ca") / "ca.pem"
    authority.cert_pem.write_to_path(str(path))
    return str(path)


@pytest.fixture
def server_tls(authority: trustme.CA) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert("localhost", "model.test").configure_cert(context)
    return context


# ---- TLS -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("given_by", ["ca_file", "CODEX_CA_CERTIFICATE", "SSL_CERT_FILE"])
async def test_a_private_authority_is_trusted_when_named(
    serve, client_for, ask, answer, server_tls, ca_file: str, given_by: str
) -> None:
    server = await serve(answer, tls=server_tls)
    settings = {"ca_file": ca_file} if given_by == "ca_file" else {"environ": {given_by: ca_file}}
    client = client_for(server, **settings)
    await client.warm()
    for _ in range(3):
        assert await ask(client) == ANSWER
    assert server.connections == 1


async def test_an_authority_nobody_named_is_not_trusted(serve, client_for, ask, answer, server_tls) -> None:
    server = await serve(answer, tls=server_tls)
    with pytest.raises(StreamDropped, match=r"^Connection failed: .*its certificate is not trusted"):
        await ask(client_for(server))


async def test_a_certificate_for_another_host_is_refused(
    serve, client_for, ask, answer, authority: trustme.CA, ca_file: str
) -> None:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert("elsewhere.test").configure_cert(context)
    server = await serve(answer, tls=context)
    with pytest.raises(StreamDropped, match=r"its certificate is not trusted"):
        await ask(client_for(server, ca_file=ca_file))


async def test_a_client_certificate_is_shown_to_a_server_that_wants_one(
    serve, client_for, ask, answer, server_tls, authority: trustme.CA, ca_file: str, tmp_path: Path
) -> None:
    server_tls.verify_mode = ssl.CERT_REQUIRED
    authority.configure_trust(server_tls)
    mine = authority.issue_cert("me@client.test")
    cert, key = tmp_path / "cert.pem", tmp_path / "key.pem"
    mine.cert_chain_pems[0].write_to_path(str(cert))
    mine.private_key_pem.write_to_path(str(key))
    server = await serve(answer, tls=server_tls)
    assert await ask(client_for(server, ca_file=ca_file, client_cert=str(cert), client_key=str(key))) == ANSWER
    with pytest.raises(StreamDropped):
        await ask(client_for(server, ca_file=ca_file))


@pytest.mark.parametrize("setting", ["ca_file", "client_cert"])
async def test_an_unreadable_certificate_file_is_named(client_for, ask, tmp_path: Path, setting: str) -> None:
    with pytest.raises(ModelError, match=f"cannot .*{tmp_path}/none.pem.*No such file"):
        await ask(client_for("https://localhost:9/v1", **{setting: f"{tmp_path}/none.pem"}))


async def test_leaving_a_tls_stream_early_closes_the_socket(
    serve, client_for, question, server_tls, ca_file: str
) -> None:
    async def slow(peer) -> None:
        await peer.begin_sse()
        await peer.event({"type": "response.created", "response": {"id": "r"}})
        await asyncio.sleep(60)

    server = await serve(slow, tls=server_tls)
    events = client_for(server, ca_file=ca_file).stream(question)
    assert await anext(events) == Created("r")
    await events.aclose()
    await asyncio.wait_for(server.closed_by_client.wait(), 5)


# ---- proxies ---------------------------------------------------------------------------------------


class ConnectProxy:
    """An HTTP proxy that opens tunnels, all of them to one port."""

    def __init__(self, to_port: int, refuse: bool = False, tls: ssl.SSLContext | None = None) -> None:
        self._tls = tls
        self.to_port = to_port
        self.refuse = refuse
        self.heads: list[str] = []
        self._tasks: set[asyncio.Task[None]] = set()

    async def start(self) -> int:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0, ssl=self._tls)
        return self._server.sockets[0].getsockname()[1]

    async def stop(self) -> None:
        self._server.close()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        try:
            self.heads.append((await reader.readuntil(b"\r\n\r\n")).decode())
            if self.refuse:
                writer.write(b"HTTP/1.1 407 Proxy Authentication Required\r\ncontent-length: 0\r\n\r\n")
                await writer.drain()
                return
            there_reader, there_writer = await asyncio.open_connection("127.0.0.1", self.to_port)
            writer.write(b"HTTP/1.1 200 Connection established\r\n\r\n")
            try:
                await asyncio.gather(pipe(reader, there_writer), pipe(there_reader, writer))
            finally:
                there_writer.transport.abort()
        finally:
            writer.transport.abort()


async def pipe(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    try:
        while data := await reader.read(65536):
            writer.write(data)
            await writer.drain()
    except ConnectionError:
        pass
    writer.transport.abort()


@pytest.fixture
async def tunnel():
    proxies = []

    async def start(to_port: int, **options) -> tuple[ConnectProxy, int]:
        proxy = ConnectProxy(to_port, **options)
        proxies.append(proxy)
        return proxy, await proxy.start()

    yield start
    for proxy in proxies:
        await proxy.stop()


async def test_https_goes_through_a_tunnel(serve, client_for, ask, answer, tunnel, server_tls, ca_file: str) -> None:
    server = await serve(answer, tls=server_tls)
    proxy, port = await tunnel(server.port)
    environ = {"https_proxy": f"http://ann:p%40ss@127.0.0.1:{port}"}
    client = client_for("https://model.test:8443/v1", environ=environ, ca_file=ca_file)
    for _ in range(2):
        assert await ask(client) == ANSWER
    assert [head.splitlines()[:3] for head in proxy.heads] == [
        [
            "CONNECT model.test:8443 HTTP/1.1",
            "host: model.test:8443",
            "proxy-authorization: Basic " + base64.b64encode(b"ann:p@ss").decode(),
        ]
    ]
    assert "proxy-authorization" not in server.requests[0].headers


async def test_the_way_to_the_proxy_may_be_encrypted_too(
    serve, client_for, ask, answer, tunnel, server_tls, ca_file: str
) -> None:
    server = await serve(answer, tls=server_tls)
    _, port = await tunnel(server.port, tls=server_tls)
    client = client_for("https://model.test/v1", environ={"HTTPS_PROXY": f"https://localhost:{port}"}, ca_file=ca_file)
    for _ in range(2):
        assert await ask(client) == ANSWER
    assert server.connections == 1


async def test_a_proxy_that_refuses_is_named(client_for, ask, tunnel) -> None:
    _, port = await tunnel(9, refuse=True)
    client = client_for("https://model.test/v1", environ={"ALL_PROXY": f"127.0.0.1:{port}"})
    told = f"^Connection failed: the proxy 127.0.0.1:{port} refused .* status 407. The proxy wants .* into ALL_PROXY"
    with pytest.raises(ModelError, match=told):
        await ask(client)


async def test_plain_http_is_asked_for_at_the_proxy_in_full(serve, client_for, ask, answer) -> None:
    server = await serve(answer)
    environ = {"HTTP_PROXY": f"http://ann:secret@127.0.0.1:{server.port}"}
    client = client_for("http://model.test/v1", environ=environ)
    assert await ask(client) == ANSWER
    request = server.requests[0]
    assert (request.target, request.headers["host"]) == ("http://model.test/v1/responses", "model.test")
    assert request.headers["proxy-authorization"] == "Basic " + base64.b64encode(b"ann:secret").decode()


async def test_a_socks_proxy_is_refused_in_one_sentence(client_for, ask) -> None:
    client = client_for("https://model.test/v1", environ={"ALL_PROXY": "socks5h://user:pw@proxy.test:1080"})
    with pytest.raises(ModelError, match=r"ALL_PROXY names a SOCKS proxy .*proxy.test:1080.*not supported") as caught:
        await ask(client)
    assert "pw" not in str(caught.value)


@pytest.mark.parametrize(
    ("environ", "url", "chosen"),
    [
        ({"HTTPS_PROXY": "http://up:1"}, "https://a.test", "http://up:1"),
        ({"https_proxy": "http://low:1", "HTTPS_PROXY": "http://up:1"}, "https://a.test", "http://low:1"),
        ({"HTTPS_PROXY": "http://up:1"}, "http://a.test", None),
        ({"HTTP_PROXY": "http://up:1"}, "http://a.test", "http://up:1"),
        ({"HTTP_PROXY": "http://up:1", "REQUEST_METHOD": "GET"}, "http://a.test", None),
        ({"http_proxy": "http://low:1", "REQUEST_METHOD": "GET"}, "http://a.test", "http://low:1"),
        ({"all_proxy": "http://all:1"}, "https://a.test", "http://all:1"),
        ({"ALL_PROXY": "all:3128"}, "http://a.test", "http://all:3128"),
        ({"ALL_PROXY": "  "}, "http://a.test", None),
        ({"ALL_PROXY": "http://all:1", "NO_PROXY": "a.test"}, "http://a.test", None),
        ({"ALL_PROXY": "http://all:1", "no_proxy": "b.test"}, "http://a.test", "http://all:1"),
        ({"ALL_PROXY": "http://all:1"}, "http://127.0.0.1:11434", None),
        ({"ALL_PROXY": "http://all:1"}, "http://localhost:11434", None),
        ({}, "http://a.test", None),
    ],
)
def test_the_proxy_is_chosen_by_the_environment(environ: dict[str, str], url: str, chosen: str | None) -> None:
    proxy = proxy_for(parse_url(url), environ)
    assert (proxy.origin if proxy else None) == chosen


@pytest.mark.parametrize(
    ("no_proxy", "url", "matches"),
    [
        ("a.test", "http://a.test", True),
        ("a.test", "http://b.a.test", True),
        ("a.test", "http://ba.test", False),
        (".a.test", "http://b.a.test", True),
        (".a.test", "http://ba.test", False),
        ("*.a.test", "http://b.a.test", True),
        ("*", "http://any.test", True),
        ("x.test, a.test", "http://a.test", True),
        ("x.test a.test", "http://a.test", True),
        ("A.Test", "http://a.TEST", True),
        ("a.test:8080", "http://a.test:8080", True),
        ("a.test:8080", "http://a.test", False),
        ("a.test:443", "https://a.test", True),
        ("10.0.0.0/8", "http://10.1.2.3", True),
        ("10.0.0.0/8", "http://11.1.2.3", False),
        ("10.0.0.0/8", "http://a.test", False),
        ("10.1.2.3", "http://10.1.2.3", True),
        ("fd00::/8", "http://[fd00::5]:80", True),
        ("[fd00::5]:80", "http://[fd00:0::5]:80", True),
        ("fd00::5", "http://[fd00::6]:80", False),
        ("nonsense/99", "http://a.test", False),
        (",,", "http://a.test", False),
        (".", "http://a.test", False),
        ("", "http://a.test", False),
    ],
)
def test_no_proxy_lists_hosts_suffixes_ports_and_networks(no_proxy: str, url: str, matches: bool) -> None:
    assert is_excepted(parse_url(url), no_proxy) is matches


# ---- addresses -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "shown", "authority", "target"),
    [
        ("https://api.test/v1", "https://api.test/v1", "api.test", "/v1"),
        ("HTTP://API.test:80/v1?a=b#part", "http://api.test/v1?a=b", "api.test", "/v1?a=b"),
        ("http://[::1]:8080", "http://[::1]:8080/", "[::1]:8080", "/"),
        ("https://user:pw@api.test/v1", "https://api.test/v1", "api.test", "/v1"),
        ("http://api.test?x=1", "http://api.test/?x=1", "api.test", "/?x=1"),
    ],
)
def test_an_address_is_taken_apart(text: str, shown: str, authority: str, target: str) -> None:
    url = parse_url(text)
    assert (str(url), url.authority, url.target) == (shown, authority, target)


@pytest.mark.parametrize(
    "text",
    ["", "api.test/v1", "ftp://api.test", "http://", "http://a.test:99999", "http://a.test:x", "http://a.test/ b"],
)
def test_an_unusable_address_is_named(text: str) -> None:
    with pytest.raises(ConfigError, match=r"^base_url "):
        parse_url(text, "base_url")


def test_a_password_in_an_unusable_address_is_not_shown() -> None:
    with pytest.raises(ConfigError) as caught:
        parse_url("http://ann:hunter2@a.test:x")
    assert "hunter2" not in str(caught.value)


@pytest.mark.parametrize(
    ("base", "query", "joined"),
    [
        ("http://a/v1", {}, "http://a/v1/responses"),
        ("http://a/v1/", {}, "http://a/v1/responses"),
        ("http://a/v1", {"api-version": "2025-04-01"}, "http://a/v1/responses?api-version=2025-04-01"),
        ("http://a/v1?k=v", {"x y": "ä&"}, "http://a/v1/responses?k=v&x%20y=%C3%A4%26"),
    ],
)
def test_the_endpoint_is_joined_with_the_query(base: str, query: dict[str, str], joined: str) -> None:
    assert join_url(base, "/responses", query) == joined
