"""Model providers: the built-in ones, the user's own, and local servers for --oss."""

# ruff: noqa: E501 - tables read best with one case per line

from __future__ import annotations

from typing import Any

import pytest

from config.canned_server import CannedServer
from config.throwaway import Setup
from spindle.config.oss import check_oss_server, choose_oss_provider, load_model, served_window
from spindle.errors import ConfigError
from spindle.model.provider import Provider


@pytest.mark.parametrize(
    ("env", "overrides", "urls"),
    [
        ({}, [], ("https://api.openai.com/v1", "http://localhost:11434/v1", "http://localhost:1234/v1")),
        (
            {"OPENAI_BASE_URL": "http://a/v1/"},
            [],
            ("http://a/v1", "http://localhost:11434/v1", "http://localhost:1234/v1"),
        ),
        (
            {"OPENAI_BASE_URL": "http://a/v1"},
            ["openai_base_url=http://b/v1"],
            ("http://b/v1", "http://localhost:11434/v1", "http://localhost:1234/v1"),
        ),
        (
            {"CODEX_OSS_PORT": "99", "OPENAI_BASE_URL": " "},
            [],
            ("https://api.openai.com/v1", "http://localhost:99/v1", "http://localhost:99/v1"),
        ),
        (
            {"CODEX_OSS_BASE_URL": "http://box:1/v1/", "CODEX_OSS_PORT": "99"},
            [],
            ("https://api.openai.com/v1", "http://box:1/v1", "http://box:1/v1"),
        ),
    ],
)
def test_built_in_providers_take_their_address_from_settings_and_environment(
    setup: Setup, env: dict[str, str], overrides: list[str], urls: tuple[str, ...]
):
    setup.env.update(env)
    providers = setup.load(*overrides).providers
    assert tuple(providers[id].base_url for id in ("openai", "ollama", "lmstudio")) == urls
    assert [provider.requires_openai_auth for provider in providers.values()] == [True, False, False, False]


def test_a_providers_table_is_read_in_full(setup: Setup):
    setup.user(
        """
model_provider = "lab"
[model_providers.lab]
name = "Lab server"
base_url = "http://10.0.0.5:8000/v1/"
env_key = "LAB_KEY"
env_key_instructions = "Ask the lab."
experimental_bearer_token = "t"
wire_api = "responses"
query_params = { api-version = "1" }
http_headers = { X-Team = "blue" }
env_http_headers = { X-Trace = "TRACE_ID" }
request_max_retries = 1000
stream_max_retries = 0
stream_idle_timeout_ms = 120000
requires_openai_auth = true
supports_websockets = true
image_tool_output = "message"
ca_file = "ca.pem"
"""
    )
    config = setup.load()
    assert config.warnings == []
    assert config.provider == Provider(
        id="lab",
        name="Lab server",
        base_url="http://10.0.0.5:8000/v1",
        env_key="LAB_KEY",
        env_key_instructions="Ask the lab.",
        bearer_token="t",
        query_params={"api-version": "1"},
        http_headers={"X-Team": "blue"},
        env_http_headers={"X-Trace": "TRACE_ID"},
        request_max_retries=100,
        stream_max_retries=0,
        stream_idle_timeout_ms=120000,
        requires_openai_auth=True,
        supports_websockets=True,
        image_tool_output="message",
        ca_file=setup.path("home/ca.pem"),
    )


def test_an_override_changes_one_field_of_a_provider(setup: Setup):
    setup.user(
        'model_provider = "x"\n[model_providers.x]\nname = "x"\nbase_url = "http://a"\nquery_params = { a = "1" }\n'
    )
    provider = setup.load("model_providers.x.query_params={b='2'}").provider
    assert (provider.base_url, provider.query_params) == ("http://a", {"a": "1", "b": "2"})


def test_a_built_in_provider_cannot_be_replaced(setup: Setup):
    setup.user('[model_providers.openai]\nname = "x"\nbase_url = "http://evil/v1"\n')
    config = setup.load()
    assert config.provider.base_url == "https://api.openai.com/v1"
    assert config.warnings == [
        "[model_providers.openai] is ignored: openai is built in; set openai_base_url for another address, or choose another id"
    ]


