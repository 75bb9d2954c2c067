"""Commands that write: messages, files, settings. /init, /mention, /plan, /compact, /pin, /export, /quit, /config, …"""

from __future__ import annotations

import json
from pathlib import Path

from spindle.frontends.tui.commands import running
from spindle.frontends.tui.shown import texts
from spindle.frontends.tui.status_line import DEFAULT_ITEMS
from spindle.model.scripted import calls, patches, says
from spindle.protocol.ops import Compact
from tui.commands.conftest import OpenDesk
from tui.fake_desk import FakeDesk


def saved(desk: FakeDesk) -> str:
    return Path(desk.config.home, "config.toml").read_text()


async def test_init_asks_for_agents_md_and_never_overwrites_one(desk: FakeDesk) -> None:
    await running.run(desk, "/init mention the docs")
    assert desk.sent[0].startswith("Write a file AGENTS.md") and desk.sent[0].endswith("Also: mention the docs")
    path = Path(desk.config.cwd, "AGENTS.md")
    path.write_text("mine")
    await running.run(desk, "/init")
    assert len(desk.sent) == 1 and desk.failed[0].startswith(f"{path} exists already")


async def test_mention_opens_the_list_of_files(desk: FakeDesk) -> None:
    await running.run(desk, "/mention")
    assert desk.draft == "@"
    await running.run(desk, "/mention src/x")
    assert desk.draft == "@src/x"


async def test_plan_switches_and_sends_only_a_text(desk: FakeDesk) -> None:
    await running.run(desk, "/plan")
    assert desk.mode == "plan" and desk.sent == []
    await running.run(desk, "/plan tidy\nup")
    assert desk.sent == ["tidy\nup"]


async def test_compact_passes_on_what_to_keep(desk: FakeDesk) -> None:
    await desk.turn("hello", says("hi"))
    desk.model.script(says("the summary"))
    await running.run(desk, "/compact keep the API")
    assert desk.submitted == [Compact(instructions="keep the API")]
    assert desk.thread is not None
    await desk.thread.settle()


async def test_a_fact_is_pinned_and_let_go(desk: FakeDesk) -> None:
    await running.run(desk, "/pin")
    assert desk.draft == "/pin "
    await running.run(desk, "/pin the port is 8080")
    await running.run(desk, "/pin use tabs")
    assert desk.said[-4:] == ["Pinned: use tabs", "Pinned facts", "  1:  the port is 8080", "  2:  use tabs"]
    await running.run(desk, "/unpin use tabs")
    assert desk.said[-1] == "No longer pinned: use tabs"
    await running.run(desk, "/unpin use tabs")
    assert desk.failed == ["no such fact is pinned"]


async def test_quit_never_loses_a_queued_message_unasked(desk: FakeDesk) -> None:
    desk.queued = ["one", "two"]
    desk.hands = [("enter",), ("esc",), ("2",)]
    await running.run(desk, "/quit")
    assert desk.views[0][0] == "2 queued messages are not sent yet and would be lost. Quit all the same?"
    await running.run(desk, "/exit")
    assert not desk.has_quit
    await running.run(desk, "/quit")
    assert desk.has_quit
    desk.has_quit, desk.queued = False, []
    await running.run(desk, "/quit")
    assert desk.has_quit


async def test_the_thread_is_exported_and_a_file_is_not_overwritten_unasked(desk: FakeDesk) -> None:
    await running.run(desk, "/export")
    assert desk.failed == ["nothing was said in this thread yet, so there is nothing to export"]
    await desk.turn("hello", says("**hi**\x1b[2J"))
    await running.run(desk, "/export out/../talk.md")
    path = Path(desk.config.cwd, "talk.md")
    assert "## User\n\nhello" in path.read_text() and "\x1b" not in path.read_text()
    assert path.stat().st_mode & 0o777 == 0o600
    path.write_text("mine")
    desk.hands = [("enter",), ("2",), ("2",)]
    await running.run(desk, "/export talk.md")
    assert path.read_text() == "mine"
    await running.run(desk, "/export talk.md")
    assert "hello" in path.read_text()
    assert desk.thread is not None
    await running.run(desk, "/export")
    exported = json.loads(Path(desk.config.cwd, f"thread-{desk.thread.id}.json").read_text())
    assert exported["id"] == desk.thread.id
    await running.run(desk, "/export talk.docx")
    assert desk.failed[-1] == "talk.docx: the name must end in .md, .json or .html, which says what is written"
    outside = Path(desk.config.cwd).parent / "outside"
    outside.mkdir()
    Path(desk.config.cwd, "folder").symlink_to(outside)
    await running.run(desk, "/export folder/talk.md")  # row 12: the agent could have made that link
    assert "is a link, which the agent could have made" in desk.failed[-1] and list(outside.iterdir()) == []
    Path(desk.config.cwd, "link.md").symlink_to("/etc/passwd")
    await running.run(desk, "/export link.md")
    assert desk.failed[-1].endswith("already exists and is not an ordinary file; choose another name")


