"""Canaries: a whole session with secrets wherever they can be, and then a search of everything it left behind."""

from __future__ import annotations

import base64
import json
import os
import re
import subprocess
import sys
from itertools import pairwise
from pathlib import Path

import pytest

from fake_server import FakeServer, Received, Turn, call, custom_call, message, reasoning, refuses, turn
from installed import Done, Spindle
from mcp_servers.kit import STUB

LIVE = "canary-live-7f3a9c2e41d8b6"
TOKEN = "canary+env/0a1b2c3d4e5f6071"
REFRESH = "rt.canary-refresh-99aa88bb77"
REMOTE = "canary-remote-5e6f7a8b9c"
PROXY = "canary-proxy-1f2e3d4c"
KEY_ID = "AKIACANARY0123456789"
GITHUB = "ghp_canary0123456789abcdefghijklmnopqrst"
PRIVATE_LINE = "MIIEvQIBADANBgkqhkiG9w0BAQEFAASCBKcwggSjAgEAAoIBAQCcanary"
PRIVATE_KEY = f"-----BEGIN PRIVATE KEY-----\n{PRIVATE_LINE}\nshort==\n-----END PRIVATE KEY-----\n"
CANARIES = (LIVE, TOKEN, REFRESH, REMOTE, PROXY, KEY_ID, GITHUB, PRIVATE_LINE)


