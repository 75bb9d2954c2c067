"""What the practice model says and does, as a function of what it is asked: several turns, in any order.

It has three parts: mending a bug (commands, an approval, a patch, a checklist), planning (a question and a proposed
plan), and talking about itself. The outputs it reads are real.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from spindle.frontends.practice_scene import PATCH
from spindle.model.scripted import AnyStep, Asked, ScriptedModel, calls, patches, says, thinks
from spindle.protocol.items import Item, decode_json
from spindle.protocol.quote import shell_quote

_STEPS = (
    "Run the failing tests",
    "Keep a copy of the old file",
    "Fix the cause in textstats.py",
    "Run the tests again",
)
_COPY = {
    "cmd": "cp textstats.py ../textstats.before.py",
    "sandbox_permissions": "require_escalated",
    "justification": "The copy goes beside the project, and the sandbox lets me write inside it only.",
}
_FUNCTIONS = {
    "longest": ("The longest word", "return max(words(text), key=len, default=None)"),
    "average_length": (
        "The average length of the words",
        "return sum(map(len, words(text))) / max(1, len(words(text)))",
    ),
}
_QUESTION = {
    "id": "function",
    "header": "Function",
    "question": "Which function shall I add to textstats.py?",
    "options": [
        {"label": "longest (Recommended)", "description": "Gives the longest word of a text."},
        {"label": "average_length", "description": "Gives the average length of the words."},
    ],
}
_ABOUT = """\
I am a **practice model**: I answer from a script, and no real model is asked. What you can try here:

| you do | what happens |
|---|---|
| ask me to fix the tests | commands, an approval, a patch and a checklist |
| press Shift-Tab, then ask for a function | a question, then a plan to implement |
| press Esc while I work | the turn is interrupted, your draft stays |
| press Ctrl-T | everything, unfolded, in a pager |
| type `/` | the list of commands |

```python
from textstats import most_common

print(most_common("to be or not to be"))  # ['be', 'to', 'not']
```

