"""Where the agent may write by the user's configuration, whatever mode is in force: see `policy/reach.py`."""

from __future__ import annotations

import os
from collections.abc import Mapping

from spindle.config.schema import Config
from spindle.policy.environment import child_environment
from spindle.policy.reach import Reach
from spindle.policy.sandbox import Boundary, boundary_of
from spindle.workspace.git import find_root


def reach_of(config: Config, boundary: Boundary, env: Mapping[str, str]) -> Reach:
    """Where the agent may write: in a session with this boundary, and in others that work on the same project."""
    root = find_root(config.cwd, config.project_root_markers) or config.cwd
    return Reach(boundary, env=env, also=(config.cwd, root, *config.workspace_write.writable_roots))


def widest_reach(config: Config) -> Reach:
    """Where the agent may write in any session of this folder that has a fence."""
    env = child_environment(os.environ, config.environment, secret_names=config.secret_variables)
    fence = config.spindle.fence
    boundary = boundary_of(config.workspace_write, cwd=config.cwd, env=env, home=config.home, fence=fence)
    return reach_of(config, boundary, env)
