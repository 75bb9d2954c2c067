"""The terminal while it is ours: how it is set, what it is asked, and that it is given back as it was.

Output goes through a descriptor of our own that never blocks: to make the shared one non-blocking would change it for
the shell, too. What the terminal does not take at once waits here and is written when it does; while anything waits
(`is_behind`) no frame should be made, so a slow terminal gets fewer frames, never half of one.
"""

from __future__ import annotations

import atexit
import contextlib
import os
import re
import select
import signal
import termios
from collections.abc import Callable, Mapping
from typing import Any

from spindle.frontends.terminal import terminal_size
from spindle.frontends.tui.keys import Reply
from spindle.frontends.tui.screen.messages import notification, title

_PASTES_IN_BRACKETS, _TELLS_FOCUS = 2004, 1004
_KITTY = 1 | 4
"""Tell keys apart that old encodings mix up; and say which key it is on a Latin keyboard."""
_WHO = "\x1b[?u\x1b[>c\x1b[c"
"""Do you know the new keyboard protocol? Who are you? The answers come among the keys. Every terminal answers the last
question: when that answer is there, the others will not come any more."""
_LAST_QUESTION = b"\x1b[c"
_LAST_ANSWER = re.compile(rb"\x1b\[\?[0-9;]*c")
_PATIENCE_S = 0.5
"""How long leaving waits for a terminal that takes nothing."""
_AT_ONCE = 256
"""A terminal that is ready takes at least so many bytes without waiting."""
_ANSWER_S, _MOST_READS = 0.1, 10
"""How long leaving waits for answers on their way: the shell would take them for something typed."""


