"""The entry point of the command: `spindle` and `python -m spindle`.

Answers --version before anything is imported and hands all else to the command line in `frontends/cli.py`.
"""

import os
import sys

INTERRUPTED = 130
ASKS_VERSION = (["--version"], ["-V"])


def run() -> None:
    """Run the command line and end the process without Python's own tear-down, which takes as long as a tool round."""
    if sys.getfilesystemencoding() != "utf-8":
        # Names, commands and output are UTF-8 whatever the locale says; only a new interpreter can be told so.
        os.execv(sys.executable, [sys.executable, "-X", "utf8", *sys.orig_argv[1:]])
    if sys.argv[1:] in ASKS_VERSION and _told_version():
        os._exit(0)
    from spindle.frontends import late_modules, standard_streams  # not to tell the version

    standard_streams.install()
    try:
        try:
            code = late_modules.load_command_line().main()
        except BrokenPipeError:
            # The reader of our output went away; there is nobody left to tell.
            code = 1
        except OSError as error:
            import errno  # only when something is wrong

            # A stream has no name; anything else is a bug of ours.
            if error.filename is not None or error.errno not in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO):
                raise
            code = standard_streams.failed(error)
        code = standard_streams.flush(code)
    except KeyboardInterrupt:
        code = INTERRUPTED  # what is still unwritten is what nobody reads
    os._exit(code)


def _told_version() -> bool:
    """Answer by one system call, before anything else is loaded; False when that must be done with more care."""
    from spindle import __version__  # only to be told

    answer = f"spindle {__version__}\n".encode()
    try:
        return os.write(1, answer) == len(answer)
    except OSError:
        return False


if __name__ == "__main__":
    from spindle.module_path import leave_working_folder  # the command has done that itself

    leave_working_folder()
    run()
