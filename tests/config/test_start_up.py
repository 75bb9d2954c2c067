"""Loading the configuration belongs to the way to the first request: it must not drag heavy modules in."""

from __future__ import annotations

import subprocess
import sys

from config.throwaway import Setup

HEAVY = {
    "json",
    "pathlib",
    "dataclasses",
    "difflib",
    "tempfile",
    "logging",
    "urllib.parse",
    "base64",
    "hashlib",
    "shutil",
}
# What asyncio and msgspec load on their own is free.
SCRIPT = """
import asyncio, msgspec, sys
before = set(sys.modules)
from spindle.config.load import load_config
from spindle.auth.credentials import sign_in
from spindle.workspace import agents_md, git, shell, skills
config = load_config(cwd=sys.argv[1], env={"CODEX_HOME": sys.argv[2]}, overrides=["model=x"])
sign_in(config.provider, config.login, environ={})
skills.load_skills(config.cwd, config.home)
agents_md.load_project_docs(config.cwd, config.home)
git.git_facts(config.cwd)
print(*sorted(set(sys.modules) - before))
"""


def test_nothing_heavy_is_loaded(setup: Setup):
    setup.user(f'model_provider = "x"\n[model_providers.x]\nname = "x"\nenv_key = "K"\n{setup.trust()}')
    command = [sys.executable, "-c", SCRIPT, setup.path("repo"), setup.path("home")]
    loaded = set(subprocess.run(command, check=True, capture_output=True, text=True).stdout.split())
    assert "spindle.config.load" in loaded and not loaded & HEAVY
    assert not loaded & {"spindle.config.mcp_servers", "spindle.model.http", "spindle.auth.refresh"}
