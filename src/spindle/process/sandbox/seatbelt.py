"""Confinement on macOS: a profile for `sandbox-exec`, written from the same boundary as the fence on Linux.

Nothing that comes from outside stands in the text of a profile. Paths and patterns are parameters beside it, so no
character in the name of a folder can end a string or begin a rule. The last rule that matches decides.
"""

from __future__ import annotations

import os
import subprocess
from collections.abc import Sequence
from functools import cache

import msgspec

from spindle.errors import SandboxUnavailable
from spindle.policy.deny import is_denied, only_path, translate
from spindle.policy.sandbox import Boundary, is_below, is_inside
from spindle.process.sandbox.launch import Launch, Wanted

PROGRAM = "/usr/bin/sandbox-exec"
"""The system's own, whatever $PATH says: a workspace may be on that."""
_MARK = {"CODEX_SANDBOX": "seatbelt"}
_PROBE_LIMIT_S = 20.0
_BEHIND_LINKS = ("/tmp", "/var", "/etc")
"""Links to folders below /private; the kernel compares only what they lead to."""

_BASE = """\
(version 1)
(deny default)

; Programs and what they start: they may see and signal each other, and nobody else.
(allow process-exec)
(allow process-fork)
(allow process-info* (target same-sandbox))
(allow signal (target same-sandbox))
(allow sysctl-read)
(allow user-preference-read)
(allow ipc-posix-sem)
(allow ipc-posix-shm* (ipc-posix-name-regex #"^/(psm_|mp-|wnsm_)"))

; Services without which ordinary programs fail: user names, temporary folders, the log, time zones.
(allow mach-lookup
  (global-name "com.apple.system.opendirectoryd.libinfo")
  (global-name "com.apple.system.opendirectoryd.membership")
  (global-name "com.apple.bsd.dirhelper")
  (global-name "com.apple.system.logger")
  (global-name "com.apple.logd")
  (global-name "com.apple.system.notification_center"))

; Everything may be read, except other people's terminals: what is typed there is theirs.
(allow file-read*)
(deny file-read-data (regex #"^/dev/ttys[0-9]+$"))

; Devices that lead nowhere, the command's own terminal, and terminals it opens itself.
(allow file-write-data file-ioctl
  (literal "/dev/null")
  (literal "/dev/zero")
  (literal "/dev/random")
  (literal "/dev/urandom")
  (literal "/dev/tty")
  (literal "/dev/dtracehelper"))
(allow pseudo-tty)
(allow file-read* file-write* file-ioctl (literal "/dev/ptmx"))
(allow file-ioctl (regex #"^/dev/ttys[0-9]+$"))
(allow file-read* file-write*
  (require-all
    (regex #"^/dev/ttys[0-9]+$")
    (extension "com.apple.sandbox.pty")))
"""

_NETWORK = """
; The network, and the services that resolve names and check certificates.
(allow system-socket)
(allow network-bind (local ip))
(allow network-inbound (local ip))
(allow network-outbound (remote ip))
(allow network-outbound (literal "/private/var/run/mDNSResponder"))
(allow mach-lookup
  (global-name "com.apple.SystemConfiguration.DNSConfiguration")
  (global-name "com.apple.SystemConfiguration.configd")
  (global-name "com.apple.trustd.agent")
  (global-name "com.apple.networkd"))
"""


class Profile(msgspec.Struct, frozen=True):
    """The text, and the values of the parameters it names."""

    text: str
    parameters: dict[str, str]


def profile(boundary: Boundary) -> Profile:
    """What macOS is told about this boundary."""
    parameters: dict[str, str] = {}

    def given(kind: str, value: str) -> str:
        name = f"{kind}_{sum(key.startswith(f'{kind}_') for key in parameters)}"
        parameters[name] = value
        return f'(param "{name}")'

    roots = [canonical(root) for root in boundary.roots]
    protected = [canonical(path) for path in boundary.protected()]
    parts = [_BASE]
    if roots:
        parts.append("\n; What may be written, and what stays as it is there.\n")
    for root in roots:
        kept = [path for path in protected if is_below(path, root)]
        parts.append(
            _writable(given("ROOT", root), [(given("KEEP", path), given("FOLD", folded(path))) for path in kept])
        )
    named = [canonical(path) for path in map(only_path, boundary.denied) if path is not None]
    if stays := _stays(roots, [*protected, *named]):
        names = " ".join(f"(literal {given('STAY', path)})" for path in stays)
        parts.append(f"(deny file-write-unlink {names})\n")
    parts.append(_NETWORK if boundary.has_network else "\n(allow system-socket (socket-domain AF_UNIX))\n")
    for name in [f"(subpath {given('MEET', root)})" for root in roots]:
        parts.append(f"(allow network-bind network-inbound (local unix-socket {name}))\n")
        parts.append(f"(allow network-outbound (remote unix-socket {name}))\n")
    for path in boundary.fence.unix_sockets:
        parts.append(f"(allow network-outbound (remote unix-socket (literal {given('SOCKET', canonical(path))})))\n")
    if boundary.denied:
        patterns = dict.fromkeys(glob_regex(canonical(pattern)) for pattern in boundary.denied)
        names = " ".join(f"(regex {given('HIDE', pattern)})" for pattern in patterns)
        parts.append(f"\n; What may not even be read.\n(deny file-read* file-write* {names})\n")
    for folder in boundary.fence.hidden:
        seen = [path for path in (*boundary.roots, *boundary.fence.shown) if is_inside(path, (folder,))]
        others = "".join(f"\n    (require-not (subpath {given('SHOW', canonical(path))}))" for path in seen)
        name = f"(subpath {given('HIDE', canonical(folder))})"
        parts.append(f"(deny file-read* file-write*\n  (require-all\n    {name}{others}))\n")
    return Profile("".join(parts), parameters)


