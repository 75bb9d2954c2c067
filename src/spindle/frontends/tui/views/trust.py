"""Whether the files of a folder may have a say in what the agent does. Asked once for a folder nobody spoke about."""

from __future__ import annotations

from typing import Literal

from spindle.frontends.tui.views.list import ListView, Row

TrustChoice = Literal["trusted", "untrusted"]


class TrustView(ListView[TrustChoice | Literal["quit"]]):
    """The answer is what is saved for the folder; `quit` when the person leaves."""

    guards_typed_ahead = True  # a 1 in a message is no sign of trust

    def __init__(self, folder: str) -> None:
        super().__init__(
            "Do you trust the files in this folder?",
            [
                Row(
                    value="trusted",
                    name="Yes, trust it",
                    about="its configuration (.codex), hooks and rules take effect; they can run programs",
                ),
                Row(
                    value="untrusted",
                    name="No, go on without trust",
                    about="its configuration, hooks and rules are ignored, and you are asked before most commands",
                ),
                Row(value="quit", name="Quit", about="nothing is saved"),
            ],
            note=f"{folder}\nTrust it only if you know who wrote what is in it. The answer is saved in config.toml.",
            highlighted=1,
            hint="Enter or a number · Esc quits",
        )

    def leave(self) -> None:
        self.settle("quit")