class Terminal:
    """`enter` takes the terminal, `leave` gives it back, any number of times; nothing may be left on by any way out."""

    def __init__(self, env: Mapping[str, str], *, read_from: int = 0, write_to: int = 1) -> None:
        self.size = terminal_size(write_to)
        """Columns and rows, as last measured."""
        self.on_leave: Callable[[], str] | None = None
        """Gives what takes the live area away (`Painter.farewell`)."""
        self.on_drained: Callable[[], None] | None = None
        """Called when all that waited is written."""
        self.bytes_written = 0
        self._env = env
        self._read_from, self._write_to = read_from, write_to
        self._out = write_to
        self._saved: list[Any] | None = None
        self._waiting = bytearray()
        self._is_writing_later = False
        self._has_kitty = False
        self._is_kitty_on = False
        self._is_alternate = False
        self._has_asked = False
        self._unanswered = 0
        self._title = ""
        self._swaps_size: bool | None = None
        """Whether the terminal tells its size the wrong way round; None as long as we do not know."""

    # ---- taking and giving back ------------------------------------------------------------------

    @property
    def is_ours(self) -> bool:
        return self._saved is not None

    def enter(self) -> int:
        """Take the terminal. Gives how many bytes were typed before: in these Enter is a line feed."""
        if self._saved is not None:
            return 0
        saved = termios.tcgetattr(self._read_from)
        early = _bytes_waiting(self._read_from)
        termios.tcsetattr(self._read_from, termios.TCSANOW, _raw(saved))
        self._saved = saved
        self._out = _own_descriptor(self._write_to)
        self.measure()
        self._title = ""
        kitty = f"\x1b[>{_KITTY}u" if self._has_kitty else ""
        self._is_kitty_on = self._has_kitty
        self._write_text(f"\x1b[22;0t\x1b[?{_PASTES_IN_BRACKETS}h\x1b[?{_TELLS_FOCUS}h{kitty}")
        if not self._has_asked:
            self._has_asked = True
            atexit.register(self.leave)
            self._write_text(_WHO)
        return early

    def ask_background(self) -> None:
        """Which colours has the window? `foreground` and `background` are the answers, if any."""
        self._write_text("\x1b]10;?\x1b\\\x1b]11;?\x1b\\\x1b[c")

    def take_reply(self, reply: Reply) -> Reply:
        """What the terminal has answered. Gives what that means to the painter."""
        match reply.kind:
            case "kitty" if self.is_ours and not self._is_kitty_on:
                self._has_kitty = self._is_kitty_on = True
                self._write_text(f"\x1b[>{_KITTY}u")
            case "size" if len(reply.values) == 2:
                self._take_size(reply.values[1], reply.values[0])
            case "attributes":
                self._unanswered = max(0, self._unanswered - 1)
            case "status":  # it does not tell its size, but has just told the system
                columns, rows = self.measure()
                return Reply("size", (rows, columns))
            case _:
                pass
        return reply

    def _take_size(self, columns: int, rows: int) -> None:
        """What the terminal itself says of its window is newer than what the system says: tmux tells it late."""
        known = terminal_size(self._write_to)
        if known in ((columns, rows), (rows, columns)):
            self._swaps_size = known != (columns, rows)  # as some versions of tmux do
        if columns and rows and self._swaps_size is not None:
            self.size = (rows, columns) if self._swaps_size else (columns, rows)

    def leave(self) -> None:
        """Give the terminal back as it was. Safe at any time, in any state; from a signal handler or at exit, too."""
        saved, self._saved = self._saved, None
        if saved is None:
            return
        with contextlib.suppress(OSError, ValueError):
            self._drain()
        if self._waiting:
            # It takes nothing. What lies between us and it is thrown away: so there is room for the farewell, which is
            # the first thing it reads when it goes on.
            with contextlib.suppress(OSError, termios.error):
                termios.tcflush(self._out, termios.TCOFLUSH)
        farewell = self._farewell()
        with contextlib.suppress(OSError):
            _write_all(self._out, farewell, _PATIENCE_S)
        with contextlib.suppress(OSError):
            self._forget_answers()
        with contextlib.suppress(OSError, termios.error):
            # Not "after the output is written": a terminal that is stuck would keep us here for ever.
            termios.tcsetattr(self._read_from, termios.TCSANOW, saved)
        if self._out != self._write_to:
            with contextlib.suppress(OSError):
                os.close(self._out)
            self._out = self._write_to

    def _farewell(self) -> bytes:
        """Everything off, whether it was on or not; then a fresh line."""
        was_cut = bool(self._waiting)
        self._stop_writing_later()
        self._waiting.clear()
        parts = ["\x18"] if was_cut else []  # ends a sequence of which only the beginning was written
        parts.append("\x1b[?2026l\x1b[0m")
        if self._is_alternate:
            parts.append(("\x1b[<u" if self._is_kitty_on else "") + "\x1b[?1049l")
            self._is_alternate = False
        live = "\r\n"
        if self.on_leave is not None:
            with contextlib.suppress(Exception):  # whatever state it is in, the rest must be done
                live = self.on_leave()
                if was_cut:  # it would answer when nobody listens any more
                    live = live.replace(_LAST_QUESTION.decode(), "")
                self._unanswered += live.encode().count(_LAST_QUESTION)
        parts.append(live)
        parts.append("\x1b[<u" if self._is_kitty_on else "")
        self._is_kitty_on = False
        parts.append(f"\x1b[?{_TELLS_FOCUS}l\x1b[?{_PASTES_IN_BRACKETS}l\x1b[?7h\x1b[0m\x1b[?25h\x1b[23;0t")
        return "".join(parts).encode()

    def _forget_answers(self) -> None:
        """Wait for answers to our questions that are still to come, up to the last of them."""
        seen = b""
        for _ in range(_MOST_READS if self._unanswered else 0):
            if not _is_ready(self._read_from, select.POLLIN, _ANSWER_S) or not (data := os.read(self._read_from, 4096)):
                break
            seen += data
            if len(_LAST_ANSWER.findall(seen)) >= self._unanswered:
                break
        self._unanswered = 0

    def say(self, words: str, *, is_error: bool = False) -> None:
        """A line on the terminal that is no longer ours; one that takes nothing does not keep us."""
        with contextlib.suppress(OSError):  # it may be gone
            _write_all(2 if is_error else self._write_to, f"{words}\n".encode("utf-8", "replace"), _PATIENCE_S)

    def suspend(self) -> int:
        """Give the terminal to the shell, and stop, until we are in the foreground again. Gives what `enter` gives."""
        self.leave()
        handler = signal.getsignal(signal.SIGTSTP)
        signal.signal(signal.SIGTSTP, signal.SIG_DFL)
        try:
            os.kill(0, signal.SIGTSTP)  # all of our process group: a wrapper that started us must stop, too
        finally:
            if handler is not None:
                signal.signal(signal.SIGTSTP, handler)
        return self.enter()

    def measure(self) -> tuple[int, int]:
        """Look how large the window is now."""
        self.size = terminal_size(self._write_to)
        return self.size

    # ---- writing -------------------------------------------------------------------------------

    @property
    def is_behind(self) -> bool:
        """Something waits to be written: make no frame before `on_drained` is called."""
        return bool(self._waiting)

    def write(self, data: bytes) -> None:
        """Write all of it, in order, without waiting: what the terminal does not take now is written later."""
        if not self.is_ours:
            return
        self.bytes_written += len(data)
        self._unanswered += data.count(_LAST_QUESTION)
        self._waiting += data
        if not self._is_writing_later:
            self._write_on()

    def _write_text(self, text: str) -> None:
        self.write(text.encode())

    def _write_on(self) -> None:
        try:
            while self._waiting:
                written = os.write(self._out, bytes(self._waiting[:65536]))
                del self._waiting[:written]
        except BlockingIOError:
            self._write_later()
            return
        except InterruptedError:
            self._write_later()
            return
        except OSError:  # the terminal is gone; reading it will tell
            self._waiting.clear()
        was_behind = self._is_writing_later
        self._stop_writing_later()
        if was_behind and self.on_drained is not None:
            self.on_drained()

    def _write_later(self) -> None:
        if self._is_writing_later:
            return
        try:
            self._loop().add_writer(self._out, self._write_on)
            self._is_writing_later = True
        except RuntimeError:  # no loop: nobody else has to be served meanwhile
            self._drain()

    def _stop_writing_later(self) -> None:
        if self._is_writing_later:
            self._is_writing_later = False
            with contextlib.suppress(RuntimeError, OSError, ValueError):
                self._loop().remove_writer(self._out)

    @staticmethod
    def _loop() -> Any:
        """The running loop. Raises RuntimeError when there is none, as before the first paint."""
        import asyncio  # loaded with the loop, and not for the first paint

        return asyncio.get_running_loop()

    def _drain(self) -> None:
        """Write what waits, as long as the terminal takes any of it within reasonable time."""
        written = _write_all(self._out, bytes(self._waiting), _PATIENCE_S)
        del self._waiting[:written]

    # ---- what else a terminal does ---------------------------------------------------------------

    def alternate_screen(self, on: bool) -> None:
        """A screen of its own for what a person looks at for a while; the main one is as before afterwards."""
        if on != self._is_alternate:
            self._is_alternate = on
            # kitty keeps the state of its keyboard protocol for each screen
            keys = (f"\x1b[>{_KITTY}u" if on else "\x1b[<u") if self._is_kitty_on else ""
            self._write_text(f"\x1b[?1049h{keys}" if on else f"{keys}\x1b[?1049l")

    def set_title(self, text: str) -> None:
        """The title of the window; `leave` brings the old one back."""
        sequence = title(text)
        if sequence != self._title:
            self._title = sequence
            self._write_text(sequence)

    def notify(self, text: str, method: str = "auto") -> None:
        """Call for a person who looks elsewhere; `method` as `[tui] notification_method` says."""
        self._write_text(notification(text, method, self._env))

    def copy(self, text: str) -> None:
        """Put a text that the person asked for into the clipboard of the terminal."""
        from spindle.frontends.tui.screen.messages import clipboard  # with the first copy

        self._write_text(clipboard(text, self._env))