`/login` connects a real model, `/quit` leaves.
"""


class PracticeModel(ScriptedModel):
    """Answers every request; what was said and done since the last message decides how."""

    def __init__(self, python: str, pace_s: float) -> None:
        super().__init__(default=self._answer)
        self._test = f"{shell_quote(python)} -B -m unittest -q 2>&1"
        self._pace_s = pace_s

    def _answer(self, request: Asked) -> AnyStep:
        turn = Turn(request)
        if turn.is_planning:
            return self._planning(turn)
        if (function := turn.planned_function()) and "implement" in turn.message.lower():
            return self._adding(turn, function)
        if turn.wants_mending:
            return self._mending(turn)
        return [thinks("**Looking for a part of the script that fits**"), self._says(_ABOUT)]

    def _says(self, text: str) -> AnyStep:
        return says(text, pace_s=self._pace_s)

    # ---- mending the bug -----------------------------------------------------------------------

    def _mending(self, turn: Turn) -> AnyStep:
        match len(turn.rounds):
            case 0:
                return [
                    thinks("**Looking around**", pace_s=self._pace_s),
                    self._says("I look at the project first, then I run its tests."),
                    calls("exec_command", {"cmd": "ls"}, turn.id("look")),
                    calls("exec_command", {"cmd": "cat textstats.py"}, turn.id("read")),
                ]
            case 1:
                return [self._checklist(turn, 0), calls("exec_command", {"cmd": self._test}, turn.id("test-1"))]
            case 2 if turn.passed("test-1"):
                return self._says("The tests pass already: there is nothing to mend. Ask me what else you can try.")
            case 2:
                return [
                    thinks("**split(' ') keeps line ends inside words**", pace_s=self._pace_s),
                    self._checklist(turn, 1),
                    calls("exec_command", _COPY, turn.id("copy")),
                ]
            case 3:
                return [self._checklist(turn, 2), patches(PATCH, turn.id("fix"))]
            case 4:
                return [self._checklist(turn, 3), calls("exec_command", {"cmd": self._test}, turn.id("test-2"))]
            case 5 if turn.passed("test-2"):
                return self._checklist(turn, 4)
            case _:
                return self._says(_report(turn))

    def _checklist(self, turn: Turn, done: int) -> AnyStep:
        states = ["completed"] * done + ["in_progress"] * (done < len(_STEPS)) + ["pending"] * len(_STEPS)
        steps = [{"step": step, "status": state} for step, state in zip(_STEPS, states, strict=False)]
        return calls("update_plan", {"plan": steps}, turn.id(f"checklist-{len(turn.rounds)}"))

    # ---- planning ------------------------------------------------------------------------------

    def _planning(self, turn: Turn) -> AnyStep:
        if not turn.rounds:
            return [
                thinks("**One thing must be known before there can be a plan**", pace_s=self._pace_s),
                calls("request_user_input", {"questions": [_QUESTION]}, turn.id("ask")),
            ]
        name = turn.chosen_function()
        about, code = _FUNCTIONS[name]
        return self._says(
            "Thank you, this is what I would do.\n\n"
            f"<proposed_plan>\n# Add `{name}` to textstats.py\n\n"
            f"- {about} of a text: `def {name}(text)`\n"
            f"- Its body: `{code}`\n"
            "- Then I run the tests\n</proposed_plan>"
        )

    def _adding(self, turn: Turn, name: str) -> AnyStep:
        about, code = _FUNCTIONS[name]
        match len(turn.rounds):
            case 0:
                body = ["", "", f"def {name}(text):", f'    """{about} of a text."""', f"    {code}"]
                patch = [
                    "*** Begin Patch",
                    "*** Update File: textstats.py",
                    "@@",
                    "     return sorted(seen, key=lambda word: (-seen[word], word))[:count]",
                    *(f"+{row}" for row in body),
                    "*** End Patch",
                    "",
                ]
                return [self._says(f"I add `{name}` now."), patches("\n".join(patch), turn.id("add"))]
            case 1:
                return calls("exec_command", {"cmd": self._test}, turn.id("test"))
            case _:
                return self._says(f"`{name}` is there. The tests print:\n\n```\n{turn.printed('test')}\n```")


class Turn:
    """The turn that a request belongs to: the person's last message, and the rounds of calls since."""

    def __init__(self, request: Asked) -> None:
        items = request.input
        messages = [place for place, item in enumerate(items) if _is_persons(item)]
        last = messages[-1] if messages else -1
        self._number = len(messages)
        self._before, self._since = items[: last + 1], items[last + 1 :]
        self.message = _text(items[last]) if messages else ""
        self.is_planning = _mode(items) == "plan"

    @property
    def rounds(self) -> list[str]:
        """The calls so far, one for each answer of ours: two that were made at once are one round."""
        found: list[str] = []
        was_call = False
        for item in self._since:
            is_call = item.get("type") in ("function_call", "custom_tool_call")
            if is_call and not was_call:
                found.append(str(item.get("call_id")))
            was_call = is_call or (was_call and item.get("type") == "reasoning")
        return found

    def id(self, name: str) -> str:
        """An id for a call that no other turn has."""
        return f"{name}-turn-{self._number}"

    @property
    def wants_mending(self) -> bool:
        return re.search(r"\b(fix|mend|repair|bug|fail|tests?|broken)", self.message, re.IGNORECASE) is not None

    def output(self, name: str) -> str:
        for item in self._since:
            if item.get("call_id") == self.id(name) and str(item.get("type")).endswith("_output"):
                return str(item.get("output"))
        return ""

    def passed(self, name: str) -> bool:
        return "Process exited with code 0" in self.output(name)

    def printed(self, name: str) -> str:
        """What a command printed, without what the tool says around it."""
        return self.output(name).partition("Output:\n")[2].strip() or "nothing"

    def chosen_function(self) -> str:
        """What the person answered; the recommended one when they said something else."""
        try:
            answers: Any = decode_json(self.output("ask"))["answers"]["function"]["answers"]
        except (ValueError, KeyError, TypeError):
            answers = []
        said = " ".join(answer for answer in answers if isinstance(answer, str))
        return "average_length" if "average" in said else "longest"

    def planned_function(self) -> str:
        """The function of the newest plan, whoever told it: we, or the first message of a fresh thread."""
        for item in reversed(self._before):
            for name in _FUNCTIONS:
                if f"# Add `{name}`" in _text(item):
                    return name
        return ""


def _report(turn: Turn) -> str:
    if not turn.passed("test-2"):
        return f"The tests still fail after my change. This is what they print:\n\n```\n{turn.printed('test-2')}\n```"
    copied = (
        "A copy of the old file is beside the project." if turn.passed("copy") else "I kept no copy of the old file."
    )
    return (
        "The tests pass now.\n\n"
        '`words()` split only at blanks, so "two\\nthree" stayed one word. It now splits at any white space '
        f"(textstats.py:6). {copied}\n\nAsk me what else you can try here."
    )


def _is_persons(item: Item) -> bool:
    """A message that a person typed, not one of the facts that are told before it, which stand in tags."""
    if item.get("type") != "message" or item.get("role") != "user":
        return False
    text = _text(item).strip()
    tag = re.match(r"<(\w+)", text)
    return tag is None or not text.endswith(f"</{tag[1]}>")


def _text(item: Item) -> str:
    return "".join(_texts(item))


def _texts(item: Item) -> Iterator[str]:
    for part in item.get("content") or ():
        if isinstance(part, dict) and isinstance(part.get("text"), str):
            yield part["text"]


def _mode(items: list[Item]) -> str:
    """What the newest word about the mode says."""
    for item in reversed(items):
        if item.get("role") == "developer" and "<collaboration_mode>" in (text := _text(item)):
            return "plan" if text.rpartition("<collaboration_mode>")[2].startswith("# Plan mode") else "default"
    return "default"
