"""Every kind of event message that the program has, wherever it is defined."""

from __future__ import annotations

import importlib
import re
from pathlib import Path

import spindle
from spindle.protocol.events import Msg

SOURCE = Path(spindle.__file__).parent


def every_kind() -> list[type[Msg]]:
    """Modules with event messages are loaded when they are needed; here all of them are."""
    for path in sorted(SOURCE.rglob("*.py")):
        if re.search(r"^class \w+\(Msg\b", path.read_text(), re.MULTILINE):
            importlib.import_module(".".join(("spindle", *path.relative_to(SOURCE).with_suffix("").parts)))
    return [kind for kind in Msg.__subclasses__() if kind.__module__.startswith("spindle.")]
