"""How the download of a local model is shown on stderr: one line that moves on a terminal, plain lines elsewhere."""

from __future__ import annotations

import os
import sys
from typing import TextIO

from spindle.config.local_models import Progress, get_for_lm_studio, pull_from_ollama
from spindle.model.provider import Provider

_BAR_CELLS = 24
_STEP_PERCENT = 10
_GB = 1_000_000_000


async def get_model(provider: Provider, model: str) -> None:
    """Download a model that the server lacks. Ctrl-C stops it; what was pulled so far is kept by the server."""
    shown = PullView(model, sys.stderr, is_live=is_live())
    shown.begin(provider.name)
    try:
        if provider.id == "ollama":
            await pull_from_ollama(provider, model, os.environ, shown.show)
        else:
            await get_for_lm_studio(model, os.environ)
    except BaseException as error:
        shown.end()
        if not isinstance(error, Exception):
            print("Stopped; the next run goes on with what was pulled so far.", file=sys.stderr)
        raise
    shown.end()
    print(f"{model} is there.", file=sys.stderr)


def is_live() -> bool:
    """Whether stderr is a terminal on which a line can be written anew."""
    return sys.stderr.isatty() and os.environ.get("TERM") != "dumb"


class PullView:
    """Writes the progress of one download."""

    def __init__(self, model: str, out: TextIO, *, is_live: bool) -> None:
        self._model = model
        self._out = out
        self._is_live = is_live
        self._last_doing = ""
        self._last_percent = -_STEP_PERCENT
        self._has_line = False

    def begin(self, server: str) -> None:
        print(f"{server} does not have the model {self._model}; getting it (Ctrl-C stops) ...", file=self._out)

    def show(self, progress: Progress) -> None:
        text = progress_line(progress)
        if self._is_live:
            bar = progress_bar(progress)
            self._out.write(f"\r\x1b[2K{bar}{text}"[: self._width()])
            self._out.flush()
            self._has_line = True
            return
        percent = _percent(progress)
        is_news = progress.doing != self._last_doing and not progress.total
        if is_news or percent >= self._last_percent + _STEP_PERCENT or (percent == 100 > self._last_percent):
            print(text, file=self._out, flush=True)
            self._last_percent = percent if progress.total else self._last_percent
        self._last_doing = progress.doing

    def end(self) -> None:
        if self._has_line:
            self._out.write("\n")
            self._has_line = False

    def _width(self) -> int:
        try:
            columns = os.get_terminal_size(self._out.fileno()).columns
        except OSError:
            columns = 0
        # The control codes before the text take no room; a terminal without a size is taken for a usual one.
        return (columns or 80) - 1 + len("\r\x1b[2K")


def progress_line(progress: Progress) -> str:
    """`62 %, 8.54 of 13.78 GB (pulling b112e727c6f1)`."""
    if not progress.total:
        return progress.doing
    amount = f"{progress.completed / _GB:.2f} of {progress.total / _GB:.2f} GB"
    return f"{_percent(progress)} %, {amount} ({progress.doing})"


def progress_bar(progress: Progress) -> str:
    if not progress.total:
        return ""
    full = progress.completed * _BAR_CELLS // progress.total
    return f"[{'#' * full}{'-' * (_BAR_CELLS - full)}] "


def _percent(progress: Progress) -> int:
    return progress.completed * 100 // progress.total if progress.total else -1