def _refuse_the_impossible(boundary: Boundary) -> None:
    rules = boundary.rules
    if rules is None:
        return
    if boundary.fence.read == "workspace":
        raise SandboxUnavailable(
            'read = "workspace" is set, which the sandbox of macOS is not made to enforce here, so nothing was run; '
            'set read = "all" under [spindle.sandbox], and deny what is to be hidden with deny_read'
        )
    reason = None
    if not rules.shows_everything:
        reason = "lets only some paths be read"
    elif any(is_denied(path, rules.denied) for path in (*rules.plain("read"), *rules.plain("write"))):
        reason = "opens paths inside of denied ones"
    if reason is not None:
        raise SandboxUnavailable(
            f"the permission profile {reason}, which the sandbox of macOS is not made to enforce here, so nothing was "
            "run; let `:root` be read and deny what is to be hidden"
        )


def _writable(root: str, kept: Sequence[tuple[str, str]]) -> str:
    if not kept:
        return f"(allow file-write* (subpath {root}))\n"
    exceptions = "".join(
        f"\n    (require-not (subpath {exact}))\n    (require-not (regex {fold}))" for exact, fold in kept
    )
    return f"(allow file-write*\n  (require-all\n    (subpath {root}){exceptions}))\n"


def _stays(roots: Sequence[str], protected: Sequence[str]) -> list[str]:
    """Folders that may not be moved: what is protected inside would no longer be where the rules look for it."""
    found: dict[str, None] = {}
    for path in protected:
        parent = os.path.dirname(path)
        while any(is_below(parent, root) for root in roots):
            found[parent] = None
            if parent == "/":
                break
            parent = os.path.dirname(parent)
    return sorted(found)


def canonical(path: str) -> str:
    """`path` as the kernel names it."""
    return f"/private{path}" if any(is_below(path, link) for link in _BEHIND_LINKS) else path


def folded(path: str) -> str:
    """A pattern for `path` and what is below it, in capital or small letters: most Macs do not tell them apart."""
    return f"^{''.join(_either_case(character) for character in path)}(/|$)"


def _either_case(character: str) -> str:
    if character.isascii() and character.isalpha():
        return f"[{character.upper()}{character.lower()}]"
    return _literal(character)


def _literal(character: str) -> str:
    return f"\\{character}" if character in r"\^$.|?*+()[]{}" else character


def glob_regex(pattern: str) -> str:
    """The pattern for a glob of `deny_read` and what is below it."""
    return f"^{translate(pattern, _either_case, _in_class)}(/|$)"


def _in_class(inside: str) -> str:
    return inside if inside == "[" else inside.replace("[", "")


def launch(wanted: Wanted) -> Launch:
    """The command line that confines a command. There is no launcher to outlive: it becomes the command."""
    boundary, argv, env = wanted.boundary, wanted.argv, wanted.env
    assert boundary is not None
    _refuse_the_impossible(boundary)
    for key, value in (("pids_max", boundary.fence.pids_max), ("memory_max", boundary.fence.memory_max)):
        if value:
            raise SandboxUnavailable(
                f"{key} is set, which the sandbox of macOS cannot enforce, so nothing was run; remove {key}"
            )
    return Launch(argv=confined(argv, profile(boundary)), env={**env, **_MARK}, is_confined=True)


def confined(argv: Sequence[str], made: Profile) -> list[str]:
    defined = [f"-D{name}={value}" for name, value in made.parameters.items()]
    return [PROGRAM, "-p", made.text, *defined, "--", *argv]


@cache
def problem() -> str | None:
    """Why macOS cannot confine a command here, in a few words, found by trying; None when it can."""
    made = Profile(_BASE, {})
    try:
        done = subprocess.run(
            confined(["/usr/bin/true"], made),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=_PROBE_LIMIT_S,
            env={"PATH": "/usr/bin:/bin"},
        )
    except OSError as error:
        return f"{PROGRAM} cannot be started: {error.strerror}"
    except subprocess.TimeoutExpired:
        return f"{PROGRAM} did not answer"
    if done.returncode == 0:
        return None
    lines = done.stderr.decode("utf-8", "replace").strip().splitlines()
    return lines[0] if lines else f"{PROGRAM} ended with exit code {done.returncode}"
