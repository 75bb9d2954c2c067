"""`spindle threads search`, `export` and `repair`, as installed."""

from __future__ import annotations

import html.parser
import json
import os
import stat
from pathlib import Path

import pytest

from fake_server import FakeServer, call, custom_call, message, reasoning, turn
from installed import Spindle

FULL = ("-s", "danger-full-access")
EVIL = "<script>alert('x')</script> & \x1b[31mred\x1b[0m"
PATCH = "*** Begin Patch\n*** Add File: new.md\n+```\n+~~~~~\n*** Update File: old.txt\n@@\n-one\n+two\n*** End Patch"


@pytest.fixture
def thread_id(spindle: Spindle, server: FakeServer, workspace: Path) -> str:
    """A turn with a command, a patch and an answer, and one that fails."""
    (workspace / "old.txt").write_text("one\n")
    server.script(
        turn(reasoning("thinking hard"), call("exec_command", {"cmd": "echo in-the-command; exit 3"}, "c1")),
        turn(custom_call("apply_patch", PATCH, "c2"), call("read_file", {"file_path": "/nowhere"}, "c3")),
        turn(message(f"the answer {EVIL}\n```python\nleft open")),
    )
    done = spindle("exec", "--json", *FULL, "-c", "include_apply_patch_tool=true", f"the question {EVIL}")
    assert done.code == 0, done.err
    return done.thread_id


def test_24_a_file_that_cannot_be_read_is_named_and_hides_no_thread(spindle: Spindle, thread_id: str) -> None:
    folder = next(spindle.home.glob("sessions/*/*/*"))
    deep = '{"a":' * 100_000
    name = "rollout-2026-01-02T03-04-05-01999999-aaaa-7bbb-8ccc-00000000000"
    (folder / f"{name}1.jsonl").write_text(f'{{"timestamp":"t","type":"session_meta","payload":{deep}\n')
    (folder / f"{name}2.jsonl").write_text(f'{{"timestamp":"t","type":"response_item","payload":{deep}\n' * 3)
    (folder / f"{name}3.jsonl.zst").write_bytes(b"(no archive \x1b[31m)")
    Path(os.fsdecode(os.fsencode(folder) + b"/rollout-\xff\x1b.jsonl")).write_text("x")
    (folder / f"{name}4.jsonl").mkdir()
    (folder / f"{name}5.jsonl").symlink_to(f"{name}5.jsonl")
    (folder / f"{name}6.jsonl").write_bytes(b"\xff\xfe\x00" * 1000)
    for more in ((), ("--json",), ("--find", "question")):
        done = spindle("threads", "--all", *more)
        assert done.code == 0 and "Traceback" not in done.err, done.err
        assert thread_id[:8] in done.out and f"{name}3.jsonl.zst is left out" in done.err and "\x1b" not in done.err
        assert "its name is not UTF-8" in done.err


# ---- export ----------------------------------------------------------------------------------------


def test_json_has_the_thread_and_its_turns_as_the_app_server_gives_them(spindle: Spindle, thread_id: str) -> None:
    done = spindle("threads", "export", thread_id[:20], "--format", "json")
    assert done.code == 0, done.err
    found = json.loads(done.out)
    thread, (only,) = found["thread"], found["turns"]
    assert (thread["id"], thread["cwd"]) == (thread_id, str(spindle.workspace)) and thread["createdAt"] > 1_700_000_000
    assert {"name", "model", "preview", "path"} <= thread.keys() and "turns" not in thread
    assert only["status"] == "completed" and only["id"]
    items = {item["type"]: item for item in only["items"]}
    assert [item["type"] for item in only["items"]][:3] == ["userMessage", "reasoning", "commandExecution"]
    assert items["userMessage"]["content"][0]["text"] == f"the question {EVIL}"
    assert items["agentMessage"]["text"].startswith("the answer <script>")
    command = items["commandExecution"]
    assert (command["id"], command["exitCode"], command["status"]) == ("c1", 3, "failed")
    assert command["command"].endswith(" -lc 'echo in-the-command; exit 3'")
    assert command["aggregatedOutput"] == "in-the-command\n"
    changes = {Path(change["path"]).name: change for change in items["fileChange"]["changes"]}
    assert changes["new.md"]["kind"] == {"type": "add"} and changes["new.md"]["diff"] == "```\n~~~~~\n"
    assert changes["old.txt"]["kind"]["type"] == "update" and changes["old.txt"]["diff"] == "@@\n-one\n+two\n"
    assert items["dynamicToolCall"]["tool"] == "read_file"


def test_markdown_keeps_every_text_in_its_block(spindle: Spindle, thread_id: str) -> None:
    done = spindle("threads", "export", thread_id)
    assert done.code == 0 and "\x1b" not in done.out
    lines = done.out.split("\n")
    assert lines[0].startswith("# the question \\<script\\>") and f"- Thread: `{thread_id}`" in lines
    assert "## User\n\nthe question <script>" in done.out
    assert "## Command (exit code 3)" in lines and "$ echo in-the-command; exit 3" in lines
    place = next(number for number, line in enumerate(lines) if line.endswith("new.md"))
    assert lines[place + 2 : place + 6] == ["````text", "```", "~~~~~", "````"]
    assert "```diff\n@@\n-one\n+two\n```" in done.out
    assert done.out.endswith("```python\nleft open\n```\n")


