"""Everything around the interface is hostile at once: only sequences of our own reach the terminal.

Folder, branch, files, AGENTS.md, skills, servers and their tools, settings, history, drafts, the model and its server,
commands and what they print, patches, names of threads: all are full of what drives a terminal.
"""

from __future__ import annotations

import json
import random
import re
import sys
from pathlib import Path

from fake_server import FakeServer, call, custom_call, message, reasoning, refuses, sends_raw, turn
from repository import make_repository, needs_git
from tui.terminals import OpenTui, Tui

STUB = Path(__file__).parents[1] / "mcp_servers/stub.py"
FREE = ("-s", "danger-full-access", "-a", "never")
OURS = re.compile(
    r"\x1b\[(?:[0-9;]*m|\d*[ABGLM]|(?:\d+;\d+)?H|J|K|\?(?:7|25|1004|1049|2004|2026)[hl]|>5u|<u|\?u|>?c|6n|18t|2[23];0t)"
    r"|\x1b\](?:(?:0|9|777);[^\x00-\x1f\x7f-\x9f]*\x07|1[01];\?\x1b\\)"
)
"""Every sequence that the interface has a use for, exactly as it writes it."""
DRIVES = re.compile("[\x00-\x09\x0b\x0c\x0e-\x1f\x7f-\x9f\u200b\u2028-\u202e\u2066-\u2069\ufeff]")
EVIL = (
    *("\x1b[2J", "\x1b[3J", "\x1bc", "\x1b]52;c;cHduZWQ=\x07", "\x1b]0;PWNED\x07", "\x1b]2;PWNED\x1b\\", "\x1b[?1000h"),
    *("\x1b[5n", "\x1b[9;1f", "\x1b]8;;http://evil\x07x\x1b]8;;\x07", "\x1bP1;1qPWNED\x1b\\", "\x1b_Gi=1;PWNED\x1b\\"),
    *("\x9b2J", "\x9d0;PWNED\x9c", "\x90PWNED\x9c", "\x1b[?47h", "\x1b[38:5:1m", "\x1b[>4;2m", "\x1b(0", "\x1bM"),
    *("\x0e", "\x07", "\b\b\b", "\r", "\x00", "\u202e", "\u2066", "\u200b", "\x1b", "\x1b[", "\x1b]", "\ufeff", "\x85"),
    *("\x1b[1F", "\x1b[20t", "\x1b[2026h", "\x1b7", "\x1b8", "\x1b[s", "\x1b[1S", "\x1b[1T", "\x1b[4h", "\x1b[r"),
)


def hostile(seed: int, word: str = "w", *, size: int = 12, lines: bool = True) -> str:
    """Evil between words. Without `lines` it may be a name."""
    dice = random.Random(seed)
    more = ("\n", "\t", "/") if lines else ()
    text = word + "".join(dice.choice((*EVIL, *more, word, " ", "ж", "日本")) for _ in range(size)) + word
    return text if lines else text.replace("\x00", "").replace("/", "")


def check(t: Tui) -> None:
    """All that was written so far: valid UTF-8, sequences of ours, line ends, bells that were asked for, and text."""
    rest = OURS.sub("", t.raw.decode("utf-8"))
    bad = DRIVES.search(rest)
    assert bad is None, repr(rest[max(0, bad.start() - 200) : bad.end() + 60])
    assert t.title != "PWNED"


def furnish(home: Path, folder: Path) -> None:
    """A home and a folder that are full of it."""
    make_repository(folder)
    (folder / ".git/HEAD").write_text("ref: refs/heads/br\u202e\u200banch\n")
    for number in (2, 3):
        (folder / hostile(number, "file", size=5, lines=False)).write_bytes(
            hostile(number).encode() + b"\xff\xfe\x80\n"
        )
    (folder / "AGENTS.md").write_text(hostile(4, "doc"))
    skill = home / "skills/evil"
    skill.mkdir(parents=True)
    about = f"name: {json.dumps('sk' + chr(0x202E) + chr(27))}\ndescription: {json.dumps(hostile(5))}"
    (skill / "SKILL.md").write_text(f"---\n{about}\n---\n")
    tool = {"description": hostile(6), "inputSchema": {"type": "object"}, "annotations": {"readOnlyHint": True}}
    tools = [{"name": hostile(7, "tool"), **tool}, {"name": "plain", **tool}]
    answers = {"plain": {"content": [{"type": "text", "text": hostile(8, "result")}]}}
    how = json.dumps({"tools": tools, "answers": answers, "prints": [hostile(9, "stderr")]})
    config = home / "config.toml"
    config.write_text(
        f"show_raw_agent_reasoning = true\nunknown_key = {json.dumps(hostile(10))}\n{config.read_text()}"
        f"[mcp_servers.good]\ncommand = {json.dumps(sys.executable)}\nargs = {json.dumps([str(STUB), how])}\n"
        f"[mcp_servers.bad]\ncommand = {json.dumps(hostile(11, 'cmd', lines=False))}\n"
        f"[tui]\nstatus_line = {json.dumps([hostile(12), 'git-branch', 'current-dir', 'model', 'thread-title'])}\n"
        f'[projects.{json.dumps(str(folder.resolve()))}]\ntrust_level = "trusted"\n'
    )
    past = {"session_id": "x", "ts": 1, "text": hostile(13, "earlier")}
    (home / "history.jsonl").write_text(json.dumps(past) + "\n")


