"""`spindle doctor`: tries what Spindle needs on this system and says what it found. Changes nothing, shows no key."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys

import msgspec

from spindle import __version__
from spindle.auth.credentials import sign_in
from spindle.config.schema import Config
from spindle.errors import ModelError, SpindleError
from spindle.frontends.fit import hang
from spindle.frontends.hooks_command import state_of
from spindle.frontends.launch import config_from, home_from
from spindle.frontends.options import Parsed
from spindle.frontends.plain_text import reading_words
from spindle.frontends.terminal import STDOUT, columns_of, terminal_size
from spindle.policy.environment import EnvironmentPolicy, child_environment
from spindle.policy.sandbox import Fence, is_below
from spindle.process.lookup import find_installed
from spindle.process.sandbox.survey import NARROW_WORDS, WORDS, Backend, Trial, resource_limits, survey, try_mode
from spindle.protocol.quote import visible

OK, NOTE, WARN, FAIL = "ok", "note", "warn", "fail"
_WIDTH = 18


class Check(msgspec.Struct, frozen=True):
    """One thing that was looked at: `status` is ok, note (worth knowing), warn, or fail."""

    name: str
    status: str
    detail: str


class Report(msgspec.Struct, frozen=True, kw_only=True):
    """All that was found. `ok`: commands can be confined."""

    ok: bool
    version: str
    python: str
    system: str
    checks: list[Check]
    backends: tuple[Backend, ...]
    commands: list[Trial]


def run(parsed: Parsed, words: list[str]) -> int:
    report = asyncio.run(_examine(parsed))
    if parsed.flag("json"):
        sys.stdout.buffer.write(msgspec.json.encode(report) + b"\n")
    else:
        print("\n".join(_lines(report)))
    return 0 if report.ok else 1


async def _examine(parsed: Parsed) -> Report:
    checks: list[Check] = []
    config = _config(parsed, checks)
    _home(config.home if config is not None else home_from(), checks)
    if config is not None:
        _login(config, checks)
        _hooks(config, checks)
    _terminal(checks)
    folder = config.cwd if config is not None else None
    _program("git", "folders that are not repositories work too", folder, checks)
    _program("rg", "the model searches with grep instead", folder, checks)
    backends = await survey()
    checks.append(Check("limits", NOTE, resource_limits()))
    fence = config.spindle.fence if config is not None else Fence()
    _reading(config, fence, checks)
    environment = child_environment(os.environ, config.environment if config is not None else EnvironmentPolicy())
    trials = [await try_mode(mode, fence, environment) for mode in ("read-only", "workspace-write")]
    uname = os.uname()
    return Report(
        ok=all(trial.failure is None for trial in trials),
        version=__version__,
        python=f"{'.'.join(map(str, sys.version_info[:3]))} ({sys.executable})",
        system=f"{uname.sysname} {uname.release} ({uname.machine})",
        checks=checks,
        backends=backends,
        commands=trials,
    )


# ---- what is looked at -----------------------------------------------------------------------------


def _config(parsed: Parsed, checks: list[Check]) -> Config | None:
    """The configuration, or None when it cannot be read; the sandbox is then tried as it is without one."""
    try:
        config = config_from(parsed)
    except SpindleError as error:
        checks.append(Check("config", FAIL, str(error)))
        return None
    files = sorted({origin for origin in config.origins.values() if origin.startswith("/")})
    checks.append(Check("config", OK, ", ".join(files) or "no file; everything has its default"))
    checks.extend(Check("config", WARN, warning) for warning in config.warnings)
    if config.idle_keys:
        checks.append(Check("config", NOTE, f"keys without effect in Spindle: {', '.join(config.idle_keys)}"))
    trust = config.trust_level or "unknown, so its own settings are not used"
    profile = config.sandbox.permissions
    named = f" (permission profile {visible(profile.name)})" if profile is not None else ""
    mode = f"{config.sandbox.mode}{named}, approvals {config.approval_policy}"
    checks.append(Check("this folder", NOTE, f"{trust}; a session here starts with {mode}"))
    return config


def _home(home: str, checks: list[Check]) -> None:
    try:
        mode = os.stat(home).st_mode & 0o777
    except OSError as error:
        where = f"{home}: {error.strerror}"
        status = NOTE if isinstance(error, FileNotFoundError) else FAIL
        checks.append(Check("home", status, f"{where}; it is made with the first session"))
        return
    if not os.access(home, os.W_OK | os.X_OK):
        checks.append(Check("home", WARN, f"{home} cannot be written: sessions will not be recorded"))
    elif mode & 0o077:
        checks.append(Check("home", WARN, f"{home} is open to other users (mode {mode:o}); chmod 700 closes it"))
    else:
        checks.append(Check("home", OK, f"{home}, writable and private"))


def _login(config: Config, checks: list[Check]) -> None:
    provider = config.provider.name or config.provider.id
    try:
        signed_in = sign_in(config.provider, config.login, is_exec=True)
        has_key = bool(signed_in.credential.authorization())
    except (ModelError, SpindleError) as error:
        checks.append(Check("login", WARN, str(error)))
        return
    checks.extend(Check("login", WARN, warning) for warning in signed_in.warnings)
    words = "there is a key for" if has_key else "no key is needed for"
    checks.append(Check("login", OK, f"{words} {provider}; it was not tried"))


def _hooks(config: Config, checks: list[Check]) -> None:
    if not config.hooks:
        return
    for hook in config.hooks:
        status = OK if hook.may_run and hook.is_confined else NOTE if not hook.may_run else WARN
        checks.append(Check("hook", status, f"{hook.event} in {hook.path} {state_of(hook)}: {visible(hook.command)}"))


def _reading(config: Config | None, fence: Fence, checks: list[Check]) -> None:
    """What confined commands can read, and what they miss by that."""
    if config is not None and config.sandbox.is_full_access:
        return
    profile = config.sandbox.permissions if config is not None else None
    words = f"a confined command {reading_words(fence.read, profile)}"
    if profile is not None and not profile.reads_everywhere:
        checks.append(Check("reads", NOTE, words))
        return
    checks.append(Check("reads", NOTE, f'read = "{fence.read}": {words}'))
    if fence.read != "workspace":
        return
    from spindle.policy.view import settings_with_keys, user_home  # only for those who narrow what is read

    home = user_home(os.environ)
    closed = ", ".join(map(visible, settings_with_keys(home)))
    if closed:
        checks.append(Check("reads", NOTE, f"not shown to commands, because keys seem to be in there: {closed}"))
    if config is not None and home and is_below(home, os.path.realpath(config.cwd)):
        what = "the working folder is or contains your home, so most of your home can be read; work in a folder inside"
        checks.append(Check("reads", WARN, what))


def _terminal(checks: list[Check]) -> None:
    if not sys.stdout.isatty():
        checks.append(Check("terminal", NOTE, "standard output is not a terminal"))
        return
    columns, rows = terminal_size(STDOUT)
    checks.append(Check("terminal", OK, f"{os.environ.get('TERM') or 'no TERM'}, {columns} × {rows}"))


def _program(name: str, without: str, folder: str | None, checks: list[Check]) -> None:
    path = find_installed(name, cwd=folder)
    if path is None:
        checks.append(Check(name, NOTE, f"not found; {without}"))
        return
    try:
        done = subprocess.run([path, "--version"], stdin=subprocess.DEVNULL, capture_output=True, timeout=10)
        first = done.stdout.decode("utf-8", "replace").strip().partition("\n")[0]
    except (OSError, subprocess.TimeoutExpired):
        first = ""
    if first:
        checks.append(Check(name, OK, f"{path} ({first})"))
    else:
        checks.append(Check(name, WARN, f"{path} does not answer"))


# ---- how it is shown -------------------------------------------------------------------------------


def _lines(report: Report) -> list[str]:
    title = f"Spindle {report.version} · Python {report.python} · {report.system}"
    lines = [hang("", title, columns_of(STDOUT)), ""]
    lines += [_row(check.status, check.name, check.detail) for check in report.checks]
    lines += ["", "Sandbox back ends, each tried:"]
    for backend in report.backends:
        lines.append(_row(OK if backend.is_usable else "-", backend.name, backend.detail))
        lines += [_row("", "", text) for text in (*backend.gives, *backend.lacks)]
    lines += ["", hang("", "How commands run, tried with one that wants to get out:", columns_of(STDOUT))]
    for trial in report.commands:
        lines.append(_row(OK if trial.failure is None else FAIL, trial.mode, _outcome(trial)))
    lines.append(_row("-", "danger-full-access", "without any sandbox"))
    verdict = "Commands can be confined." if report.ok else "Commands cannot be confined as they should be."
    lines += ["", hang("", verdict, columns_of(STDOUT))]
    return lines


def _outcome(trial: Trial) -> str:
    if trial.failure is not None:
        return trial.failure
    words = {**WORDS, **NARROW_WORDS}
    could = ", ".join(words[word] for word in trial.could)
    could_not = ", ".join(words[word] for word in trial.could_not)
    return f"in {trial.backend}; it could {could}; it could not {could_not}"


def _row(status: str, name: str, detail: str) -> str:
    """One line; on a terminal as many as it takes, in a column."""
    return hang(f"  {status:<5} {name:<{_WIDTH}} ", detail, columns_of(STDOUT))
