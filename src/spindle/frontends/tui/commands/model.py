"""`/model` and `/personality`: who answers, how hard it thinks, in which tone."""

from __future__ import annotations

import asyncio

from spindle.config.providers import OSS_PORTS
from spindle.errors import SpindleError
from spindle.frontends.options import nearest
from spindle.frontends.tui.commands.lines import clean
from spindle.frontends.tui.commands.saving import save
from spindle.frontends.tui.desk import Desk
from spindle.frontends.tui.views.list import ListView, Row
from spindle.model.catalog import Catalog, ModelInfo
from spindle.model.provider import Provider
from spindle.protocol.ops import OverrideTurnContext
from spindle.protocol.settings import EFFORTS, PERSONALITIES

_PATIENCE_S = 2.0
_TONES = {
    "pragmatic": "short and matter-of-fact",
    "friendly": "warm and encouraging",
    "none": "no tone is asked for",
}


async def choose(desk: Desk, argument: str) -> None:
    """`/model`: the list, then the list of efforts. `/model NAME [EFFORT]` chooses at once, also `@PROVIDER NAME`."""
    catalog = await asyncio.to_thread(Catalog.load, desk.config.model_catalog_json, desk.config.spindle.models)
    words = argument.split()
    named = [word[1:] for word in words if word.startswith("@")]
    provider = provider_of(desk) if not named else _provider(desk, named[-1])
    words = [word for word in words if not word.startswith("@")]
    if words:
        await _set_by_name(desk, catalog, words, provider)
        return
    chosen = await _choose_model(desk, catalog, provider)
    while chosen is _ELSEWHERE:
        others = [other for other in desk.config.providers.values() if other.id != provider.id]
        rows = [Row(value=other, name=clean(other.id), about=clean(other.name)) for other in others]
        note = "the thread goes along, with all that was said"
        elsewhere = await desk.ask(ListView("Provider", rows, note=note))
        if elsewhere is None:
            return
        provider = elsewhere
        chosen = await _choose_model(desk, catalog, provider)
    if not isinstance(chosen, ModelInfo):
        return
    is_current = chosen.slug == model_of(desk) and provider.id == provider_of(desk).id
    effort = await _choose_effort(desk, chosen, is_current=is_current)
    if effort is not _LEFT:
        await _apply(desk, chosen.slug, effort, provider)


_ELSEWHERE = "\0elsewhere"
"""The person wants a model of another provider."""


async def _choose_model(desk: Desk, catalog: Catalog, provider: Provider) -> ModelInfo | str | None:
    current = model_of(desk) if provider.id == provider_of(desk).id else ""
    models = await _listed(desk, catalog, provider)
    rows: list[Row[ModelInfo | str]] = [_row(info, current) for info in models]
    if current and all(info.slug != current for info in models):
        rows.insert(0, _row(catalog.find(current), current))
    rows.append(Row(value=_ELSEWHERE, name="another provider", about="such as /model @PROVIDER NAME"))
    note = f"of {clean(provider.name or provider.id)}; /model NAME takes one that is not listed"
    return await desk.ask(ListView("Model", rows, note=note))


def _row(info: ModelInfo, current: str) -> Row[ModelInfo | str]:
    about = clean(info.description or "") if info.known else "not in the catalogue; general defaults are used"
    return Row(value=info, name=clean(info.slug), about=about, is_current=info.slug == current)


def provider_of(desk: Desk) -> Provider:
    """The provider of the next turn."""
    present = desk.thread.settings.model_provider if desk.thread is not None else desk.config.provider.id
    return desk.config.providers.get(present, desk.config.provider)


def _provider(desk: Desk, name: str) -> Provider:
    if name in desk.config.providers:
        return desk.config.providers[name]
    known = list(desk.config.providers)
    near = nearest(name, known)
    hint = f"did you mean @{near}?" if near else f"there are {', '.join(known)}"
    raise SpindleError(f"there is no provider {clean(name)!r}; {hint}")


async def _listed(desk: Desk, catalog: Catalog, provider: Provider) -> list[ModelInfo]:
    """The models of the provider: those that are on this computer, else those of the catalogue."""
    if provider.runs_inside:
        from spindle.local.catalogue import local_rows  # only for those who have any

        return local_rows(desk.config)
    if provider.id not in OSS_PORTS:
        return catalog.offered(provider.vendor)
    from spindle.config.oss import find_local_servers  # loads a client, for those who have such a server

    servers = await find_local_servers(desk.config.providers, _PATIENCE_S)
    names = next((server.models for server in servers if server.provider.base_url == provider.base_url), ())
    return [catalog.find(name) for name in names]