@pytest.mark.parametrize(
    ("provider", "message"),
    [
        (
            "[model_providers.x]\nbase_url = 'http://a'\n",
            "model_providers.x.name is missing; every provider needs a name",
        ),
        (
            "[model_providers.x]\nname = 'x'\nbase_url = 'ftp://a'\n",
            "model_providers.x.base_url is not an http or https address",
        ),
        (
            # A template that nobody filled in: the thread must not go to the default server instead.
            "[model_providers.x]\nname = 'x'\nbase_url = ''\n",
            "model_providers.x.base_url is not an http or https address",
        ),
        (
            "[model_providers.x]\nname = 'x'\nhttp_headers = { A = \"b\\r\\nC: d\" }\n",
            "http_headers contains line ends",
        ),
    ],
)
def test_a_provider_that_cannot_work_is_an_error_that_names_it(setup: Setup, provider: str, message: str):
    path = setup.user(provider)
    with pytest.raises(ConfigError) as raised:
        setup.load()
    assert str(raised.value).startswith(f"{path}: model_providers.x.") and message in str(raised.value)


def test_a_wire_that_is_none_is_an_error_that_names_those_there_are(setup: Setup):
    setup.user("[model_providers.x]\nname = 'x'\nwire_api = 'soap'\n")
    with pytest.raises(ConfigError, match="wire_api is 'soap', but must be one of responses, chat, messages"):
        setup.load()


def test_what_a_provider_of_another_wire_is_like_can_be_said(setup: Setup):
    setup.user(
        "[model_providers.x]\nname = 'x'\nwire_api = 'messages'\nauth_header = 'bearer'\nreplay_reasoning = true\n"
        "[model_providers.x.capabilities]\nimages = false\nflight = true\n"
    )
    config = setup.load()
    provider = config.providers["x"]
    assert (provider.wire_api, provider.auth_header, provider.replay_reasoning) == ("messages", "bearer", True)
    assert provider.capabilities["images"] is False and any("flight" in text for text in config.warnings)


def test_an_unknown_provider_is_an_error_that_says_where_it_was_set_and_what_exists(setup: Setup):
    path = setup.user('model_provider = "nope"\n[model_providers.lab]\nname = "l"\n')
    with pytest.raises(ConfigError) as raised:
        setup.load()
    assert str(raised.value) == (
        f"Model provider `nope` not found (model_provider, set by {path}); known: openai, ollama, lmstudio, local, lab"
    )


@pytest.mark.parametrize("port", ["0", "x", "70000", "-1"])
def test_a_port_must_be_a_port(setup: Setup, port: str):
    setup.env["CODEX_OSS_PORT"] = port
    with pytest.raises(ConfigError, match="CODEX_OSS_PORT is not a port number"):
        setup.load()


def local(id: str, url: str) -> Provider:
    return Provider(id=id, name=id, base_url=f"{url}/v1")


NOBODY = "http://127.0.0.1:9"


async def test_oss_takes_the_server_that_answers():
    async with CannedServer({"/v1/models": (200, {"data": []})}) as server:
        providers = {"ollama": local("ollama", NOBODY), "lmstudio": local("lmstudio", server.url)}
        assert (await choose_oss_provider(None, None, providers, {})).id == "lmstudio"
        assert (await choose_oss_provider(None, "ollama", providers, {})).id == "ollama"
        assert (await choose_oss_provider("lmstudio", "ollama", providers, {})).id == "lmstudio"
        with pytest.raises(ConfigError, match="unknown local provider 'x'"):
            await choose_oss_provider("x", None, providers, {})


async def test_oss_without_any_server_is_an_error_that_says_what_to_start():
    providers = {id: local(id, NOBODY) for id in ("ollama", "lmstudio")}
    with pytest.raises(
        ConfigError, match=r"none answers: start ollama with `ollama serve` \(http://127.0.0.1:9/v1\) or lms"
    ):
        await choose_oss_provider(None, None, providers, {})
    with pytest.raises(ConfigError, match=r"Ollama does not answer at .*: start it with `ollama serve`"):
        await check_oss_server(providers["ollama"], {})
    with pytest.raises(ConfigError, match=r"0\.3\.39 .* `lms server start`"):
        await check_oss_server(providers["lmstudio"], {})