async def test_recap_tells_what_was_asked_and_done(open_desk: OpenDesk) -> None:
    desk = await open_desk('sandbox_mode = "danger-full-access"\napproval_policy = "never"\n')
    await running.run(desk, "/recap")
    assert desk.failed == ["nothing was said in this thread yet"]
    patch = "*** Begin Patch\n*** Add File: new.txt\n+hi\n*** End Patch\n"
    await desk.turn("make a file", patches(patch, "c1"), says("made it"))
    await running.run(desk, "/recap")
    assert desk.said[-4:] == ["1 turn so far", "  1. make a file", "     patched new.txt", "     made it"]


async def test_another_folder_is_asked_about_unless_it_is_trusted(open_desk: OpenDesk, tmp_path: Path) -> None:
    other, trusted = tmp_path / "other", tmp_path / "trusted"
    other.mkdir()
    trusted.mkdir()
    desk = await open_desk(f'sandbox_mode = "workspace-write"\n[projects."{trusted}"]\ntrust_level = "trusted"\n')
    assert desk.thread is not None
    desk.hands = [("enter",), ("2",)]
    await running.run(desk, "/cd ../other")
    assert desk.thread.settings.cwd == desk.config.cwd
    await running.run(desk, "/cd ../other")
    assert desk.thread.settings.cwd == str(other)
    await running.run(desk, f"/cd '{trusted}'")
    await running.run(desk, "/pwd")
    assert desk.said[-1] == str(trusted)
    await running.run(desk, "/cd nowhere")
    assert "no such folder; the working folder is still" in desk.failed[0]


# ---- settings --------------------------------------------------------------------------------------------


async def test_a_theme_is_shown_while_it_is_chosen_and_kept_afterwards(desk: FakeDesk) -> None:
    shown: list[object] = []
    desk.use_setting = lambda key, value: shown.append((key, value))  # type: ignore[method-assign]
    desk.hands = [("down", "down", "esc"), ("2",)]
    await running.run(desk, "/theme")
    assert shown == [("tui.theme", "light"), ("tui.theme", "dark"), ("tui.theme", None)] and saved(desk) == ""
    await running.run(desk, "/theme")
    assert shown[-1] == ("tui.theme", "light") and 'theme = "light"' in saved(desk)
    await running.run(desk, "/theme lihgt")
    assert desk.failed == ["unknown theme 'lihgt'; did you mean light?"]


async def test_items_of_the_status_line_are_ticked_moved_and_kept(desk: FakeDesk) -> None:
    desk.size = (100, 60)
    desk.hands = [("space", "down", "right", "enter"), ("esc",)]
    await running.run(desk, "/statusline")
    usual = [*DEFAULT_ITEMS]
    assert desk.used["tui.status_line"] == [usual[2], usual[1], *usual[3:]]
    assert any(row.startswith("›  1. [x] model-with-reasoning") for row in desk.views[0])
    assert "status_line = [" in saved(desk)
    await running.run(desk, "/statusline git-branch, model")
    assert desk.used["tui.status_line"] == ["git-branch", "model"]
    await running.run(desk, "/statusline default")
    assert desk.used["tui.status_line"] is None and "status_line" not in saved(desk)
    await running.run(desk, "/statusline git-brnch")
    assert desk.failed == ["unknown item 'git-brnch'; did you mean git-branch?"]
    await running.run(desk, "/title activity project-name git-branch")
    assert 'terminal_title = ["activity", "project-name", "git-branch"]' in saved(desk)
    await running.run(desk, "/title")
    assert any("[x] activity" in row for row in desk.views[-1])


async def test_keys_are_told_and_chosen(desk: FakeDesk) -> None:
    await running.run(desk, "/keys")
    ((title, lines),) = desk.pages
    assert title == "Keys" and any("ctrl-t" in text and "everything that was said" in text for text in texts(lines))
    await running.run(desk, "/keymap pi")
    assert desk.used["spindle.tui.keys"] == "pi" and 'keys = "pi"' in saved(desk)
    await running.run(desk, "/keymap emasc")
    assert desk.failed == ["unknown set of keys 'emasc'; there are codex, claude, pi, vim"]
    await running.run(desk, "/vim")
    assert desk.used["tui.vim_mode_default"] is True and "vim_mode_default = true" in saved(desk)


