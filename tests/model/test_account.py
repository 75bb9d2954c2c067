"""Which account made an item is told by the key that is in use at that moment."""

from __future__ import annotations

from spindle.model.credential import EnvCredential
from spindle.model.endpoint import Endpoint
from spindle.model.headers import Identity
from spindle.model.provider import Provider


def endpoint(environ: dict[str, str], from_variables: dict[str, str] | None = None) -> Endpoint:
    provider = Provider(
        id="x", name="x", base_url="http://127.0.0.1:9/v1", env_key="KEY", env_http_headers=from_variables or {}
    )
    identity = Identity(thread_id="t", version="1")
    return Endpoint(provider, EnvCredential("KEY", environ=environ), identity, environ=environ)


def test_another_key_is_another_account() -> None:
    environ = {"KEY": "first-key"}
    asked = endpoint(environ)
    first = asked.origin("m").account
    assert first and asked.origin("m").account == first
    environ["KEY"] = "second-key"
    assert asked.origin("m").account not in ("", first)
    del environ["KEY"]
    assert asked.origin("m").account == ""
    environ["KEY"] = "first-key"
    assert asked.origin("m").account == first


def test_a_header_that_comes_from_a_variable_counts_at_once() -> None:
    environ = {"KEY": "key", "ACCOUNT": "one"}
    asked = endpoint(environ, {"chatgpt-account-id": "ACCOUNT"})
    first = asked.origin("m").account
    environ["ACCOUNT"] = "two"
    assert asked.origin("m").account != first
