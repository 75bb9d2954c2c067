"""The one list of programs that start other programs: for grants, rules and danger alike.

`wrappers.WRAPPERS` are those whose options we know, so that what they run can be read. Of all others, here, we know no
more than that what they run begins at some word of theirs, or stands in one word as a script.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Sequence

from spindle.policy.wrappers import WRAPPERS, unwrapped

_LAUNCHERS = """
alias apptainer arch at authbind autoexpect autossh bash_unit batch bpftrace bsub bugpoint bwrap byobu capsh catatonit
catchsegv cgexec choom chpst chronic chrt cpulimit crontab cset daemon daemonize dbus-launch dbus-run-session debconf
debconf-apt-progress detach direnv distrobox dtach dtruss dumb-init dvtm abduco eatmydata entr envchain envdir
envuidgid execlineb expect fakechroot fakeroot fakeroot-ng fakeroot-sysv fakeroot-tcp faketime firejail flatpak
flatpak-spawn flock foreman forever fstab-decode gamemoderun gdb gdbserver gksu gksudo gosu gprofng gtimeout gtime
heaptrack honcho hyperfine ifne ip jexec kdesu kdesudo kstart ksu ktrace lckdo lldb lockf logsave logrotate ltrace
luit lxc-attach lxc-execute machinectl memusage mispipe mosh mpiexec mpirun orterun msgexec msgfilter mutrace newgrp
nocache nocorrect noglob nodemon nsenter numactl nvprof ncu nsys op optirun pamexec primusrun vglrun parallel pee perf
pexec pipexec pkexec pkgx pm2 prlimit proot proxychains proxychains4 prun pssh parallel-ssh pdsh clush dsh mussh cssh
pueue repeat retry rlwrap rr run-one run-one-constantly run-one-until-failure run-one-until-success run-this-one
run-parts run0 runas runcon runlim runsv runsvdir runuser s6-envdir s6-setsid s6-setuidgid s6-softlimit s6-svscan
salloc sbatch srun sandbox-exec schedtool schroot screen script sem setarch setlock setpriv setuidgid sg singularity
slattach socat softlimit sops sotruss spindle codex ssh ssh-agent sshpass start-stop-daemon stap strace su su-exec
sudoedit supervise svscan switch_root pivot_root systemd-cat systemd-inhibit systemd-nspawn systemd-run
systemd-socket-activate taskset tcpserver tcpsvd timelimit tini tmate tmux toolbox torify torsocks trap trickle tsocks
tsp ttyd uftrace unbuffer unshare uwsgi valgrind vidir vipe watch watchexec watchman-make watchmedo wine wine64 winpty
with-contenv xinit startx xvfb-run xwfb-run xterm lxterm uxterm rxvt urxvt gnome-terminal konsole alacritty kitty foot
st xfce4-terminal terminator wezterm zellij zargs aws-vault chamber consul-template coverage doppler dotenv dotenvx
env-cmd envconsul infisical teller cross-env cross-env-shell concurrently npm-run-all run-s run-p onchange chokidar
start-server-and-test wait-on guard rerun cargo-watch bacon air reflex modd gow uvx npx pnpx bunx pipx nix-shell fzf
peco sk percol multitail anacron box64 box86 muvm krunvm linux32 linux64 i386 i486 i586 i686 x86_64 ia64 ppc ppc32
ppc64 ppc64le s390 s390x sparc sparc64 mips mips64 parisc alpha arm armh aarch64 uname26 scalene py-spy memray
viztracer kernprof pyinstrument austin hwloc-bind likwid-pin likwid-perfctr likwid-mpirun vtune bats prove runtest
ansible ansible-console ansible-playbook salt salt-call salt-ssh fab knife act wsl xpanes tclkit rustup-init
inotify-hookable incrond fcron setns ld.so libtool compgen complete mapfile readarray jobs fc spawn
"""
LAUNCHERS = frozenset(_LAUNCHERS.split())
"""Programs whose options we do not know: what they run may begin at any of their words, or stand in one word."""

RUN_BY_SUBCOMMAND: dict[str, tuple[list[str], ...]] = {
    name: tuple(one.split() for one in text.split(", "))
    for name, text in {
        "npm": "exec, x, explore",
        "pnpm": "exec, dlx",
        "yarn": "exec, dlx, node",
        "bun": "x",
        "uv": "run, tool run",
        "pipx": "run",
        "poetry": "run",
        "pdm": "run",
        "hatch": "run",
        "pipenv": "run",
        "rye": "run",
        "conda": "run",
        "mamba": "run",
        "micromamba": "run",
        "pixi": "run, exec",
        "bundle": "exec",
        "rustup": "run",
        "nvm": "exec, run",
        "fnm": "exec",
        "pyenv": "exec",
        "rbenv": "exec",
        "asdf": "exec",
        "mise": "exec, x",
        "volta": "run",
        "nix": "run, shell, develop",
        "devbox": "run",
        "docker": "exec, run, compose exec, compose run",
        "podman": "exec, run, unshare, compose exec, compose run",
        "nerdctl": "exec, run",
        "kubectl": "exec, run, debug",
        "vagrant": "ssh",
        "snap": "run",
        "git": "bisect run, submodule foreach, for-each-repo",
        "corepack": "pnpm, yarn, npm, npx",
        "cmake": "-E",
        "dotnet": "exec, tool run",
        "go": "tool",
        "tox": "exec",
        "meson": "devenv",
        "gh": "codespace ssh",
        "gcloud": "compute ssh",
        "flatpak": "run",
        "openssl": "engine",
    }.items()
}
"""Programs that start others by some of their subcommands only."""

COMPILER_WRAPPERS = frozenset(("ccache", "sccache", "distcc", "icecc", "bear", "scan-build", "intercept-build"))

_ASSIGNMENT = re.compile(r"[A-Za-z_]\w*=", re.ASCII)
_SCRIPT_SIGNS = re.compile(r"[\s=]")
MAX_STARTS = 200


def is_launcher(name: str) -> bool:
    """Does a program of this name start others, with options that we do not know?"""
    return (
        name in LAUNCHERS or name in COMPILER_WRAPPERS or name.startswith(("qemu-", "ld-linux", "ld-musl", "ld64.so"))
    )


def starts_programs(words: Sequence[str]) -> bool:
    """Does this command start another one that its own words name?"""
    name = os.path.basename(words[0])
    return is_launcher(name) or name in WRAPPERS or subcommand_at(words) is not None


def subcommand_at(words: Sequence[str]) -> int | None:
    """The place of the (last word of the) subcommand by which this program starts another one."""
    known = RUN_BY_SUBCOMMAND.get(os.path.basename(words[0]))
    if not known:
        return None
    for at, word in enumerate(words[1:20], 1):
        for subcommand in known:
            if list(words[at : at + len(subcommand)]) == subcommand:
                return at + len(subcommand) - 1
        if not word.startswith("-") and not words[at - 1].startswith("-"):
            return None
    return None


def inner_starts(words: Sequence[str]) -> list[int]:
    """The places at which the command that a launcher runs may begin; empty when none can be told."""
    name, rest = os.path.basename(words[0]), list(words[1:])
    if name in WRAPPERS:
        inner = [one for one in unwrapped(name, rest) if one and not _ASSIGNMENT.match(one[0])]
        # A command that does not stand word for word in the line (`env -S`) has no place in it.
        return [len(words) - len(one) for one in inner if list(words[len(words) - len(one) :]) == one]
    at = subcommand_at(words)
    if at is not None:
        return _behind_options(words, at + 1)
    if name in COMPILER_WRAPPERS:
        return _behind_options(words, 1)
    return []


def _behind_options(words: Sequence[str], at: int) -> list[int]:
    """The first word that is no option, and the one behind it, which the first may be the value of an option for."""
    found: list[int] = []
    for place in range(at, len(words)):
        if words[place] == "--":
            return [place + 1] if place + 1 < len(words) else found
        if not words[place].startswith("-"):
            found.append(place)
            if place == at or "=" in words[place - 1] or not words[place - 1].startswith("-"):
                return found
    return found


def launched(words: Sequence[str]) -> Iterator[tuple[list[str], bool]]:
    """All that a launcher with unknown options may run: commands, and (True) scripts that stand in one word."""
    for at, word in enumerate(words[1 : MAX_STARTS + 1], 1):
        if word.startswith("-"):
            value = word.partition("=")[2]
            if value:
                yield [value], True
            if not word.startswith("--"):
                # A cluster, with the value of its last option: `script -qcCOMMAND`.
                yield from (([word[start:]], True) for start in range(2, min(len(word), 6)))
            continue
        if _SCRIPT_SIGNS.search(word):
            yield [word], True
            if "=" in word:
                yield [word.partition("=")[2]], True  # `alias x='rm -rf'` has its script behind the sign
        if ":" in word:
            yield [word.partition(":")[2].partition(",")[0]], True  # `socat - EXEC:x,pty`
        yield list(words[at:]), False
