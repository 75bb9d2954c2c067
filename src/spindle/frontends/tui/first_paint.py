"""The stage: the terminal made ours and the first picture on it, before anything heavy is loaded.

Leaving it gives the terminal back as it was, whatever happened in between, and says the last words.
"""

from __future__ import annotations

import os
from types import TracebackType
from typing import Self

from spindle import __version__
from spindle.frontends.fit import cut
from spindle.frontends.tui.composer.composer import Composer
from spindle.frontends.tui.composer.keymap import Keymap
from spindle.frontends.tui.launching import Launch
from spindle.frontends.tui.screen.decoder import Decoder
from spindle.frontends.tui.screen.painter import Painter
from spindle.frontends.tui.screen.terminal import Terminal
from spindle.frontends.tui.shown import BLANK, Line, Span, line
from spindle.frontends.tui.status_line import StatusFacts, folder_words, items_from, status_line
from spindle.frontends.tui.text.theme import theme_from
