"""The client of the Python API: options and their checks, the threads of a home, accounts, closing."""

from __future__ import annotations

import inspect
import os
import pickle
import subprocess
import sys
import threading
import typing
from pathlib import Path
from typing import Any

import msgspec
import pytest

from api.homes import FULL, Client, run_program
from spindle import (
    AsyncSpindle,
    AsyncThread,
    ConfigError,
    Sandbox,
    Spindle,
    Thread,
    ThreadClosed,
    ThreadError,
    ThreadLocked,
    ThreadNotFound,
)
from spindle.api.options import ThreadOptions, TurnOptions
from spindle.testing import ScriptedModel, calls, says, temporary_home

CLIENTS = (Spindle, AsyncSpindle)
THREADS = (Thread, AsyncThread)
UNKNOWN = "01890000-0000-7000-8000-000000000000"


def rollouts(home: Path) -> list[str]:
    return [path.name for path in home.rglob("rollout-*.jsonl")]


# ---- opening ---------------------------------------------------------------------------------------


def test_making_a_client_does_nothing_at_all(tmp_path: Path) -> None:
    before = threading.active_count()
    client = Spindle(home=tmp_path / "new", config={"no_such_key": 1})
    assert not (tmp_path / "new").exists() and threading.active_count() == before
    client.close()