@pytest.mark.parametrize(
    ("answer", "is_fine"),
    [
        ((200, {"version": "0.13.4"}), True),
        ((200, {"version": "0.14.0-rc1"}), True),
        ((200, {"version": "1.0"}), True),
        ((200, {"version": "0.0.0"}), True),
        ((200, {"version": "0.13.3"}), False),
        ((200, {"version": "0.9.99"}), False),
        ((200, {"version": "banana"}), True),
        ((200, {}), True),
        ((200, b"not json"), True),
        ((404, {}), True),
    ],
)
async def test_ollama_must_be_new_enough_as_far_as_it_says_its_version(answer: tuple[int, Any], is_fine: bool):
    async with CannedServer({"/api/version": answer}) as server:
        if is_fine:
            await check_oss_server(local("ollama", server.url), {})
        else:
            with pytest.raises(ConfigError, match=r"too old: the Responses API needs 0\.13\.4 or newer"):
                await check_oss_server(local("ollama", server.url), {})


async def test_lm_studio_must_answer():
    async with CannedServer({"/v1/models": (200, {"data": []})}) as server:
        await check_oss_server(local("lmstudio", server.url), {})
    assert server.requests == [("/v1/models", None)]


@pytest.mark.parametrize(
    ("answer", "window"),
    [
        ((200, {"model_info": {"general.architecture": "x", "x.context_length": 40960}}), 40960),
        ((200, {"model_info": {"x.context_length": 40960}, "parameters": "stop    a\nnum_ctx    8192"}), 8192),
        ((200, {"model_info": {"x.context_length": 4096}, "parameters": "num_ctx 999999999"}), 4096),
        ((200, {"model_info": {"x.context_length": True}, "parameters": "num_ctx -1"}), None),
        ((200, {"model_info": {"x.context_length": 1 << 40}, "parameters": 7}), None),
        ((200, {"model_info": ["x"]}), None),
        ((200, b"not json"), None),
        ((404, {"error": "model not found"}), None),
    ],
)
async def test_ollama_tells_the_window_of_a_model(answer: tuple[int, Any], window: int | None):
    async with CannedServer({"/api/show": answer}) as server:
        assert await served_window(local("ollama", server.url), "m:1b", {}) == window
    assert server.requests == [("/api/show", {"model": "m:1b"})]


@pytest.mark.parametrize(
    ("row", "window"),
    [
        ({"max_context_length": 65536}, 65536),
        ({"max_context_length": 65536, "loaded_context_length": 4096}, 4096),
        ({"max_context_length": 65536, "loaded_context_length": None}, 65536),
        ({}, None),
    ],
)
async def test_lm_studio_tells_the_window_a_model_was_loaded_with(row: dict[str, Any], window: int | None):
    rows = {"data": [{"id": "other", "max_context_length": 1}, {"id": "m", **row}, 3]}
    async with CannedServer({"/api/v0/models": (200, rows)}) as server:
        assert await served_window(local("lmstudio", server.url), "m", {}) == window
        assert await served_window(local("lmstudio", server.url), "gone", {}) is None


async def test_a_server_that_is_down_tells_no_window():
    for id in ("ollama", "lmstudio"):
        assert await served_window(local(id, NOBODY), "m", {}) is None


@pytest.mark.parametrize("state", ["not-loaded", "loaded"])
async def test_lm_studio_is_asked_to_load_what_it_has_not_loaded(state: str):
    rows = {"data": [{"id": "m", "state": state}]}
    async with CannedServer({"/api/v0/models": (200, rows), "/v1/responses": (200, {})}) as server:
        await load_model(local("lmstudio", server.url), "m", {})
    asked = [("/v1/responses", {"model": "m", "input": "", "max_output_tokens": 1})]
    assert server.requests[1:] == (asked if state == "not-loaded" else [])
