"""The installed `spindle` in a terminal of its own: keys go in, and a person's view of it comes out.

    def test_something(tui: OpenTui, server: FakeServer) -> None:
        server.script(turn(message("the answer")))
        with tui() as t:
            t.ready().submit("hello")
            t.wait_for("the answer")
            t.key("ctrl-d")
            assert t.wait_exit() == 0
            t.assert_sane()

The fixture `tui` (conftest.py here) starts it inline in the trusted workspace; `server` is its model server.
"""

from __future__ import annotations

import fcntl
import os
import re
import select
import signal
import struct
import subprocess
import termios
import threading
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Protocol, Self, TypeVar

from tui.emulator import Emulator

T = TypeVar("T")
PATIENCE_S = 30.0
READY = "Ж"
"""A letter that no text of ours has."""

KEYS = {
    "enter": "\r",
    "esc": "\x1b",
    "tab": "\t",
    "shift-tab": "\x1b[Z",
    "backspace": "\x7f",
    "space": " ",
    "up": "\x1b[A",
    "down": "\x1b[B",
    "right": "\x1b[C",
    "left": "\x1b[D",
    "home": "\x1b[H",
    "end": "\x1b[F",
    "pgup": "\x1b[5~",
    "pgdn": "\x1b[6~",
    "insert": "\x1b[2~",
    "delete": "\x1b[3~",
    "shift-enter": "\x1b[27;2;13~",
    "alt-enter": "\x1b\r",
    "alt-up": "\x1b[1;3A",
    "shift-left": "\x1b[1;2D",
    "ctrl-left": "\x1b[1;5D",
    "ctrl-right": "\x1b[1;5C",
    "alt-backspace": "\x1b\x7f",
    "ctrl-_": "\x1f",
    "f1": "\x1bOP",
    "f2": "\x1bOQ",
    **{f"ctrl-{letter}": chr(ord(letter) - 96) for letter in "abcdefghijklmnopqrstuvwxyz"},
    **{f"alt-{letter}": f"\x1b{letter}" for letter in "abcdefghijklmnopqrstuvwxyz,."},
}
KITTY_KEYS = {
    "esc": "\x1b[27u",
    "shift-tab": "\x1b[9;2u",
    "shift-enter": "\x1b[13;2u",
    "alt-enter": "\x1b[13;3u",
    **{f"ctrl-{letter}": f"\x1b[{ord(letter)};5u" for letter in "abcdefghijklmnopqrstuvwxyz"},
}
NOT_INHERITED = (
    *("NO_COLOR", "CLICOLOR", "COLORTERM", "TMUX", "STY", "ZELLIJ", "TERM_PROGRAM", "CI", "SSH_TTY", "SSH_CONNECTION"),
    *("COLUMNS", "LINES", "LC_ALL", "VISUAL", "EDITOR", "XTERM_VERSION", "VTE_VERSION", "KITTY_WINDOW_ID"),
)


class OpenTui(Protocol):
    def __call__(
        self,
        *args: str,
        columns: int = 100,
        rows: int = 30,
        env: Mapping[str, str] | None = None,
        before: bytes = b"",
        kitty: bool = False,
        reflows: bool = False,
        cwd: Path | None = None,
    ) -> Tui:
        """Start it with these arguments; `before` stands on the screen already."""
        ...


