"""Spindle, a local coding agent: the engine in your own process.

    from spindle import Spindle

    with Spindle() as spindle:
        thread = spindle.thread_start(cwd=".", sandbox="workspace-write")
        print(thread.run("Explain this repository in three bullets.").final_response)

Names are loaded when they are first asked for, so importing this package costs nothing.
"""

__version__ = "0.1.0"

TYPE_CHECKING = False
if TYPE_CHECKING:
    from spindle.api.agent_roles import AgentRole as AgentRole
    from spindle.api.async_client import AsyncSpindle as AsyncSpindle
    from spindle.api.async_client import AsyncThreads as AsyncThreads
    from spindle.api.async_thread import AsyncThread as AsyncThread
    from spindle.api.async_thread import AsyncTurnHandle as AsyncTurnHandle
    from spindle.api.async_thread import AsyncTurnStream as AsyncTurnStream
    from spindle.api.budgets import Budget as Budget
    from spindle.api.client import Spindle as Spindle
    from spindle.api.client import Threads as Threads
    from spindle.api.events import Event as Event
    from spindle.api.functions import ToolContext as ToolContext
    from spindle.api.functions import tool as tool
    from spindle.api.hook_functions import HookMatcher as HookMatcher
    from spindle.api.inputs import ImageInput as ImageInput
    from spindle.api.inputs import LocalImageInput as LocalImageInput
    from spindle.api.inputs import MentionInput as MentionInput
    from spindle.api.inputs import SkillInput as SkillInput
    from spindle.api.inputs import TextInput as TextInput
    from spindle.api.options import Sandbox as Sandbox
    from spindle.api.requests import ApprovalRequest as ApprovalRequest
    from spindle.api.requests import Denied as Denied
    from spindle.api.requests import Question as Question
    from spindle.api.requests import QuestionOption as QuestionOption
    from spindle.api.shown import Account as Account
    from spindle.api.shown import Change as Change
    from spindle.api.shown import ConflictingFile as ConflictingFile
    from spindle.api.shown import Item as Item
    from spindle.api.shown import Match as Match
    from spindle.api.shown import ModelEntry as ModelEntry
    from spindle.api.shown import Page as Page
    from spindle.api.shown import RestoredFile as RestoredFile
    from spindle.api.shown import SkippedFile as SkippedFile
    from spindle.api.shown import ThreadRecord as ThreadRecord
    from spindle.api.shown import TurnError as TurnError
    from spindle.api.shown import TurnRecord as TurnRecord
    from spindle.api.shown import TurnResult as TurnResult
    from spindle.api.shown import UndoReport as UndoReport
    from spindle.api.shown import Usage as Usage
    from spindle.api.thread import Thread as Thread
    from spindle.api.thread import TurnHandle as TurnHandle
    from spindle.api.thread import TurnStream as TurnStream
    from spindle.api.tool_results import Image as Image
    from spindle.errors import BudgetExceeded as BudgetExceeded
    from spindle.errors import CallbackError as CallbackError
    from spindle.errors import ConfigError as ConfigError
    from spindle.errors import ModelError as ModelError
    from spindle.errors import OutputInvalid as OutputInvalid
    from spindle.errors import SandboxUnavailable as SandboxUnavailable
    from spindle.errors import SpindleError as SpindleError
    from spindle.errors import StreamDropped as StreamDropped
    from spindle.errors import ThreadBusy as ThreadBusy
    from spindle.errors import ThreadClosed as ThreadClosed
    from spindle.errors import ThreadError as ThreadError
    from spindle.errors import ThreadLocked as ThreadLocked
    from spindle.errors import ThreadNotFound as ThreadNotFound
    from spindle.errors import ToolDefinitionError as ToolDefinitionError
    from spindle.errors import ToolError as ToolError
    from spindle.errors import TurnFailed as TurnFailed
    from spindle.errors import TurnTimeout as TurnTimeout
    from spindle.errors import UndoConflict as UndoConflict
    from spindle.model.client import ModelClient as ModelClient

_PLACES = {
    "api.agent_roles": ("AgentRole",),
    "api.async_client": ("AsyncSpindle", "AsyncThreads"),
    "api.async_thread": ("AsyncThread", "AsyncTurnHandle", "AsyncTurnStream"),
    "api.budgets": ("Budget",),
    "api.client": ("Spindle", "Threads"),
    "api.events": ("Event",),
    "api.functions": ("ToolContext", "tool"),
    "api.hook_functions": ("HookMatcher",),
    "api.inputs": ("ImageInput", "LocalImageInput", "MentionInput", "SkillInput", "TextInput"),
    "api.options": ("Sandbox",),
    "api.requests": ("ApprovalRequest", "Denied", "Question", "QuestionOption"),
    "api.shown": (
        *("Account", "Change", "Item", "Match", "ModelEntry", "Page", "ThreadRecord", "TurnError", "TurnRecord"),
        *("ConflictingFile", "RestoredFile", "SkippedFile", "TurnResult", "UndoReport", "Usage"),
    ),
    "api.thread": ("Thread", "TurnHandle", "TurnStream"),
    "api.tool_results": ("Image",),
    "errors": (
        *("BudgetExceeded", "CallbackError", "ConfigError", "ModelError", "OutputInvalid", "SandboxUnavailable"),
        *("SpindleError", "StreamDropped", "ThreadBusy", "ThreadClosed", "ThreadError", "ThreadLocked"),
        *("ThreadNotFound", "ToolDefinitionError", "ToolError", "TurnFailed", "TurnTimeout", "UndoConflict"),
    ),
    "model.client": ("ModelClient",),
}
_MODULES = ("errors", "models", "testing", "types")
_MODULE_OF = {name: module for module, names in _PLACES.items() for name in names}

__all__ = ["__version__", *sorted(_MODULE_OF)]  # pyright: ignore[reportUnsupportedDunderAll]


def __getattr__(name):
    """Load what is asked for (PEP 562)."""
    module = name if name in _MODULES else _MODULE_OF.get(name)
    if module is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    import sys  # only to load a name, and loaded already by every interpreter

    __import__(f"{__name__}.{module}")
    loaded = sys.modules[f"{__name__}.{module}"]
    value = globals()[name] = loaded if name in _MODULES else getattr(loaded, name)
    return value


def __dir__():
    return sorted({*globals(), *__all__, *_MODULES} - {"TYPE_CHECKING"})
