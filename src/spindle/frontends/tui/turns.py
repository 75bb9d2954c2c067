"""Messages on their way into the thread: sent, steered into the running turn, queued for after it, given back.

Nothing that was typed is lost. A message is ours until the thread has recorded it; when the turn that should take it
in is stopped or fails, it goes back to the composer, together with what was queued behind it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from spindle.api.door import OpenThread
from spindle.api.hearing import Hearing
from spindle.frontends.tui.composer.draft import Draft
from spindle.protocol.events import TERMINAL, Error, Event, TaskStarted, TurnAborted, UserMessage, Warning
from spindle.protocol.ops import Interrupt, Op, RunUserShellCommand, UserInput


class Sent(NamedTuple):
    """A message that was handed in and is not recorded yet."""

    id: str
    draft: Draft


class Turns:
    """What is on its way. `give_back` puts drafts into the composer, `enter` enters one as a person would."""

    def __init__(
        self,
        give_back: Callable[[list[Draft]], None],
        enter: Callable[[Draft], None],
        changed: Callable[[], None] = lambda: None,
    ) -> None:
        self._give_back = give_back
        self._enter = enter
        self._changed = changed
        """Told when other messages are under way than before."""
        self._told: list[Draft] = []
        self._thread: OpenThread | None = None
        self._hearing: Hearing | None = None
        self.early: list[Draft] = []
        """Entered before the thread was open."""
        self.sent: list[Sent] = []
        self.queued: list[Draft] = []
        self._turn: str | None = None
        """The turn whose events are being heard."""
        self._failed_turn: str | None = None
        self.is_stopping = False
        """The person has asked for the end of the turn."""

    @property
    def is_working(self) -> bool:
        return bool(self.early) or (self._hearing is not None and self._hearing.active_turn is not None)

    @property
    def is_over(self) -> bool:
        """No turn runs, and all that the last one told has been heard."""
        return not self.is_working and self._turn is None and not self.sent

    @property
    def waiting(self) -> list[Draft]:
        """Messages that are not in the thread yet, apart from the queued ones."""
        return [*self.early, *(sent.draft for sent in self.sent)]

    @property
    def under_way(self) -> list[Draft]:
        """All messages that are ours: the thread has not recorded them."""
        return [*self.waiting, *self.queued]

    def _tell(self) -> None:
        if (now := self.under_way) != self._told:
            self._told = now
            self._changed()

    def opened(self, thread: OpenThread, hearing: Hearing) -> None:
        """The thread takes messages from now on."""
        self._thread, self._hearing = thread, hearing
        self.sent, self._turn, self._failed_turn, self.is_stopping = [], None, None, False
        early, self.early = self.early, []
        for draft in early:
            self._enter(draft)
        self._tell()

    def closed(self) -> None:
        """The thread is being left; what was entered for it and never got there goes back."""
        self._thread = self._hearing = None
        self._return([*(sent.draft for sent in self.sent), *self.queued])
        self.sent, self.queued = [], []
        self._tell()

    # ---- what a person does --------------------------------------------------------------------

    def send(self, draft: Draft) -> None:
        """Start a turn with a message, or let the running one take it in before its next request."""
        if self._thread is None:
            self.enter_later(draft)
            return
        # A turn that ends meanwhile is no harm: the session then starts a new one with it.
        sub_id = self.start(UserInput(items=items_of(draft), mode="steer"))
        self.sent.append(Sent(sub_id, draft))
        self._tell()

    def enter_later(self, draft: Draft) -> None:
        """Enter it when the thread is open."""
        self.early.append(draft)
        self._tell()

    def start(self, op: Op, *, takes_no_input: bool = False) -> str:
        """Hand in an op that starts a turn, if none runs."""
        thread, hearing = self._thread, self._hearing
        assert thread is not None and hearing is not None
        if hearing.active_turn is not None:
            return thread.submit(op)
        return hearing.start_turn(op, takes_no_input=takes_no_input)

    def run_command(self, draft: Draft, command: str) -> None:
        """Run a command of the person's own; one at a time, and not beside a turn."""
        if self._thread is None:
            self.enter_later(draft)
        elif self.is_working:
            self.queue(draft)
        else:
            self.start(RunUserShellCommand(command=command), takes_no_input=True)

    def queue(self, draft: Draft) -> None:
        self.queued.append(draft)
        self._tell()

    def take_back(self) -> Draft | None:
        """The message that was queued last."""
        taken = self.queued.pop() if self.queued else None
        self._tell()
        return taken

    def interrupt(self) -> bool:
        """Stop the turn; false when there is none."""
        if self._thread is None:
            early, self.early = self.early, []
            self._return(early)
            self._tell()
            return bool(early)
        if not self.is_working:
            return False
        self.is_stopping = True
        self._thread.submit(Interrupt())
        return True

    # ---- what the thread tells -----------------------------------------------------------------

    def hear(self, event: Event) -> bool:
        """Keep track of an event; false when it is not to be shown: it only says that a message comes back to us."""
        is_shown = self._follow(event)
        self._tell()
        return is_shown

    def _follow(self, event: Event) -> bool:
        msg = event.msg
        if isinstance(msg, TaskStarted):
            self._turn = msg.turn_id
        elif isinstance(msg, UserMessage):
            self._recorded(event.id, msg.message)
        elif isinstance(msg, Warning) and event.id != self._turn and (dropped := self._find(event.id)) is not None:
            # A warning in the name of a message that was steered: the turn was stopped before it was taken in.
            self.sent.remove(dropped)
            self.queued.insert(0, dropped.draft)  # it stood before what was queued
            return False
        elif isinstance(msg, Error):
            self._failed_turn = event.id
            if (refused := self._find(event.id)) is not None and not self.is_working:
                self.sent.remove(refused)
                self._return([refused.draft])
        elif isinstance(msg, TERMINAL):
            self._ended(event.id, is_whole=not isinstance(msg, TurnAborted))
        return True

    def _ended(self, sub_id: str, *, is_whole: bool) -> None:
        self.is_stopping, self._turn = False, None
        is_whole = is_whole and self._failed_turn != sub_id
        self._failed_turn = None
        if self._thread is not None and self._thread.is_running:
            # What was steered too late has started a turn of its own, or the thread goes on by itself: then what was
            # queued need not wait until it has nothing more to do.
            if is_whole and not self.sent and self.queued:
                self._enter(self.queued.pop(0))
            return
        never_recorded = [sent.draft for sent in self.sent]
        self.sent = []
        if not is_whole:
            queued, self.queued = self.queued, []
            self._return([*never_recorded, *queued])
            return
        self._return(never_recorded)
        self.go_on()

    def go_on(self) -> None:
        """Enter the next of the queued messages, unless something runs that it has to wait for."""
        if self.queued and self._thread is not None and not self.is_working:
            self._enter(self.queued.pop(0))
            self._tell()

    def _find(self, sub_id: str) -> Sent | None:
        return next((sent for sent in self.sent if sub_id and sent.id == sub_id), None)

    def _recorded(self, sub_id: str, text: str) -> None:
        """Steered messages are recorded in the name of the turn: their words tell which one it is."""
        same = next((sent for sent in self.sent if sent.draft.text == text), None) or self._find(sub_id)
        if same is not None:
            self.sent.remove(same)

    def _return(self, drafts: list[Draft]) -> None:
        if drafts:
            self._give_back(drafts)


def items_of(draft: Draft) -> list[dict[str, Any]]:
    """What the model is sent of a message. Images alone are one, too (`spindle -i FILE`)."""
    text = [{"type": "text", "text": draft.text}] if draft.text or not draft.images else []
    return [*({"type": "local_image", "path": path} for path in draft.images), *text]
