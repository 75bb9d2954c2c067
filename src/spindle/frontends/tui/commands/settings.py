"""`/config`, `/experimental` and `/doctor`: settings in force, features, and what this system offers."""

from __future__ import annotations

import asyncio
import sys
import tomllib
from asyncio.subprocess import DEVNULL, PIPE
from collections.abc import Iterable, Mapping
from typing import Any

from spindle.config.keys import FEATURES
from spindle.config.writing import merged, read_layers
from spindle.errors import SpindleError
from spindle.frontends.tui.commands.folders import folder_of
from spindle.frontends.tui.commands.lines import clean, note
from spindle.frontends.tui.commands.saving import save_keys
from spindle.frontends.tui.desk import Desk
from spindle.frontends.tui.shown import BLANK, Line, Span, line
from spindle.frontends.tui.text.clean import command_output, name
from spindle.frontends.tui.views.list import ListView, Row
from spindle.protocol.items import encode_json

_PATIENCE_S = 60.0
_SECRET = ("token", "key", "secret", "password", "authorization")


async def config(desk: Desk, argument: str) -> None:
    """What is set, and where; `/config KEY` one of them, `/config KEY VALUE` writes it to the user's file."""
    key, _, value = argument.partition(" ")
    key = key.rstrip("=")
    value = value.strip().removeprefix("=").strip()
    if value:
        saved = await save_keys(desk.config, {key: _value(value)})
        desk.say(f"{clean(key)} = {clean(value)}: {saved}; it counts from the next session on.")
        return
    sources = await asyncio.to_thread(read_layers, folder_of(desk), desk.config.home)
    found = {setting: (shown, desk.config.origins.get(setting, "")) for setting, shown in _flat(merged(sources))}
    if key:
        known = {setting: told for setting, told in found.items() if setting == key or setting.startswith(f"{key}.")}
        if not known:
            raise SpindleError(f"{key!r} is not set, so it has its usual value; docs/config.md lists all keys")
        desk.say(*(_setting(*each) for each in known.items()))
        return
    files = sorted({source.path for source in sources if source.path})
    head = [line(Span(f"{source.kind}: {name(source.path)}", "dim")) for source in sources if source.path]
    lines = [_setting(*each) for each in found.items()] or [note("nothing is set: everything has its usual value")]
    title = "Settings" if files else "Settings (no file)"
    await desk.page(title, [*head, BLANK, *lines, BLANK, note("/config KEY VALUE changes your own file")])


def _setting(setting: str, told: tuple[str, str]) -> Line:
    value, origin = told
    where = f"  ({clean(origin)})" if origin else ""
    return Line((Span(f"{clean(setting)} = "), Span(clean(value), "string"), Span(where, "dim")), (Span("    "),))


def _flat(values: Mapping[str, Any], prefix: str = "") -> Iterable[tuple[str, str]]:
    for key, value in values.items():
        full = f"{prefix}{key}"
        if isinstance(value, dict) and value:
            yield from _flat(value, f"{full}.")
        elif (
            any(word in key.lower() for word in _SECRET)
            and isinstance(value, str)
            and not key.endswith(("env_key", "_var"))
        ):
            yield full, "(not shown)"
        else:
            yield full, encode_json(value).decode()


def _value(text: str) -> Any:
    """As TOML, else as plain text."""
    try:
        return tomllib.loads(f"value = {text}")["value"]
    except tomllib.TOMLDecodeError:
        return text


async def experimental(desk: Desk, argument: str) -> None:
    """Switch a feature on or off, from the next session on."""
    features = desk.config.features
    rows = [
        Row(
            value=feature,
            name=feature,
            about="on" if features.get(feature) else "off",
            is_current=bool(features.get(feature)),
        )
        for feature in FEATURES
    ]
    chosen = await desk.ask(ListView("Features: choose one to switch it", rows, has_search=True, highlighted=0))
    if chosen is not None:
        is_on = not features.get(chosen)
        saved = await save_keys(desk.config, {f"features.{chosen}": is_on})
        desk.say(f"{chosen} is {'on' if is_on else 'off'} from the next session on; {saved}.")


async def doctor(desk: Desk, argument: str) -> None:
    """The report of `spindle doctor`, made by a program of its own: it tries the sandbox, which takes a moment."""
    desk.say("Looking at this system …")
    running = await asyncio.create_subprocess_exec(
        *(sys.executable, "-P", "-m", "spindle", "doctor", "-C", folder_of(desk)),
        stdin=DEVNULL,
        stdout=PIPE,
        stderr=PIPE,
        start_new_session=True,
    )
    try:
        out, problem = await asyncio.wait_for(running.communicate(), _PATIENCE_S)
    except TimeoutError:
        raise SpindleError(f"`spindle doctor` did not answer within {_PATIENCE_S:.0f} s") from None
    finally:
        if running.returncode is None:
            running.kill()
            await running.wait()
    if not out:
        raise SpindleError(clean(problem.decode("utf-8", "replace")) or "`spindle doctor` said nothing")
    text = out.decode("utf-8", "replace").rstrip("\n")
    told = [each for each in text.split("\n") if "standard output is not a terminal" not in each]
    await desk.page("Doctor", command_output("\n".join(told)))
