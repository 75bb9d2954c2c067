"""The program between the launcher and the command: what it is made of, what it asks for, what it lets through."""

from __future__ import annotations

import os
import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from spindle.process.sandbox import bubblewrap_here, gate
from spindle.process.table import Command, ProcessTable
from spindle.protocol.settings import SandboxPolicy

WRITE = SandboxPolicy(mode="workspace-write", exclude_slash_tmp=True)
READ = SandboxPolicy(mode="read-only")
MODES = pytest.mark.parametrize("policy", [READ, WRITE], ids=["read-only", "write"])
needs_gate = pytest.mark.skipif(not gate.is_known(), reason="this kernel has no Landlock")

ENOENT, EACCES, ENOEXEC = 2, 13, 8
RULESET, FOLDER = 7, 9


class Machine:
    """A processor that runs the program, and a kernel that writes down what it is asked."""

    def __init__(self, arch: str, answers: dict[str, int | list[int]]) -> None:
        unicorn = pytest.importorskip("unicorn")
        from unicorn import arm64_const, x86_const

        self.asked: list[tuple[Any, ...]] = []
        self._answers = {name: value if isinstance(value, list) else [value] for name, value in answers.items()}
        x86 = arch == "x86_64"
        self._uc = unicorn.Uc(*((4, 8) if x86 else (2, 0)))
        c = x86_const if x86 else arm64_const
        prefix = "UC_X86_REG_" if x86 else "UC_ARM64_REG_"
        names = ("RAX", "RDI", "RSI", "RDX", "R10", "RSP") if x86 else ("X8", "X0", "X1", "X2", "X3", "SP")
        self._number, *self._arguments, self._stack = (getattr(c, prefix + name) for name in names)
        self._result = getattr(c, prefix + ("RAX" if x86 else "X0"))
        numbers = (444, 445, 446, 2, 3, 59, 1, 231) if x86 else (444, 445, 446, 56, 57, 221, 64, 94)
        self._names = dict(
            zip(numbers, ("create", "grant", "enter", "open", "close", "exec", "write", "exit"), strict=True)
        )
        self._is_x86 = x86
        if x86:
            self._uc.hook_add(
                unicorn.UC_HOOK_INSN, lambda uc, _: self._call(), None, 1, 0, x86_const.UC_X86_INS_SYSCALL
            )
        else:
            self._uc.hook_add(unicorn.UC_HOOK_INTR, lambda uc, number, _: self._call())

    def run(self, file: bytes, argv: list[bytes]) -> list[tuple[Any, ...]]:
        entry, _ = struct.unpack_from("<QQ", file, 24)
        kind, _, _, base, _, size, _, _ = struct.unpack_from("<IIQQQQQQ", file, 64)
        assert (file[:4], kind, size) == (b"\x7fELF", 1, len(file))
        self._uc.mem_map(base, 1 << 16)
        self._uc.mem_write(base, file)
        self._uc.mem_map(0x10000000, 1 << 16)
        at = 0x10008000
        pointers: list[int] = []
        for word in (*argv, b"NAME=value"):
            self._uc.mem_write(at, word + b"\0")
            pointers.append(at)
            at += len(word) + 1
        words = [len(argv), *pointers[:-1], 0, pointers[-1], 0]
        self._uc.mem_write(0x10004000, struct.pack(f"<{len(words)}Q", *words))
        self._uc.reg_write(self._stack, 0x10004000)
        self._uc.emu_start(entry, 0, count=10_000)
        return self.asked

    def _call(self) -> None:
        name = self._names[self._uc.reg_read(self._number)]
        given = [self._uc.reg_read(register) for register in self._arguments]
        self.asked.append((name, *getattr(self, f"_{name}")(*given)))
        answers = self._answers.get(name, [0])
        answer = answers.pop(0) if len(answers) > 1 else answers[0]
        self._uc.reg_write(self._result, answer & (1 << 64) - 1)
        if name == "exit" or (name == "exec" and answer == 0):
            self._uc.emu_stop()

    def _create(self, attributes: int, size: int, flags: int, _: int) -> tuple[Any, ...]:
        return (self._word(attributes), size, flags)

    def _open(self, first: int, second: int, third: int, _: int) -> tuple[Any, ...]:
        path, flags = (first, second) if self._is_x86 else (second, third)
        return (self._text(path), flags)

    def _grant(self, ruleset: int, kind: int, rule: int, flags: int) -> tuple[Any, ...]:
        return (ruleset, kind, *struct.unpack("<QI", self._uc.mem_read(rule, 12)), flags)

    def _enter(self, ruleset: int, flags: int, *_: int) -> tuple[Any, ...]:
        return (ruleset, flags)

    def _close(self, fd: int, *_: int) -> tuple[Any, ...]:
        return (fd,)

    def _exec(self, path: int, argv: int, env: int, _: int) -> tuple[Any, ...]:
        return (self._text(path), self._list(argv), self._list(env))

    def _write(self, fd: int, start: int, size: int, _: int) -> tuple[Any, ...]:
        return (fd, bytes(self._uc.mem_read(start, size)))

    def _exit(self, code: int, *_: int) -> tuple[Any, ...]:
        return (code,)

    def _word(self, at: int) -> int:
        return struct.unpack("<Q", self._uc.mem_read(at, 8))[0]

    def _text(self, at: int) -> bytes:
        return bytes(self._uc.mem_read(at, 256)).split(b"\0")[0]

    def _list(self, at: int) -> list[bytes]:
        found: list[bytes] = []
        while pointer := self._word(at):
            found.append(self._text(pointer))
            at += 8
        return found


