"""Undo in a live session: the op, what the model is shown afterwards, the turn's diff, what is not covered."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

from sessions import Driver, Start
from spindle.model.scripted import calls, patches, says
from spindle.protocol.events import Error, TurnDiff, Warning
from spindle.protocol.ops import Interrupt, RunUserShellCommand, ThreadRollback, Undo
from spindle.protocol.undo import UndoCompleted


def runs(script: str, call_id: str = "c1") -> Any:
    return calls("exec_command", {"cmd": script}, call_id)


def changes(text: str, call_id: str = "p1") -> Any:
    return patches(f"*** Begin Patch\n{text}\n*** End Patch\n", call_id)


async def undo(driver: Driver, **fields: Any) -> dict[str, Any]:
    told = await driver.until(UndoCompleted, sub_id=driver.submit(Undo(**fields)))
    assert told.success == (told.report["status"] in ("undone", "redone", "dry_run"))
    return told.report


def said(driver: Driver) -> list[str]:
    """What the last request says in the user's name."""
    return [item["content"][0]["text"] for item in driver.inputs[-1] if item.get("role") == "user"]


def names(report: dict[str, Any], what: str = "restored") -> list[str]:
    return sorted(os.path.basename(one["path"]) for one in report[what])


async def test_commands_and_patches_of_a_turn_go_back_and_the_model_forgets_it(start: Start, workspace: Path) -> None:
    (workspace / "a.txt").write_text("one\n")
    driver = await start()
    await driver.turn("first", says("hello"))
    await driver.turn(
        "second",
        runs("echo two >> a.txt; mkdir -p deep/er; echo x > deep/er/f"),
        changes("*** Update File: a.txt\n@@\n-one\n+three\n*** Add File: p.txt\n+p"),
        says("done"),
    )
    assert (workspace / "a.txt").read_text() == "three\ntwo\n"
    report = await undo(driver)
    assert report["status"] == "undone" and names(report) == ["a.txt", "f", "p.txt"]
    assert (workspace / "a.txt").read_text() == "one\n"
    assert not (workspace / "deep").exists() and not (workspace / "p.txt").exists()
    await driver.turn("third", says("ok"))
    assert "first" in said(driver) and "second" not in said(driver)


async def test_redo_brings_files_and_conversation_back_until_the_next_turn(start: Start, workspace: Path) -> None:
    driver = await start()
    for number in (1, 2, 3):
        await driver.turn(f"turn {number}", runs(f"echo {number} > {number}.txt"), says("done"))
    there = lambda: sorted(path.name for path in workspace.glob("*.txt"))  # noqa: E731
    assert (await undo(driver))["status"] == (await undo(driver))["status"] == "undone"
    assert there() == ["1.txt"]
    assert (await undo(driver, redo=True))["status"] == "redone" and there() == ["1.txt", "2.txt"]
    assert (await undo(driver, redo=True))["status"] == "redone" and there() == ["1.txt", "2.txt", "3.txt"]
    assert (await undo(driver, redo=True))["status"] == "nothing"
    await undo(driver)
    await driver.turn("turn 4", says("ok"))
    assert [text for text in said(driver) if text.startswith("turn")] == ["turn 1", "turn 2", "turn 4"]
    report = await undo(driver, redo=True)
    assert report["status"] == "nothing" and "another turn" in report["message"]


async def test_files_alone_are_told_to_the_model_and_redo_takes_that_back(start: Start, workspace: Path) -> None:
    driver = await start()
    await driver.turn("make it", runs("echo 1 > made.txt"), says("done"))
    assert (await undo(driver, conversation=False))["status"] == "undone"
    assert not (workspace / "made.txt").exists()
    assert (await undo(driver, conversation=False))["status"] == "nothing"
    await undo(driver, redo=True)
    await driver.turn("next", says("ok"))
    assert "made.txt" not in "".join(text for text in said(driver) if text.startswith("<user_action>"))
    (workspace / "made.txt").unlink()
    (workspace / "made.txt").write_text("1\n")
    await undo(driver, conversation=False)
    await driver.turn("and now", says("ok"))
    assert "make it" in said(driver)
    note = next(text for text in said(driver) if text.startswith("<user_action>"))
    assert "made.txt (deleted)" in note


