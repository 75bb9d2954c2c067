"""Ordinary work with processes, signals and terminals."""

from __future__ import annotations

import asyncio
import concurrent.futures
import ctypes
import multiprocessing
import os
import pty
import resource
import select
import signal
import subprocess
import sys
import threading
import time
from multiprocessing import shared_memory

from escape.case import MODES, Place, work
from escape.cases.work_files import sh
from escape.kernel import buffer, call


def double(number: int) -> int:
    return 2 * number


def python(p: Place, program: str, *words: str) -> str:
    """Run a program of its own, for what cannot be done in a forked child of the runner."""
    with open("program.py", "w") as file:
        file.write(program)
    env = {**os.environ, "PYTHONPATH": p.python_path, "PYTHONWARNINGS": "ignore"}
    done = subprocess.run([p.python, "program.py", *words], capture_output=True, text=True, timeout=40, env=env)
    assert done.returncode == 0, f"exit {done.returncode}: {done.stderr[-600:]}"
    return done.stdout


POOL = """
import multiprocessing as m, sys
def double(n): return 2 * n
if __name__ == "__main__":
    m.set_start_method(sys.argv[1])
    with m.Pool(2) as pool: assert pool.map(double, range(50)) == [2 * n for n in range(50)]
    q = m.Queue(); child = m.Process(target=q.put, args=("hi",)); child.start()
    assert q.get(timeout=20) == "hi"; child.join()
"""


@work()
def shares_work_among_forked_processes(p: Place) -> None:
    python(p, POOL, "fork")


@work()
def shares_work_among_spawned_processes(p: Place) -> None:
    python(p, POOL, "spawn")


@work(is_slow=True)
def shares_work_among_processes_of_a_fork_server(p: Place) -> None:
    python(p, POOL, "forkserver")


@work()
def shares_objects_through_a_manager(p: Place) -> None:
    with multiprocessing.Manager() as manager:
        shared = manager.dict()
        child = multiprocessing.Process(target=shared.update, args=({"a": 1},))
        child.start()
        child.join()
        assert dict(shared) == {"a": 1}


@work()
def shares_memory_between_processes(p: Place) -> None:
    block = shared_memory.SharedMemory(create=True, size=4096)
    try:
        if os.fork() == 0:
            memoryview(block.buf or b"")[:2] = b"hi"
            os._exit(0)
        os.wait()
        assert bytes(block.buf or b"")[:2] == b"hi"
    finally:
        block.close()
        block.unlink()


@work(modes=MODES)
def waits_for_semaphores_and_barriers(p: Place) -> None:
    lock, event = multiprocessing.Semaphore(0), multiprocessing.Event()
    if os.fork() == 0:
        lock.release()
        event.set()
        os._exit(0)
    assert lock.acquire(timeout=10) and event.wait(10)
    os.wait()


@work()
def uses_executors(p: Place) -> None:
    with concurrent.futures.ProcessPoolExecutor(2) as pool:
        assert list(pool.map(double, range(9))) == list(range(0, 18, 2))
    with concurrent.futures.ThreadPoolExecutor(8) as pool:
        assert sum(pool.map(double, range(100))) == 9900


@work(modes=MODES)
def runs_programs_from_an_event_loop(p: Place) -> None:
    async def run() -> bytes:
        process = await asyncio.create_subprocess_exec("cat", stdin=-1, stdout=-1)
        return (await process.communicate(b"through"))[0]

    assert asyncio.run(run()) == b"through"


@work(modes=MODES)
def starts_programs_in_every_way(p: Place) -> None:
    pid = os.posix_spawn("/bin/true", ["true"], {})
    assert os.waitpid(pid, 0)[1] == 0
    assert subprocess.run(["/bin/false"], start_new_session=True).returncode == 1
    assert subprocess.run(["sh", "-c", "kill -TERM $$"]).returncode == -signal.SIGTERM
    assert os.system("exit 3") == 3 << 8


@work(modes=MODES)
def runs_many_short_programs(p: Place) -> None:
    sh("for i in $(seq 150); do /bin/true; done; seq 40 | xargs -P 8 -n 1 /bin/echo >/dev/null")


