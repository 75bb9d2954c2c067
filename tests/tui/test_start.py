"""What is asked before the composer, and what comes of the answers: in the files, and for the session."""

from __future__ import annotations

import asyncio
import json
import os
import tomllib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from fake_server import FakeServer, refuses
from local.tiny_model import write_model
from login_service import LoginService
from spindle.config.load import load_config
from spindle.config.schema import Config
from spindle.frontends.tui import start
from spindle.frontends.tui.practice import practice_request
from spindle.frontends.tui.start import Ready, ask_credentials, before_composer, is_practice, sign_in_again
from spindle.local.store import ModelStore, copy_in
from tui.hands import press, shown, write


class AtTheDesk:
    """A person who answers view after view; `seen` keeps what each showed."""

    def __init__(self, config: Config, *answers: Callable[[Any], None]) -> None:
        self.config = config
        self.seen: list[list[str]] = []
        self.said: list[str] = []
        self.guarded: list[bool] = []
        self._answers = list(answers)

    async def ask(self, view: Any) -> Any:
        self.seen.append(shown(view, 110, 40))
        self.guarded.append(view.guards_typing)
        assert self._answers, self.seen[-1]
        self._answers.pop(0)(view)
        return await view.answer

    def say(self, *lines: Any) -> None:
        self.said += lines

    warn = fail = say


def keys(*names: str) -> Callable[[Any], None]:
    return lambda view: press(view, *names)


def row(text: str) -> Callable[[Any], None]:
    """Choose the row that holds these words."""

    def choose(view: Any) -> None:
        number = next(text_[2:].split(".")[0] for text_ in shown(view, 110, 40) if text in text_)
        press(view, number)

    return choose


class Place:
    """A home and a folder to start in."""

    def __init__(self, tmp_path: Path) -> None:
        self.home, self.project = tmp_path / "home", tmp_path / "project"
        self.home.mkdir()
        self.project.mkdir()
        self.environ = {"HOME": str(tmp_path), "CODEX_HOME": str(self.home), "CODEX_OSS_PORT": "9"}

    def config(self, text: str) -> None:
        (self.home / "config.toml").write_text(text)

    def trust(self, more: str = "") -> None:
        self.config(f'{more}\n[projects."{self.project}"]\ntrust_level = "trusted"\n')

    def load(self) -> Config:
        return load_config(cwd=str(self.project), env=self.environ, system_dir=str(self.home / "system"))

    def saved(self) -> dict[str, Any]:
        return tomllib.loads((self.home / "config.toml").read_text())

    async def start(self, *answers: Callable[[Any], None]) -> tuple[Ready | None, AtTheDesk]:
        desk = AtTheDesk(self.load(), *answers)
        return await before_composer(desk, self.load, self.environ), desk  # pyright: ignore[reportArgumentType]


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place(tmp_path)


# ---- trust -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("level", ["trusted", "untrusted"])
async def test_a_known_folder_with_a_provider_asks_nothing(place: Place, level: str) -> None:
    place.environ["OPENAI_API_KEY"] = "sk-x"
    place.config(f'[projects."{place.project}"]\ntrust_level = "{level}"\n')
    ready, desk = await place.start()
    assert desk.seen == [] and ready is not None and ready.config.trust_level == level


async def test_a_provider_of_the_users_own_that_needs_no_key_asks_nothing(place: Place) -> None:
    place.trust('model_provider = "mine"\n[model_providers.mine]\nname = "Mine"\nbase_url = "http://127.0.0.1:9/v1"')
    ready, desk = await place.start()
    assert desk.seen == [] and ready is not None


@pytest.mark.parametrize(
    ("answer", "level", "policy"), [("1", "trusted", "on-request"), ("enter", "untrusted", "untrusted")]
)
async def test_trust_is_asked_once_and_saved(place: Place, answer: str, level: str, policy: str) -> None:
    place.environ["OPENAI_API_KEY"] = "sk-x"
    place.config("# mine\nmodel = 'm'\n")
    ready, desk = await place.start(keys(answer))
    assert desk.seen[0][1] == str(place.project)
    assert ready is not None and ready.config.trust_level == level and ready.config.approval_policy == policy
    assert place.saved() == {"model": "m", "projects": {str(place.project): {"trust_level": level}}}
    text = (place.home / "config.toml").read_text()
    assert text.startswith("# mine\n") and f'[projects."{place.project}"]\ntrust_level = "{level}"' in text
    _, desk = await place.start()
    assert desk.seen == []


@pytest.mark.parametrize("key", ["3", "esc"])
async def test_quitting_saves_nothing(place: Place, key: str) -> None:
    ready, _ = await place.start(keys(key))
    assert ready is None and not (place.home / "config.toml").exists()


