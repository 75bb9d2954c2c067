"""Files and folders that a person names for something of ours: a page, a document, the folder of a run."""

from __future__ import annotations

from collections.abc import Callable

from spindle.config.agent_reach import widest_reach
from spindle.config.schema import Config
from spindle.errors import ThreadError, UsageError
from spindle.workspace.output_file import OutputFile, check_way


def write_page(content: bytes, path: str, load: Callable[[], Config], *, mode: int = 0o600) -> None:
    """Put it there, for its owner only unless `mode` says otherwise. Raises ThreadError.

    `load` tells what the agent could have made.
    """
    try:
        output = OutputFile(path, reach=widest_reach(load()), mode=mode)
        try:
            output.write(content)
        finally:
            output.close()
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise ThreadError(f"the page cannot be written to {path}: {reason}") from error


def check_named(path: str, config: Config) -> None:
    """Raises UsageError where a link of the agent's leads to a file or folder that a person named for us to write."""
    try:
        check_way(path, widest_reach(config))
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise UsageError(f"nothing is written to {path}: {reason}") from error