def traces(secret: str) -> list[bytes]:
    """The secret as it is, and in the encodings in which it could still be read."""
    plain = secret.encode()
    cores = [
        base64.b64encode(bytes(before) + plain)[(0, 2, 3)[before] : (before + len(plain)) * 8 // 6]
        for before in range(3)
    ]
    return [plain, plain.hex().encode(), *cores, *(core.replace(b"+", b"-").replace(b"/", b"_") for core in cores)]


def found_in(data: bytes) -> list[str]:
    squeezed = data.replace(b"\\n", b"").replace(b"\n", b"")
    return [secret for secret in CANARIES if any(trace in data or trace in squeezed for trace in traces(secret))]


def said(server: FakeServer) -> bytes:
    """What the model was sent, without the headers, which must have the key."""
    return b"\n".join(request.body for request in server.requests)


@pytest.fixture
def run(spindle: Spindle, home: Path) -> Spindle:
    with (home / "config.toml").open("a") as config:
        config.write('\n[shell_environment_policy]\nignore_default_excludes = true\ninclude_only = ["*"]\n')
    auth = home / "auth.json"
    auth.write_text(json.dumps({"tokens": {"access_token": LIVE + "-access", "refresh_token": REFRESH}}))
    auth.chmod(0o600)
    proxy = f"http://me:{PROXY}@127.0.0.1:9"
    spindle.environment |= {"FAKE_API_KEY": LIVE, "MY_SERVICE_TOKEN": TOKEN, "FTP_PROXY": proxy}
    return spindle


def leaks(home: Path, server: FakeServer, *runs: Done) -> dict[str, list[str]]:
    """Where canaries were found: what was printed, sent to the model, or left in any file of the agent's.

    Not looked at: the login itself, and the person's own files as they were, which are kept for undo.
    """
    places = {f"run {number}": done.raw_out + b"\n" + done.raw_err for number, done in enumerate(runs)}
    places["requests"] = said(server)
    for path in home.rglob("*"):
        if path.is_file() and path.name != "auth.json" and not path.name.startswith("contents.db"):
            places[str(path.relative_to(home))] = path.read_bytes()
    return {place: found for place, data in places.items() if (found := found_in(data))}


def commands(*scripts: str) -> list[Turn]:
    return [turn(call("exec_command", {"cmd": script, "tty": False}, f"c{n}")) for n, script in enumerate(scripts)]


def test_a_whole_session_leaves_no_secret_behind(run: Spindle, server: FakeServer, home: Path, workspace: Path) -> None:
    (workspace / ".env").write_text(f"AWS={KEY_ID}\nGH={GITHUB}\nname = 1\n")
    (workspace / "id.pem").write_text(PRIVATE_KEY)
    remote = f"https://bot:{REMOTE}@git.example/x.git"
    with (workspace / ".git/config").open("a") as config:
        config.write(f'[remote "origin"]\n\turl = {remote}\n\tfetch = +refs/heads/*:refs/remotes/origin/*\n')
    patch = "*** Begin Patch\n*** Update File: .env\n@@\n-name = 1\n+name = 2\n*** End Patch"
    half = len(TOKEN) // 2

    def echoes_the_key(request: Received) -> Turn:
        return refuses(500, {"error": {"message": f"bad request: {request.headers['authorization']}"}})

    server.script(
        *commands(
            "env; cat .env id.pem; git remote -v; cat .git/config",
            'printf %s "$MY_SERVICE_TOKEN" | base64; printf x%s "$MY_SERVICE_TOKEN" | base64',
            """python3 -c 'import os; print(os.environ["FAKE_API_KEY"].encode().hex())'""",
            'head -c 60 /dev/zero | tr "\\0" y > b; printf %s "$MY_SERVICE_TOKEN$FAKE_API_KEY" >> b; base64 b',
            f"printf '%s' '{TOKEN[:half]}'; sleep 0.4; printf '%s\\n' '{TOKEN[half:]}'",
            "for c in $(sed -n s/GH=//p .env | fold -w1); do printf %s $c; sleep 0.005; done; echo",
            f"cat {home}/auth.json; echo error $MY_SERVICE_TOKEN >&2; exit 3",
        ),
        turn(custom_call("apply_patch", patch, "p1")),
        turn(call("exec_command", {"cmd": f"echo {LIVE} {TOKEN}"}, "e1")),
        turn(reasoning(f"I think of {LIVE}"), message(f"The key is {LIVE} and {TOKEN}, you see.", deltas=40)),
    )
    first = run("exec", "--json", "--yolo", f"my key is {LIVE}")
    assert first.code == 0, first.err
    server.script(echoes_the_key, echoes_the_key, echoes_the_key, echoes_the_key)
    thread = json.loads(first.out.splitlines()[0])["thread_id"]
    second = run("exec", "--yolo", "resume", thread, "go on")
    assert second.code == 1
    listed = run("threads")
    assert thread in listed.out
    assert leaks(home, server, first, second, listed) == {}
    # It did run, and people can see what was taken out.
    text = first.out
    for name in ("FAKE_API_KEY", "MY_SERVICE_TOKEN", "AWS key id", "GitHub token", "private key", "auth.json"):
        assert f"[secret: {name}]" in text, name
    assert (workspace / ".env").read_text() == f"AWS={KEY_ID}\nGH={GITHUB}\nname = 2\n"


def test_what_is_recorded_is_what_the_model_is_sent_again(run: Spindle, server: FakeServer, home: Path) -> None:
    server.script(
        *commands('echo "$MY_SERVICE_TOKEN"'),
        turn(message(f"it is {TOKEN}")),
        turn(message("and again")),
        turn(message("x")),
    )
    run("exec", "--yolo", "--json", "first")
    run("exec", "--yolo", "--json", "resume", "--last", "second")
    with_other_secrets = run(
        "exec", "--yolo", "--json", "resume", "--last", "third", ANOTHER_TOKEN="first-second-third"
    )
    assert with_other_secrets.code == 0
    inputs = [request.json["input"] for request in server.requests]
    for earlier, later in pairwise(inputs):
        assert later[: len(earlier)] == earlier


@pytest.mark.parametrize(("mode", "shown"), [("known", {KEY_ID}), ("none", {KEY_ID, TOKEN})])
def test_the_user_decides_what_is_masked_except_for_the_agents_own_key(
    run: Spindle, server: FakeServer, workspace: Path, mode: str, shown: set[str]
) -> None:
    (workspace / "keys").write_text(f"{KEY_ID} {TOKEN} {LIVE}\n")
    server.script(*commands("cat keys"), turn(message("ok")))
    done = run("exec", "--yolo", "--json", "-c", f"spindle.secrets.mask={mode}", "look")
    assert set(found_in(done.raw_out)) == shown


def test_a_variable_can_be_declared_harmless(run: Spindle, server: FakeServer) -> None:
    server.script(*commands("echo $MY_SERVICE_TOKEN"), turn(message("ok")))
    done = run("exec", "--yolo", "--json", "-c", 'spindle.secrets.ignore=["MY_SERVICE_TOKEN"]', "look")
    assert found_in(done.raw_out) == [TOKEN]


def test_the_notify_program_is_told_no_secret(run: Spindle, server: FakeServer, home: Path, workspace: Path) -> None:
    told = home.parent / "told"
    program = home.parent / "notify.sh"
    program.write_text(f'#!/bin/sh\nprintf %s "$1" > "{told}.tmp" && mv "{told}.tmp" "{told}"\n')
    program.chmod(0o755)
    config = home / "config.toml"
    config.write_text(f'notify = ["{program}"]\n' + config.read_text())
    server.script(turn(message(f"{LIVE} {TOKEN}")))
    run("exec", "--json", f"my key is {LIVE}")
    for _ in range(200):
        if told.exists():
            break
        os.sched_yield()
        subprocess.run(["sleep", "0.02"], check=True)
    assert found_in(told.read_bytes()) == [] and b"[secret: FAKE_API_KEY]" in told.read_bytes()


@pytest.mark.parametrize("profile", ["", "trap 'true' EXIT"], ids=["carried over", "read each time"])
def test_a_profile_cannot_hand_the_agents_key_to_a_command(
    run: Spindle, server: FakeServer, home: Path, workspace: Path, profile: str
) -> None:
    lines = f"export FAKE_API_KEY={LIVE} SSH_AUTH_SOCK=/run/agent FROM_PROFILE=yes\n{profile}\n"
    (home.parent / ".profile").write_text(lines)
    server.script(*commands('echo "${FAKE_API_KEY-no key} ${SSH_AUTH_SOCK-no agent} $FROM_PROFILE" > seen'))
    done = run("exec", "--yolo", "--json", "-c", "shell_environment_policy.include_only=[]", "x")
    assert done.code == 0
    assert (workspace / "seen").read_text() == "no key no agent yes\n"


def test_what_the_agent_writes_is_for_its_user_only_whatever_the_umask(
    run: Spindle, server: FakeServer, home: Path
) -> None:
    server.script(*commands("true"), turn(message("ok")))
    (home / "auth.json").chmod(0o644)
    (home / "sessions").mkdir(mode=0o755)
    home.chmod(0o755)
    old = os.umask(0)
    try:
        first = run("exec", "--yolo", "--json", "x")
        run("threads")
    finally:
        os.umask(old)
    assert first.code == 0
    mine = {home / "config.toml"}
    loose = {
        str(path.relative_to(home.parent)): oct(path.stat().st_mode & 0o777)
        for path in (home, *home.rglob("*"))
        if path not in mine and path.stat().st_mode & 0o077
    }
    assert loose == {}
    warned = [
        event["item"]["message"]
        for event in map(json.loads, first.out.splitlines())
        if event.get("item", {}).get("type") == "error"
    ]
    assert [text for text in warned if "auth.json could be read by others (mode 0644)" in text]


@pytest.mark.parametrize("which", ["shared by a group", "the working folder"])
def test_a_home_that_serves_other_purposes_keeps_its_mode(
    run: Spindle, server: FakeServer, home: Path, workspace: Path, which: str
) -> None:
    home.chmod(0o2775 if which == "shared by a group" else 0o755)
    mode = home.stat().st_mode
    server.script(turn(message("ok")))
    arguments = ["-C", str(home)] if which == "the working folder" else []
    assert run("exec", "--skip-git-repo-check", *arguments, "x").code == 0
    assert home.stat().st_mode == mode


def patch_of(path: str, *lines: str) -> str:
    return "\n".join(("*** Begin Patch", f"*** Update File: {path}", "@@", *lines, "*** End Patch"))


def test_a_file_with_a_test_key_can_be_patched_by_a_model_that_never_sees_the_key(
    run: Spindle, server: FakeServer, home: Path, workspace: Path
) -> None:
    settings = workspace / "settings.py"
    settings.write_text(f'A = 1\nKEY = "{KEY_ID}"  # old\nB = 2\nTOKEN = "{GITHUB}"\n')
    lines = (" A = 1", '-KEY = "[secret: AWS key id]"  # old', '+KEY = "[secret: AWS key id]"  # new', " B = 2")
    more = ("-B = 2", "+B = 3", ' TOKEN = "[secret: GitHub token]"')
    server.script(
        *commands("cat settings.py"),
        turn(custom_call("apply_patch", patch_of("settings.py", *lines), "p1")),
        turn(custom_call("apply_patch", patch_of("settings.py", *more), "p2")),
    )
    done = run("exec", "--json", "--yolo", "x")
    assert settings.read_text() == f'A = 1\nKEY = "{KEY_ID}"  # new\nB = 3\nTOKEN = "{GITHUB}"\n'
    assert leaks(home, server, done) == {}


@pytest.mark.parametrize(
    ("patch", "content"),
    [
        (patch_of("f", "-x = 1", "+key = [secret: OTHER]"), f"a {KEY_ID}\nx = 1\n"),
        (patch_of("f", "-x = 1", "+k = [secret: AWS key id]"), f"a {KEY_ID}\nb AKIACANARY9876543210\nx = 1\n"),
        (patch_of("f", " k [secret: private key]", "-x = 1", "+x = 2"), f"k {PRIVATE_KEY}\nx = 1\n"),
        ("*** Begin Patch\n*** Add File: g\n+key = [secret: OTHER]\n*** End Patch", "x = 1\n"),
    ],
    ids=["not in the file", "two candidates", "over several lines", "a new file"],
)  # fmt: skip
def test_a_mask_never_gets_into_a_file(
    run: Spindle, server: FakeServer, workspace: Path, patch: str, content: str
) -> None:
    (workspace / "f").write_text(content)
    server.script(turn(custom_call("apply_patch", patch, "p1")), turn(message("ok")))
    run("exec", "--json", "--yolo", "x")
    assert (workspace / "f").read_text() == content and not (workspace / "g").exists()
    answer = server.requests[1].json["input"][-1]["output"]
    assert "stands for a secret that was masked" in str(answer)


def test_a_file_that_speaks_of_masks_itself_is_patched_as_it_stands(
    run: Spindle, server: FakeServer, workspace: Path
) -> None:
    (workspace / "doc.md").write_text("It shows [secret: NAME] there.\nx\n")
    server.script(
        turn(custom_call("apply_patch", patch_of("doc.md", " It shows [secret: NAME] there.", "-x", "+y"), "p"))
    )
    run("exec", "--json", "--yolo", "x")
    assert (workspace / "doc.md").read_text() == "It shows [secret: NAME] there.\ny\n"


def test_10_a_command_with_a_mask_is_stopped_with_a_sentence(run: Spindle, server: FakeServer, workspace: Path) -> None:
    server.script(
        *commands(
            "echo $MY_SERVICE_TOKEN",
            "echo 'token=[secret: MY_SERVICE_TOKEN]' > .env",
            "echo '[secret: NAME] is how a mask looks' > doc.md",
            'echo "token=$MY_SERVICE_TOKEN" > good.env',
        )
    )
    run("exec", "--json", "--yolo", "x")
    told = [str(item["output"]) for item in server.requests[-1].json["input"] if "output" in item]
    assert "[secret: MY_SERVICE_TOKEN]" in told[0] and "so nothing was run" in told[1]
    assert not (workspace / ".env").exists() and (workspace / "doc.md").read_text().startswith("[secret: NAME]")
    assert (workspace / "good.env").read_text() == f"token={TOKEN}\n"


def test_10_a_tool_of_a_server_that_may_write_gets_no_mask(run: Spindle, server: FakeServer, tmp_path: Path) -> None:
    log = tmp_path / "log"
    for name, reads in (("writes", False), ("reads", True)):
        how = json.dumps({"tools": ["a"], "read_only": reads, "log": str(log)})
        run.configure(f'[mcp_servers.{name}]\ncommand = "{sys.executable}"\nargs = {json.dumps([str(STUB), how])}')
    text = {"text": "token=[secret: MY_SERVICE_TOKEN]"}
    server.script(
        *(turn(call(f"mcp__{name}__a", text, name)) for name in ("writes", "reads")),
        turn(call("mcp__writes__a", {"text": "[secret: NAME] is how a mask looks"}, "looks")),
    )
    run("exec", "--json", "--yolo", "x")
    told = {item["call_id"]: str(item["output"]) for item in server.requests[-1].json["input"] if "output" in item}
    assert "so nothing was run" in told["writes"] and "a:{" in told["reads"] and "a:{" in told["looks"]
    assert log.read_text().count('"tools/call"') == 2


def test_10_a_value_in_disguise_reaches_neither_model_nor_record(
    run: Spindle, server: FakeServer, home: Path, workspace: Path
) -> None:
    (workspace / "f").write_text(f"a line\nx={TOKEN}\nanother\n")
    server.script(*commands("grep --color=always canary f", "fold -w 5 f", "xxd f", "od -c f", "iconv -t UTF-16LE f"))
    run("exec", "--json", "--yolo", "x")
    for place in (said(server), *(path.read_bytes() for path in run.rollouts())):
        bare = re.sub(rb"\\u001b\[[0-9;]*[A-Za-z]|\\u0000|\\r|\\n|\s", b"", place)
        assert TOKEN.encode() not in bare and TOKEN.encode().hex().encode() not in bare
