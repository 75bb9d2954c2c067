"""`write_file` in the place of `apply_patch`: a small model can say what a file shall hold, and cannot write a patch.

In the thread such a call is an ordinary patch that adds the file, so every other model can read it; and a patch that
does nothing but add one file is shown as the call that it was.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

from spindle.model.wires.functions import FREE_TEXT, FunctionTool
from spindle.model.wires.item_parts import call_arguments
from spindle.protocol.items import Item, decode_foreign, encode_payload

PATCH, WRITE = "apply_patch", "write_file"
PATH, CONTENT = "file_path", "content"
_BEGIN, _END = "*** Begin Patch\n*** Add File: ", "*** End Patch"

_TOOL = FunctionTool(
    name=WRITE,
    description="Makes a file, or gives a file a new text.",
    parameters={
        "type": "object",
        "properties": {
            PATH: {"type": "string", "description": "The file."},
            CONTENT: {"type": "string", "description": "All of its text."},
        },
        "required": [PATH, CONTENT],
        "additionalProperties": False,
    },
)


def with_writing(tools: Sequence[FunctionTool]) -> list[FunctionTool]:
    """The tools, with the one for patches replaced; unless somebody else's tool has that name."""
    if any(tool.name == WRITE for tool in tools):
        return [*tools]
    return [_TOOL if tool.name == PATCH else tool for tool in tools]


def patch_arguments(arguments: Any) -> dict[str, str] | None:
    """The arguments of the patch that a call of `write_file` stands for; None if they are not as they should be."""
    path, content = (arguments.get(PATH), arguments.get(CONTENT)) if isinstance(arguments, dict) else (None, None)
    if not isinstance(path, str) or not isinstance(content, str) or not path.strip() or "\n" in path:
        return None
    lines = content.removesuffix("\n").split("\n") if content else []
    added = "".join(f"+{line}\n" for line in lines)
    return {FREE_TEXT: f"{_BEGIN}{path}\n{added}{_END}"}


def written(call: Item) -> str | None:
    """The call of `write_file` that a recorded patch stands for, as JSON; None for any other patch."""
    try:
        given = decode_foreign(call_arguments(call))
    except (msgspec.DecodeError, UnicodeError):
        return None
    patch = given.get(FREE_TEXT) if isinstance(given, dict) else None
    if not isinstance(patch, str) or not patch.startswith(_BEGIN) or not patch.endswith(_END):
        return None
    path, *lines = patch.removeprefix(_BEGIN).removesuffix(_END).removesuffix("\n").split("\n")
    if not all(line.startswith("+") for line in lines):
        return None
    return encode_payload({PATH: path, CONTENT: "".join(f"{line[1:]}\n" for line in lines)}).decode()
