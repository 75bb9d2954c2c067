"""`spindle sandbox [OPTIONS] [--] COMMAND`: run a command as the agent would, with the caller's own streams.

What it may reach comes from the same configuration, and it goes through the same door, as every command of the model.
"""

from __future__ import annotations

import os
import sys

import msgspec

from spindle.config.schema import Config
from spindle.errors import SandboxUnavailable, SpindleError, UsageError
from spindle.frontends.launch import config_from
from spindle.frontends.options import Parsed
from spindle.policy.environment import NETWORK_DISABLED, child_environment
from spindle.policy.sandbox import Boundary, boundary_of
from spindle.protocol.settings import SandboxPolicy

_SYSTEMS = {"linux": "linux", "macos": "darwin"}
"""Older releases of Codex want the system named first; to them it is a subcommand."""
_NOT_FOUND, _NOT_EXECUTABLE = 127, 126


def _check_system(word: str) -> None:
    if _SYSTEMS[word] != sys.platform:
        raise UsageError(f"the {word} sandbox is not for this system ({sys.platform}); leave the word out")


def run(parsed: Parsed, words: list[str]) -> int:
    for system in parsed.command[1:]:
        _check_system(system)
    config = _config(parsed)
    environment = child_environment(
        os.environ, config.environment, secret_names=config.secret_variables, for_person=True
    )
    boundary = boundary_of(
        _policy(config, parsed), cwd=config.cwd, env=environment, home=config.home, fence=config.spindle.fence
    )
    environment["PWD"] = config.cwd
    if not boundary.is_full_access and not boundary.has_network:
        environment[NETWORK_DISABLED] = "1"
    try:
        return _start(words, boundary, environment, config.home)
    except FileNotFoundError as error:
        return _refuse(f"{error.filename}: no such program", _NOT_FOUND)
    except OSError as error:
        return _refuse(f"{words[0]} cannot be started: {error.strerror}", _NOT_EXECUTABLE)


def _config(parsed: Parsed) -> Config:
    wanted, profile = _mode(parsed), parsed.value("permission_profile")
    if wanted is not None and profile is not None:
        raise UsageError(f"both a mode ({wanted}) and a permission profile ({profile}) are given; give one of them")
    if wanted is not None:
        parsed.values["sandbox"] = wanted
    config = config_from(parsed, headless=True)
    if wanted is not None and config.sandbox.mode != wanted:
        raise SpindleError(f"the mode {wanted} is not allowed here by the administrator, so nothing was run")
    return config


def _mode(parsed: Parsed) -> str | None:
    """The mode that the command line names, by whichever option; the configuration decides when it names none."""
    modes = {mode for mode in (parsed.value("mode"), parsed.value("sandbox")) if mode}
    if parsed.flag("full_auto"):
        modes.add("workspace-write")
    if len(modes) > 1:
        raise UsageError(f"two modes at once: {' and '.join(sorted(modes))}")
    return modes.pop() if modes else None


def _policy(config: Config, parsed: Parsed) -> SandboxPolicy:
    return msgspec.structs.replace(config.sandbox, network_access=True) if parsed.flag("network") else config.sandbox


def _start(argv: list[str], boundary: Boundary, environment: dict[str, str], home: str) -> int:
    from spindle.process import foreground, sandbox  # only now: what cannot be run needs none of it
    from spindle.process.command import check_startable  # the same
    from spindle.process.sandbox.launch import Wanted  # the same

    check_startable(argv, boundary.cwd, environment)
    # A session of its own, or a terminal that is shared on purpose: no need for the launcher to cut it off.
    wanted = Wanted(argv=argv, boundary=boundary, cwd=boundary.cwd, env=environment, home=home, tty=True)
    launch = sandbox.back_end_now(boundary).launch(wanted)
    if boundary.is_full_access:
        os.chdir(boundary.cwd)
        os.execvpe(launch.argv[0], list(launch.argv), dict(launch.env))
    try:
        return foreground.run(launch, cwd=boundary.cwd, shares_terminal=foreground.has_terminal())
    except SandboxUnavailable:
        # A file may have vanished between the plan and the mounting; that says nothing about the next time.
        launch = sandbox.back_end_now(boundary).launch(wanted)
        return foreground.run(launch, cwd=boundary.cwd, shares_terminal=foreground.has_terminal())


def _refuse(message: str, code: int) -> int:
    print(f"error: {message}", file=sys.stderr)
    return code
