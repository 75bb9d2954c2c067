"""Signing in with the installed command, from the browser to the first answer and out; and where keys never go."""

from __future__ import annotations

import json
import re
import signal
import subprocess
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from browser import visit
from fake_server import FakeServer, Turn, message, turn
from installed import Spindle, finish, wait_for
from login_service import LoginService, form_of, login_port


@pytest.fixture
def service(home: Path) -> Iterator[LoginService]:
    with LoginService() as running:
        (home / "config.toml").write_text(running.settings())
        yield running
    assert running.problems == []


def reading(process: subprocess.Popen[bytes]) -> list[str]:
    """What it prints on stderr, line by line, as it comes."""
    lines: list[str] = []

    def pump() -> None:
        assert process.stderr is not None
        for line in iter(process.stderr.readline, b""):
            lines.append(line.decode())

    threading.Thread(target=pump, daemon=True).start()
    return lines


def address_in(lines: list[str]) -> str:
    def found() -> str:
        return next((line.strip() for line in lines if line.startswith("http")), "")

    return wait_for(found, "the address to sign in at")


def test_a_person_signs_in_asks_and_signs_out(spindle: Spindle, service: LoginService) -> None:
    with login_port():
        process = spindle.start("login")
        lines = reading(process)
        back = visit(address_in(lines)).location
        assert visit(re.sub("state=[^&]*", "state=forged", back)).status == 400
        assert visit(back).status == 200
        assert process.wait(20) == 0
    wait_for(lambda: "Successfully logged in as ann@example.com, plan: pro\n" in lines, "the last line")
    status = spindle("login", "status")
    assert (status.code, status.err) == (0, "Logged in using ChatGPT\n")
    service.script(turn(message("fine")))
    done = spindle("exec", "--json", "hi")
    assert done.code == 0 and done.items("agent_message")[0]["text"] == "fine"
    tokens = json.loads((spindle.home / "auth.json").read_text())["tokens"]
    (asked,) = service.turns_asked
    assert asked.headers["authorization"] == f"Bearer {tokens['access_token']}"
    assert asked.headers["chatgpt-account-id"] == "acc-1"
    out = spindle("logout")
    assert out.code == 0 and not (spindle.home / "auth.json").exists()
    assert form_of(service.posts("/oauth/revoke")[0])["token"] == tokens["refresh_token"]
    assert spindle("login", "status").code == 1


def test_giving_up_or_being_refused_leaves_nothing_behind(spindle: Spindle, service: LoginService) -> None:
    with login_port():
        process = spindle.start("login")
        lines = reading(process)
        address_in(lines)
        process.send_signal(signal.SIGINT)
        assert process.wait(20) == 130
        assert "Traceback" not in "".join(lines)
        service.denies = "access_denied"
        process = spindle.start("login")
        lines = reading(process)
        visit(visit(address_in(lines)).location)
        assert process.wait(20) == 1
        wait_for(
            lambda: (
                lines[-1:] == ["Nobody was signed in: the sign-in was refused: the person said no (access_denied).\n"]
            ),
            "why",
        )
    assert not (spindle.home / "auth.json").exists()


def test_a_person_signs_in_with_a_code_at_a_service_named_on_the_line(spindle: Spindle, home: Path) -> None:
    with LoginService() as service:
        done = spindle("login", "--device-auth", "--experimental_issuer", service.issuer)
        assert done.code == 0 and "ABCD-12345" in done.err and f"{service.issuer}/codex/device" in done.err
        assert "stranger" in done.err
        service.expire()
        (home / "config.toml").write_text(f'openai_base_url = "{service.issuer}/backend-api/codex"\n')
        assert spindle("exec", "hi").code == 0, "renewed where it was made"
        assert len(service.refreshes) == 1
    help_page = spindle("login", "--help").out
    assert "--device-auth" in help_page and "issuer" not in help_page


@pytest.mark.parametrize(
    ("arguments", "setting", "said"),
    [
        (("login",), 'forced_login_method = "api"', "signing in with ChatGPT is not allowed"),
        (("login", "--device-auth"), 'cli_auth_credentials_store = "ephemeral"', "would end with this command"),
        (("login", "--device-auth", "--with-api-key"), "", "choose one"),
        (("login",), 'spindle.login.issuer = "http://login.example"', "must be an https address"),
    ],
)
def test_a_sign_in_that_cannot_be_is_one_sentence(
    spindle: Spindle, home: Path, arguments: tuple[str, ...], setting: str, said: str
) -> None:
    (home / "config.toml").write_text(f"{setting}\n")
    done = spindle(*arguments)
    assert done.code in (1, 2) and said in done.err and done.err.count("\n") == 1


def test_signing_out_works_with_a_broken_configuration(spindle: Spindle, home: Path) -> None:
    (home / "config.toml").write_text("model = [\n")
    (home / "auth.json").write_text('{"OPENAI_API_KEY":"sk-x"}')
    done = spindle("logout")
    assert done.code == 0 and "Successfully logged out" in done.err and not (home / "auth.json").exists()