def model_of(desk: Desk) -> str:
    """The model of the next turn."""
    return desk.thread.settings.model if desk.thread is not None else desk.config.model or desk.facts.model


def effort_of(desk: Desk) -> str | None:
    return desk.thread.effort if desk.thread is not None else desk.config.model_reasoning_effort


async def step_effort(desk: Desk, step: int) -> str | None:
    """One level more or less of thinking, of those the model has; gives the new one, if it is another."""
    info = Catalog.load(desk.config.model_catalog_json, desk.config.spindle.models).find(model_of(desk))
    levels = [level.effort for level in info.supported_reasoning_levels]
    if not levels:
        desk.warn(f"{clean(info.slug)} has no levels of reasoning to choose from")
        return None
    # While there is no thread yet, the status line knows of a change before anybody else does.
    current = effort_of(desk) if desk.thread is not None else desk.facts.effort or effort_of(desk)
    current = current or info.default_reasoning_level
    place = levels.index(current) if current in levels else 0
    new = levels[max(0, min(len(levels) - 1, place + step))]
    if new == current:
        return None
    desk.submit(OverrideTurnContext(effort=new))
    await _settled(desk)
    return new


_LEFT = "\0left"
"""The person left the list of efforts."""


async def _choose_effort(desk: Desk, info: ModelInfo, *, is_current: bool) -> str | None:
    levels = info.supported_reasoning_levels
    if len(levels) < 2:
        return levels[0].effort if levels else None
    current = effort_of(desk) if is_current else info.default_reasoning_level
    rows = [
        Row(
            value=level.effort,
            name=level.effort,
            about=clean(level.description) + (" (usual)" if level.effort == info.default_reasoning_level else ""),
            is_current=level.effort == current and is_current,
        )
        for level in levels
    ]
    place = next((at for at, level in enumerate(levels) if level.effort == current), 0)
    chosen = await desk.ask(ListView(f"How hard should {clean(info.slug)} think?", rows, highlighted=place))
    return _LEFT if chosen is None else chosen


async def _set_by_name(desk: Desk, catalog: Catalog, words: list[str], provider: Provider) -> None:
    if len(words) > 2:
        raise SpindleError("/model takes a name and an effort, such as /model gpt-5.2-codex high")
    name, effort = words[0], words[1] if len(words) == 2 else None
    if effort is None and name in EFFORTS:
        name, effort = model_of(desk), name
    info = catalog.find(name)
    levels = [level.effort for level in info.supported_reasoning_levels]
    if effort is not None and levels and effort not in levels:
        near = nearest(effort, levels)
        hint = f"did you mean {near}?" if near else f"it has {', '.join(levels)}"
        raise SpindleError(f"{clean(name)} has no effort {effort!r}; {hint}")
    if effort is not None and not levels and effort not in EFFORTS:
        raise SpindleError(f"unknown effort {effort!r}; use one of {', '.join(EFFORTS)}")
    if effort is None:
        present = effort_of(desk)
        effort = present if present in levels else info.default_reasoning_level
    await _apply(desk, name, effort, provider)


async def _apply(desk: Desk, model: str, effort: str | None, provider: Provider) -> None:
    is_new = provider.id != provider_of(desk).id
    desk.submit(OverrideTurnContext(model=model, effort=effort, model_provider=provider.id))
    await _settled(desk)
    moved = {"model_provider": provider.id} if is_new else {}
    saved = await save(desk, model=model, model_reasoning_effort=effort, **moved)
    thinking = f", effort {clean(effort)}" if effort else ""
    place = f" of {clean(provider.name or provider.id)}" if is_new else ""
    when = "from the next turn on" if desk.is_working else "from now on"
    desk.say(f"Model {clean(model)}{place}{thinking} {when}; {saved}.")


async def _settled(desk: Desk) -> None:
    """Until the change counts, so that the status line shows it."""
    if desk.thread is not None:
        await desk.thread.settle()
    desk.redraw()


async def personality(desk: Desk, argument: str) -> None:
    current = desk.thread.settings.personality if desk.thread is not None else desk.config.personality or "pragmatic"
    chosen: str | None = argument.lower() or None
    if chosen is None:
        rows = [Row(value=name, name=name, about=_TONES[name], is_current=name == current) for name in _TONES]
        chosen = await desk.ask(ListView("Tone", rows))
    if chosen is None:
        return
    if chosen not in PERSONALITIES:
        raise SpindleError(f"unknown personality {chosen!r}; use one of {', '.join(PERSONALITIES)}")
    desk.submit(OverrideTurnContext(personality=chosen))
    await _settled(desk)
    desk.say(f"Tone {chosen} from the next turn on; {await save(desk, personality=chosen)}.")