def _raw(saved: list[Any]) -> list[Any]:
    """Every byte as it comes, Ctrl-C, Ctrl-S and Ctrl-Z too; output as we write it."""
    raw = [*saved[:6], list(saved[6])]
    raw[0] &= ~(
        termios.BRKINT
        | termios.ICRNL
        | termios.INLCR
        | termios.IGNCR
        | termios.INPCK
        | termios.ISTRIP
        | termios.IXON
        | termios.PARMRK
    )
    raw[1] &= ~termios.OPOST
    raw[2] = (raw[2] & ~(termios.CSIZE | termios.PARENB)) | termios.CS8
    raw[3] &= ~(termios.ECHO | termios.ECHONL | termios.ICANON | termios.IEXTEN | termios.ISIG)
    raw[6][termios.VMIN], raw[6][termios.VTIME] = 1, 0
    return raw


def _own_descriptor(shared: int) -> int:
    """The same terminal, opened once more, so that it can be made non-blocking for us alone."""
    try:
        return os.open(os.ttyname(shared), os.O_WRONLY | os.O_NOCTTY | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        return shared  # such as in a container that does not have the device: writing may block there


def _bytes_waiting(descriptor: int) -> int:
    import fcntl  # at the start, once

    answer = bytearray(4)
    with contextlib.suppress(OSError):
        fcntl.ioctl(descriptor, termios.FIONREAD, answer)
    return int.from_bytes(answer, "little")


def _write_all(descriptor: int, data: bytes, patience_s: float) -> int:
    """Write until it is done, or nothing is taken for too long. Gives how much was written."""
    done = 0
    while done < len(data):
        if not _is_ready(descriptor, select.POLLOUT, patience_s):
            break
        try:
            done += os.write(descriptor, data[done : done + _AT_ONCE])
        except (BlockingIOError, InterruptedError):
            continue
    return done


def _is_ready(descriptor: int, what: int, patience_s: float) -> bool:
    poll = select.poll()
    poll.register(descriptor, what)
    return any(event & what for _, event in poll.poll(max(0, int(patience_s * 1000))))
