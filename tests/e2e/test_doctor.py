"""`spindle doctor`: what it finds is what there is, and its exit code says whether commands can be confined."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from installed import Spindle
from spindle import __version__

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="looks for what Linux has")

Doctor = Callable[..., tuple[int, dict[str, Any]]]


@pytest.fixture
def doctor(spindle: Spindle) -> Doctor:
    """Run it and read what it says as JSON; `front` stands before the command."""

    def examine(*words: str, front: tuple[str, ...] = (), **env: str) -> tuple[int, dict[str, Any]]:
        done = spindle(*front, *(spindle.command if front else ()), "doctor", "--json", *words, **env)
        assert done.err == ""
        return done.code, json.loads(done.out)

    return examine


def named(checks: list[dict[str, Any]], name: str) -> list[tuple[str, str]]:
    return [(check["status"], check["detail"]) for check in checks if check["name"] == name]


def test_commands_are_tried_in_both_modes_and_found_confined(doctor: Doctor) -> None:
    code, report = doctor()
    assert (code, report["ok"], report["version"]) == (0, True, __version__)
    outside = ["protected", "outside", "network", "sockets", "signals"]
    assert report["commands"] == [
        {
            "mode": "read-only",
            "backend": "bubblewrap",
            "could": ["read"],
            "could_not": ["inside", *outside],
            "failure": None,
        },
        {
            "mode": "workspace-write",
            "backend": "bubblewrap",
            "could": ["read", "inside"],
            "could_not": outside,
            "failure": None,
        },
    ]
    assert [backend["name"] for backend in report["backends"]] == ["bubblewrap", "landlock", "seatbelt"]
    assert report["backends"][0]["is_usable"] and "bwrap" in report["backends"][0]["detail"]
    assert (report["backends"][2]["is_usable"], report["backends"][2]["detail"]) == (False, "for macOS only")


def test_without_a_back_end_the_exit_code_says_so(doctor: Doctor) -> None:
    code, report = doctor("-c", "spindle.sandbox.backend=none")
    assert (code, report["ok"]) == (1, False)
    assert all('backend = "none"' in trial["failure"] for trial in report["commands"])


def test_where_bubblewrap_fails_it_says_why_and_what_landlock_would_lack(doctor: Doctor) -> None:
    # Inside of a sandbox no other can be made: that is a system without user namespaces.
    code, report = doctor(front=("sandbox", "--mode", "workspace-write", "--"))
    assert code == 1
    bubblewrap, landlock, _ = report["backends"]
    assert not bubblewrap["is_usable"] and "cannot start a sandbox here" in bubblewrap["detail"]
    if landlock["is_usable"]:
        failure = report["commands"][0]["failure"]
        assert '`backend = "landlock"` under [spindle.sandbox]' in failure
        assert all(text.removeprefix("does not ") in failure for text in landlock["lacks"])


def test_what_landlock_cannot_keep_is_shown_and_no_failure(doctor: Doctor) -> None:
    code, report = doctor("-c", "spindle.sandbox.backend=landlock")
    if not report["backends"][1]["is_usable"]:
        pytest.skip("this kernel has no Landlock of use")
    assert (code, report["commands"][1]["backend"]) == (0, "landlock")
    assert report["commands"][0]["could"] == ["read"]
    assert report["commands"][1]["could"] == ["read", "inside", "protected"]


def test_no_key_is_shown_and_its_absence_is(doctor: Doctor, home: Path) -> None:
    _, report = doctor(FAKE_API_KEY="canary-key")
    assert "canary" not in json.dumps(report)
    assert named(report["checks"], "login") == [("ok", "there is a key for fake; it was not tried")]
    _, report = doctor(FAKE_API_KEY="")
    ((status, text),) = named(report["checks"], "login")
    assert status == "warn" and text.startswith("Missing environment variable: `FAKE_API_KEY`. It is set, but empty")


def test_a_home_open_to_others_and_a_doubtful_key_are_pointed_out(doctor: Doctor, home: Path) -> None:
    os.chmod(home, 0o755)
    config = home / "config.toml"
    config.write_text("sandbox_mod = 'read-only'\n" + config.read_text())
    code, report = doctor()
    assert code == 0
    assert named(report["checks"], "home")[0][0] == "warn" and "755" in named(report["checks"], "home")[0][1]
    assert [status for status, _ in named(report["checks"], "config")] == ["ok", "warn"]
    os.chmod(home, 0o700)
    assert named(doctor()[1]["checks"], "home") == [("ok", f"{home}, writable and private")]


def test_a_broken_configuration_is_reported_and_the_sandbox_tried_all_the_same(doctor: Doctor, home: Path) -> None:
    (home / "config.toml").write_text("model = [\n")
    code, report = doctor()
    assert (code, named(report["checks"], "config")[0][0]) == (0, "fail")
    assert "config.toml:" in named(report["checks"], "config")[0][1]


def test_people_read_lines_and_nothing_is_left_behind(
    spindle_cmd: list[str], environment: dict[str, str], workspace: Path, home: Path, tmp_path: Path
) -> None:
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    before = sorted(home.rglob("*"))
    done = subprocess.run(
        [*spindle_cmd, "doctor"],
        cwd=workspace,
        env={**environment, "TMPDIR": str(scratch)},
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert (done.returncode, done.stderr) == (0, ""), done.stdout
    assert done.stdout.startswith(f"Spindle {__version__} · Python ")
    assert done.stdout.endswith("\nCommands can be confined.\n")
    assert (
        "  ok    workspace-write    in bubblewrap; it could read files, write in its folder; it could not "
        in done.stdout
    )
    assert (list(scratch.iterdir()), sorted(home.rglob("*"))) == ([], before)


@pytest.mark.parametrize("read", ["all", "workspace"])
def test_a_permission_profile_is_named_where_it_says_what_commands_read(doctor: Doctor, home: Path, read: str) -> None:
    config = home / "config.toml"
    profile = '[permissions.tight.filesystem]\n":minimal" = "read"\n":workspace_roots" = "write"\n'
    config.write_text(
        f'default_permissions = "tight"\n{config.read_text()}\n{profile}[spindle.sandbox]\nread = "{read}"\n'
    )
    said = named(doctor()[1]["checks"], "reads")
    assert said[0] == ("note", "a confined command reads what the permission profile tight lets it read")