async def test_help_lists_keys_and_commands(desk: FakeDesk) -> None:
    await running.run(desk, "/help")
    told = texts(desk.pages[0][1])
    assert any("/compact [hint]" in text for text in told) and any("also /approvals" in text for text in told)
    assert any("shift-tab" in text for text in told)
    await running.run(desk, "/help /approvals")
    assert desk.said[-2].startswith("/permissions [PRESET]") and desk.said[-1] == "  also /approvals"
    await running.run(desk, "/help nothing")
    assert desk.failed == ["unknown command /nothing"]


async def test_settings_are_told_with_their_place_and_changed(open_desk: OpenDesk) -> None:
    desk = await open_desk('model = "m"\n[model_providers.x]\nname = "X"\nexperimental_bearer_token = "s3cret"\n')
    await running.run(desk, "/config")
    told = texts(desk.pages[0][1])
    assert any(text.startswith('model = "m"  (') for text in told) and "s3cret" not in str(told)
    await running.run(desk, "/config model_verbosity low")
    assert 'model_verbosity = "low"' in saved(desk)
    await running.run(desk, "/config tui.animations = false")
    assert "animations = false" in saved(desk)
    await running.run(desk, "/config model")
    assert desk.said[-1].startswith('model = "m"')
    await running.run(desk, "/config model_verbosity 7")
    assert "for this session only, since it could not be saved" in desk.said[-1]
    await running.run(desk, "/config no.such")
    assert desk.failed == ["'no.such' is not set, so it has its usual value; docs/config.md lists all keys"]


async def test_a_feature_is_switched(desk: FakeDesk) -> None:
    desk.hands = [("enter",)]
    await running.run(desk, "/experimental")
    assert "[features]" in saved(desk)


async def test_logout_asks_first(desk: FakeDesk) -> None:
    auth = Path(desk.config.home, "auth.json")
    auth.write_text('{"OPENAI_API_KEY": "sk-x"}')
    desk.hands = [("enter",), ("2",)]
    await running.run(desk, "/logout")
    assert auth.exists()
    await running.run(desk, "/logout")
    assert not auth.exists() and "auth.json is removed" in desk.said[0]


async def test_rewind_takes_the_talk_back(desk: FakeDesk) -> None:
    await desk.turn("first", says("1"))
    await desk.turn("second", says("2"))
    desk.hands = [("1",)]
    await running.run(desk, "/rewind")
    assert desk.draft == "second" and desk.warned == []
    await desk.turn("other", says("3"))
    asked = str(desk.model.requests[-1].to_dict()["input"])
    assert "first" in asked and "second" not in asked and "other" in asked


async def test_undo_takes_files_and_talk_back_and_redo_puts_them_there(open_desk: OpenDesk) -> None:
    desk = await open_desk('sandbox_mode = "danger-full-access"\napproval_policy = "never"\n')
    made = Path(desk.config.cwd, "made.txt")
    await desk.turn("first", calls("exec_command", {"cmd": "echo 1 > made.txt"}, "c1"), says("done"))
    await running.run(desk, "/undo")
    assert not made.exists() and any("Undid 1 turn: 1 file put back" in line for line in desk.said)
    await running.run(desk, "/undo")
    assert "nothing to undo" in desk.warned[-1]
    await running.run(desk, "/undo redo")
    assert made.exists()
    made.write_text("mine\n")
    desk.hands = [("1",), ("2",)]
    await running.run(desk, "/undo")
    assert made.read_text() == "mine\n" and any("Nothing was changed" in line for line in desk.said)
    await running.run(desk, "/undo")
    assert made.read_text() == "mine\n" and any("left alone" in line for line in desk.said)


async def test_rewind_asks_whether_files_go_back_too(open_desk: OpenDesk) -> None:
    desk = await open_desk('sandbox_mode = "danger-full-access"\napproval_policy = "never"\n')
    made = Path(desk.config.cwd, "made.txt")
    await desk.turn("first", says("1"))
    await desk.turn("second", calls("exec_command", {"cmd": "echo 1 > made.txt"}, "c1"), says("2"))
    desk.hands = [("1",), ("1",)]
    await running.run(desk, "/rewind")
    assert desk.draft == "second" and not made.exists() and any("1 file put back" in line for line in desk.said)
    await desk.turn("other", says("3"))
    asked = str(desk.model.requests[-1].to_dict()["input"])
    assert "first" in asked and "second" not in asked
