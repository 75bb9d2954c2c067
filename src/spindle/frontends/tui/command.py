"""`spindle`, `spindle PROMPT`, `spindle resume` and `spindle fork`: from the command line to the first paint.

Only what painting needs is loaded before it; the rest comes while the person already sees the composer. Keys typed
meanwhile wait in the terminal: none is lost.
"""

from __future__ import annotations

from spindle.config.schema import Config
from spindle.errors import SpindleError
from spindle.frontends.launch import config_from, use_local_server, warn_of_bypass
from spindle.frontends.options import Parsed
from spindle.frontends.terminal import STDIN, STDOUT, is_terminal
from spindle.frontends.tui.launching import Launch, clean_up


def run(parsed: Parsed, words: list[str]) -> int:
    """Open the interface; gives the exit code."""
    _check_terminal(parsed)
    launch = Launch(parsed, words, _config(parsed))
    if launch.thread is not None:
        from spindle.protocol.clock import SystemClock  # only to go on with a thread
        from spindle.thread.store import ThreadStore  # likewise

        launch.thread = ThreadStore(launch.config.home, SystemClock()).choose(launch.thread).id
    warn_of_bypass(parsed)
    return _open(launch)


def run_practice(parsed: Parsed) -> int:
    """`spindle demo --tui`: the same interface, with the practice model."""
    from spindle.frontends.tui.practice import PRACTICE_NOTES, PROMPT, practice_request  # only for those who try it

    _check_terminal(parsed)
    request = practice_request()
    launch = Launch(parsed, [], request.config)
    launch.action, launch.client, launch.notes, launch.draft = "", request.client, PRACTICE_NOTES, PROMPT
    return _open(launch)


def _open(launch: Launch) -> int:
    try:
        if launch.is_plain:
            from spindle.frontends.tui import plain  # one or the other

            return plain.run(launch)
        return _draw(launch)
    finally:
        clean_up()


def _config(parsed: Parsed) -> Config:
    config = config_from(parsed)
    if not parsed.flag("oss") and parsed.value("local_provider") is None:
        return config
    import asyncio  # only --oss asks servers before the first paint

    return asyncio.run(use_local_server(config, parsed))


def _draw(launch: Launch) -> int:
    from spindle.frontends.tui.first_paint import Stage  # not in plain mode

    with Stage(launch) as stage:
        from spindle.frontends.tui.app import App  # after the first paint: asyncio and the engine come with it
        from spindle.frontends.tui.polling import make_loop  # likewise

        async def interface() -> int:
            app = App(launch, stage)
            try:
                return await app.run()
            finally:
                stage.last_words = app.last_words

        try:
            # Not asyncio.run: it would wait for threads, and the process ends right after this.
            return make_loop().run_until_complete(interface())
        except Exception as error:  # our bug: the terminal is given back, and the person is told
            stage.last_words.append(f"error: internal error: {type(error).__name__}: {error}")
            return 1


def _check_terminal(parsed: Parsed) -> None:
    if not (is_terminal(STDIN) and is_terminal(STDOUT)):
        verb = parsed.command[0] if parsed.command else ""
        instead = "spindle demo" if verb == "demo" else f"spindle exec {verb}".rstrip()
        raise SpindleError(f"the interface needs a terminal, and {_what_is_none()}; `{instead}` works without")


def _what_is_none() -> str:
    is_read, is_written = is_terminal(STDIN), is_terminal(STDOUT)
    if not is_read and not is_written:
        return "neither standard input nor standard output is one"
    return f"standard {'output' if is_read else 'input'} is none"