def test_html_is_one_page_in_which_all_text_is_text(spindle: Spindle, thread_id: str, tmp_path: Path) -> None:
    file = tmp_path / "page.html"
    done = spindle("threads", "export", thread_id, "--format", "html", "-o", str(file))
    assert (done.code, done.out) == (0, f"{file}\n") and stat.S_IMODE(file.stat().st_mode) == 0o600
    tags: list[str] = []

    class Reader(html.parser.HTMLParser):
        def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
            tags.append(tag)
            assert not any(name.startswith("on") or name in ("src", "href") for name, _ in attrs)

    text = file.read_text()
    Reader().feed(text)
    assert {"html", "head", "body", "h2", "pre"} <= {*tags} and {"script", "a", "img", "link"}.isdisjoint(tags)
    assert "&lt;script&gt;alert" in text and "\x1b" not in text and "default-src &#x27;none&#x27;" in text
    assert '<span class="add">+two' in text and "in-the-command" in text


def test_turns_that_were_undone_are_not_exported(spindle: Spindle, thread_id: str, server: FakeServer) -> None:
    server.script(turn(message("second")))
    assert spindle("exec", "resume", thread_id, "more").code == 0
    assert len(json.loads(spindle("threads", "export", thread_id, "--format", "json").out)["turns"]) == 2
    assert spindle("undo", thread_id, "--conversation").code == 0
    assert "second" not in spindle("threads", "export", thread_id).out


def test_a_review_is_told_of_in_the_document(spindle: Spindle, server: FakeServer) -> None:
    server.script(turn(message("looks good to me")))
    done = spindle("review", "--json", "look at the names")
    assert done.code == 0, done.err
    text = spindle("threads", "export", done.thread_id).out
    assert "*A review began: look at the names*" in text and "looks good to me" in text


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (["no-such-thread"], 1, "no rollout found for thread id no-such-thread"),
        (["ID", "--format", "pdf"], 2, "markdown, html, json"),
        (["ID", "-o", "no/such/folder/x"], 1, "the page cannot be written to no/such/folder/x"),
        ([], 2, "needs THREAD"),
    ],
)
def test_what_cannot_be_exported_is_said_in_a_sentence(
    spindle: Spindle, thread_id: str, words: list[str], code: int, said: str
) -> None:
    done = spindle("threads", "export", *(thread_id if word == "ID" else word for word in words))
    assert (done.code, done.out) == (code, "") and said in done.err and "Traceback" not in done.err


# ---- search ----------------------------------------------------------------------------------------


def test_search_finds_what_was_said_asked_and_printed(spindle: Spindle, server: FakeServer, tmp_path: Path) -> None:
    server.script(turn(call("exec_command", {"cmd": "echo printed-word"}, "c1")), turn(message("Blue elephant")))
    thread_id = spindle("exec", "--json", *FULL, "first prompt").thread_id
    server.script(turn(message("nothing")))
    assert spindle("exec", "--skip-git-repo-check", "other", cwd=tmp_path).code == 0
    for words in (["FIRST prompt"], ["printed-word"], ["elephant"], ["prompt", "blue", "ECHO"]):
        (found,) = spindle("threads", "search", *words, "--json").events
        assert found.keys() == {"thread_id", "turn_id", "snippet"}
        assert found["thread_id"] == thread_id and found["turn_id"]
        assert words[0].lower() in found["snippet"].lower()
    done = spindle("threads", "search", "elephant")
    assert thread_id in done.out and "Blue elephant" in done.out
    assert spindle("threads", "search", "elephant", "other").out == "nothing found\n"
    assert spindle("threads", "search", "--json", "no such words").out == ""
    assert spindle("threads", "search", "--limit", "1", "--json", "o").out.count("\n") == 1
    assert (spindle("threads", "search", " ").code, spindle("threads", "search").code) == (2, 2)


# ---- repair ----------------------------------------------------------------------------------------


def test_repair_mends_one_thread_or_all_and_says_what_it_did(spindle: Spindle, server: FakeServer, home: Path) -> None:
    server.otherwise(turn(message("ok")))
    first, second = (spindle("exec", "--json", prompt).thread_id for prompt in ("one", "two"))
    (file,) = home.rglob(f"rollout-*{first}.jsonl")
    sound = file.read_bytes()
    assert spindle("threads", "repair", first).out == f"{first}: sound\n"
    file.write_bytes(sound + b"\0\0\nforeign\n")
    done = spindle("threads", "repair", "--all", "--dry-run", "--json")
    found = {report["thread_id"]: report for report in done.events}
    assert done.code == 1 and file.read_bytes() != sound
    assert (found[first]["status"], found[second]["status"]) == ("repaired", "sound")
    done = spindle("threads", "repair", "--all")
    assert done.code == 0 and f"{first}: repaired; the file as it was: {file}.bak\n" in done.out
    assert "NUL bytes" in done.out and done.out.endswith("1 sound, 1 repaired\n") and file.read_bytes() == sound
    report = json.loads(spindle("threads", "repair", first, "--json").out)
    assert report == {
        "thread_id": first,
        "path": str(file),
        "status": "sound",
        "dropped": [],
        "added": [],
        "backup": None,
    }
    assert spindle("exec", "resume", first, "three").code == 0
    sent = json.dumps(server.turns_asked[-1].json["input"])
    assert '"one"' in sent and '"three"' in sent and '"two"' not in sent


def test_repair_says_what_cannot_be_saved(spindle: Spindle, server: FakeServer, home: Path) -> None:
    server.otherwise(turn(message("ok")))
    lost = spindle("exec", "--json", "one").thread_id
    (file,) = home.rglob("rollout-*.jsonl")
    file.write_bytes(b"\0" * 100)
    for words in ([lost], ["--all"]):
        done = spindle("threads", "repair", *words)
        assert done.code == 1 and f"{lost}: cannot be saved: no line of it can be read" in done.out
    assert file.read_bytes() == b"\0" * 100
    for words in ([], [lost, "--all"]):
        done = spindle("threads", "repair", *words)
        assert (done.code, done.out) == (2, "") and "--all" in done.err
    assert spindle("threads", "repair", "no-such-thread").code == 1