@pytest.fixture(params=["x86_64", "aarch64"])
def arch(request: pytest.FixtureRequest) -> str:
    return request.param


def test_the_bytes_are_the_source_assembled(arch: str) -> None:
    keystone = pytest.importorskip("keystone")
    kind = (keystone.KS_ARCH_X86, keystone.KS_MODE_64) if arch == "x86_64" else (keystone.KS_ARCH_ARM64, 0)
    code, _ = keystone.Ks(*kind).asm(gate.SOURCE[arch].encode())
    assert bytes(code) == gate._CODE[arch]


OK = {"create": RULESET, "open": FOLDER}
ARGV = [b"/proc/self/fd/5", b"/bin/ls", b"-l"]


def test_it_gives_up_writing_and_becomes_the_command(arch: str) -> None:
    asked = Machine(arch, OK).run(gate.program(arch, ("/w",), 5), ARGV)
    granted = [
        (b"/", gate.REFER),
        *((path, gate.WRITE_FILE) for path in (b"/dev", b"/dev/mqueue", b"/proc", b"/proc/self/fd/0")),
        *((path, gate.WRITE_FILE) for path in (b"/proc/self/fd/1", b"/proc/self/fd/2", b"/w")),
    ]
    opening = [
        call
        for path, rights in granted
        for call in (
            ("open", path, os.O_PATH | os.O_CLOEXEC),
            ("grant", RULESET, 1, rights, FOLDER, 0),
            ("close", FOLDER),
        )
    ]
    assert asked == [
        ("create", gate.WRITE_FILE | gate.REFER, 8, 0),
        *opening,
        ("enter", RULESET, 0),
        ("close", RULESET),
        ("close", 5),
        ("exec", b"/bin/ls", [b"/bin/ls", b"-l"], [b"NAME=value"]),
    ]


def test_what_is_not_there_is_not_granted(arch: str) -> None:
    answers: dict[str, int | list[int]] = {"create": RULESET, "open": [-ENOENT, FOLDER, -EACCES]}
    asked = Machine(arch, answers).run(gate.program(arch, (), 5), ARGV)
    assert [call[0] for call in asked].count("grant") == 1
    assert asked[-1][0] == "exec"


@pytest.mark.parametrize("step", ["create", "enter"])
def test_without_the_restriction_nothing_is_run(arch: str, step: str) -> None:
    asked = Machine(arch, {**OK, step: -EACCES}).run(gate.program(arch, (), 5), ARGV)
    assert asked[-2:] == [("write", 2, b"spindle: the program cannot be executed\n"), ("exit", 126)]
    assert not [call for call in asked if call[0] == "exec"]


def test_a_script_without_a_first_line_is_for_the_shell(arch: str) -> None:
    asked = Machine(arch, {**OK, "exec": [-ENOEXEC, 0]}).run(gate.program(arch, (), 5), ARGV)
    assert asked[-1] == ("exec", b"/bin/sh", [b"/bin/sh", b"/bin/ls", b"-l"], [b"NAME=value"])


