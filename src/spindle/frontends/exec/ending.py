"""When a run is over, and how it went: with its turn, or with the goal that turn after turn is spent on."""

from __future__ import annotations

from spindle.protocol.events import Error, Event, Msg, TaskComplete, TaskStarted, TurnAborted


class Ending:
    """Hears every event of a run."""

    def __init__(self, last_op: str | None) -> None:
        """`last_op` is the id of the last op that was handed in: until it has begun to work, nothing is over."""
        self.last_message: str | None = None
        self._awaited = last_op
        self._is_running = False
        self._has_failed = False
        self._goal: str | None = None
        """The status of the thread's goal."""
        self._has_pursued = False
        """The goal was active in this run."""

    def hear(self, event: Event, *, is_planning: bool = False) -> bool:
        """True when nothing more is to come. In plan mode no goal is worked on."""
        msg = event.msg
        match msg:
            case TaskStarted():
                self._is_running = True
            case TaskComplete(last_agent_message=said):
                self._is_running = False
                self.last_message = said if said is not None or not self._has_pursued else self.last_message
            case TurnAborted():
                self._is_running, self._has_failed = False, True
            case Error():
                self._has_failed = True
            case _ if msg.__struct_config__.tag == "thread_goal_updated":
                self._note_goal(msg)
            case _:
                return False
        if event.id == self._awaited:
            self._awaited = None
        return not self._is_running and self._awaited is None and (self._goal != "active" or is_planning)

    def _note_goal(self, msg: Msg) -> None:
        from spindle.protocol.goal import ThreadGoalUpdated  # with the event

        assert isinstance(msg, ThreadGoalUpdated)
        self._goal = None if msg.goal is None else msg.goal["status"]
        self._has_pursued |= self._goal == "active"

    @property
    def failed(self) -> bool:
        """A run for a goal ends well when the goal is complete, any other when its turn is."""
        return self._goal != "complete" if self._has_pursued else self._has_failed

    def cut_short(self) -> None:
        """The thread ended before the run did."""
        self._has_failed, self._goal = True, None