async def test_trust_is_about_the_root_of_the_repository(place: Place) -> None:
    place.environ["OPENAI_API_KEY"] = "sk-x"
    (place.project / ".git").mkdir()
    root, place.project = place.project, place.project / "a" / "b"
    place.project.mkdir(parents=True)
    ready, desk = await place.start(keys("1"))
    assert desk.seen[0][1] == str(root) and list(place.saved()["projects"]) == [str(root)]
    assert ready is not None and ready.config.trust_level == "trusted"


async def test_a_folder_with_any_name_can_be_trusted(place: Place) -> None:
    place.environ["OPENAI_API_KEY"] = "sk-x"
    place.project = place.project / "a.b \"c\" 'd' \\e"
    place.project.mkdir()
    ready, _ = await place.start(keys("1"))
    assert ready is not None and ready.config.trust_level == "trusted"
    assert list(place.saved()["projects"]) == [str(place.project)]


async def test_trust_that_cannot_be_saved_is_said_and_nothing_is_trusted(place: Place) -> None:
    place.environ["OPENAI_API_KEY"] = "sk-x"
    (place.home / "config.toml").symlink_to(place.home / "gone" / "config.toml")
    ready, desk = await place.start(keys("1"))
    assert ready is not None and ready.config.trust_level is None
    assert "cannot be written" in desk.said[0] and "going on without trust" in desk.said[0]


# ---- credentials -----------------------------------------------------------------------------------


async def test_without_credentials_trust_comes_first_and_then_the_list_of_what_is_there(place: Place) -> None:
    place.environ["CODEX_API_KEY"] = "sk-secret-value"
    ready, desk = await place.start(keys("enter"), keys("esc"))
    assert ready is None
    trust, ways = desk.seen
    assert "trust" in trust[0] and ways[0] == "How shall Spindle reach a model?"
    text = "\n".join(ways)
    assert "sk-secret-value" not in text
    rows = [text[2:].split("  ")[0] for text in ways if text[2:3].isdigit()]
    assert rows == [
        "1. Use OpenAI (current)",
        "2. Enter an API key",
        "3. Sign in with ChatGPT",
        "4. Try the offline demo",
        "5. Quit",
    ]
    assert "the key in CODEX_API_KEY" in text and "with a code on another device" in text
    assert next(text for text in ways if text.startswith("›")).startswith("› 1. Use OpenAI")


async def test_only_a_list_that_comes_up_by_itself_leaves_the_typist_alone(place: Place) -> None:
    _, desk = await place.start(keys("1"), keys("esc"))
    assert desk.guarded == [False, False]
    _, desk = await place.start(keys("esc"))
    assert desk.guarded == [True]


async def test_a_stored_chatgpt_sign_in_is_used_without_asking(place: Place) -> None:
    place.trust()
    (place.home / "auth.json").write_text(json.dumps({"auth_mode": "chatgpt", "tokens": {"access_token": "t"}}))
    ready, desk = await place.start()
    assert desk.seen == [] and ready is not None


async def test_one_can_sign_in_with_chatgpt_by_a_code_and_give_up_before(place: Place) -> None:
    with LoginService() as service:
        place.trust(f'[spindle.login]\nissuer = "{service.issuer}"\n')
        chatgpt, with_a_code = row("Sign in with ChatGPT"), row("With a code")
        ready, desk = await place.start(chatgpt, with_a_code, keys("esc"), keys("esc"))
        assert ready is None and not (place.home / "auth.json").exists()
        assert any("ABCD-12345" in text for text in desk.seen[2]) and "ABCD-12345" in desk.said[0]
        ready, desk = await place.start(chatgpt, with_a_code, lambda view: None)
    assert ready is not None and desk.said[-1] == "Signed in with ChatGPT as ann@example.com."
    assert start.missing_credential(ready.config, place.environ) is None


async def test_a_sign_in_that_fails_leads_back_to_the_list(place: Place) -> None:
    place.trust('[spindle.login]\nissuer = "http://127.0.0.1:9"\n')
    ready, desk = await place.start(row("Sign in with ChatGPT"), row("With a code"), keys("esc"))
    assert ready is None and "Nobody was signed in: 127.0.0.1:9 cannot be reached" in desk.said[0]


async def test_a_key_in_the_environment_is_used_and_never_stored(place: Place) -> None:
    place.trust()
    place.environ["CODEX_API_KEY"] = "sk-env"
    ready, _ = await place.start(row("CODEX_API_KEY"))
    assert ready is not None and ready.config.provider.env_key == "CODEX_API_KEY"
    assert start.missing_credential(ready.config, place.environ) is None
    assert not (place.home / "auth.json").exists() and "sk-env" not in (place.home / "config.toml").read_text()


