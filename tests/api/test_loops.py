"""The Python API among event loops, threads and signals: many threads at once, Ctrl-C, and nothing global touched."""

from __future__ import annotations

import asyncio
import gc
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from api.homes import FULL, Client, async_client, run_program
from spindle import AsyncSpindle, Spindle, ThreadLocked
from spindle.testing import ScriptedModel, calls, says, waits

THREADS, RUNNING = 50, 8


def test_a_client_works_inside_a_running_loop_and_from_many_threads(client: Client, workspace: Path) -> None:
    one = client(model_client=ScriptedModel(default=says("ok")))

    async def cell() -> str | None:
        return one.thread_start(cwd=workspace).run("in a loop").final_response

    assert asyncio.run(cell()) == "ok"

    def work(number: int) -> str | None:
        with one.thread_start(cwd=workspace, ephemeral=True) as thread:
            return thread.run(f"n{number}").final_response

    with ThreadPoolExecutor(6) as pool:
        assert list(pool.map(work, range(12))) == ["ok"] * 12


def test_fifty_threads_and_eight_running_none_waits_for_anothers_tool_callback_or_reader(
    client: Client, workspace: Path
) -> None:
    """Each running thread blocks in a tool, a callback or a reader until all of them do: one that waited would hang."""
    barrier = threading.Barrier(RUNNING, timeout=40)

    def meet() -> str:
        "Wait for the others."
        barrier.wait()
        return "met"

    def ask(request: Any) -> bool:
        barrier.wait()
        return True

    def model(number: int) -> ScriptedModel:
        if number % 4 == 0:
            return ScriptedModel(calls("exec_command", {"cmd": "touch here"}, "c1"), says(f"answer {number}"))
        if number % 4 == 1:
            return ScriptedModel(says(f"answer {number}"))
        return ScriptedModel(calls("meet", {}, "c1"), says(f"answer {number}"))

    one = client()
    options: dict[str, Any] = {"cwd": workspace, "tools": [meet], "on_approval": ask, "approval_policy": "untrusted"}
    threads = [one.thread_start(model_client=model(number), **options) for number in range(THREADS)]
    assert len({thread.id for thread in threads}) == THREADS

    def work(number: int) -> str | None:
        stream = threads[number].stream("go")
        for event in stream:
            if number % 4 == 1 and event.type == "turn.started":
                barrier.wait()  # a reader that does not read
        return stream.result.final_response

    with ThreadPoolExecutor(RUNNING) as pool:
        assert list(pool.map(work, range(RUNNING))) == [f"answer {number}" for number in range(RUNNING)]
    assert threads[49].run("x").final_response == "answer 49"


async def test_many_threads_of_one_loop_overlap(own_home: Path, workspace: Path) -> None:
    together = asyncio.Barrier(RUNNING)

    async def meet() -> str:
        "Wait for the others."
        await together.wait()
        return "met"

    async with AsyncSpindle(home=own_home) as client:

        async def one(number: int) -> str | None:
            model = ScriptedModel(calls("meet", {}, "c"), says(f"answer {number}"))
            thread = await client.thread_start(cwd=workspace, tools=[meet], model_client=model)
            return (await thread.run("go")).final_response

        async with asyncio.timeout(40):
            answers = await asyncio.gather(*map(one, range(RUNNING)))
        assert answers == [f"answer {number}" for number in range(RUNNING)]


def test_two_clients_share_nothing_but_the_disk(client: Client, workspace: Path) -> None:
    one, two = client(says("a")), client(calls("exec_command", {"cmd": "true"}, "c1"), says("b"))
    first, second = one.thread_start(cwd=workspace), two.thread_start(cwd=workspace, **FULL)
    assert (first.run("x").final_response, second.run("x").final_response) == ("a", "b")
    one.close()
    assert {thread.id for thread in two.threads.list().data} == {first.id, second.id}
    assert two.thread_resume(first.id).id == first.id


def test_a_tool_that_never_returns_holds_nothing_up(client: Client, workspace: Path) -> None:
    entered, leave = threading.Event(), threading.Event()

    def stuck() -> str:
        "Block."
        entered.set()
        leave.wait(60)
        return "late"

    one = client(calls("stuck", {}, "c1"), says("after"))
    thread = one.thread_start(cwd=workspace, tools=[stuck])
    handle = thread.turn("x")
    assert entered.wait(20)
    handle.interrupt()
    assert handle.run().status == "interrupted" and thread.run("y").final_response == "after"
    leave.set()


def test_closing_while_turns_run_interrupts_them(client: Client, workspace: Path) -> None:
    one = client(model_client=ScriptedModel(default=[waits(600), says("never")]))
    threads = [one.thread_start(cwd=workspace) for _ in range(3)]
    handles = [thread.turn("x") for thread in threads]
    with ThreadPoolExecutor(3) as pool:
        waiting = [pool.submit(handle.run) for handle in handles]
        one.close()
        assert [future.result(20).status for future in waiting] == ["interrupted"] * 3


async def test_a_client_that_is_closed_while_a_thread_opens_leaves_nothing_open(
    own_home: Path, workspace: Path
) -> None:
    from spindle import ThreadClosed

    client = async_client(own_home)
    opening = asyncio.create_task(client.thread_start(cwd=workspace))
    await asyncio.sleep(0)
    await client.close()
    with pytest.raises(ThreadClosed):
        await opening


