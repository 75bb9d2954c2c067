"""The apply_patch tool: from a call of the model to files, events and the text the model reads."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import msgspec
import pytest

from spindle.errors import Rejected, ToolError
from spindle.policy.sandbox import Fence
from spindle.protocol.clock import FixedClock
from spindle.protocol.events import Msg, PatchApplyBegin, PatchApplyEnd, TurnDiff, Warning
from spindle.protocol.settings import SandboxPolicy
from spindle.tools import specs
from spindle.tools.apply_patch import apply_patch_text
from spindle.tools.tool import Permit, ToolCall, ToolContext
from tools.bench import Bench

HEAD = "Exit code: 0\nWall time: 0.0 seconds\nOutput:\nSuccess. Updated the following files:\n"


def patch(body: str) -> str:
    return f"*** Begin Patch\n{body}*** End Patch\n"


def custom(text: str) -> ToolCall:
    item = {"type": "custom_tool_call", "name": "apply_patch", "call_id": "c1", "input": text}
    return ToolCall(item=item, name="apply_patch", call_id="c1", arguments=text)


def function(arguments: str) -> ToolCall:
    item = {"type": "function_call", "name": "apply_patch", "call_id": "c1", "arguments": arguments}
    return ToolCall(item=item, name="apply_patch", call_id="c1", arguments=arguments)


class Desk:
    """A workspace that patches can be tried in."""

    def __init__(self, cwd: Path) -> None:
        self.cwd = cwd
        policy = SandboxPolicy(mode="workspace-write", exclude_slash_tmp=True, exclude_tmpdir_env_var=True)
        self.bench = Bench(cwd, policy, FixedClock())

    @property
    def events(self) -> list[Msg]:
        return self.bench.events

    @property
    def asked_about(self) -> list[dict[str, Any]]:
        return self.bench.asked_about

    def ctx(self) -> ToolContext:
        return self.bench.context("c1")

    async def run(self, body: str) -> str:
        result = await specs.apply_patch(freeform=True).run(custom(patch(body)), self.ctx())
        assert isinstance(result.output, str)
        return result.output


@pytest.fixture
def desk(tmp_path: Path) -> Desk:
    """A workspace beside a folder `outside`."""
    (tmp_path / "work").mkdir()
    (tmp_path / "outside").mkdir()
    return Desk(tmp_path / "work")


async def test_a_patch_changes_the_files_and_everyone_is_told(desk: Desk):
    (desk.cwd / ".git").mkdir()
    (desk.cwd / "old.txt").write_text("one\ntwo\n")
    (desk.cwd / "gone.txt").write_text("bye\n")
    output = await desk.run(
        "*** Add File: d/new.txt\n+hello\n*** Update File: old.txt\n*** Move to: to.txt\n@@\n one\n-two\n+TWO\n"
        "*** Delete File: gone.txt\n"
    )
    assert output == HEAD + "A d/new.txt\nM to.txt\nD gone.txt\n"
    left = {str(path.relative_to(desk.cwd)): path.read_text() for path in desk.cwd.rglob("*") if path.is_file()}
    assert left == {"d/new.txt": "hello\n", "to.txt": "one\nTWO\n"}
    changes = {
        f"{desk.cwd}/d/new.txt": {"type": "add", "content": "hello\n"},
        f"{desk.cwd}/old.txt": {
            "type": "update",
            "unified_diff": "@@ -1,2 +1,2 @@\n one\n-two\n+TWO\n",
            "move_path": f"{desk.cwd}/to.txt",
        },
        f"{desk.cwd}/gone.txt": {"type": "delete", "content": "bye\n"},
    }
    assert desk.asked_about == [changes]
    begin, end, diff = desk.events
    assert begin == PatchApplyBegin(call_id="c1", turn_id="turn_1", auto_approved=True, changes=changes)
    assert end == PatchApplyEnd(
        call_id="c1",
        turn_id="turn_1",
        stdout=output[output.index("Success") :],
        stderr="",
        success=True,
        changes=changes,
    )
    assert isinstance(diff, TurnDiff)
    headers = [line for line in diff.unified_diff.split("\n") if line.startswith("diff")]
    assert headers == [
        "diff --git a/d/new.txt b/d/new.txt",
        "diff --git a/gone.txt b/gone.txt",
        "diff --git a/old.txt b/old.txt",
        "diff --git a/to.txt b/to.txt",
    ]


async def test_the_turn_diff_is_relative_to_the_git_root_above(desk: Desk):
    for name in ("objects", "refs"):
        (desk.cwd / ".git" / name).mkdir(parents=True)
    (desk.cwd / ".git/HEAD").write_text("ref: refs/heads/main\n")
    (desk.cwd / "sub").mkdir()
    inner = Desk(desk.cwd / "sub")
    await inner.run("*** Add File: f\n+x\n")
    diff = inner.events[-1]
    assert isinstance(diff, TurnDiff)
    assert diff.unified_diff.startswith("diff --git a/sub/f b/sub/f\nnew file mode 100644\n")


async def test_a_function_call_is_served_whatever_is_listed(desk: Desk):
    arguments = msgspec.json.encode({"input": patch("*** Add File: f\n+x\n")}).decode()
    for tool in (specs.apply_patch(freeform=True), specs.apply_patch(freeform=False)):
        assert (await tool.run(function(arguments), desk.ctx())).output == HEAD + "A f\n"


async def test_without_the_freeform_tool_the_answer_is_json(desk: Desk):
    desk.bench.freeform = False
    output = await desk.run("*** Add File: f\n+x\n")
    assert output == (
        '{"output":"Success. Updated the following files:\\nA f\\n","metadata":{"exit_code":0,"duration_seconds":0.0}}'
    )


async def test_arguments_without_input_are_named(desk: Desk):
    with pytest.raises(ToolError, match=r"^failed to parse function arguments: missing field `input`$"):
        await specs.apply_patch(freeform=False).run(function("{}"), desk.ctx())


async def test_a_patch_that_does_not_fit_changes_nothing_and_asks_nobody(desk: Desk):
    with pytest.raises(ToolError) as caught:
        await desk.run("*** Add File: a\n+x\n*** Update File: nope\n@@\n-a\n+b\n")
    assert str(caught.value) == (
        f"apply_patch verification failed: Failed to read file to update {desk.cwd}/nope: "
        "No such file or directory (os error 2)"
    )
    assert (list(desk.cwd.iterdir()), desk.events, desk.asked_about) == ([], [], [])


async def test_a_text_that_is_no_patch_and_an_empty_patch_are_refused(desk: Desk):
    with pytest.raises(ToolError) as caught:
        await specs.apply_patch(freeform=True).run(custom("nonsense"), desk.ctx())
    assert str(caught.value) == (
        "apply_patch verification failed: invalid patch: The first line of the patch must be '*** Begin Patch'"
    )
    with pytest.raises(ToolError, match=r"^patch rejected: empty patch$"):
        await desk.run("")


async def test_a_refused_patch_writes_nothing_and_shows_no_begin(desk: Desk):
    def refuse() -> None:
        raise Rejected("patch rejected by user", by_user=True)

    desk.bench.before_answer = refuse
    with pytest.raises(Rejected):
        await desk.run("*** Add File: f\n+x\n")
    assert (list(desk.cwd.iterdir()), desk.events) == ([], [])


async def test_a_patch_a_person_allowed_may_go_outside_and_is_not_called_automatic(desk: Desk):
    desk.bench.patch_permit = Permit(asked=True)
    await desk.run("*** Add File: ../outside/f\n+x\n")
    outside = desk.cwd.parent / "outside" / "f"
    assert outside.read_text() == "x\n"
    begin = desk.events[0]
    assert isinstance(begin, PatchApplyBegin)
    assert (begin.auto_approved, list(begin.changes)) == (False, [str(outside)])


async def test_a_patch_that_policy_lets_out_of_the_sandbox_may_go_outside(desk: Desk):
    desk.bench.patch_permit = Permit(sandboxed=False)
    await desk.run("*** Add File: ../outside/f\n+x\n")
    assert (desk.cwd.parent / "outside" / "f").read_text() == "x\n"


async def test_a_file_edited_while_a_person_was_asked_is_left_alone(desk: Desk):
    file = desk.cwd / "f"
    file.write_text("a\n")
    desk.bench.patch_permit = Permit(asked=True)
    desk.bench.before_answer = lambda: file.write_text("a\nmine\n")
    with pytest.raises(ToolError, match=f"^apply_patch verification failed: {file} was changed by someone else"):
        await desk.run("*** Update File: f\n@@\n-a\n+b\n")
    assert (file.read_text(), desk.events) == ("a\nmine\n", [])


@pytest.mark.parametrize("path", ["../outside/f", "link/f", "file-link", ".git/hooks/pre-commit", ".codex/config.toml"])
async def test_the_writer_itself_keeps_to_the_writable_roots(desk: Desk, path: str):
    (desk.cwd / "link").symlink_to("../outside")
    (desk.cwd / "file-link").symlink_to("../outside/f")
    output = await desk.run(f"*** Add File: {path}\n+x\n")
    assert output.startswith("Exit code: 1\n") and "Operation not permitted (os error 1)" in output
    assert list((desk.cwd.parent / "outside").iterdir()) == []
    assert sorted(os.listdir(desk.cwd)) == ["file-link", "link"]
    assert isinstance(desk.events[1], PatchApplyEnd) and not desk.events[1].success


async def test_full_access_writes_anywhere_also_through_links(desk: Desk):
    desk.bench.sandbox = SandboxPolicy(mode="danger-full-access")
    (desk.cwd / "link").symlink_to("../outside")
    await desk.run("*** Add File: link/f\n+x\n")
    assert (desk.cwd.parent / "outside" / "f").read_text() == "x\n"


async def test_a_link_that_leads_outside_is_shown_where_it_ends(desk: Desk):
    (desk.cwd / "link").symlink_to("../outside")
    desk.bench.patch_permit = Permit(asked=True)
    await desk.run("*** Add File: link/f\n+x\n")
    assert list(desk.asked_about[0]) == [str(desk.cwd.parent / "outside" / "f")]


async def test_a_link_swapped_in_after_the_question_does_not_redirect_the_write(desk: Desk):
    (desk.cwd / "d").mkdir()

    def swap() -> None:
        (desk.cwd / "d").rmdir()
        (desk.cwd / "d").symlink_to("../outside")

    desk.bench.before_answer = swap
    for permit in (Permit(), Permit(asked=True), Permit(sandboxed=False)):
        desk.bench.patch_permit = permit
        assert "Failed to write file" in await desk.run("*** Add File: d/f\n+x\n")
        (desk.cwd / "d").unlink()
        (desk.cwd / "d").mkdir()
    assert list((desk.cwd.parent / "outside").iterdir()) == []


async def test_a_link_inside_the_workspace_changes_the_file_it_leads_to(desk: Desk):
    (desk.cwd / "AGENTS.md").write_text("a\n")
    (desk.cwd / "CLAUDE.md").symlink_to("AGENTS.md")
    assert await desk.run("*** Update File: CLAUDE.md\n@@\n-a\n+b\n*** Update File: AGENTS.md\n@@\n b\n+c\n") == (
        HEAD + "M CLAUDE.md\nM AGENTS.md\n"
    )
    assert (desk.cwd / "AGENTS.md").read_text() == "b\nc\n"
    assert (desk.cwd / "CLAUDE.md").is_symlink()
    assert list(desk.asked_about[0]) == [f"{desk.cwd}/AGENTS.md"]


@pytest.mark.parametrize("body", ["*** Delete File: link\n", "*** Update File: link\n*** Move to: new\n"])
async def test_a_link_is_not_deleted_or_moved_in_place_of_its_target(desk: Desk, body: str):
    (desk.cwd / "f").write_text("a\n")
    (desk.cwd / "link").symlink_to("f")
    with pytest.raises(ToolError, match="It is a symbolic link"):
        await desk.run(body)
    assert sorted(os.listdir(desk.cwd)) == ["f", "link"]


async def test_a_hard_link_planted_in_the_workspace_does_not_change_the_outside_file(desk: Desk):
    outside = desk.cwd.parent / "outside" / "f"
    outside.write_text("a\n")
    os.link(outside, desk.cwd / "f")
    await desk.run("*** Update File: f\n@@\n-a\n+b\n")
    assert ((desk.cwd / "f").read_text(), outside.read_text()) == ("b\n", "a\n")


async def test_below_a_linked_working_directory_paths_are_shown_below_its_usual_name(desk: Desk):
    usual = desk.cwd.parent / "usual"
    usual.symlink_to("work")
    linked = Desk(usual)
    await linked.run("*** Add File: f\n+x\n")
    assert list(linked.asked_about[0]) == [f"{usual}/f"]
    assert (desk.cwd / "f").read_text() == "x\n"


async def test_a_failure_half_way_says_what_was_written(desk: Desk):
    output = await desk.run("*** Add File: a\n+x\n*** Add File: a/b\n+y\n*** Add File: c\n+z\n")
    text = (
        f"Failed to write file {desk.cwd}/a/b: Not a directory (os error 20)\n"
        f"These files were already changed:\n{desk.cwd}/a\n"
    )
    assert output == "Exit code: 1\nWall time: 0.0 seconds\nOutput:\n" + text
    assert os.listdir(desk.cwd) == ["a"]
    _, end, diff = desk.events
    assert isinstance(end, PatchApplyEnd) and (end.success, end.stderr) == (False, text)
    assert isinstance(diff, TurnDiff) and diff.unified_diff.startswith("diff --git a/a b/a\n")


async def test_a_move_that_fails_names_its_target_and_keeps_its_source(desk: Desk):
    (desk.cwd / "f").write_text("a\n")
    (desk.cwd / "g").write_text("b\n")
    output = await desk.run(
        "*** Update File: g\n*** Move to: k\n*** Add File: n\n+x\n*** Update File: f\n*** Move to: n/m\n"
    )
    assert output.endswith(
        f"Failed to write file {desk.cwd}/n/m: Not a directory (os error 20)\n"
        f"These files were already changed:\n{desk.cwd}/k\n{desk.cwd}/n\n"
    )
    assert sorted(os.listdir(desk.cwd)) == ["f", "k", "n"]


async def test_a_patch_from_a_shell_command_is_applied_where_the_command_would_have_run(desk: Desk):
    (desk.cwd / "sub").mkdir()
    text = await apply_patch_text(patch("*** Add File: f\n+x\n"), str(desk.cwd / "sub"), desk.ctx())
    assert text == "Success. Updated the following files:\nA f\n"
    assert (desk.cwd / "sub" / "f").read_text() == "x\n"
    assert [type(event) for event in desk.events] == [Warning, PatchApplyBegin, PatchApplyEnd, TurnDiff]
    with pytest.raises(ToolError, match=r"^apply_patch verification failed: "):
        await apply_patch_text("nonsense", str(desk.cwd), desk.ctx())


async def test_a_command_folder_outside_the_roots_adds_no_root(desk: Desk):
    with pytest.raises(ToolError, match="Operation not permitted"):
        await apply_patch_text(patch("*** Add File: f\n+x\n"), str(desk.cwd.parent / "outside"), desk.ctx())
    assert os.listdir(desk.cwd.parent / "outside") == []


def test_the_two_listings():
    freeform = specs.apply_patch(freeform=True).spec()
    assert (freeform["type"], freeform["name"]) == ("custom", "apply_patch")
    assert freeform["format"] == {"type": "grammar", "syntax": "lark", "definition": specs.PATCH_GRAMMAR}
    function_entry = specs.apply_patch(freeform=False).spec()
    assert (function_entry["type"], function_entry["parameters"]["required"]) == ("function", ["input"])
    assert set(function_entry["parameters"]["properties"]) == {"input"}
    assert specs.apply_patch(freeform=False).spec() == function_entry


async def test_the_example_in_the_description_is_a_patch_that_works(desk: Desk):
    description = specs.apply_patch(freeform=False).spec()["description"]
    example = description[description.index("*** Begin Patch") : description.index("*** End Patch") + 13]
    (desk.cwd / "src").mkdir()
    (desk.cwd / "src" / "greet.py").write_text(
        'def greet(name):\n    """Say hello."""\n    print("Hi " + name)\n    return None\n'
    )
    (desk.cwd / "old.txt").write_text("x\n")
    await specs.apply_patch(freeform=False).run(custom(example), desk.ctx())
    assert 'print(f"Hello {name}")' in (desk.cwd / "src" / "hello.py").read_text()


async def test_a_patch_does_not_read_what_may_not_be_read(desk: Desk):
    (desk.cwd / "secret.txt").write_text("old\n")
    desk.bench.fence = Fence(deny_read=("secret.txt",))
    with pytest.raises(ToolError, match="denied by the user"):
        await desk.run("*** Update File: secret.txt\n@@\n-old\n+new\n")
    assert (desk.cwd / "secret.txt").read_text() == "old\n"
