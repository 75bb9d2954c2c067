"""`setup` and `verify`: commands of a task, in the sandbox that the agent's commands have."""

from __future__ import annotations

import os

import msgspec

from spindle.auth.credentials import Secured, session_secrets, sign_in
from spindle.config.schema import Config
from spindle.errors import SpindleError
from spindle.policy.environment import child_environment, withheld_names
from spindle.policy.sandbox import boundary_of
from spindle.process.command import Command
from spindle.process.table import Finished, ProcessTable
from spindle.protocol.clock import Clock
from spindle.workspace.shell import user_shell

TAIL_CHARS = 2000


class CommandFailed(SpindleError):
    """A command could not be run."""


async def run_command(
    script: str, config: Config, *, cwd: str, clock: Clock, timeout_s: float, network: bool, log: str
) -> Finished:
    """Run a script to its end; what it printed, within bounds and without secrets, is in the file `log`."""
    environment = child_environment(os.environ, config.environment, secret_names=config.secret_variables)
    signed_in = sign_in(config.provider, config.login, is_exec=True, clock=clock)
    secrets = session_secrets(
        os.environ,
        Secured(signed_in.provider, signed_in.credential),
        home=config.own_home,
        variables=config.secret_variables,
        given=config.environment.set,
        mask=config.spindle.mask_secrets,
        unmasked=config.spindle.unmasked_variables,
    )
    table = ProcessTable(
        clock=clock,
        shell=user_shell(),
        environment=environment,
        home=config.home,
        allows_login=False,
        secrets=secrets,
        withheld=withheld_names(config.environment, config.secret_variables),
    )
    policy = msgspec.structs.replace(config.sandbox, network_access=network or config.sandbox.network_access)
    boundary = boundary_of(policy, cwd=cwd, env=environment, home=config.home, fence=config.spindle.fence)
    command = Command(argv=["/bin/sh", "-c", script], cwd=cwd, boundary=boundary)
    try:
        finished = await table.run(command, timeout_s=timeout_s)
    except OSError as error:
        raise CommandFailed(f"the command cannot be run: {error.strerror}") from error
    finally:
        await table.aclose()
    text = finished.output.peek().text()
    with open(log, "x", encoding="utf-8", errors="replace") as file:
        file.write(text)
    return finished


def tail(finished: Finished) -> str:
    """The end of what was printed."""
    return finished.output.peek().text().strip()[-TAIL_CHARS:]
