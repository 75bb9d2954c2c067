"""Sandbox policies the process tests run commands under."""

from __future__ import annotations

from spindle.protocol.settings import SandboxPolicy

WORKSPACE_WRITE = SandboxPolicy(mode="workspace-write", exclude_slash_tmp=True, exclude_tmpdir_env_var=True)
READ_ONLY = SandboxPolicy(mode="read-only")