async def test_a_configured_provider_whose_key_is_there_can_be_taken(place: Place) -> None:
    place.trust('[model_providers.corp]\nname = "Corp"\nbase_url = "http://127.0.0.1:9/v1"\nenv_key = "CORP_KEY"')
    place.environ["CORP_KEY"] = "k"
    ready, desk = await place.start(row("the key in CORP_KEY"))
    assert ready is not None and ready.config.provider.id == "corp"
    assert place.saved()["model_provider"] == "corp"
    _, desk = await place.start()
    assert desk.seen == []


async def test_a_local_server_is_found_and_taken_with_its_model(place: Place) -> None:
    models = {"data": [{"id": "qwen3:8b"}, {"id": "llama\x1b[2J:8b"}, {"id": 3}, "x"]}
    with FakeServer() as server:
        server.pages = {"/v1/models": refuses(200, models), "/api/version": refuses(200, {"version": "0.99.0"})}
        place.environ["CODEX_OSS_PORT"] = server.base_url.split(":")[2].split("/")[0]
        place.environ["http_proxy"] = "http://127.0.0.1:9"
        place.trust()
        ready, desk = await place.start(row("Use Ollama"), row("qwen3"))
    assert any("Use Ollama" in text and "qwen3:8b" in text for text in desk.seen[0])
    assert "\x1b" not in "\n".join(desk.seen[0])
    assert ready is not None and (ready.config.provider.id, ready.config.model) == ("ollama", "qwen3:8b")
    assert (place.saved()["model_provider"], place.saved()["model"]) == ("ollama", "qwen3:8b")