def script(server: FakeServer) -> None:
    text = "\n\n".join(hostile(seed, "text") for seed in range(20, 40))
    binary = "head -c 3000 /dev/urandom; printf '\\033]52;c;x\\007\\033[2J\\r\\n\\xff\\xfe'; cat .git/HEAD"
    name, added = hostile(41, "made", size=5, lines=False), hostile(42, "line", lines=False)
    patch = f"*** Begin Patch\n*** Add File: {name}\n+{added}\n*** End Patch"
    plan = {"explanation": hostile(43), "plan": [{"step": hostile(44), "status": "pending"}]}
    garbage = sends_raw(b"data: " + hostile(45).encode() + b"\n\nevent: \x1b[2J\ndata: {\n\n\xff\xfe")
    server.script(
        turn(reasoning(hostile(46, "**thought**")), message(text, deltas=len(text)), fragment=7),
        turn(call("exec_command", {"cmd": binary}, "c1"), call("exec_command", {"cmd": hostile(47, "false")}, "c2")),
        turn(custom_call("apply_patch", patch, "c3"), call("mcp__good__plain", {"text": hostile(48)}, "c4")),
        turn(call("update_plan", plan, "c5"), call(hostile(49, "nosuch"), {"a": hostile(50)}, "c6")),
        turn(message("all of it ran")),
        refuses(400, {"error": {"message": hostile(51, "refusal"), "code": hostile(52)}}),
        *(refuses(500, hostile(53, "<html>")), refuses(500, hostile(53, "<html>"))),
        *(garbage, garbage),
    )


@needs_git
def test_only_our_own_sequences_reach_the_terminal(
    tui: OpenTui, server: FakeServer, home: Path, tmp_path: Path
) -> None:
    folder = tmp_path / hostile(1, "folder", size=5, lines=False)
    folder.mkdir()
    furnish(home, folder)
    script(server)
    model = hostile(14, "model", lines=False)
    t = tui(*FREE, "-m", model, cwd=folder, env={"TERM_PROGRAM": "WezTerm"}, columns=90, rows=40)
    t.ready().send("\x1b[O")  # somebody else has the focus: it notifies
    for number in range(5):
        t.submit(f"go-{number}").until(
            lambda n=number: t.scrollback.count("Worked for") == n + 1, "the end of the turn"
        )
    check(t)
    for command in ("status", "config", "mcp good", "skills", "hooks", "context", "warnings", "recap", "tree", "pwd"):
        t.submit(f"/{command}").idle(0.15).key("esc", "ctrl-u")
    t.submit("/diff").idle(0.4).key("pgdn", "q")
    t.key("ctrl-t").idle(0.2).key("home", "pgdn", "pgdn", "q").idle(0.1)
    for popup in ("@", "$"):
        t.type(popup).idle(0.3).key("tab").idle(0.1).key("esc", "ctrl-u")
    t.key(*["up"] * 8).idle(0.1).key("ctrl-c").key("ctrl-r").type("earl").idle(0.2).key("esc", "ctrl-c")
    t.paste("/rename " + hostile(15, "name", lines=False)).idle(0.1).key("enter").idle(0.2)
    t.submit("/resume").idle(0.3).key("esc").paste(hostile(16, "pasted")).idle(0.5)
    check(t)
    assert "all of it ran" in t.scrollback and "refusal" in t.flat and "internal error" not in t.scrollback
    t.process.kill()  # the draft is left behind
    t.process.wait()
    again = tui("resume", "--last", cwd=folder).wait_for("all of it ran").wait_for("pasted", where="screen")
    check(again.key("ctrl-c", "ctrl-d"))
    assert again.wait_exit() == 0
    check(again)
    plain = tui("resume", "--last", "--plain", cwd=folder).wait_for("all of it ran").send("/status\n/quit\n")
    assert plain.wait_exit() == 0
    check_plain(plain)


def check_plain(t: Tui) -> None:
    """Plain mode writes no sequence at all; tabs are for the terminal."""
    bad = re.search(
        "[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\u200b\u2028-\u202e\u2066-\u2069\ufeff]", t.raw.decode("utf-8")
    )
    assert bad is None, bad
