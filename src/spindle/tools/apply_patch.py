"""The apply_patch tool as the model sees it. What it does is in `patching`."""

from __future__ import annotations

from typing import Any

import msgspec

from spindle.tools.descriptions import description
from spindle.tools.tool import ToolCall, ToolContext, ToolResult, function_spec, parse_arguments

GRAMMAR = r"""start: begin_patch hunk+ end_patch
begin_patch: "*** Begin Patch" LF
end_patch: "*** End Patch" LF?

hunk: add_hunk | delete_hunk | update_hunk
add_hunk: "*** Add File: " filename LF add_line+
delete_hunk: "*** Delete File: " filename LF
update_hunk: "*** Update File: " filename LF change_move? change?

filename: /(.+)/
add_line: "+" /(.*)/ LF -> line

change_move: "*** Move to: " filename LF
change: (change_context | change_line)+ eof_line?
change_context: ("@@" | "@@ " /(.+)/) LF
change_line: ("+" | "-" | " ") /(.*)/ LF
eof_line: "*** End of File" LF

%import common.LF
"""

_FREEFORM_DESCRIPTION = (
    "Edits files with a patch. Send the patch itself as plain text that follows the grammar; do not wrap it in JSON."
)


class ApplyPatchArgs(msgspec.Struct):
    input: str


class ApplyPatch:
    """Listed in one of two flavours; answers calls of both."""

    name = "apply_patch"
    parallel = False

    def __init__(self, freeform: bool) -> None:
        self._freeform = freeform

    def spec(self) -> dict[str, Any]:
        if self._freeform:
            return {
                "type": "custom",
                "name": self.name,
                "description": _FREEFORM_DESCRIPTION,
                "format": {"type": "grammar", "syntax": "lark", "definition": GRAMMAR},
            }
        parameter = {"type": "string", "description": "The whole patch."}
        return function_spec(self.name, description(self.name), {"input": parameter}, ["input"])

    async def run(self, call: ToolCall, ctx: ToolContext) -> ToolResult:
        patch = call.arguments if call.is_freeform else parse_arguments(call, ApplyPatchArgs).input
        from spindle.tools import patching  # what reads and writes patches is loaded with the first one

        return await patching.answer(patch, ctx)