async def test_conversation_alone_leaves_the_files_and_they_can_go_back_later(start: Start, workspace: Path) -> None:
    driver = await start()
    await driver.turn("make it", runs("echo 1 > made.txt"), says("done"))
    assert (await undo(driver, files=False))["restored"] == [] and (workspace / "made.txt").exists()
    assert (await undo(driver, files=False))["status"] == "nothing"
    assert names(await undo(driver)) == ["made.txt"] and not (workspace / "made.txt").exists()


async def test_a_rolled_back_turn_counts_for_those_before_it(start: Start, workspace: Path) -> None:
    (workspace / "a.txt").write_text("0\n")
    driver = await start()
    await driver.turn("one", runs("echo 1 > a.txt"), says("done"))
    await driver.turn("two", runs("echo 2 > a.txt"), says("done"))
    driver.submit(ThreadRollback(num_turns=1))
    await driver.turn("three", says("done"))
    report = await undo(driver, turns=3)
    assert (workspace / "a.txt").read_text() == "0\n" and len(report["turns"]) == 3


async def test_to_takes_everything_from_a_turn_on(start: Start, workspace: Path) -> None:
    driver = await start()
    ids = []
    for number in (1, 2, 3):
        ids.append(driver.begin(f"turn {number}"))
        driver.model.script(runs(f"echo {number} > {number}.txt"), says("done"))
        await driver.end_of(ids[-1])
    report = await undo(driver, to=ids[1])
    assert report["turns"] == ids[1:] and [path.name for path in workspace.glob("*.txt")] == ["1.txt"]
    assert (await undo(driver, to="nobody"))["status"] == "nothing"
    assert (await undo(driver, turns=2))["message"] == "there is only one turn to undo, not 2"


async def test_a_command_of_the_person_is_a_turn_too(start: Start, workspace: Path) -> None:
    driver = await start()
    await driver.turn("hello", says("hi"))
    await driver.end_of(driver.submit(RunUserShellCommand(command="echo mine > mine.txt")))
    report = await undo(driver)
    assert names(report) == ["mine.txt"] and not (workspace / "mine.txt").exists()
    await driver.turn("next", says("ok"))
    assert "hello" in said(driver) and not any("mine.txt" in text for text in said(driver))


async def test_what_is_typed_into_a_shell_of_an_earlier_turn_belongs_to_the_turn_that_types(
    start: Start, workspace: Path
) -> None:
    def types(request: Any) -> Any:
        text = next(item["output"] for item in request.input if item.get("call_id") == "c1" and "output" in item)
        line = {"session_id": int(text.split("session ID ")[1].split()[0]), "chars": "echo 2 > a.txt; echo ok\n"}
        return calls("write_stdin", {**line, "yield_time_ms": 300}, "c2")

    (workspace / "a.txt").write_text("1\n")
    driver = await start()
    shell = {"cmd": "exec sh", "tty": True, "login": False, "yield_time_ms": 300}
    await driver.turn("a shell", calls("exec_command", shell, "c1"), says("it runs"))
    await driver.turn("use it", types, says("done"))
    assert (workspace / "a.txt").read_text() == "2\n"
    assert names(await undo(driver)) == ["a.txt"] and (workspace / "a.txt").read_text() == "1\n"


async def test_an_interrupted_turn_is_undone(start: Start, workspace: Path) -> None:
    driver = await start()
    driver.model.script(runs("echo half > half.txt; echo ready; sleep 100"), says("never"))
    sub_id = driver.begin("go")
    while not (workspace / "half.txt").exists():
        await driver.next()
    driver.submit(Interrupt())
    await driver.end_of(sub_id)
    assert names(await undo(driver)) == ["half.txt"] and not (workspace / "half.txt").exists()


