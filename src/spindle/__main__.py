"""The entry point of the command: `spindle` and `python -m spindle`.

Answers --version before anything is imported and hands all else to the command line in `frontends/cli.py`.
"""

from __future__ import annotations

import sys


def main() -> int:
    """Run the command line of this process; the result is the exit code."""
    if sys.argv[1:] in (["--version"], ["-V"]):
        from spindle import __version__

        sys.stdout.write(f"spindle {__version__}\n")
        return 0

    import gc

    # Modules and history stay for good: looking through them every 700 objects finds nothing and costs start-up time.
    # With this many, start-up has no collection at all.
    gc.set_threshold(100_000, 20, 50)
    # msgspec takes typing_extensions where another package brought it along; Python has all of it, several ms faster.
    sys.modules.setdefault("typing_extensions", None)  # pyright: ignore[reportArgumentType]
    try:
        from spindle.frontends.cli import main as run_command_line
    except KeyboardInterrupt:
        return 130  # a Ctrl-C in the first instants needs no traceback

    if sys.modules["typing_extensions"] is None:
        del sys.modules["typing_extensions"]
    return run_command_line()


def run() -> None:
    """Run `main` and end the process without Python's own tear-down, which takes as long as a tool round."""
    import os

    if sys.getfilesystemencoding() != "utf-8":
        # Names, commands and output are UTF-8 whatever the locale says; only a new interpreter can be told so.
        os.execv(sys.executable, [sys.executable, "-X", "utf8", *sys.orig_argv[1:]])
    if None in (sys.stdin, sys.stdout, sys.stderr):
        open_closed_streams()
    code = 0
    try:
        code = main()
        sys.stdout.flush()
        sys.stderr.flush()
    except BrokenPipeError:
        # The reader of our output went away; there is nobody left to tell.
        code = 1
    except OSError as error:
        import errno

        # A stream has no name. A failure was told already; a success that cannot be read is none.
        if error.filename is not None or error.errno not in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO):
            raise
        if code == 0:
            sys.stderr.write(f"error: stdout cannot be written: {error.strerror}\n")
        code = code or 1
    os._exit(code)


def open_closed_streams() -> None:
    """Put /dev/null where the caller closed a standard stream: the next file opened would take its number."""
    import os

    for fd, name in enumerate(("stdin", "stdout", "stderr")):
        if getattr(sys, name) is None:
            opened = os.open(os.devnull, os.O_RDWR)
            if opened == fd:
                os.set_inheritable(fd, True)  # a program we start gets it too, as it would get a real one
            else:
                os.dup2(opened, fd)
                os.close(opened)
            setattr(sys, name, os.fdopen(fd, "w" if fd else "r", encoding="utf-8", closefd=False))


if __name__ == "__main__":
    # `python -m` puts the working directory on the path: a repository must not be able to replace our modules.
    if not sys.flags.safe_path:
        del sys.path[0]
    run()
