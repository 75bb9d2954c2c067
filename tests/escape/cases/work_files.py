"""Ordinary work with files."""

from __future__ import annotations

import ctypes
import fcntl
import mmap
import os
import shutil
import socket
import stat
import struct
import subprocess
import tempfile
import threading

from escape.case import MODES, Place, work


def sh(script: str, **how: object) -> str:
    """What the script printed; its errors are in the exception when it fails."""
    done = subprocess.run(["bash", "-c", script], capture_output=True, text=True, timeout=40, **how)  # pyright: ignore
    assert done.returncode == 0, f"exit {done.returncode}: {done.stderr[-400:]}"
    return done.stdout


@work()
def writes_reads_renames_and_removes_files(p: Place) -> None:
    sh("echo a >x; echo b >>x; mv x y; cp -p y z; cmp y z; rm y; test ! -e y; mkdir -p d/e/f; rmdir d/e/f; rm -r d")


@work()
def makes_hard_and_symbolic_links(p: Place) -> None:
    sh("echo a >x; ln x hard; ln -s x soft; echo b >>hard; test \"$(cat soft)\" = $'a\\nb';ln -sfn . here; ls -l here/")


@work()
def changes_modes_and_times(p: Place) -> None:
    sh("touch x; chmod 755 x; chmod u-w,g+s x; touch -d '2001-02-03' x; test $(stat -c %Y x) -lt 1000000000")


@work()
def sets_extended_attributes(p: Place) -> None:
    with open("x", "w") as file:
        file.write("x")
    os.setxattr("x", "user.note", b"hi")
    assert os.getxattr("x", "user.note") == b"hi"


@work()
def writes_a_large_file(p: Place) -> None:
    sh("head -c 20000000 /dev/zero >big; test $(stat -c %s big) = 20000000; rm big")


@work()
def writes_a_sparse_file(p: Place) -> None:
    sh(
        "truncate -s 4G sparse; test $(stat -c %b sparse) -lt 100; echo end >>sparse;"
        "fallocate -l 1M solid; rm sparse solid"
    )


@work()
def maps_a_file_into_memory(p: Place) -> None:
    with open("mapped", "w+b") as file:
        file.truncate(8192)
        with mmap.mmap(file.fileno(), 8192) as memory:
            memory[4096:4101] = b"hello"
            memory.flush()
        file.seek(4096)
        assert file.read(5) == b"hello"


@work()
def locks_files_between_processes(p: Place) -> None:
    sh("flock lock true; flock -n lock sh -c '! flock -n lock true'")
    with open("posix", "w") as file:
        fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB)


@work()
def watches_a_folder_for_changes(p: Place) -> None:
    libc = ctypes.CDLL(None)
    fd = libc.inotify_init1(0)
    assert fd >= 0 and libc.inotify_add_watch(fd, b".", 0x100) >= 0
    open("seen", "w").close()
    assert b"seen" in os.read(fd, 4096)


@work()
def passes_data_through_a_named_pipe(p: Place) -> None:
    assert sh("mkfifo pipe; (echo through >pipe) & cat pipe") == "through\n"


@work()
def uses_temporary_files(p: Place) -> None:
    with tempfile.NamedTemporaryFile() as one, tempfile.TemporaryDirectory() as folder:
        one.write(b"x")
        shutil.copy(one.name, f"{folder}/copy")
    sh("f=$(mktemp) && g=$(mktemp -d) && h=$(mktemp /tmp/xXXXXXX) && echo x >$f && touch $g/x && rm -r $f $g $h")


@work()
def uses_the_temporary_folder_of_its_environment(p: Place) -> None:
    assert tempfile.gettempdir() == os.environ["TMPDIR"]
    fd = os.open(os.environ["TMPDIR"], os.O_TMPFILE | os.O_RDWR)
    os.write(fd, b"nameless")


@work()
def writes_below_an_added_root(p: Place) -> None:
    sh(f"mkdir -p {p.extra}/sub; echo x >{p.extra}/sub/file; rm -r {p.extra}/sub")


@work()
def renames_over_a_file_and_exchanges_two(p: Place) -> None:
    from escape.kernel import exchange

    for name in ("one", "two"):
        with open(name, "w") as file:
            file.write(name)
    exchange("one", "two")
    os.replace("one", "two")
    with open("two") as file:
        assert file.read() == "two"


@work()
def copies_with_the_help_of_the_kernel(p: Place) -> None:
    with open("a", "wb") as file:
        file.write(b"0123456789" * 1000)
    with open("a", "rb") as source, open("b", "wb") as target:
        assert os.copy_file_range(source.fileno(), target.fileno(), 5000) == 5000
        assert os.sendfile(target.fileno(), source.fileno(), 5000, 5000) == 5000


@work()
def names_files_in_every_language(p: Place) -> None:
    for name in ("näme mit blank", "名前", "a" * 255, "-rf", "new\nline", ".hidden", "émoji-🎉"):
        with open(f"./{name}", "w") as file:
            file.write(name)
    assert len(os.listdir(".")) == 7


