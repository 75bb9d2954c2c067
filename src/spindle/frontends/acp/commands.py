"""The commands an editor offers behind `/`, and what each of them asks of a thread. Pure but for the user's files."""

from __future__ import annotations

import os
from typing import Any

import msgspec

from spindle.config.schema import Config
from spindle.errors import SpindleError
from spindle.frontends.custom_prompts import load_prompts
from spindle.frontends.init_prompt import INIT_PROMPT
from spindle.protocol.ops import OPS, Op
from spindle.workspace.skills import load_skills


class SlashCommand(msgspec.Struct, frozen=True, kw_only=True):
    """One command as an editor lists it."""

    name: str
    description: str
    hint: str = ""
    """What may stand behind it."""

    def to_wire(self) -> dict[str, Any]:
        about: dict[str, Any] = {"name": self.name, "description": self.description}
        return about | {"input": {"hint": self.hint}} if self.hint else about


BUILT_IN = (
    SlashCommand(name="compact", description="Replace the thread by a summary", hint="what must be kept"),
    SlashCommand(name="review", description="Have the changes reviewed", hint="what to look for"),
    SlashCommand(name="undo", description="Take back what the last turn did"),
    SlashCommand(name="plan", description="Plan mode: think first, change nothing", hint="what to plan"),
    SlashCommand(name="status", description="Model, folder, permissions and tokens of this session"),
    SlashCommand(name="init", description="Have an AGENTS.md written for this folder", hint="what else to note"),
)


class Catalogue:
    """The commands of one session. Skills and prompts are looked up anew each time, so new ones are found."""

    def __init__(self, config: Config) -> None:
        self._config = config

    def listed(self, cwd: str) -> list[dict[str, Any]]:
        names = {command.name for command in BUILT_IN}
        found = [*BUILT_IN]
        for prompt in load_prompts(self._config.home):
            if prompt.name not in names:
                names.add(prompt.name)
                about = prompt.description or "A prompt of yours"
                found.append(SlashCommand(name=prompt.name, description=about, hint=prompt.hint or "arguments"))
        for skill in self._skills(cwd):
            if skill.name not in names:
                names.add(skill.name)
                about = skill.short_description or skill.description
                found.append(SlashCommand(name=skill.name, description=about[:200], hint="what to do with it"))
        return [command.to_wire() for command in found]

    def _skills(self, cwd: str) -> list[Any]:
        config = self._config
        markers, disabled = config.project_root_markers, config.disabled_skills
        return load_skills(cwd, config.home, root_markers=markers, disabled=disabled).enabled

    def expanded(self, text: str, cwd: str) -> str:
        """The text to send: a prompt or a skill that stands at its beginning is put in, anything else stays."""
        name, argument = split(text)
        for prompt in load_prompts(self._config.home):
            if prompt.name == name:
                return prompt.filled_in(argument)
        if any(skill.name == name for skill in self._skills(cwd)):
            return f"${name} {argument}".rstrip()
        return text


def split(text: str) -> tuple[str, str]:
    """The name of a command at the beginning of a text and what stands behind it; no name where there is none."""
    if not text.startswith("/"):
        return "", text
    name, _, argument = text[1:].partition(" ")
    head, newline, rest = name.partition("\n")
    return (head, f"{rest} {argument}".strip()) if newline else (name, argument.strip())


def init_prompt(cwd: str, argument: str) -> str:
    """What is asked for by `/init`; a file that is there is never overwritten."""
    path = f"{cwd}/AGENTS.md"
    if os.path.lexists(path):
        raise SpindleError(f"{path} exists already; it was left as it is. Ask for changes to it in a message")
    return INIT_PROMPT if not argument else f"{INIT_PROMPT}\n\nAlso: {argument}"


def op_for(kind: str, **fields: Any) -> Op:
    """An op of protocol v1 in its wire form. Raises SpindleError when the session has no such op."""
    if (found := OPS.get(kind)) is None:
        raise SpindleError(f"/{kind} cannot be done here")
    return msgspec.convert({"type": kind, **fields}, found)


def review_op(argument: str) -> Op:
    """The review of what is not committed, or with instructions of the person's own."""
    target = {"type": "custom", "instructions": argument} if argument else {"type": "uncommittedChanges"}
    hint = argument or "current changes"
    return op_for("review", review_request={"target": target, "user_facing_hint": hint})
