"""The demo in the real interface: a practice model, a scratch repository and a home that is thrown away.

    desk.switch(lambda _: practice_request())
    desk.say(*PRACTICE_NOTES)
    desk.set_draft(PROMPT)

Nothing is asked over the network, and nothing of the user's is read or written.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping

import msgspec

from spindle.api.door import SessionRequest
from spindle.config.load import LoadOptions, load_config
from spindle.frontends.practice_scene import PROMPT, set_scene
from spindle.frontends.tui.practice_model import PracticeModel
from spindle.frontends.tui.start import PRACTICE_PROVIDER

__all__ = ["MODEL", "PRACTICE_NOTES", "PROMPT", "practice_request", "remove_scratch"]

MODEL = "practice-script"
PRACTICE_NOTES = (
    "This is the demo. A practice model answers from a script; no real model is asked, and no network is used.",
    "The loop, the tools, the sandbox, the patch and the questions are real, in a scratch repository that is removed "
    "when you quit.",
    "Press Enter to send the message below. After that, press Shift-Tab for plan mode and ask for a new function.",
)
PACE_S = 0.04
"""Between two words of the practice model."""

_CONFIG = f"""\
model = "{MODEL}"
model_provider = "{PRACTICE_PROVIDER}"
approval_policy = "on-request"
sandbox_mode = "workspace-write"

[model_providers.{PRACTICE_PROVIDER}]
name = "a practice script; no server is asked"
base_url = "http://127.0.0.1:9/v1"
"""
_scratch: list[str] = []
_CATALOG = {
    "models": [
        {
            "slug": MODEL,
            "display_name": "practice script",
            "description": "Answers from a script; no model is asked.",
            "family": "default",
            "shell_type": "unified_exec",
            "apply_patch_tool_type": "freeform",
            "visibility": "list",
            "supports_reasoning_summaries": True,
            "supports_parallel_tool_calls": True,
            "default_reasoning_level": "low",
            "supported_reasoning_levels": [{"effort": "low"}, {"effort": "high"}],
        }
    ]
}


def practice_request(environ: Mapping[str, str] = os.environ, *, pace_s: float = PACE_S) -> SessionRequest:
    """A session with the practice model, in folders that `remove_scratch` removes."""
    import tempfile  # only the demo makes a scratch folder

    scratch = os.path.realpath(tempfile.mkdtemp(prefix="spindle-demo-"))
    _scratch.append(scratch)
    project, home = f"{scratch}/textstats", f"{scratch}/home"
    set_scene(project, home)
    catalog, trusted = (msgspec.json.encode(path).decode() for path in (f"{home}/catalog.json", project))
    settings = f"model_catalog_json = {catalog}\n{_CONFIG}\n[projects.{trusted}]\ntrust_level = 'trusted'\n"
    _write(f"{home}/config.toml", settings.encode())
    _write(f"{home}/catalog.json", msgspec.json.encode(_CATALOG))
    config = load_config(cwd=project, env={**environ, "CODEX_HOME": home}, options=LoadOptions())
    model = PracticeModel(sys.executable, pace_s)
    return SessionRequest(config=config, source="cli", originator="codex_cli_rs", client=model)


def remove_scratch() -> None:
    """At the end of the program, not of a thread: another thread of the demo may follow in the same folders."""
    import shutil  # the same

    while _scratch:
        shutil.rmtree(_scratch.pop(), ignore_errors=True)


def _write(path: str, content: bytes) -> None:
    with open(path, "wb") as file:
        file.write(content)