@work()
def makes_files_whose_names_begin_like_protected_ones(p: Place) -> None:
    sh(
        f"cd {p.ws}; echo x >.gitignore; echo x >.gitattributes; mkdir -p .github/workflows .gitlab .config;"
        "echo x >.env; echo x >.github/workflows/ci.yml; mkdir -p .codex-notes .agents.d;"
        "mv .gitignore .gitignore2; rm -r .gitignore2 .github"
    )


@work()
def unpacks_archives(p: Place) -> None:
    sh("mkdir -p t/d; echo x >t/d/f; ln -s d/f t/l; tar czf t.tgz t; rm -r t; tar xzf t.tgz;test -L t/l; gzip -k t/d/f")


@work("zip", "unzip")
def zips_and_unzips(p: Place) -> None:
    sh("mkdir d; seq 1000 >d/f; zip -qr x.zip d; rm -r d; unzip -q x.zip; test $(wc -l <d/f) = 1000")


@work()
def changes_files_in_place(p: Place) -> None:
    sh(
        "seq 5 >x; sed -i 's/3/three/' x; perl -pi -e 's/4/four/' x; grep -q three x;"
        "printf '%s\\n' a b >y; sort -o y -r y"
    )


@work()
def removes_a_deep_tree(p: Place) -> None:
    sh("mkdir -p $(seq -s/ 1 60); touch $(seq -s/ 1 60)/f; find . -name f -delete; rm -rf 1")


@work()
def makes_many_files(p: Place) -> None:
    for number in range(300):
        with open(f"f{number}", "w") as file:
            file.write("x")
    assert len(os.listdir(".")) == 300


@work(modes=MODES)
def reads_everything_outside(p: Place) -> None:
    sh(f"cat /etc/passwd /etc/hosts /proc/cpuinfo >/dev/null; ls /usr/lib /var /home >/dev/null; cat {p.home}/.bashrc")
    with open(f"{p.outside}/host.txt") if os.path.exists(f"{p.outside}/host.txt") else open("/etc/passwd") as file:
        file.read()


@work(modes=MODES)
def looks_at_the_repository(p: Place) -> None:
    sh(f"cat {p.ws}/.git/HEAD {p.ws}/.codex/config.toml {p.ws}/.vscode/tasks.json {p.ws}/.envrc; ls -la {p.ws}/.git")


@work(modes=MODES)
def uses_the_small_devices(p: Place) -> None:
    sh(
        "head -c 8 /dev/zero | wc -c; head -c 8 /dev/urandom >/dev/null; head -c 8 /dev/random >/dev/null;"
        "echo x >/dev/null"
    )
    done = subprocess.run("echo x >/dev/full", shell=True, capture_output=True, text=True)
    assert done.returncode != 0, "a full device took it"
    assert (
        sh("echo through | cat /dev/stdin; cat <(echo substituted) /dev/fd/3 3<<<herestring")
        == "through\nsubstituted\nherestring\n"
    )


@work(modes=MODES)
def lists_its_descriptors(p: Place) -> None:
    assert "0" in sh("ls -l /proc/self/fd").split()


@work(modes=MODES)
def asks_about_disks_and_memory(p: Place) -> None:
    sh("df -h . / >/dev/null; du -s /etc/hostname >/dev/null; free >/dev/null || cat /proc/meminfo >/dev/null; nproc")
    assert os.statvfs(p.ws).f_bavail > 0


@work()
def shares_memory_by_name(p: Place) -> None:
    with open("/dev/shm/spindle-work", "wb+") as file:
        file.truncate(4096)
        with mmap.mmap(file.fileno(), 4096) as memory:
            memory[:5] = b"hello"
    os.unlink("/dev/shm/spindle-work")


@work(modes=MODES)
def keeps_a_file_in_memory(p: Place) -> None:
    fd = os.memfd_create("work", os.MFD_ALLOW_SEALING)
    os.write(fd, b"x" * 5000)
    fcntl.fcntl(fd, 1033, 8)  # no more writing
    assert os.fstat(fd).st_size == 5000


@work()
def runs_a_program_from_the_workspace_and_from_slash_tmp(p: Place) -> None:
    for path in (os.path.abspath("program"), f"{p.slash_tmp}/program"):
        with open(path, "w") as file:
            file.write("#!/bin/sh\necho ran\n")
        os.chmod(path, 0o755)
        assert subprocess.check_output([path], text=True) == "ran\n"


@work()
def binds_and_removes_a_socket_file(p: Place) -> None:
    with socket.socket(socket.AF_UNIX) as one:
        one.bind("s.sock")
    assert stat.S_ISSOCK(os.stat("s.sock").st_mode)
    os.unlink("s.sock")


@work()
def writes_from_many_threads(p: Place) -> None:
    def write(number: int) -> None:
        with open(f"t{number}", "w") as file:
            file.write(struct.pack("I", number).hex())

    threads = [threading.Thread(target=write, args=(number,)) for number in range(50)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(os.listdir(".")) == 50