async def test_a_model_that_was_added_can_be_taken_without_any_server(
    place: Place, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    copy_in(ModelStore(str(place.home)), str(write_model(tmp_path / "m.gguf")), "tiny", None, lambda done, total: None)
    place.trust()
    monkeypatch.setattr("spindle.frontends.tui.credential_choice.find_spec", lambda name: None)
    _, desk = await place.start(keys("esc"))
    assert not any("tiny" in text for text in desk.seen[0])  # nothing is there that could run it
    monkeypatch.setattr("spindle.frontends.tui.credential_choice.find_spec", lambda name: object())
    ready, desk = await place.start(row("Use Local models"))
    assert any("run by Spindle itself: tiny" in text for text in desk.seen[0])
    assert ready is not None and (ready.config.provider.id, ready.config.model) == ("local", "tiny")
    assert (place.saved()["model_provider"], place.saved()["model"]) == ("local", "tiny")


async def test_a_server_that_does_not_answer_holds_nothing_up(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("spindle.config.oss._PROBE_TIMEOUT_S", 1000.0)
    asked: list[bytes] = []

    async def say_nothing(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        asked.append(await reader.readline())
        await reader.read()
        writer.close()

    server = await asyncio.start_server(say_nothing, "127.0.0.1", 0)
    place.environ["CODEX_OSS_PORT"] = str(server.sockets[0].getsockname()[1])
    place.trust()
    async with server:
        _, desk = await place.start(keys("esc"))
    assert asked == [b"GET /v1/models HTTP/1.1\r\n"]
    assert not any("Ollama" in text for text in desk.seen[0])


async def test_only_this_computers_own_address_is_asked_before_a_choice(place: Place) -> None:
    asked: list[bytes] = []

    async def hear(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        asked.append(await reader.readline())
        writer.close()

    server = await asyncio.start_server(hear, "0.0.0.0", 0)
    place.environ["CODEX_OSS_BASE_URL"] = f"http://0.0.0.0:{server.sockets[0].getsockname()[1]}/v1"
    place.trust()
    async with server:
        await place.start(keys("esc"))
    assert asked == []


async def test_a_typed_key_is_checked_by_one_request_and_stored_for_the_owner_alone(place: Place) -> None:
    with FakeServer() as server:
        server.pages = {"/v1/models": refuses(200, {"data": []})}
        place.environ["OPENAI_BASE_URL"] = server.base_url
        place.trust()

        def enter(view: Any) -> None:
            write(view, "sk-typed-key")
            assert "sk-typed" not in "\n".join(shown(view))
            press(view, "enter")

        ready, desk = await place.start(row("Enter an API key"), enter)
        (asked,) = server.requests
    assert (asked.method, asked.path, asked.headers["authorization"]) == ("GET", "/v1/models", "Bearer sk-typed-key")
    path = place.home / "auth.json"
    assert json.loads(path.read_text())["OPENAI_API_KEY"] == "sk-typed-key" and path.stat().st_mode & 0o777 == 0o600
    assert ready is not None and start.missing_credential(ready.config, place.environ) is None
    assert any("stored in auth.json" in text for text in desk.said)


async def test_a_key_that_is_refused_is_asked_for_again_with_the_reason(place: Place) -> None:
    answer = {"error": {"message": "Incorrect API key provided: sk-wrong\x1b[2J"}}
    with FakeServer() as server:
        server.pages = {"/v1/models": refuses(401, answer)}
        place.environ["OPENAI_BASE_URL"] = server.base_url
        place.trust()

        def wrong(view: Any) -> None:
            view.paste("sk-wrong\n")
            press(view, "enter")

        ready, desk = await place.start(row("Enter an API key"), wrong, keys("esc"), keys("esc"))
    assert ready is None and not (place.home / "auth.json").exists()
    shown_again = "\n".join(desk.seen[2])
    assert "OpenAI does not take this key (401)" in shown_again
    assert "sk-wrong" not in shown_again and "\x1b" not in shown_again


async def test_what_is_no_key_is_not_sent(place: Place) -> None:
    with FakeServer() as server:
        place.environ["OPENAI_BASE_URL"] = server.base_url
        place.trust()

        def quoted(view: Any) -> None:
            view.paste('"sk-quoted"')
            press(view, "enter")

        _, desk = await place.start(row("Enter an API key"), quoted, keys("esc"), keys("esc"))
        assert server.requests == []
    assert any("begins with a quotation mark" in text for text in desk.seen[2])


async def test_a_key_that_nobody_could_check_is_kept_only_if_the_person_says_so(place: Place) -> None:
    place.environ["OPENAI_BASE_URL"] = "http://127.0.0.1:9/v1"
    place.trust()

    def enter(view: Any) -> None:
        view.paste("sk-unchecked")
        press(view, "enter")

    way = row("Enter an API key")
    ready, desk = await place.start(way, enter, row("Back"), keys("esc"))
    assert ready is None and not (place.home / "auth.json").exists()
    assert any("127.0.0.1:9" in text for text in desk.seen[2])
    ready, _ = await place.start(way, enter, row("Keep it unchecked"))
    assert ready is not None and "sk-unchecked" in (place.home / "auth.json").read_text()


async def test_a_key_for_a_provider_with_a_variable_holds_for_the_session(place: Place) -> None:
    with FakeServer() as server:
        server.pages = {"/v1/models": refuses(200, {})}
        table = f'[model_providers.corp]\nname = "Corp"\nbase_url = "{server.base_url}"\nenv_key = "CORP_KEY"'
        place.trust(f'model_provider = "corp"\n{table}')

        def enter(view: Any) -> None:
            view.paste("corp-key")
            press(view, "enter")

        ready, desk = await place.start(row("Enter an API key"), enter)
    assert any("CORP_KEY" in text for text in desk.seen[0])
    assert ready is not None and ready.config.provider.bearer_token == "corp-key"
    assert not (place.home / "auth.json").exists() and "corp-key" not in (place.home / "config.toml").read_text()


async def test_the_demo_needs_nothing(place: Place, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    place.environ["PATH"] = os.environ["PATH"]
    place.trust()
    ready, _ = await place.start(row("offline demo"))
    assert ready is not None and ready.request is not None and ready.request.client is not None
    assert ready.apply(ready.request) is ready.request
    assert ready.config.home != str(place.home)


async def test_login_can_be_left_without_a_change(place: Place) -> None:
    place.trust()
    place.environ["OPENAI_API_KEY"] = "sk-x"
    desk = AtTheDesk(place.load(), keys("esc"))
    assert await ask_credentials(desk, desk.config, place.load, environ=place.environ) is None  # pyright: ignore[reportArgumentType]
    assert not any("Quit" in text for text in desk.seen[0])
    assert any(text.startswith("› 1. Use OpenAI (current)") for text in desk.seen[0])


async def test_login_from_the_demo_leads_to_the_users_own_home(
    place: Place, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    monkeypatch.setenv("CODEX_API_KEY", "sk-env")
    place.environ |= {"PATH": os.environ["PATH"], "CODEX_API_KEY": "sk-env"}
    desk = AtTheDesk(practice_request(place.environ).config, keys("1"), row("CODEX_API_KEY"))
    assert is_practice(desk.config)
    ready = await sign_in_again(desk, place.load)  # pyright: ignore[reportArgumentType]
    assert ready is not None and ready.config.home == str(place.home) and not is_practice(ready.config)
    assert ready.config.trust_level == "trusted" and ready.config.provider.env_key == "CODEX_API_KEY"
