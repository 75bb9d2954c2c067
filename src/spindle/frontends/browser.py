"""Opening an address in the person's browser."""

from __future__ import annotations

import os
import subprocess
import sys

from spindle.process.lookup import find_installed


def open_in_browser(address: str) -> None:
    """Hand the address to the desktop, if there is one. It was checked, and shown: an http(s) address, as one word."""
    is_mac = sys.platform == "darwin"
    if not is_mac and not (os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY")):
        return
    name = "open" if is_mac else "xdg-open"
    opener = find_installed(name)
    if opener is None or not address.startswith(("https://", "http://")):
        return
    nowhere = subprocess.DEVNULL
    try:
        subprocess.Popen([opener, address], stdin=nowhere, stdout=nowhere, stderr=nowhere, start_new_session=True)
    except OSError:
        pass  # the address is on the screen