@work(modes=MODES)
def starts_many_threads(p: Place) -> None:
    barrier = threading.Barrier(200)
    threads = [threading.Thread(target=barrier.wait) for _ in range(200)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


@work(modes=MODES)
def signals_its_own_processes(p: Place) -> None:
    sh("sleep 50 & kill -STOP $!; kill -CONT $!; kill $!; wait $! ; test $? = 143")
    got: list[int] = []
    signal.signal(signal.SIGUSR1, lambda number, _: got.append(number))
    os.kill(os.getpid(), signal.SIGUSR1)
    signal.setitimer(signal.ITIMER_REAL, 0.01)
    signal.signal(signal.SIGALRM, lambda number, _: got.append(number))
    time.sleep(0.05)
    assert got[0] == signal.SIGUSR1


@work(modes=MODES)
def controls_jobs_in_a_script(p: Place) -> None:
    sh("set -m; sleep 50 & sleep 50 & kill %1 %2; wait; jobs; (sleep 0.05; exit 7) & wait $!; test $? = 7")


@work(modes=MODES)
def controls_its_children_through_descriptors(p: Place) -> None:
    child = subprocess.Popen(["sleep", "50"])
    fd = os.pidfd_open(child.pid)
    signal.pidfd_send_signal(fd, signal.SIGTERM)
    select.select([fd], [], [], 5)
    assert child.wait() == -signal.SIGTERM


@work(modes=MODES)
def limits_its_own_resources(p: Place) -> None:
    resource.setrlimit(resource.RLIMIT_NOFILE, (128, resource.getrlimit(resource.RLIMIT_NOFILE)[1]))
    os.nice(5)
    os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
    sh("ulimit -t 100; ulimit -v 8000000; timeout 5 nice -n 3 true; nohup true >/dev/null 2>&1; ionice -c 3 true")


@work(modes=MODES)
def waits_with_the_files_of_the_kernel(p: Place) -> None:
    libc = ctypes.CDLL(None)
    poll = select.epoll()
    event = libc.eventfd(0, 0)
    timer = libc.timerfd_create(1, 0)
    mask = (ctypes.c_ulong * 16)(1 << (signal.SIGUSR2 - 1))
    signals = libc.signalfd(-1, mask, 0)
    assert min(event, timer, signals) >= 0
    for fd in (event, timer, signals):
        poll.register(fd, select.EPOLLIN)
    libc.eventfd_write(event, 1)
    assert poll.poll(1)[0][0] == event


@work(modes=MODES)
def sees_its_own_processes(p: Place) -> None:
    assert str(os.getpid()) in sh("ps -e -o pid,args; pgrep sh; top -b -n 1 >/dev/null; uptime >/dev/null").split()


@work(modes=MODES)
def knows_who_and_where_it_is(p: Place) -> None:
    assert sh("id -u").strip() == str(os.getuid())
    sh("uname -a; hostname; date; getent passwd root; getent hosts localhost; whoami || true; pwd; tty || true; locale")


@work(modes=MODES)
def knows_the_time_zones(p: Place) -> None:
    assert sh("TZ=Asia/Tokyo date +%z").strip() == "+0900"
    import zoneinfo

    assert zoneinfo.ZoneInfo("Europe/Berlin").key


@work(modes=MODES)
def prints_a_backtrace_when_it_crashes(p: Place) -> None:
    program = "import faulthandler, ctypes; faulthandler.enable(); ctypes.string_at(0)"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert done.returncode == -signal.SIGSEGV and "string_at" in done.stderr


@work(modes=MODES)
def confines_itself_further_with_a_filter(p: Place) -> None:
    """Browsers, sandboxes of test runners and systemd's helpers do."""
    libc = ctypes.CDLL(None, use_errno=True)
    allow = buffer(bytes.fromhex("06000000 0000ff7f"))
    program = (ctypes.c_size_t * 2)(1, ctypes.addressof(allow))
    assert libc.prctl(38, 1, 0, 0, 0) == 0 and libc.prctl(22, 2, program, 0, 0) == 0, ctypes.get_errno()


@work(modes=MODES)
def confines_itself_further_with_landlock(p: Place) -> None:
    ctypes.CDLL(None).prctl(38, 1, 0, 0, 0)
    rules = call("landlock_create_ruleset", (ctypes.c_uint64 * 1)(1 << 1), 8, 0)
    call("landlock_restrict_self", rules, 0)


@work(modes=MODES)
def locks_and_advises_memory(p: Place) -> None:
    libc = ctypes.CDLL(None)
    memory = ctypes.create_string_buffer(1 << 20)
    libc.madvise(ctypes.addressof(memory) & ~4095, 4096, 4)
    libc.mlock(memory, 4096)
    assert len(bytes(memory)) == 1 << 20


@work(modes=MODES)
def reads_a_closed_input(p: Place) -> None:
    assert sh("cat; read x || echo none") == "none\n"


# ---- terminals ------------------------------------------------------------------------------------------


@work(modes=MODES)
def opens_a_terminal_of_its_own(p: Place) -> None:
    pid, fd = pty.fork()
    if pid == 0:
        os.execvp("sh", ["sh", "-c", "tty; stty size; echo x >/dev/tty; test -t 1 && echo terminal"])
    said = b""
    while True:
        try:
            if not (data := os.read(fd, 4096)):
                break
        except OSError:
            break
        said += data
    os.waitpid(pid, 0)
    assert b"terminal" in said and b"/dev/pts/" in said, said


@work("script", modes=MODES)
def records_a_terminal(p: Place) -> None:
    assert "terminal" in sh("script -qec 'test -t 0 && echo terminal' /dev/null </dev/null")


@work("less", modes=MODES)
def pages_in_a_terminal(p: Place) -> None:
    sh("TERM=xterm script -qec 'less -E -X -F /etc/hostname' /dev/null </dev/null; less /etc/hostname | cat >/dev/null")


@work("vi")
def edits_with_vi(p: Place) -> None:
    sh("echo one >x; TERM=dumb vi -es -u NONE -c '%s/one/two/' -c 'wq' x </dev/null; grep -q two x")


@work("tmux")
def keeps_a_session_in_tmux(p: Place) -> None:
    sh(
        "unset TMUX; export TERM=xterm TMUX_TMPDIR=$PWD; tmux -L t -f /dev/null new -d 'echo in-tmux >out; sleep 20';"
        "for i in $(seq 100); do test -s out && break; sleep 0.05; done; tmux -L t ls; tmux -L t kill-server;"
        "grep in-tmux out"
    )


@work("bash", is_slow=True)
def controls_jobs_in_a_terminal(p: Place) -> None:
    pid, fd = pty.fork()
    if pid == 0:
        os.execvp("bash", ["bash", "--norc", "--noprofile", "-i"])
    for line in (b"sleep 50 &\n", b"jobs\n", b"fg\n", b"\x1a", b"kill %1\n", b"sleep 0.1; echo do''ne $?\n", b"exit\n"):
        os.write(fd, line)
        time.sleep(0.1)
    said = b""
    while b"done 0" not in said:
        try:
            said += os.read(fd, 4096)
        except OSError:
            break
    os.close(fd)
    os.kill(pid, signal.SIGKILL)
    os.waitpid(pid, 0)
    assert b"done 0" in said and b"no job control" not in said and b"Stopped" in said, said


@work(modes=MODES)
def exchanges_messages_through_a_posix_queue(p: Place) -> None:
    libc = ctypes.CDLL(None, use_errno=True)
    name = f"/{p.stamp}.own".encode()
    queue = libc.mq_open(name, os.O_RDWR | os.O_CREAT, 0o600, None)
    assert queue >= 0, os.strerror(ctypes.get_errno())
    try:
        assert libc.mq_send(queue, b"hello", 5, 0) == 0
        room = ctypes.create_string_buffer(1 << 16)
        assert libc.mq_receive(queue, room, ctypes.c_size_t(len(room)), None) == 5 and room.value == b"hello"
    finally:
        libc.mq_unlink(name)