def test_two_programs_that_meet_a_stale_token_renew_it_once(spindle: Spindle, service: LoginService) -> None:
    service.store(spindle.home)
    service.expire()
    service.holds_refusals(2)  # so that both have been refused before one of them can renew it
    runs = [spindle.start("exec", "--json", "hi") for _ in range(2)]
    assert [finish(run).code for run in runs] == [0, 0]
    assert len(service.refreshes) == 1
    assert json.loads((spindle.home / "auth.json").read_text())["tokens"]["access_token"] in service.good


def test_a_token_that_is_about_to_run_out_is_renewed_before_it_is_refused(
    spindle: Spindle, service: LoginService
) -> None:
    service.store(spindle.home, life_s=200)
    assert spindle("exec", "hi").code == 0
    assert len(service.refreshes) == len(service.turns_asked) == 1
    tokens = json.loads((spindle.home / "auth.json").read_text())["tokens"]
    assert service.turns_asked[0].headers["authorization"] == f"Bearer {tokens['access_token']}"


def test_a_login_that_was_revoked_is_one_clear_answer(spindle: Spindle, service: LoginService) -> None:
    service.store(spindle.home)
    service.expire()
    service.answers["/oauth/token"] = Turn(status=401, body=b'{"error":{"code":"refresh_token_invalidated"}}')
    done = spindle("exec", "--json", "hi")
    (said,) = [event["error"]["message"] for event in done.events if event["type"] == "turn.failed"]
    assert said.startswith("unexpected status 401") and said.endswith(
        "Your ChatGPT sign-in was revoked: sign in again with `spindle login`."
    )
    assert len(service.refreshes) == 1 and len(service.turns_asked) == 1


LIMIT = {"type": "usage_limit_reached", "message": "reached", "plan_type": "plus", "resets_in_seconds": 3600}
LEFT_OUT = {"type": "usage_not_included", "message": "not in the plan"}


@pytest.mark.parametrize(
    ("status", "error", "said"),
    [
        (429, LIMIT, ("The usage limit of this account is reached (plan: plus); it resets at", "in 1 h", "API key")),
        (403, LEFT_OUT, ("not in the plan", "ChatGPT plan", "spindle login --with-api-key")),
    ],
)
def test_what_the_plan_does_not_allow_is_said_with_what_to_do(
    spindle: Spindle, service: LoginService, status: int, error: dict[str, str], said: tuple[str, ...]
) -> None:
    service.store(spindle.home)
    body = json.dumps({"error": error}).encode()
    service.otherwise(Turn(status=status, body=body))
    done = spindle("exec", "--json", "hi")
    text = done.events[-1]["error"]["message"]
    assert done.code == 1 and all(part in text for part in said), text
    assert len(service.turns_asked) == 1 and service.refreshes == []


# ---- where keys never go -------------------------------------------------------------------------

AMBIENT = ("sk-ambient-open", "sk-ambient-codex", "sk-ambient-file", "ambient-org", "ambient-project")


@pytest.mark.parametrize("wire", ["responses", "chat", "messages"])
def test_ambient_keys_never_go_to_a_provider_of_the_persons_own(spindle: Spindle, home: Path, wire: str) -> None:
    with FakeServer() as server:
        server.pages = dict.fromkeys(("/v1/chat/completions", "/v1/messages"), Turn(status=400, body=b"{}"))
        provider = f'[model_providers.p]\nname = "p"\nbase_url = "{server.base_url}"\nwire_api = "{wire}"\n'
        (home / "config.toml").write_text(f'model = "m"\nmodel_provider = "p"\n{provider}')
        (home / "auth.json").write_text(json.dumps({"auth_mode": "apikey", "OPENAI_API_KEY": AMBIENT[2]}))
        spindle(
            *("exec", "hi"),
            OPENAI_API_KEY=AMBIENT[0],
            CODEX_API_KEY=AMBIENT[1],
            OPENAI_ORGANIZATION=AMBIENT[3],
            OPENAI_PROJECT=AMBIENT[4],
        )
    seen = "\n".join(f"{each.path}\n{each.headers}\n{each.body!r}" for each in server.requests)
    assert server.requests and not [key for key in AMBIENT if key in seen]


@pytest.mark.parametrize("status", [302, 307])
def test_a_redirect_is_never_followed_so_that_no_key_goes_along(
    spindle: Spindle, server: FakeServer, status: int
) -> None:
    with FakeServer() as elsewhere:
        place = {"location": f"{elsewhere.base_url}/responses?token=x"}
        server.otherwise(Turn(status=status, headers=place))
        done = spindle("exec", "--json", "hi")
        assert done.code == 1 and elsewhere.connections == 0
    assert "Redirects are not followed" in done.events[-1]["error"]["message"] and "test-key" not in done.out
    assert len(server.turns_asked) == 1
