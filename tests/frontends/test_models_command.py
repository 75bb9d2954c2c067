"""`spindle models`: which models there are, from the catalogue, the configuration and the server."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from spindle.errors import ConfigError
from spindle.frontends import models_command
from spindle.frontends.command_line import read

Answers = dict[str, Any]


class Server(ThreadingHTTPServer):
    """Answers each path with what stands there for it; a body's `model` is part of the path."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.answers: Answers = {}
        self.asked: list[tuple[str, dict[str, str]]] = []

    @property
    def base_url(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}/v1"


class Handler(BaseHTTPRequestHandler):
    server: Server  # pyright: ignore[reportIncompatibleVariableOverride]

    def log_message(self, format: str, *args: object) -> None:
        pass

    def do_GET(self) -> None:
        self.reply(self.path)

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["content-length"])))
        self.reply(f"{self.path} {body['model']}")

    def reply(self, path: str) -> None:
        self.server.asked.append((path, {name.lower(): value for name, value in self.headers.items()}))
        answer = self.server.answers.get(path)
        body = json.dumps(answer).encode()
        self.send_response(404 if answer is None else 200)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


@pytest.fixture
def server() -> Iterator[Server]:
    with Server() as server:
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        yield server
        server.shutdown()


@pytest.fixture
def models(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], server: Server
) -> Callable[..., Any]:
    """Runs the command with a configuration; `{"slug": row}` of what it lists, or its text."""
    monkeypatch.setenv("CODEX_HOME", str(tmp_path))
    monkeypatch.setenv("CODEX_OSS_BASE_URL", server.base_url)
    monkeypatch.setenv("HOUSE_KEY", "sk-house-1234567890")
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    monkeypatch.chdir(tmp_path)

    def run(*words: str, config: str = "", as_text: bool = False) -> Any:
        (tmp_path / "config.toml").write_text(config)
        line = read(["models", *words, *([] if as_text else ["--json"])])
        assert models_command.run(line.parsed, line.parsed.words) == 0
        printed = capsys.readouterr()
        run.stderr = printed.err  # pyright: ignore[reportFunctionMemberAccess]
        if as_text:
            return printed.out
        rows = json.loads(printed.out)["models"]
        assert len({row["slug"] for row in rows}) == len(rows)
        return {row["slug"]: row for row in rows}

    return run


HOUSE = """
model_provider = "house"
model = "house-1"
[model_providers.house]
name = "House"
base_url = "{}"
env_key = "HOUSE_KEY"
"""


def test_the_catalogue_is_listed_with_windows_efforts_and_prices(models: Callable[..., Any], server: Server) -> None:
    rows = models()
    assert rows["gpt-5.2-codex"] == {
        "slug": "gpt-5.2-codex",
        "provider": "openai",
        "context_window": 272_000,
        "max_output_tokens": 128_000,
        "efforts": ["low", "medium", "high", "xhigh"],
        "prices": {"input": 1.75, "cached_input": 0.175, "output": 14.0},
        "source": "bundled",
    }
    assert rows["claude-opus-5-5"]["provider"] == "anthropic" and rows["codex-auto-review"]["prices"] is None
    assert not {"gpt-6", "gpt-oss"} & set(rows), "these stand for whole lines of models"
    assert server.asked == [], "OpenAI is not asked what it has unless somebody wants to know"


def test_people_get_a_table_in_which_what_nobody_knows_is_unknown(models: Callable[..., Any]) -> None:
    head, *lines = models(as_text=True).splitlines()
    assert head.split()[:5] == ["MODEL", "PROVIDER", "WINDOW", "OUTPUT", "EFFORTS"]
    by_name = {line.split()[0]: line for line in lines}
    assert by_name["gpt-5.2-codex"].split() == (
        ["gpt-5.2-codex", "openai", "272,000", "128,000", "low", "medium", "high", "xhigh", "1.75,", "0.175,", "14"]
    )
    assert by_name["claude-haiku-5-5"].endswith("0.1, 0.01, 0.5 (more above 100,000)")
    assert by_name["gpt-6.1-sol"].endswith(" 2, 0.1, 10"), "its window here is shorter than what costs more"
    assert by_name["codex-auto-review"].split()[-1] == "unknown"