class Tui:
    """A program on a pseudo-terminal. A thread reads what it writes and answers its queries, as a terminal does."""

    def __init__(
        self,
        command: list[str],
        *,
        cwd: Path,
        env: Mapping[str, str],
        columns: int = 100,
        rows: int = 30,
        before: bytes = b"",
        kitty: bool = False,
        reflows: bool = False,
    ) -> None:
        self._outer, self._inner = os.openpty()
        self._set_size(columns, rows)
        self._attributes = termios.tcgetattr(self._inner)
        self._changed = threading.Condition(threading.RLock())
        self._is_over = False
        self._raw = bytearray()
        self._last_came_s = time.monotonic()
        identity = b"\x1b[>84;0;0c" if reflows else b"\x1b[>41;367;0c"
        self.emulator = Emulator(columns, rows, reply=self._answer, kitty=kitty, reflows=reflows, identity=identity)
        """The terminal; hold still with `t.still()` to look at more than one fact."""
        self.emulator.feed(before)
        kept = {name: value for name, value in os.environ.items() if name not in NOT_INHERITED}
        self.process = subprocess.Popen(
            command,
            cwd=cwd,
            env={**kept, "TERM": "xterm-256color", "LANG": "C.UTF-8", "SHELL": "/bin/bash", **env},
            stdin=self._inner,
            stdout=self._inner,
            stderr=self._inner,
            start_new_session=True,
            preexec_fn=_take_terminal,
        )
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        if self._outer < 0:
            return
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
            try:
                self.process.wait(2)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait()
        self.close_terminal()

    def close_terminal(self) -> None:
        """The window is closed: the program loses its terminal."""
        self._is_over = True
        self._reader.join()
        os.close(self._outer)
        os.close(self._inner)
        self._outer = -1

    # ---- what a person does --------------------------------------------------------------------

    def send(self, data: str | bytes) -> Self:
        """These bytes, as if from the keyboard."""
        left = data.encode() if isinstance(data, str) else data
        while left:
            left = left[os.write(self._outer, left[:1024]) :]
        return self

    def type(self, text: str, gap_s: float = 0.012) -> Self:
        """Key by key, as fast as the fastest typist: slow enough not to be a paste."""
        for char in text:
            self.send(char)
            time.sleep(gap_s)
        return self

    def key(self, *names: str, gap_s: float = 0.03) -> Self:
        """Keys by name (`enter`, `ctrl-c`, `alt-up`), or a character."""
        for name in names:
            with self._changed:
                is_kitty = bool(self.emulator.kitty_flags[-1] & 1)
            self.send((KITTY_KEYS.get(name) if is_kitty else None) or KEYS.get(name) or name)
            time.sleep(gap_s)
        return self

    def paste(self, text: str) -> Self:
        """As terminals paste: line ends as carriage returns, in brackets when the program has asked for them."""
        body = text.replace("\n", "\r")
        return self.send(f"\x1b[200~{body}\x1b[201~" if self.modes.get(2004) else body)

    def submit(self, text: str) -> Self:
        """Type a message, see it in the composer, and press Enter."""
        self.type(text)
        if text.startswith("/"):
            # The list below the composer shows a command before the last of its letters was read.
            self.until(lambda: any(row.strip() == f"› {text}" for row in self.screen.split("\n")), f"{text!r} typed")
        else:
            self.wait_for(text, where="screen")
        return self.key("enter")

    def resize(self, columns: int, rows: int) -> Self:
        with self._changed:
            self.emulator.resize(columns, rows)
        self._set_size(columns, rows)
        return self

    # ---- what a person sees --------------------------------------------------------------------

    def still(self) -> threading.Condition:
        """`with t.still():` nothing new is taken in."""
        return self._changed

    @property
    def screen(self) -> str:
        with self._changed:
            return "\n".join(self.emulator.screen)

    @property
    def scrollback(self) -> str:
        """Everything a person finds who scrolls up, and the window itself."""
        with self._changed:
            return "\n".join(self.emulator.everything)

    @property
    def flat(self) -> str:
        """The same, with all white space and lines of boxes as one blank: independent of where lines are broken."""
        return flat(self.scrollback)

    @property
    def raw(self) -> bytes:
        """Every byte that came."""
        with self._changed:
            return bytes(self._raw)

    @property
    def modes(self) -> dict[int, bool]:
        with self._changed:
            return dict(self.emulator.modes)

    @property
    def title(self) -> str:
        with self._changed:
            return self.emulator.titles[0]

    def events(self, kind: str | None = None) -> list[str]:
        """The control sequences that came (`csi`, `osc`, …), without the bytes that begin them."""
        with self._changed:
            return [body for each, body in self.emulator.events if kind in (None, each)]

    # ---- waiting -------------------------------------------------------------------------------

    def until(self, look: Callable[[], T], what: str = "it", patience_s: float = PATIENCE_S) -> T:
        """What `look` gives as soon as it gives something; it is asked whenever the program has written."""
        deadline = time.monotonic() + patience_s
        with self._changed:
            while True:
                found = look()
                left = deadline - time.monotonic()
                if found or left <= 0 or (self._is_over and self.process.poll() is not None):
                    assert found, f"{what}: not seen.\n{self.brief()}"
                    return found
                self._changed.wait(min(left, 0.1))

    def wait_for(self, sought: str | re.Pattern[str], where: str = "all", patience_s: float = PATIENCE_S) -> Self:
        """Until it stands on the screen (where="screen"), or there or above it. Breaks of lines do not matter."""
        self.until(lambda: self._has(sought, where), f"{sought!r}", patience_s)
        return self

    def wait_gone(self, sought: str | re.Pattern[str], patience_s: float = PATIENCE_S) -> Self:
        """Until it is no longer on the screen."""
        self.until(lambda: not self._has(sought, "screen"), f"{sought!r} going away", patience_s)
        return self

    def _has(self, sought: str | re.Pattern[str], where: str) -> bool:
        text = self.screen if where == "screen" or self.emulator.is_alternate else self.scrollback
        return flat(sought) in flat(text) if isinstance(sought, str) else sought.search(text) is not None

    def idle(self, quiet_s: float = 0.3, patience_s: float = 10.0) -> Self:
        """Until nothing has been written for a while."""
        start = time.monotonic()
        while (now := time.monotonic()) < start + patience_s and not self._is_over:
            with self._changed:
                if now - max(start, self._last_came_s) >= quiet_s:
                    break
            time.sleep(0.02)
        return self

    def ready(self) -> Self:
        """Until the composer echoes keys; it is empty then."""
        self.until(lambda: self._raw, "first output")
        self.send(READY).wait_for(READY, where="screen")
        return self.key("backspace").wait_gone(READY)

    def wait_exit(self, patience_s: float = PATIENCE_S) -> int:
        """The exit code, once everything that was written is on the screen."""
        try:
            self.process.wait(patience_s)
        except subprocess.TimeoutExpired:
            raise AssertionError(f"still running.\n{self.brief()}") from None
        self._reader.join(5)
        return self.process.returncode

    # ---- afterwards ----------------------------------------------------------------------------

    def assert_sane(self) -> None:
        """The terminal is as a shell needs it: line discipline, cursor, main screen, nothing reported, plain keys."""
        now = termios.tcgetattr(self._inner)
        assert now[:4] == self._attributes[:4], f"terminal attributes: {self._attributes[:4]} became {now[:4]}"
        modes = self.modes
        left_on = [number for number, is_on in modes.items() if is_on and number not in (7, 25)]
        assert not left_on, f"modes left on: {left_on}"
        assert modes.get(25, True), "the cursor is hidden"
        assert modes.get(7, True), "lines are not broken any more"
        assert self.emulator.kitty_flags == [0], f"keyboard protocol left on: {self.emulator.kitty_flags}"
        assert len(self.emulator.titles) == 1, "the title is not what it was"
        keys = [body for body in self.events("csi") if re.fullmatch(r">4(;\d)?m", body)]
        assert not keys or keys[-1] in (">4m", ">4;0m"), "modifyOtherKeys left on"
        assert self.emulator.cursor[1] == 0, f"the cursor is not on a fresh line:\n{self.screen}"

    def brief(self) -> str:
        return f"exit code {self.process.poll()}; the screen:\n{self.screen[-3000:]}\n"

    # ---- the other end -------------------------------------------------------------------------

    def _read(self) -> None:
        quiet_after_the_end = 0
        while not self._is_over and quiet_after_the_end < 2:
            ready, _, _ = select.select([self._outer], [], [], 0.05)
            if not ready:
                quiet_after_the_end += self.process.poll() is not None
                continue
            try:
                data = os.read(self._outer, 1 << 16)
            except OSError:
                break
            with self._changed:
                self._raw += data
                self._last_came_s = time.monotonic()
                self.emulator.feed(data)
                self._changed.notify_all()
        with self._changed:
            self._is_over = True
            self._changed.notify_all()

    def _answer(self, data: bytes) -> None:
        os.write(self._outer, data)

    def _set_size(self, columns: int, rows: int) -> None:
        fcntl.ioctl(self._outer, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))


def _take_terminal() -> None:
    """In the child: its terminal is stdin, so that Ctrl-Z, SIGHUP and changes of the size arrive."""
    fcntl.ioctl(0, termios.TIOCSCTTY, 0)
    signal.signal(signal.SIGINT, signal.default_int_handler)


def flat(text: str) -> str:
    return re.sub(r"[\s\u2500-\u259f]+", " ", text).strip()


def trust(home: Path, folder: Path) -> None:
    """Nothing is asked about this folder."""
    with (home / "config.toml").open("a") as file:
        file.write(f'\n[projects."{folder.resolve()}"]\ntrust_level = "trusted"\n')
