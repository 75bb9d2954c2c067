"""The files a command line of `exec` names: pictures, the output schema, where the last message goes.

Everything about them that can be wrong is found before the first request, which somebody pays for.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence

import msgspec

from spindle.errors import ConfigError
from spindle.policy.reach import Reach
from spindle.protocol.items import decode_foreign
from spindle.workspace.output_file import OutputFile

MAX_SCHEMA_BYTES = 8 * 1024 * 1024


def check_images(paths: Sequence[str]) -> None:
    """Raise ConfigError for the first that is no picture a model could be shown."""
    if not paths:
        return
    from spindle.tools.images import ImageError, check_image  # only with pictures

    for path in paths:
        try:
            check_image(os.path.abspath(path))
        except ImageError as error:
            raise ConfigError(
                f"the picture {path} cannot be attached: {error}; accepted are PNG, JPEG, GIF and WebP files"
            ) from error


def read_schema(path: str | None) -> dict[str, object] | None:
    if path is None:
        return None
    try:
        with open(path, "rb") as file:
            content = file.read(MAX_SCHEMA_BYTES + 1)
    except OSError as error:
        raise ConfigError(f"cannot read the output schema {path}: {error.strerror}") from error
    if len(content) > MAX_SCHEMA_BYTES:
        raise ConfigError(f"the output schema {path} is larger than {MAX_SCHEMA_BYTES >> 20} MiB")
    try:
        schema = decode_foreign(content.removeprefix(b"\xef\xbb\xbf"))
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise ConfigError(f"the output schema {path} is not JSON: {error}") from error
    if not isinstance(schema, dict):
        raise ConfigError(f"the output schema {path} must be a JSON object")
    return schema


# ---- the last message --------------------------------------------------------------------------------


def open_output(path: str, reach: Reach | None, *, what: str = "the last message", option: str = "-o") -> OutputFile:
    """The file for the last message, or for `what` an option names.

    Raises ConfigError if it cannot be written there, as far as can be told now.

    `reach`: what the agent could have made, whose links are not followed.
    """
    try:
        return OutputFile(path, reach=reach)
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise ConfigError(f"{what} cannot be written to {path} ({option}): {reason}") from error


def write_last_message(output: OutputFile, message: str | None) -> bool:
    """Put the last message into the file. False, and a sentence on stderr, when that cannot be done."""
    try:
        output.write((message or "").encode("utf-8", "replace"))
    except OSError as error:
        print(f"error: the last message cannot be written to {output.path} (-o): {error.strerror}", file=sys.stderr)
        return False
    finally:
        output.close()
    if message is None:
        print(f"warning: there is no last message; {output.path} is empty", file=sys.stderr)
    return True