def test_what_the_user_says_counts_most(models: Callable[..., Any]) -> None:
    config = """
    [spindle.models."gpt-5.2"]
    context_window = 1000
    [spindle.models.house-1]
    provider = "house"
    efforts = ["low"]
    [spindle.prices."house"]
    input = 2.0
    cached_input = 0.2
    output = 10.0
    """
    rows = models(config=config)
    assert (rows["gpt-5.2"]["context_window"], rows["gpt-5.2"]["source"]) == (1000, "config")
    assert rows["gpt-5.2"]["prices"] == {"input": 1.75, "cached_input": 0.175, "output": 14.0}
    assert rows["house-1"] == {
        "slug": "house-1",
        "provider": "house",
        "context_window": 272_000,
        "max_output_tokens": None,
        "efforts": ["low"],
        "prices": {"input": 2.0, "cached_input": 0.2, "output": 10.0},
        "source": "config",
    }


def test_the_configured_server_adds_models_and_windows_and_gets_its_key(
    models: Callable[..., Any], server: Server
) -> None:
    server.answers["/v1/models"] = {
        "data": [{"id": "house-1", "max_model_len": 65_536}, {"id": "house-2"}, {"id": "gpt-5.2-codex"}]
    }
    config = HOUSE.format(server.base_url)
    rows = models(config=config)
    assert rows["house-1"] == {
        "slug": "house-1",
        "provider": "house",
        "context_window": 65_536,
        "max_output_tokens": None,
        "efforts": [],
        "prices": None,
        "source": "server",
    }
    assert rows["house-2"]["context_window"] is None, "a window that is only a guess is none"
    assert (rows["gpt-5.2-codex"]["provider"], rows["gpt-5.2-codex"]["context_window"]) == ("house", 272_000)
    ((path, headers),) = server.asked
    assert (path, headers["authorization"]) == ("/v1/models", "Bearer sk-house-1234567890")
    assert set(models("--provider", "house", config=config)) == {"house-1", "house-2", "gpt-5.2-codex"}
    assert "unknown" in models(config=config, as_text=True)


def test_only_the_models_of_one_provider(models: Callable[..., Any]) -> None:
    rows = models("--provider", "anthropic")
    assert {row["provider"] for row in rows.values()} == {"anthropic"} and "claude-sonnet-5-5" in rows
    rows = models("--provider", "openai", config='openai_base_url = "http://127.0.0.1:9/v1"')
    assert {row["provider"] for row in rows.values()} == {"openai"} and "gpt-5.2" in rows
    assert "note: OpenAI was asked for its models in vain: Not signed in" in models.stderr  # pyright: ignore[reportFunctionMemberAccess]


def test_a_provider_that_there_is_not_is_named_with_those_there_are(models: Callable[..., Any]) -> None:
    with pytest.raises(ConfigError, match=r"Model provider `nobody` not found \(--provider\); known: openai, "):
        models("--provider", "nobody")


def test_ollama_and_lm_studio_tell_windows_in_their_own_ways(models: Callable[..., Any], server: Server) -> None:
    server.answers |= {
        "/v1/models": {"data": [{"id": "gpt-oss:20b"}, {"id": "odd:1b"}]},
        "/api/show gpt-oss:20b": {"model_info": {"gptoss.context_length": 131_072}},
        "/api/v0/models": {"data": [{"id": "openai/gpt-oss-20b", "max_context_length": 131_072}]},
    }
    rows = models("--provider", "ollama")
    assert {slug: row["context_window"] for slug, row in rows.items()} == {"gpt-oss:20b": 131_072, "odd:1b": None}
    rows = models("--provider", "lmstudio")
    assert [(row["slug"], row["context_window"]) for row in rows.values()] == [("openai/gpt-oss-20b", 131_072)]


def test_a_server_that_does_not_answer_keeps_nothing_from_being_listed(models: Callable[..., Any]) -> None:
    config = HOUSE.format("http://127.0.0.1:9/v1")
    assert "gpt-5.2" in models(config=config)
    assert models("--provider", "house", config=config) == {}
    assert models.stderr.startswith("note: House was asked for its models in vain: ")  # pyright: ignore[reportFunctionMemberAccess]


def test_what_was_learned_about_servers_is_forgotten(models: Callable[..., Any], tmp_path: Path) -> None:
    file = tmp_path / "spindle/capabilities.json"
    file.parent.mkdir()
    file.write_text("{}")
    assert models("--forget", as_text=True) == "Forgot what was learned about what model servers can do.\n"
    assert not file.exists()
    assert models("--forget", as_text=True) == "There was nothing to forget.\n"
