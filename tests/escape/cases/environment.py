"""What the caller's environment brings in, and what it makes a launcher outside do."""

from __future__ import annotations

import os
import subprocess

from escape.case import Place, attack


@attack()
def finds_the_key_of_the_provider(p: Place) -> None:
    for name, value in os.environ.items():
        if f"sk-{p.stamp}-provider" in value or (p.bare and "-provider" in value):
            p.reached(name)


@attack()
def finds_the_key_of_the_provider_in_a_fresh_shell(p: Place) -> None:
    done = subprocess.run(["bash", "-lc", "env; set; export -p"], capture_output=True, text=True)
    if f"sk-{p.stamp}-provider" in done.stdout or (p.bare and "-provider" in done.stdout):
        p.reached()


@attack()
def finds_the_way_to_the_agent_that_holds_ssh_keys(p: Place) -> None:
    if os.environ.get("SSH_AUTH_SOCK"):
        p.reached(os.environ["SSH_AUTH_SOCK"])