async def test_a_running_turn_is_not_undone(start: Start, workspace: Path) -> None:
    driver = await start()
    driver.model.script(runs("sleep 100"), says("never"))
    sub_id = driver.begin("go")
    await driver.next()
    error = await driver.until(Error, sub_id=driver.submit(Undo()))
    assert "interrupt it first" in error.message
    driver.submit(Interrupt())
    await driver.end_of(sub_id)


async def test_bad_requests_are_errors(start: Start) -> None:
    driver = await start()
    for op in (Undo(turns=0), Undo(turns=1, to="x"), Undo(files=False, conversation=False)):
        await driver.until(Error, sub_id=driver.submit(op))
    assert (await undo(driver))["status"] == "nothing"


async def test_the_turn_diff_has_what_commands_did(start: Start, workspace: Path) -> None:
    (workspace / "a.txt").write_text("one\n")
    (workspace / "run.sh").write_text("x\n")
    driver = await start()
    await driver.turn(
        "go", runs("echo two >> a.txt; chmod +x run.sh; ln -s a.txt link; printf '\\0' > bin"), says("done")
    )
    diff = [event.msg.unified_diff for event in driver.events if isinstance(event.msg, TurnDiff)][-1]
    assert "+two" in diff and "old mode 100644\nnew mode 100755" in diff
    assert "new file mode 120000" in diff and "Binary files /dev/null and b/bin differ" in diff
    for sub_id, script in (("s2", "ls"), ("s3", "mkdir only-a-folder")):
        await driver.turn("look", runs(script, "c2"), says("done"))
        assert not [event for event in driver.events if event.id == sub_id and isinstance(event.msg, TurnDiff)]


async def test_the_turn_diff_begins_before_a_command_that_still_runs(start: Start, workspace: Path) -> None:
    (workspace / "a.txt").write_text("one\n")
    driver = await start()
    server = {"cmd": "echo ready; sleep 100", "tty": True, "login": False, "yield_time_ms": 300}
    await driver.turn(
        "go",
        calls("exec_command", server, "c0"),
        runs("echo two >> a.txt"),
        changes("*** Update File: a.txt\n@@\n one\n-two\n+three"),
        runs("echo four >> a.txt", "c2"),
        says("done"),
    )
    diffs = [event.msg.unified_diff for event in driver.events if isinstance(event.msg, TurnDiff)]
    assert diffs[-1].split("@@\n")[1] == " one\n+three\n+four\n"
    assert names(await undo(driver)) == ["a.txt"] and (workspace / "a.txt").read_text() == "one\n"


async def test_commands_that_only_look_and_fenced_in_ones_keep_nothing(start: Start, tmp_path: Path) -> None:
    kept = tmp_path / "codex-home" / "spindle" / "checkpoints"
    driver = await start()
    await driver.turn("look", runs("ls; cat /dev/null"), says("done"))
    assert not kept.exists()
    fenced = await start(sandbox="read-only")
    await fenced.turn("try", runs("echo x > no.txt"), says("done"))
    assert not kept.exists()


async def test_switched_off_nothing_is_kept_and_the_conversation_goes_back_all_the_same(
    start: Start, tmp_path: Path, workspace: Path
) -> None:
    driver = await start(config={"spindle": {"checkpoints": {"enabled": False}}})
    await driver.turn("go", runs("echo x > a.txt"), says("done"))
    report = await undo(driver)
    assert report["status"] == "undone" and report["restored"] == [] and (workspace / "a.txt").exists()
    assert "checkpoints.enabled is false" in report["message"]
    journals = (tmp_path / "codex-home" / "spindle").rglob("*.jsonl")
    assert not any('"t":"open"' in path.read_text() for path in journals)


async def test_large_files_are_skipped_and_never_touched(start: Start, workspace: Path) -> None:
    (workspace / "large").write_bytes(b"x" * 5000)
    driver = await start(config={"spindle": {"checkpoints": {"max_file_bytes": 1000}}})
    await driver.turn("go", runs("echo more >> large; echo y > small"), says("done"))
    report = await undo(driver)
    assert names(report) == ["small"] and names(report, "skipped") == ["large"]
    assert "max_file_bytes" in report["skipped"][0]["reason"] and (workspace / "large").stat().st_size == 5005


