"""Images in a draft: a file that was dropped on the terminal, or what is on the clipboard."""

from __future__ import annotations

import asyncio
import os
import shlex
import sys
import tempfile
from collections.abc import Mapping, Sequence

from spindle.errors import SpindleError
from spindle.process.lookup import find_installed

_SUFFIXES = (".png", ".jpg", ".jpeg", ".gif", ".webp")
_BEGINNINGS = (b"\x89PNG\r\n", b"\xff\xd8\xff", b"GIF8", b"RIFF")
_LONGEST_PATH = 4_096
_PATIENCE_S = 5.0
_LARGEST = 64 << 20
_SCRIPT = """\
set out to open for access POSIX file "{path}" with write permission
write (the clipboard as «class PNGf») to out
close access out"""


def dropped_images(text: str, cwd: str) -> list[str]:
    """The image files that a pasted text names, if it names nothing else; absolute paths.

    A terminal that a file is dropped on types its path: as it is, in quotes, with backslashes, or as a `file:` address.
    """
    text = text.strip()
    if not text or len(text) > _LONGEST_PATH or "\n" in text or "\0" in text:
        return []
    if (path := _image_file(text, cwd)) is not None:
        return [path]
    try:
        words = shlex.split(text)
    except ValueError:
        return []
    paths = [_image_file(word, cwd) for word in words]
    return [path for path in paths if path is not None] if words and all(paths) else []


def _image_file(word: str, cwd: str) -> str | None:
    if word.startswith("file://"):
        from urllib.parse import unquote, urlsplit  # only for such an address

        address = urlsplit(word)
        if address.netloc not in ("", "localhost"):
            return None
        word = unquote(address.path)
    path = os.path.expanduser(word)
    path = path if path.startswith("/") else f"{cwd}/{path}"
    if not path.lower().endswith(_SUFFIXES) or "\0" in path or not os.path.isfile(path):
        return None
    try:
        with open(path, "rb") as file:
            return os.path.normpath(path) if file.read(8).startswith(_BEGINNINGS) else None
    except OSError:
        return None


async def clipboard_image(environment: Mapping[str, str] | None = None, platform: str = sys.platform) -> str:
    """Put the image on the clipboard into a file of its own. Raises SpindleError: none there, or no program to ask."""
    environment = os.environ if environment is None else environment
    asked = False
    for words in _helpers(environment, platform):
        program = find_installed(words[0], environment)
        if program is None:
            continue
        asked = True
        if (path := await _ask((program, *words[1:]), environment)) is not None:
            return path
    if asked:
        raise SpindleError("There is no image on the clipboard.")
    needed = "pngpaste" if platform == "darwin" else "wl-clipboard" if "WAYLAND_DISPLAY" in environment else "xclip"
    raise SpindleError(f"Pasting an image needs the program {needed}, or drop the file on the terminal.")


def _helpers(environment: Mapping[str, str], platform: str) -> list[Sequence[str]]:
    if platform == "darwin":
        return [("pngpaste", "-"), ("osascript", "-e")]
    found: list[Sequence[str]] = []
    if environment.get("WAYLAND_DISPLAY"):
        found.append(("wl-paste", "--no-newline", "--type", "image/png"))
    if environment.get("DISPLAY") or not found:
        found.append(("xclip", "-selection", "clipboard", "-target", "image/png", "-out"))
    return found


async def _ask(words: Sequence[str], environment: Mapping[str, str]) -> str | None:
    """Run a helper; the file it filled, or None when it had no image to give."""
    fd, path = tempfile.mkstemp(prefix="spindle-clipboard-", suffix=".png")
    is_script = os.path.basename(words[0]) == "osascript"
    command = [*words, _SCRIPT.format(path=path)] if is_script else list(words)
    try:
        process = await asyncio.create_subprocess_exec(
            *command, stdin=asyncio.subprocess.DEVNULL, stdout=fd, stderr=asyncio.subprocess.DEVNULL, env=environment
        )
    except OSError:
        os.close(fd)
        os.unlink(path)
        return None
    os.close(fd)
    try:
        await asyncio.wait_for(process.wait(), _PATIENCE_S)
    except TimeoutError:
        process.kill()
        await process.wait()
    if _is_image(path):
        return path
    os.unlink(path)
    return None


def _is_image(path: str) -> bool:
    with open(path, "rb") as file:
        return file.read(8).startswith(_BEGINNINGS) and os.fstat(file.fileno()).st_size <= _LARGEST
