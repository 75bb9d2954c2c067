"""Which key does what: one table, made of the defaults, a preset (`[spindle.tui] keys`) and `[tui.keymap]`.

Actions have the names that Codex's configuration gives them; those that it does not know have names of ours. The
composer does what belongs to writing and leaves the rest to the interface (`Composer.wanted`).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from spindle.frontends.tui.keys import Key


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


_CONVERSATION: dict[str, dict[str, str]] = {
    "global": {
        "open_transcript": "ctrl-t ctrl-o",
        "open_external_editor": "ctrl-g ctrl-x+ctrl-e",
        "copy": "",
        "clear_terminal": "ctrl-l",
        "toggle_vim_mode": "",
        "toggle_raw_output": "alt-r",
        "cancel": "ctrl-c",  # the draft, else the turn, else the interface: on the way out, step by step
        "quit": "",
        "suspend": "ctrl-z",
        "open_models": "alt-p",
        "open_warnings": "f2",
    },
    "chat": {
        "interrupt_turn": "esc",
        "decrease_reasoning_effort": "alt-,",
        "increase_reasoning_effort": "alt-.",
        "next_mode": "shift-tab",
        "edit_queued_message": "alt-up shift-left",
    },
    "composer": {
        "submit": "enter",
        "queue": "tab",
        "toggle_shortcuts": "?",
        "history_search_previous": "ctrl-r",
        "history_search_next": "ctrl-s",
        "paste_image": "ctrl-v",
        "expand_paste": "ctrl-x+ctrl-p",
    },
    "editor": {
        "insert_newline": "ctrl-j shift-enter alt-enter",
        "move_left": "left ctrl-b",
        "move_right": "right ctrl-f",
        "move_up": "up ctrl-p",
        "move_down": "down ctrl-n",
        "move_word_left": "alt-b alt-left ctrl-left",
        "move_word_right": "alt-f alt-right ctrl-right",
        "move_line_start": "home ctrl-a",
        "move_line_end": "end ctrl-e",
        "move_text_start": "alt-< ctrl-home",
        "move_text_end": "alt-> ctrl-end",
        "delete_backward": "backspace shift-backspace ctrl-h",
        "delete_forward": "delete shift-delete ctrl-d",
        "delete_backward_word": "alt-backspace ctrl-backspace ctrl-w",
        "delete_forward_word": "alt-delete ctrl-delete alt-d",
        "kill_line_start": "ctrl-u",
        "kill_whole_line": "",
        "kill_line_end": "ctrl-k",
        "yank": "ctrl-y",
        "yank_pop": "alt-y",
        "undo": "ctrl-_ ctrl-/ ctrl-x+ctrl-u",
    },
}
"""What the keys do while nothing but the composer has them: action → keys, `+` between those pressed in turn."""

EDITOR_ACTIONS = tuple(_CONVERSATION["editor"])

_ELSEWHERE: dict[str, dict[str, str]] = {
    "pager": {
        "scroll_up": "up k",
        "scroll_down": "down j",
        "page_up": "pgup shift-space ctrl-b",
        "page_down": "pgdn space ctrl-f",
        "half_page_up": "ctrl-u",
        "half_page_down": "ctrl-d",
        "jump_top": "home g",
        "jump_bottom": "end G",
        "close": "q esc ctrl-c",
        "close_transcript": "ctrl-t",
    },
    "list": {
        "move_up": "up ctrl-p k",
        "move_down": "down ctrl-n j",
        "page_up": "pgup",
        "page_down": "pgdn",
        "jump_top": "home",
        "jump_bottom": "end",
        "accept": "enter",
        "cancel": "esc",
    },
    "approval": {
        "open_fullscreen": "ctrl-a",
        "approve": "y",
        "approve_for_session": "a",
        "approve_for_prefix": "p",
        "deny": "d",
        "decline": "n esc",
    },
}

_PRESETS: dict[str, dict[str, str]] = {
    "codex": {},
    "vim": {},
    "claude": {"chat.next_mode": "shift-tab alt-m", "chat.increase_reasoning_effort": "alt-. alt-t"},
    "pi": {
        "composer.queue": "tab alt-enter",
        "editor.insert_newline": "ctrl-j shift-enter",
        "global.clear_terminal": "",
        "global.open_models": "alt-p ctrl-l",
    },
}
"""What users of another program expect beyond the defaults, or in place of them."""

_IDLE = _words(
    "vim_normal vim_operator vim_search vim_text_object agents global.leader global.open_agents global.find_transcript "
    "global.select_transcript global.focus_activity global.toggle_fast_mode global.toggle_side_conversation "
    "chat.previous_permission_mode chat.next_permission_mode chat.prompt_stack_back chat.skip_question "
    "chat.toggle_voice_mute list.move_left list.move_right approval.open_thread approval.cancel"
)
"""Names that Codex knows and that mean nothing here; read without a word."""

_SPELLINGS = {
    "escape": "esc",
    "return": "enter",
    "spacebar": "space",
    "pageup": "pgup",
    "page-up": "pgup",
    "pagedown": "pgdn",
    "page-down": "pgdn",
    "del": "delete",
    "ins": "insert",
    "minus": "-",
    "plus": "+",
    "backtab": "shift-tab",
}
_NAMED = _words("enter tab backspace esc delete insert up down left right home end pgup pgdn space") | {
    f"f{number}" for number in range(1, 25)
}
_MODIFIERS = {"ctrl": "ctrl", "control": "ctrl", "alt": "alt", "option": "alt", "meta": "alt", "shift": "shift"}


class Keymap:
    """The keys of a person. `warnings` says what of the configuration could not be read, one sentence each."""

    def __init__(self, preset: str = "codex", tables: Mapping[str, Any] | None = None) -> None:
        self.warnings: list[str] = []
        self.preset = preset
        self.is_vi = preset == "vim"
        bindings = {
            (context, action): keys.split()
            for context, actions in {**_CONVERSATION, **_ELSEWHERE}.items()
            for action, keys in actions.items()
        }
        for name, keys in _PRESETS[preset].items():
            context, _, action = name.partition(".")
            bindings[context, action] = keys.split()
        self._own = self._read(tables or {}, bindings)
        for binding, keys in self._own.items():
            bindings[binding] = keys
        self._contexts = {name: self._table(bindings, (name,)) for name in _ELSEWHERE}
        self.conversation = self._table(bindings, _CONVERSATION)
        """Key → action, for everything that can be done from the composer."""
        self._keys = bindings

    def action(self, key: str, context: str = "") -> str:
        """What a key does there; empty if nothing. Without a context: in the composer and around it."""
        return (self._contexts[context] if context else self.conversation).get(key, "")

    def translated(self, key: Key, *contexts: str) -> Key:
        """A key of the person's own as the usual key of its action: lists, pagers and approvals know only those."""
        for context in contexts:
            action = next(
                (name for (where, name), keys in self._own.items() if where == context and key.name in keys), ""
            )
            if usual := _ELSEWHERE[context].get(action, "").partition(" ")[0]:
                return Key(usual, usual if len(usual) == 1 else "")
        return key

    def keys_of(self, action: str) -> list[str]:
        """The keys of an action, as a person reads them (`ctrl-x ctrl-e`), the first one first."""
        for context in _CONVERSATION:
            if (context, action) in self._keys:
                return [key.replace("+", " ") if len(key) > 1 else key for key in self._keys[context, action]]
        return []

    def _table(self, bindings: Mapping[tuple[str, str], list[str]], contexts: Iterable[str]) -> dict[str, str]:
        """A key that the person gave to an action is taken away from the action that has it by default."""
        names = list(contexts)
        table: dict[str, str] = {}
        for is_own in (False, True):
            for (context, action), keys in bindings.items():
                if context in names and ((context, action) in self._own) is is_own:
                    table.update(dict.fromkeys(keys, action))
        return table

    def _read(
        self, tables: Mapping[str, Any], known: Mapping[tuple[str, str], Any]
    ) -> dict[tuple[str, str], list[str]]:
        found: dict[tuple[str, str], list[str]] = {}
        for context, actions in sorted(tables.items(), key=lambda table: table[0] == "global"):
            if context in _IDLE:
                continue
            if not isinstance(actions, Mapping) or not any(context == name for name, _ in known):
                self.warnings.append(f"tui.keymap.{context} is not a table of keys that is known here; it is ignored")
                continue
            for action, given in actions.items():
                if f"{context}.{action}" in _IDLE:
                    continue
                binding = self._home_of(context, action, known)
                if binding is None:
                    self.warnings.append(f"tui.keymap.{context}.{action} is not known here; it is ignored")
                    continue
                keys = self._keys_given(f"tui.keymap.{context}.{action}", given)
                if keys is not None and not (context == "global" and binding in found):
                    found[binding] = keys  # the nearer table wins over `global`
        return found

    @staticmethod
    def _home_of(context: str, action: str, known: Mapping[tuple[str, str], Any]) -> tuple[str, str] | None:
        """Where an action is at home. `global` may also name what belongs to the composer or the conversation."""
        places = (context, "composer", "chat") if context == "global" else (context,)
        return next(((place, action) for place in places if (place, action) in known), None)

    def _keys_given(self, name: str, given: Any) -> list[str] | None:
        specs = [given] if isinstance(given, str) else given
        if not isinstance(specs, list | tuple) or not all(isinstance(spec, str) for spec in specs):
            self.warnings.append(f'{name} must be a key such as "ctrl-a", or a list of keys; it is ignored')
            return None
        keys: list[str] = []
        for spec in specs:
            key = normal_key(spec)
            if key is None:
                self.warnings.append(f"{name}: there is no key {spec!r}; use names such as ctrl-a, shift-enter or f5")
            else:
                keys.append(key)
        return keys if keys or not specs else None


def normal_key(spec: str) -> str | None:
    """A key as the configuration spells it → as `keys.py` names it; None if it cannot be one.

    Several keys that are pressed in turn are separated by blanks there and by `+` here.
    """
    keys = [_one_key(word) for word in spec.split()]
    return "+".join(key for key in keys if key) if keys and all(keys) else None


def _one_key(spec: str) -> str | None:
    parts = spec.split("-")
    modifiers: set[str] = set()
    while len(parts) > 1 and (modifier := _MODIFIERS.get(parts[0].lower())) is not None:
        modifiers.add(modifier)
        parts = parts[1:]
    name = "-".join(parts)
    if len(name) != 1:
        name = _SPELLINGS.get(name.lower(), name.lower())
        if name == "shift-tab":
            modifiers.add("shift")
            name = "tab"
        if name not in _NAMED and len(name) != 1:
            return None
    elif not name.isprintable() or name == " ":
        return None
    if len(name) == 1:
        if modifiers & {"ctrl"}:
            name = name.lower()
        elif "shift" in modifiers:
            name = name.upper()
        modifiers.discard("shift")  # never named with a character
    return "".join(f"{each}-" for each in ("ctrl", "alt", "shift") if each in modifiers) + name
