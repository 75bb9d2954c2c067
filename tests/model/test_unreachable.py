"""A connection that cannot be made: the reason in words, and what to check."""

from __future__ import annotations

import errno
import os
import socket
import ssl

import pytest

from spindle.errors import ModelError, StreamDropped
from spindle.model.failures import no_connection
from spindle.model.provider import Provider
from spindle.model.unreachable import proxy_refused, unreachable
from spindle.model.url import parse_url

URL = parse_url("https://model.test/v1")
PROXY = parse_url("http://proxy.test:3128")


def ssl_error(reason: str) -> ssl.SSLError:
    error = ssl.SSLError(1, reason)
    error.reason = reason
    return error


def untrusted() -> ssl.SSLCertVerificationError:
    error = ssl.SSLCertVerificationError(1, "certificate verify failed")
    error.verify_message = "self-signed certificate"
    return error


CASES = [
    (
        socket.gaierror(socket.EAI_NONAME, "Name or service not known"),
        "cannot connect to W: the host name cannot be resolved (Name or service not known)",
        "Check the network connection and the host name in base_url; behind a proxy, set HTTPS_PROXY.",
    ),
    (
        ConnectionRefusedError(errno.ECONNREFUSED, "x"),
        "cannot connect to W: Connection refused",
        "Nothing listens there: check that the server runs, and that base_url names its port.",
    ),
    (
        OSError(errno.ENETUNREACH, "x"),
        f"cannot connect to W: {os.strerror(errno.ENETUNREACH)}",
        "Check the network connection, VPN and firewall; behind a proxy, set HTTPS_PROXY.",
    ),
    (TimeoutError(), "no connection to W within 15 s", "Check the network connection, VPN and firewall; "),
    (untrusted(), "cannot connect to W: its certificate is not trusted (self-signed certificate)", "If the server, or"),
    (
        ssl_error("WRONG_VERSION_NUMBER"),
        "cannot connect to W: TLS failed (WRONG_VERSION_NUMBER)",
        "The server does not speak TLS on this port: try http:// instead of https:// in base_url.",
    ),
]


@pytest.mark.parametrize(("error", "fact", "advice"), CASES, ids=[type(case[0]).__name__ for case in CASES])
def test_the_reason_is_named_and_what_to_check(error: OSError, fact: str, advice: str) -> None:
    failed = unreachable(error, "W", URL, None, {}, 15.0)
    assert str(failed) == fact and failed.advice.startswith(advice)
    given_up = no_connection(failed)
    assert isinstance(given_up, StreamDropped)
    assert str(given_up.given_up(3)).startswith(f"Connection failed: {fact} (gave up after 3 retries). {advice}")


def test_an_untrusted_certificate_names_the_settings_that_help() -> None:
    advice = unreachable(untrusted(), "W", URL, None, {}, 15.0).advice
    assert all(name in advice for name in ("CODEX_CA_CERTIFICATE", "SSL_CERT_FILE", "ca_file"))


@pytest.mark.parametrize("variable", ["HTTPS_PROXY", "https_proxy", "ALL_PROXY"])
def test_a_proxy_that_does_not_answer_is_told_with_its_variable(variable: str) -> None:
    error = ConnectionRefusedError(errno.ECONNREFUSED, "x")
    failed = unreachable(error, "the proxy proxy.test:3128", URL, PROXY, {variable: "http://proxy.test:3128"}, 15.0)
    assert failed.advice == (f"The proxy is named by {variable}: correct or unset it, or list model.test in NO_PROXY.")


@pytest.mark.parametrize(("status", "kind"), [(407, ModelError), (403, ModelError), (503, StreamDropped)])
def test_a_proxy_that_says_no_is_asked_again_only_if_that_may_help(status: int, kind: type) -> None:
    failed = no_connection(proxy_refused(status, URL, PROXY, {"HTTPS_PROXY": "http://proxy.test:3128"}))
    assert type(failed) is kind
    assert ("USER:PASSWORD" in str(failed)) == (status == 407)


def test_a_local_server_that_is_down_is_told_with_how_to_start_it() -> None:
    failed = unreachable(ConnectionRefusedError(errno.ECONNREFUSED, "x"), "W", URL, None, {}, 15.0)
    for id, command in (("ollama", "`ollama serve`"), ("lmstudio", "`lms server start`")):
        dropped = no_connection(failed, Provider(id=id, name=id))
        assert isinstance(dropped, StreamDropped) and command in str(dropped.given_up(0))