@pytest.mark.parametrize("to", ["os.kill(os.getpid(), SIGINT)", "signal.pthread_kill(threading.get_ident(), SIGINT)"])
def test_ctrl_c_in_run_stops_the_turn_and_goes_on_up(own_home: Path, workspace: Path, to: str) -> None:
    """Whichever thread the system hands it to: of those of a process, it takes any."""
    done = run_program(
        f"""
        import os, signal, threading, time
        from signal import SIGINT
        from spindle import Spindle
        from spindle.testing import ScriptedModel, calls, says
        def press():
            while not os.path.exists(CWD + "/begun"): time.sleep(0.01)
            {to}
        steps = [calls("exec_command", {{"cmd": "touch begun; sleep 300; touch late"}}, "c1"), says("fine")]
        with Spindle(home=HOME_FOLDER, model_client=ScriptedModel(*steps)) as client:
            thread = client.thread_start(cwd=CWD, sandbox="danger-full-access")
            threading.Thread(target=press).start()
            try: thread.run("x"); print("no interrupt")
            except KeyboardInterrupt: print("interrupted")
            print("turn_aborted" in open(thread.path).read(), thread.run("y").final_response)
            print(os.path.exists(CWD + "/late"))
        """,
        own_home,
        workspace,
    )
    assert done.stdout == "interrupted\nTrue fine\nFalse\n" and done.stderr == ""


@pytest.mark.parametrize("sandbox", ["danger-full-access", "workspace-write"])
def test_nothing_global_is_touched(own_home: Path, workspace: Path, sandbox: str) -> None:
    done = run_program(
        f"""
        import logging, os, resource, signal, sys, threading, glob, subprocess
        from spindle import Spindle
        from spindle.testing import ScriptedModel, calls, says
        def state():
            signals = [signal.getsignal(number) for number in signal.valid_signals()]
            names = [name for name in dir(resource) if name.startswith("RLIMIT_") and name != "RLIMIT_CORE"]
            limits = [resource.getrlimit(getattr(resource, name)) for name in names]
            return (signals, limits, os.getcwd(), dict(os.environ), list(logging.getLogger().handlers), sys.excepthook,
                threading.excepthook, sys.getswitchinterval(), os.umask(os.umask(0)), signal.pthread_sigmask(0, []))
        before = state()
        steps = [calls("exec_command", {{"cmd": "echo noise; echo more >&2; (sleep 30 &)"}}, "c1"), says("answer")]
        with Spindle(home=HOME_FOLDER, model_client=ScriptedModel(*steps)) as client:
            assert client.thread_start(cwd=CWD, sandbox={sandbox!r}).run("x").final_response == "answer"
        assert [a == b for a, b in zip(before, state())] == [True] * len(before), (before, state())
        # Orphans of the program's own children are still init's, not its own.
        pid = int(subprocess.run(["sh", "-c", "sleep 0.2 & echo $!"], stdout=subprocess.PIPE, text=True).stdout)
        children = " ".join(open(name).read() for name in glob.glob("/proc/self/task/*/children")).split()
        assert children == [], children
        """,
        own_home,
        workspace,
    )
    assert done.stdout == "" and done.stderr == ""


def test_a_synchronous_client_is_ready_for_every_thread_at_once(own_home: Path, workspace: Path) -> None:
    """Its loop is started once, though many ask for the first time at once."""
    before = threading.active_count()
    with Spindle(home=own_home, model_client=ScriptedModel(default=says("a"))) as one:
        start = threading.Barrier(8)

        def use(_: int) -> int:
            start.wait()
            one.models()
            return sum(thread.name == "spindle" for thread in threading.enumerate())

        with ThreadPoolExecutor(8) as pool:
            assert set(pool.map(use, range(8))) == {1}
    assert threading.active_count() <= before  # one of an earlier test may have ended meanwhile


def test_a_close_that_a_coroutine_tool_may_not_do_leaves_the_client_to_be_closed_later(
    client: Client, workspace: Path
) -> None:
    refused: list[str] = []

    async def hang_up() -> str:
        "Close the client, from its own loop."
        try:
            one.close()
        except RuntimeError as error:
            refused.append(str(error))
        return "tried"

    one = client(calls("hang_up", {}, "c1"), says("a"), says("b"))
    thread = one.thread_start(cwd=workspace, tools=[hang_up])
    assert thread.run("x").final_response == "a"
    assert "own loop" in refused[0]
    assert thread.run("y").final_response == "b"
    loops = {each for each in threading.enumerate() if each.name == "spindle"}
    one.close()
    assert not all(each.is_alive() for each in loops), "its own thread has ended"
    with client(says("c")).thread_resume(thread.id) as again:
        assert again.run("z").final_response == "c"


def test_a_thread_that_another_client_of_this_process_has_open_is_not_said_to_be_another_process(
    client: Client, workspace: Path
) -> None:
    thread = client(says("a")).thread_start(cwd=workspace)
    thread.run("x")
    with pytest.raises(ThreadLocked, match="open in this process already; close it there first"):
        client(says("b")).thread_resume(thread.id)


async def test_an_asynchronous_client_that_is_forgotten_warns_and_lets_go(own_home: Path, workspace: Path) -> None:
    async def use() -> str:
        client = async_client(own_home, says("a"))
        thread = await client.thread_start(cwd=workspace)
        await thread.run("x")
        return thread.id

    with pytest.warns(ResourceWarning, match="never closed"):
        thread_id = await use()
        gc.collect()
    async with async_client(own_home, says("b")) as other:
        for _ in range(200):
            await asyncio.sleep(0.01)
            try:
                thread = await other.thread_resume(thread_id)
            except ThreadLocked:
                continue
            assert (await thread.run("y")).final_response == "b"
            return
    raise AssertionError("the record is still locked")