@pytest.mark.parametrize(
    ("error", "text", "code"),
    [
        (ENOENT, b"spindle: there is no such program\n", 127),
        (EACCES, b"spindle: the program cannot be executed\n", 126),
    ],
)
def test_a_command_that_cannot_be_executed_is_owned_up_to(arch: str, error: int, text: bytes, code: int) -> None:
    asked = Machine(arch, {**OK, "exec": -error}).run(gate.program(arch, (), 5), ARGV)
    assert asked[-2:] == [("write", 2, text), ("exit", code)]


# ---- for real ------------------------------------------------------------------------------------------


async def said(table: ProcessTable, command: Command) -> str:
    return (await table.run(command, timeout_s=30)).output.peek().text().strip()


def nothing_to_read(reader: int) -> bool:
    try:
        return os.read(reader, 9) == b""
    except BlockingIOError:
        return True


@needs_gate
@MODES
async def test_a_pipe_of_a_program_outside_cannot_be_written(
    policy: SandboxPolicy, table: ProcessTable, command: Callable[..., Command], tmp_path: Path
) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    reader = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    try:
        for script in (f"echo x > {pipe}", f"echo x >> {pipe}", f"exec 3<> {pipe}; echo x >&3"):
            assert await said(table, command(script)) == ""
            assert os.read(reader, 9) == b"x\n"
            assert "denied" in await said(table, command(script, policy))
            assert nothing_to_read(reader)
    finally:
        os.close(reader)


@needs_gate
@MODES
async def test_its_own_streams_devices_and_processes_can_be_written(
    policy: SandboxPolicy, table: ProcessTable, command: Callable[..., Command]
) -> None:
    script = (
        "echo a > /dev/stdout; echo b > /dev/stderr; echo c > /proc/self/fd/1; echo > /dev/null; echo d > /dev/shm/d"
    )
    assert await said(table, command(f"{script}; echo e > /proc/self/comm && cat /dev/shm/d", policy)) == "a\nb\nc\nd"


@needs_gate
@MODES
async def test_a_terminal_can_be_written_by_its_name(
    policy: SandboxPolicy, table: ProcessTable, command: Callable[..., Command]
) -> None:
    asked = command("echo a > /dev/stdout; echo b > /dev/tty; echo c > /dev/stderr", policy)
    live = await table.start(
        Command(argv=asked.argv, cwd=asked.cwd, boundary=asked.boundary, tty=True),
        session_id=table.reserve_id(),
        call_id="c",
        on_output=lambda _: None,
        on_exit=lambda _: None,
    )
    assert await live.wait(20) == 0
    assert live.transcript.peek().text() == "a\r\nb\r\nc\r\n"


@needs_gate
async def test_files_are_renamed_between_folders(
    table: ProcessTable, command: Callable[..., Command], folder: Path
) -> None:
    script = "mkdir -p a/b c; echo x > a/b/f; mv a/b/f c/g; ln c/g a/h; mv a/b c/; cat a/h; ls -d c/*"
    assert await said(table, command(script, WRITE)) == "x\nc/b\nc/g"


@needs_gate
async def test_it_leaves_nothing_open(table: ProcessTable, command: Callable[..., Command]) -> None:
    assert await said(table, command("ls -l /proc/self/fd | grep -c -e gate -e landlock", WRITE)) == "0"


@needs_gate
async def test_programs_are_found_on_the_path_and_never_in_the_working_folder(
    table: ProcessTable, command: Callable[..., Command], folder: Path
) -> None:
    plain = command("true", WRITE)
    (folder / "ours").write_text("echo from the folder\n")
    (folder / "ours").chmod(0o755)

    def words(*argv: str) -> Command:
        return Command(argv=list(argv), cwd=plain.cwd, boundary=plain.boundary)

    assert await said(table, words("echo", "found")) == "found"
    assert await said(table, words("./ours")) == "from the folder"
    with pytest.raises(FileNotFoundError):
        await said(table, words("ours"))


@needs_gate
def test_where_it_cannot_be_executed_the_sandbox_does_without(monkeypatch: pytest.MonkeyPatch) -> None:
    assert bubblewrap_here.problem() is None and bubblewrap_here.found().closes_pipes
    monkeypatch.setattr(bubblewrap_here.Here, "answer", None)
    monkeypatch.setattr(bubblewrap_here.Here, "has_gate", True)
    monkeypatch.setattr(gate, "through", lambda fd, argv: ["/proc/self/fd/99", *argv])
    assert bubblewrap_here.problem() is None
    assert not bubblewrap_here.found().closes_pipes
