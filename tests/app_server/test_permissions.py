"""Permission profiles over the app-server: configured, named by the client, and kept when a thread is resumed."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from app_server.client import Client
from app_server.conftest import Start
from fake_server import FakeServer, call, message, turn

PROFILES = """
[permissions.mine.filesystem]
":root" = "read"
":workspace_roots" = { "." = "write", "key" = "deny" }
[permissions.open.filesystem]
":root" = "read"
"""


@pytest.fixture
def configured(home: Path, workspace: Path) -> Path:
    """The user's file, with the profile `mine` in force; and a file that it denies."""
    config = home / "config.toml"
    config.write_text(f'default_permissions = "mine"\n{config.read_text()}{PROFILES}')
    (workspace / "key").write_text("CANARY")
    return config


def looks(server: FakeServer) -> None:
    server.script(turn(call("shell_command", {"command": "cat key"}, "c1")), turn(message("done")))


def saw_it(server: FakeServer) -> bool:
    outputs = [item for item in server.requests[-1].json["input"] if item["type"] == "function_call_output"]
    return "CANARY" in str(outputs[-1])


@pytest.mark.parametrize(
    ("params", "profile", "sees"),
    [
        ({}, "mine", False),
        ({"permissions": "open"}, "open", True),
        ({"config": {"default_permissions": "open"}}, "open", True),
        ({"permissions": ":workspace"}, None, True),
        ({"sandbox": "read-only"}, None, True),
    ],
)
def test_a_thread_has_the_profile_that_is_named_or_configured(
    configured: Path, start: Start, server: FakeServer, params: dict[str, Any], profile: str | None, sees: bool
) -> None:
    client = start()
    client.initialize()
    opened = client.result("thread/start", params)
    assert opened.get("activePermissionProfile") == (profile and {"id": profile, "extends": None})
    looks(server)
    client.turn(opened["thread"]["id"], "look")
    assert saw_it(server) is sees


def test_a_turn_may_name_another_profile(configured: Path, client: Client, server: FakeServer) -> None:
    thread_id = client.start_thread()
    looks(server)
    client.turn(thread_id, "look", permissions="open")
    assert saw_it(server)
    looks(server)
    client.turn(thread_id, "look", permissions="mine")
    assert not saw_it(server)


def test_an_unknown_profile_and_two_answers_at_once_are_refused(configured: Path, client: Client) -> None:
    refused = client.error("thread/start", {"permissions": "nope"})
    assert "there is no permission profile 'nope'; use one of :read-only" in refused["message"]
    both = client.error("thread/start", {"permissions": "open", "sandbox": "read-only"})
    assert both["message"] == "`permissions` and `sandbox` cannot be given together"


def test_a_resumed_thread_keeps_to_what_is_denied_now(
    configured: Path, client: Client, start: Start, server: FakeServer
) -> None:
    looks(server)
    thread_id = client.start_thread(sandbox="danger-full-access")
    client.turn(thread_id, "look")
    assert saw_it(server)
    client.close()
    other = start()
    other.initialize()
    opened = other.result("thread/resume", {"threadId": thread_id})
    assert opened["activePermissionProfile"]["id"] == "mine"
    looks(server)
    other.turn(thread_id, "look again")
    assert not saw_it(server)