def test_a_home_that_is_named_is_made_and_one_of_the_environment_must_exist(
    tmp_path: Path, workspace: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with Spindle(home=tmp_path / "a" / "b", model_client=ScriptedModel(says("hi"))) as client:
        assert client.thread_start(cwd=workspace).run("x").final_response == "hi"
    assert len(rollouts(tmp_path / "a" / "b")) == 1
    monkeypatch.setenv("CODEX_HOME", str(tmp_path / "missing"))
    with Spindle() as client, pytest.raises(ConfigError, match="missing"):
        client.thread_start(cwd=workspace)


@pytest.mark.parametrize(
    ("config", "named"),
    [
        ({"no_such_key": 1}, "no_such_key"),
        ({"modle": "x"}, "modle"),
        ({"spindle": {"no_such": True}}, "spindle.no_such"),
        ({"model_reasoning_effort": "enormous"}, "model_reasoning_effort"),
        ({"model": 3}, "model"),
        ({"a..b": 3}, "a..b"),
        ({"sandbox_mode": "anything"}, "sandbox_mode"),
    ],
)
def test_a_mistake_in_the_mapping_is_an_error_that_names_it(
    client: Client, workspace: Path, config: dict[str, Any], named: str
) -> None:
    with pytest.raises(ConfigError) as caught:
        client(config=config).thread_start(cwd=workspace)
    assert named in str(caught.value) and "\n" not in str(caught.value)


def test_the_mapping_of_a_thread_is_laid_over_the_clients_and_neither_is_changed(
    client: Client, workspace: Path
) -> None:
    below = {"model_reasoning_effort": "low", "spindle": {"memory": False, "jit_tools": None}, "model": None}
    above = {"spindle.memory": False, "model_reasoning_effort": "high", "log_dir": "logs"}
    copies = ({**below}, {**above})
    model = ScriptedModel(says("a"), says("b"))
    one = client(model_client=model, config=below)
    one.thread_start(cwd=workspace, config=above).run("x")
    one.thread_start(cwd=workspace).run("x")
    first, second = model.requests
    assert (first.reasoning["effort"], second.reasoning["effort"]) == ("high", "low")
    assert (below, above) == copies


@pytest.mark.parametrize(
    "option",
    [
        {"sandbox": "everything"},
        {"approval_policy": "perhaps"},
        {"effort": "enormous"},
        {"summary": "long"},
        {"personality": "grim"},
        {"mode": "fast"},
        {"cwd": "/no/such/folder"},
        {"cwd": 3},
        {"add_dirs": "/tmp"},
        {"add_dirs": ["/no/such/folder"]},
        {"model": ""},
        {"model_provider": "nobody"},
        {"name": ""},
        {"name": "two\nlines"},
        {"on_approval": "yes"},
        {"on_question": 3},
        {"config": ["model"]},
        {"tools": "lookup"},
        {"hooks": {"PreToolUse": print}},
        {"ephemeral": "yes"},
        {"model_client": object()},
    ],
)
def test_a_bad_option_is_refused_before_anything_is_opened(
    client: Client, own_home: Path, workspace: Path, option: dict[str, Any]
) -> None:
    with pytest.raises(ValueError) as caught:
        client().thread_start(**{"cwd": workspace, **option})
    assert next(iter(option)).removeprefix("on_") in str(caught.value).replace("thread's name", "name")
    assert rollouts(own_home) == []


def test_sandboxes_have_names_and_members(client: Client, workspace: Path) -> None:
    one = client(config={"sandbox_workspace_write": {"network_access": True}})
    modes = [
        one.thread_start(cwd=workspace, sandbox=given, ephemeral=True)._conversation.door.settings.sandbox.mode
        for given in ("full-access", Sandbox.full_access, Sandbox.workspace_write, "read-only", None)
    ]
    assert modes == ["danger-full-access", "danger-full-access", "workspace-write", "read-only", "read-only"]


def test_without_a_callback_the_policy_is_never_whatever_is_said(
    client: Client, workspace: Path, own_home: Path
) -> None:
    (own_home / "config.toml").write_text('approval_policy = "untrusted"\n')
    one = client()

    def policy(**options: Any) -> str:
        thread = one.thread_start(cwd=workspace, ephemeral=True, **options)
        return thread._conversation.door.settings.approval_policy

    assert policy() == policy(approval_policy="on-request") == "never"
    assert policy(on_approval=lambda request: True) == "untrusted"
    assert policy(on_approval=lambda request: True, approval_policy="on-request") == "on-request"


def test_a_trusted_folder_is_not_written_to_unasked(client: Client, workspace: Path, own_home: Path) -> None:
    (own_home / "config.toml").write_text(f'[projects."{workspace}"]\ntrust_level = "trusted"\n')
    thread = client().thread_start(cwd=workspace, ephemeral=True, on_approval=lambda request: False)
    settings = thread._conversation.door.settings
    assert (settings.sandbox.mode, settings.approval_policy) == ("read-only", "on-request")


def test_the_name_of_the_client_is_in_the_record(client: Client, workspace: Path) -> None:
    thread = client(says("a"), client_name="my_program").thread_start(cwd=workspace)
    thread.run("x")
    assert thread.path is not None and '"originator":"my_program"' in Path(thread.path).read_text()


def test_a_profile_of_the_configuration_is_used(client: Client, workspace: Path, own_home: Path) -> None:
    (own_home / "config.toml").write_text('[profiles.quick]\nmodel_reasoning_effort = "low"\n')
    model = ScriptedModel(says("a"))
    client(model_client=model, profile="quick").thread_start(cwd=workspace).run("x")
    assert model.requests[0].reasoning["effort"] == "low"
    with pytest.raises(ConfigError, match="nobody"):
        client(profile="nobody").thread_start(cwd=workspace)


# ---- threads of the home ---------------------------------------------------------------------------


def test_an_unknown_thread_is_not_found_whatever_is_wanted(client: Client) -> None:
    one = client()
    wanted = (
        *(one.thread_resume, one.thread_fork, one.thread_archive, one.thread_unarchive, one.thread_delete),
        *(one.threads.read, one.threads.export, one.threads.delete),
    )
    for ask in wanted:
        with pytest.raises(ThreadNotFound, match=UNKNOWN):
            ask(UNKNOWN)
        with pytest.raises(ThreadNotFound, match="no-such-name"):
            ask("no-such-name")


def test_a_thread_is_found_by_its_name_and_goes_on_as_it_was(client: Client, workspace: Path) -> None:
    model = ScriptedModel(says("one"), says("two"))
    one = client(model_client=model)
    with one.thread_start(cwd=workspace, name="the name", effort="high", sandbox="workspace-write") as thread:
        thread.run("first")
    again = one.thread_resume("the name")
    assert (again.id, again.name, again.cwd) == (thread.id, "the name", str(workspace))
    assert again._conversation.door.settings.sandbox.mode == "workspace-write"
    again.run("second")
    before, after = model.requests
    assert after.raw.input[: len(before.raw.input)] == before.raw.input
    assert after.reasoning["effort"] == "high"


def test_a_thread_is_open_once(client: Client, own_home: Path, workspace: Path) -> None:
    one, other = client(says("a")), client()
    thread = one.thread_start(cwd=workspace)
    thread.run("x")
    for second in (one, other):
        with pytest.raises(ThreadLocked, match=thread.id):
            second.thread_resume(thread.id)
    thread.close()
    other.thread_resume(thread.id)


def test_a_thread_that_another_process_writes_is_locked(client: Client, own_home: Path, workspace: Path) -> None:
    holder = subprocess.Popen(
        [
            sys.executable,
            "-c",
            f"""
from spindle import Spindle
from spindle.testing import ScriptedModel, says
with Spindle(home={str(own_home)!r}, model_client=ScriptedModel(says("a"))) as client:
    thread = client.thread_start(cwd={str(workspace)!r}); thread.run("x")
    print(thread.id, flush=True); input()
""",
        ],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert holder.stdin is not None and holder.stdout is not None
    thread_id = holder.stdout.readline().strip()
    with pytest.raises(ThreadLocked, match="another process"):
        client().thread_resume(thread_id)
    holder.communicate("\n")
    assert holder.returncode == 0
    assert client().thread_resume(thread_id).id == thread_id


def test_threads_are_listed_searched_read_and_put_away(client: Client, workspace: Path, tmp_path: Path) -> None:
    other = tmp_path / "other"
    other.mkdir()
    one = client(says("the pelican answer"), says("nothing"), says("deep"))
    birds, stones, deep = (one.thread_start(cwd=cwd) for cwd in (workspace, workspace, other))
    for thread, text in ((birds, "about birds"), (stones, "about stones"), (deep, "about the pelican")):
        thread.run(text)
    birds.set_name("feathers")
    page = one.threads.list(cwd=workspace, limit=1)
    rest = one.thread_list(cwd=workspace, limit=1, cursor=page.next_cursor)
    assert [page.data[0].id, rest.data[0].id, rest.next_cursor] == [stones.id, birds.id, None]
    assert {match.thread_id for match in one.threads.search("PELICAN")} == {birds.id, deep.id}
    assert [match.thread_id for match in one.threads.search("pelican", limit=1)] == [deep.id]
    assert [thread.id for thread in one.threads.list(search="feathers").data] == [birds.id]
    found = one.threads.search("pelican answer")[0]
    record = one.threads.read("feathers", include_turns=True)
    assert (record.id, record.name, record.cwd, record.turns[0].id) == (
        birds.id,
        "feathers",
        str(workspace),
        found.turn_id,
    )
    assert [item.type for item in record.turns[0].items] == ["user_message", "agent_message"]
    assert record == birds.read(include_turns=True) and birds.read().turns == []
    birds.archive()
    assert [thread.id for thread in one.threads.list(archived=True).data] == [birds.id]
    with pytest.raises(ThreadClosed):
        birds.run("more")
    one.thread_unarchive(birds.id)
    one.thread_delete(stones.id)
    assert {thread.id for thread in one.threads.list().data} == {birds.id, deep.id}


def test_an_export_is_for_people_or_for_programs(client: Client, workspace: Path) -> None:
    one = client(says("<b>bold</b> and `code`"))
    thread = one.thread_start(cwd=workspace)
    thread.run("say <script>alert(1)</script>")
    markdown, page, data = (one.threads.export(thread.id, form) for form in ("markdown", "html", "json"))
    assert "## User\n\nsay <script>" in markdown and "<b>bold</b> and `code`" in markdown
    assert "<script>" not in page and "&lt;script&gt;" in page and page.startswith("<!doctype html>")
    assert one.threads.read(thread.id, include_turns=True).to_dict() == __import__("json").loads(data)
    with pytest.raises(ValueError, match="pdf"):
        one.threads.export(thread.id, "pdf")  # pyright: ignore[reportArgumentType]


@pytest.mark.parametrize("limit", [0, -1, 1.5, 10_000])
def test_a_list_has_a_sensible_length(client: Client, limit: Any) -> None:
    with pytest.raises(ValueError, match="limit"):
        client().threads.list(limit=limit)


def test_a_fork_keeps_what_it_is_told_to(client: Client, workspace: Path) -> None:
    model = ScriptedModel(*(says(text) for text in ("one", "two", "three")), default=says("more"))
    one = client(model_client=model)
    thread = one.thread_start(cwd=workspace)
    first, second, _ = (thread.run(text) for text in ("first", "second", "third"))

    def kept(at: Any) -> list[str]:
        fork = thread.fork(at=at)
        assert fork.id != thread.id
        fork.run("fork")
        texts = [item["content"][0]["text"] for item in model.requests[-1].input if item.get("role") == "user"]
        return [text for text in texts if text in ("first", "second", "third")]

    assert kept(None) == kept(3) == kept(99) == ["first", "second", "third"]
    assert kept(1) == kept(first.turn_id) == kept(first.response_id) == ["first"]
    assert kept(second.turn_id) == kept(second.response_id) == ["first", "second"]
    assert kept(0) == []
    for bad in (-2, "no-such-turn", 1.5, True):
        with pytest.raises(ValueError, match="at="):
            thread.fork(at=bad)  # pyright: ignore[reportArgumentType]
    assert one.thread_fork(thread.id, at=2).read(include_turns=True).turns[-1].items[0].to_dict()["text"] == "second"


def test_an_ephemeral_thread_leaves_no_trace(client: Client, own_home: Path, workspace: Path) -> None:
    one = client(says("a"))
    thread = one.thread_start(cwd=workspace, ephemeral=True, name="ghost")
    thread.run("x")
    assert thread.path is None and thread.name == "ghost" and rollouts(own_home) == []
    assert one.threads.list().data == []
    with pytest.raises(ThreadError, match="ephemeral"):
        thread.fork()


# ---- models, accounts ------------------------------------------------------------------------------


def test_models_and_accounts(client: Client, own_home: Path) -> None:
    one = client()
    listed, everything = one.models(), one.models(include_hidden=True)
    assert [model.id for model in everything if model.is_default] == ["gpt-5.2-codex"]
    assert len(listed) < len(everything) and not any(model.hidden for model in listed)
    assert one.account().type is None and one.account().requires_login
    with pytest.raises(ValueError, match="not an API key") as caught:
        one.login_api_key("Bearer sk-secret")
    assert "sk-secret" not in str(caught.value)
    one.login_api_key("sk-" + "a" * 40)
    assert one.account().type == "api_key" and os.stat(own_home / "auth.json").st_mode & 0o077 == 0
    one.logout()
    assert one.account().type is None
    one.logout()


# ---- the end ---------------------------------------------------------------------------------------


def test_a_closed_client_and_its_threads_say_so(client: Client, workspace: Path) -> None:
    one = client(says("a"))
    thread = one.thread_start(cwd=workspace)
    handle = thread.turn("x")
    result = handle.run()
    one.close()
    one.close()
    thread.close()
    asked = (
        *(lambda: thread.run("y"), lambda: thread.stream("y"), lambda: thread.turn("y"), thread.read, thread.fork),
        *(lambda: thread.set_name("n"), lambda: thread.rollback(1), thread.archive, thread.compact),
        *(one.models, lambda: one.thread_start(cwd=workspace), one.threads.list, lambda: handle.steer("z")),
    )
    for ask in asked:
        with pytest.raises(ThreadClosed):
            ask()
    assert result.final_response == "a" and handle.done and handle.run() is result


def test_closing_ends_commands_and_threads(client: Client, workspace: Path) -> None:
    before = threading.active_count()
    one = client(calls("exec_command", {"cmd": "sleep 300", "yield_time_ms": 250}, "c1"), says("left running"))
    thread = one.thread_start(cwd=workspace, **FULL)
    assert thread.run("x").final_response == "left running"
    one.close()
    assert threading.active_count() == before
    children = [path.read_text() for path in Path("/proc/self/task").glob("*/children")]
    names = [Path(f"/proc/{pid}/cmdline").read_bytes() for pid in " ".join(children).split()]
    assert not any(b"sleep\x00300" in name for name in names)


def test_a_borrowed_model_is_not_closed(client: Client, workspace: Path) -> None:
    mine, general = ScriptedModel(says("a")), ScriptedModel(says("b"))
    one = client(model_client=general)
    assert one.thread_start(cwd=workspace, model_client=mine).run("x").final_response == "a"
    assert one.thread_start(cwd=workspace).run("x").final_response == "b"
    one.close()
    assert not mine.is_closed and not general.is_closed and mine.is_exhausted


def test_a_client_that_is_forgotten_warns_and_one_left_open_ends_with_the_program(
    own_home: Path, workspace: Path
) -> None:
    done = run_program(
        """
        import gc, os, threading, time
        from spindle import Spindle
        from spindle.testing import ScriptedModel, says, calls
        def use():
            model = ScriptedModel(says("a"))
            client = Spindle(home=HOME_FOLDER, model_client=model)
            client.thread_start(cwd=CWD).run("x")
        use()
        gc.collect()
        while threading.active_count() > 1: time.sleep(0.01)
        print("collected", flush=True)
        slow = calls("exec_command", {"cmd": "echo $$ > pid; sleep 300", "yield_time_ms": 300}, "c")
        kept = Spindle(home=HOME_FOLDER, model_client=ScriptedModel(slow, says("b")))
        kept.thread_start(cwd=CWD, sandbox="danger-full-access").run("y")
        print("end", flush=True)
        """,
        own_home,
        workspace,
        "-W",
        "always::ResourceWarning",
    )
    assert done.stdout == "collected\nend\n"
    told = [line for line in done.stderr.splitlines() if "ResourceWarning" in line]
    others = [line for line in told if "sqlite3.Connection" not in line and "Enable tracemalloc" not in line]
    assert len(others) == 1 and "never closed" in done.stderr
    assert not Path(f"/proc/{(workspace / 'pid').read_text().strip()}").exists()


def test_a_client_of_the_parent_is_closed_in_a_forked_child(own_home: Path, workspace: Path) -> None:
    done = run_program(
        """
        import os, sys, warnings
        from spindle import Spindle, ThreadClosed
        from spindle.testing import ScriptedModel, says
        client = Spindle(home=HOME_FOLDER, model_client=ScriptedModel(says("a"), says("b")))
        fresh = Spindle(home=HOME_FOLDER, model_client=ScriptedModel(says("of the child")))
        thread = client.thread_start(cwd=CWD); thread.run("x")
        if os.fork() == 0:
            open_one = lambda: client.thread_start(cwd=CWD)
            for ask in (lambda: thread.run("y"), client.models, open_one, client.threads.list):
                try: ask(); print("no error")
                except ThreadClosed as error: assert "fork" in str(error)
            thread.close(); client.close()
            with fresh: print(fresh.thread_start(cwd=CWD).run("x").final_response, flush=True)
            sys.exit(0)
        os.wait()
        print(thread.run("z").final_response)
        client.close()
        """,
        own_home,
        workspace,
        "-W",
        "ignore::DeprecationWarning",
    )
    assert done.stdout == "of the child\nb\n" and done.stderr == ""


# ---- the package -----------------------------------------------------------------------------------


def test_everything_public_is_there_annotated_and_explained() -> None:
    import spindle.models
    import spindle.testing
    import spindle.types

    assert set(spindle.__all__) <= set(dir(spindle)) and spindle.__version__ in spindle.__version__
    for module in (spindle, spindle.models, spindle.testing, spindle.types):
        for name in set(module.__all__) - {"__version__"}:
            thing = getattr(module, name)
            if inspect.isfunction(thing) or isinstance(thing, type):
                typing.get_type_hints(thing)
            if isinstance(thing, type) and thing.__module__.startswith("spindle"):
                assert (thing.__doc__ or "").strip(), name
                members = [m for m in vars(thing).items() if not m[0].startswith("_")]
                for member, value in members:
                    function = value.fget if isinstance(value, property) else value
                    if callable(function) and (getattr(function, "__module__", "") or "").startswith("spindle."):
                        typing.get_type_hints(function)
                        assert (function.__doc__ or "").strip(), f"{name}.{member}"
    with pytest.raises(AttributeError, match="nothing_like_this"):
        spindle.nothing_like_this  # noqa: B018


@pytest.mark.parametrize(
    ("record", "function"),
    [
        *((ThreadOptions, getattr(kind, f"thread_{what}")) for kind in CLIENTS for what in ("start", "resume", "fork")),
        *((TurnOptions, getattr(kind, what)) for kind in THREADS for what in ("run", "stream", "turn")),
    ],
    ids=lambda value: value.__qualname__,
)
def test_the_options_of_a_call_are_those_of_its_record(record: type[Any], function: Any) -> None:
    given = inspect.signature(function).parameters.values()
    options = {one.name: one.default for one in given if one.kind is one.KEYWORD_ONLY and one.name != "at"}
    assert options == {field.name: field.default for field in msgspec.structs.fields(record)}


def test_modules_of_the_package_are_there_without_an_import_of_their_own() -> None:
    code = "import spindle as s; print(s.errors.ThreadBusy.__name__, s.testing.waits(2).delay_s, s.types.Usage())"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.startswith("ThreadBusy 2 Usage(")


def test_importing_the_package_loads_nothing() -> None:
    code = "import sys; before = set(sys.modules); import spindle; print(sorted(set(sys.modules) - before))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "['spindle']\n"


def test_a_temporary_home_is_empty_and_goes_away(workspace: Path) -> None:
    with temporary_home() as home:
        assert os.listdir(home) == []
        with Spindle(home=home, model_client=ScriptedModel(says("a"))) as one:
            one.thread_start(cwd=workspace).run("x")
        assert os.listdir(home)
    assert not os.path.exists(home)


def test_results_can_be_pickled_and_what_belongs_to_the_process_says_that_it_cannot(
    client: Client, workspace: Path
) -> None:
    one = client(says("a"))
    thread = one.thread_start(cwd=workspace)
    handle = thread.turn("x")
    result = handle.run()
    assert pickle.loads(pickle.dumps(result)) == result
    for bound in (one, one.threads, thread, handle, handle.stream()):
        with pytest.raises(TypeError, match=r"cannot be pickled or copied: open a client in each process"):
            pickle.dumps(bound)
