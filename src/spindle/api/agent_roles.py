"""Sub-agents as a program wants them: on, off, or with roles of its own, each with functions of its own as tools."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import msgspec

from spindle.api.options import SandboxMode, sandbox_mode
from spindle.config.schema import Config
from spindle.protocol import settings
from spindle.protocol.settings import EFFORTS

_NAME = re.compile(r"[A-Za-z0-9_-]{1,64}")


class AgentRole(msgspec.Struct, frozen=True, kw_only=True):
    """A kind of sub-agent that the model can start."""

    description: str = ""
    """What it is for: the model reads it when it chooses."""
    instructions: str = ""
    """What the sub-agent is told beside its task."""
    model: str | None = None
    """The model it uses; None = its parent's."""
    effort: str | None = None
    """How long it thinks; None = as long as its parent."""
    sandbox: SandboxMode | None = None
    """Takes rights away: it never has more than its parent."""
    tools: Sequence[Callable[..., Any] | str] = ()
    """Functions that it has as tools; tools of the thread itself also by their names."""


def check_agents(agents: Any) -> None:
    """Raise ValueError for what cannot be the option `agents`."""
    if agents is None or isinstance(agents, bool):
        return
    if not isinstance(agents, Mapping):
        raise ValueError(f"agents is True, False, or a dict of roles by name, not {agents!r}")
    for name, role in agents.items():
        if not isinstance(name, str) or not _NAME.fullmatch(name):
            raise ValueError(f"the name of a role has up to 64 letters, digits, - and _, not {name!r}")
        if not isinstance(role, AgentRole):
            raise ValueError(f"agents[{name!r}] must be an AgentRole, not {role!r}")
        for field in ("description", "instructions", "model", "effort"):
            value = getattr(role, field)
            if not isinstance(value, str) and not (value is None and field in ("model", "effort")):
                raise ValueError(f"agents[{name!r}].{field} must be a text, not {value!r}")
        if role.effort is not None and role.effort not in EFFORTS:
            raise ValueError(f"agents[{name!r}].effort is {role.effort!r}, but must be one of {', '.join(EFFORTS)}")
        sandbox_mode(role.sandbox)
        if isinstance(role.tools, str) or not isinstance(role.tools, Sequence):
            raise ValueError(f"agents[{name!r}].tools is a list of functions, not {role.tools!r}")


def with_agents(config: Config, agents: bool | Mapping[str, AgentRole] | None) -> Config:
    """The configuration with sub-agents as the program wants them. Raises ValueError for what cannot be."""
    check_agents(agents)
    if agents is None:
        return config
    features = {**config.features, "collab": agents is not False}
    if agents is False:
        return msgspec.structs.replace(config, features=features, agent_roles={})
    roles = dict(config.agent_roles)
    for name, role in agents.items() if isinstance(agents, Mapping) else ():
        roles[name] = settings.AgentRole(
            name=name,
            description=role.description.strip(),
            instructions=role.instructions.strip(),
            model=role.model,
            effort=role.effort,
            sandbox_mode=sandbox_mode(role.sandbox),  # pyright: ignore[reportArgumentType]  checked there
        )
    # In the order of their names: the model sees the list, and its bytes must not vary.
    return msgspec.structs.replace(config, features=features, agent_roles=dict(sorted(roles.items())))


def role_functions(
    agents: bool | Mapping[str, AgentRole] | None, named: Mapping[str, Any]
) -> dict[str, list[Callable[..., Any]]]:
    """The functions of each role; `named` are the thread's own, by the names of their tools."""
    found: dict[str, list[Callable[..., Any]]] = {}
    for role_name, role in agents.items() if isinstance(agents, Mapping) else ():
        functions: list[Callable[..., Any]] = []
        for tool in role.tools:
            if isinstance(tool, str) and tool not in named:
                known = f"; it has {', '.join(named)}" if named else ""
                raise ValueError(f"agents[{role_name!r}].tools: the thread has no tool {tool!r}{known}")
            functions.append(named[tool] if isinstance(tool, str) else tool)
        if functions:
            found[role_name] = functions
    return found