async def test_what_the_sandbox_protects_is_skipped(start: Start, workspace: Path) -> None:
    driver = await start()
    await driver.turn("go", runs("mkdir -p .vscode; echo '{}' > .vscode/tasks.json; echo y > small"), says("done"))
    report = await undo(driver)
    assert names(report) == ["small"] and names(report, "skipped") == ["tasks.json"]


async def test_the_home_folder_as_a_whole_is_left_out_and_that_is_said(start: Start, tmp_path: Path) -> None:
    driver = await start(cwd=tmp_path)
    await driver.turn("go", runs("echo y > small"), changes("*** Add File: p.txt\n+p"), says("done"))
    warned = [event.msg.message for event in driver.events if isinstance(event.msg, Warning)]
    assert any("cannot be undone" in text for text in warned)
    report = await undo(driver)
    assert names(report) == ["p.txt"] and report["skipped"][0]["path"] == str(tmp_path)


async def test_a_dry_run_changes_nothing_and_shows_a_diff(start: Start, workspace: Path) -> None:
    driver = await start()
    await driver.turn("go", runs("echo y > new.txt"), says("done"))
    told = await driver.until(UndoCompleted, sub_id=driver.submit(Undo(dry_run=True)))
    assert told.report["status"] == "dry_run" and told.diff is not None and "deleted file mode" in told.diff
    assert (workspace / "new.txt").exists() and (await undo(driver))["status"] == "undone"


async def test_a_store_that_cannot_be_used_is_said_once_and_the_turn_runs(
    start: Start, tmp_path: Path, workspace: Path
) -> None:
    folder = tmp_path / "codex-home" / "spindle"
    folder.mkdir()
    (folder / "checkpoints").write_text("in the way")
    driver = await start()
    await driver.turn("go", runs("echo y > a.txt"), runs("echo z > b.txt", "c2"), says("done"))
    warned = [event.msg.message for event in driver.events if isinstance(event.msg, Warning)]
    assert len([text for text in warned if "kept for undo" in text]) == 1
    assert (workspace / "a.txt").exists() and (workspace / "b.txt").exists()


async def test_patches_that_shells_carry_side_by_side_go_back_all_of_them(start: Start, workspace: Path) -> None:
    files = [workspace / f"{name}.txt" for name in "abcd"]
    for file in files:
        file.write_text("one\n")
    script = "apply_patch <<'EOF'\n*** Begin Patch\n*** Update File: {}\n@@\n-one\n+two\n*** End Patch\nEOF"
    driver = await start()
    await driver.turn("all", [runs(script.format(file.name), file.name) for file in files], says("done"))
    assert [file.read_text() for file in files] == ["two\n"] * 4
    assert names(await undo(driver)) == [file.name for file in files]
    assert [file.read_text() for file in files] == ["one\n"] * 4


async def test_an_undo_that_cannot_be_finished_keeps_nobody_from_the_thread(
    start: Start, tmp_path: Path, workspace: Path
) -> None:
    """As when a person saves the file in that very moment: here two changes have one place."""
    folder = tmp_path / "codex-home" / "spindle" / "checkpoints" / "restoring"
    folder.mkdir(parents=True)
    gone, file = ["a"], ["f", "00" * 20, 420, "", 2]
    names = [workspace / f".spindle-undo-x-{number}.new" for number in range(2)]
    for name in names:
        name.write_text("2\n")
    actions = [[str(workspace / "a.txt"), gone, file, str(name), ""] for name in names]
    (folder / "i.json").write_text(json.dumps(["i", "thread", "exchanging", actions, {"t": "undo", "id": "i"}, []]))
    driver = await start()
    await driver.turn("go", says("hello"))
    warned = [event.msg.message for event in driver.events if isinstance(event.msg, Warning)]
    assert any("cut short cannot be finished" in text for text in warned)
