"""The table of slash commands: data only, so that the list can be shown without loading what the commands do."""

from __future__ import annotations

from typing import NamedTuple


class SlashCommand(NamedTuple):
    """One command of the table."""

    name: str
    summary: str
    run: str
    """`module:function` below `commands/`, loaded at its first use; called with the desk and the argument."""
    is_allowed_in_turn: bool = False
    """It may be used while a turn runs."""
    argument: str = ""
    """What may stand behind it: `[hint]`, `TEXT`. Where nothing may, the text is a message when something does."""
    aliases: tuple[str, ...] = ()


R = True
"""As in the page's table: usable while a turn runs."""

COMMANDS: tuple[SlashCommand, ...] = (
    SlashCommand("model", "choose the model and how hard it thinks", "model:choose", R, "[NAME [EFFORT]]"),
    SlashCommand(
        "permissions", "choose what may be done without asking", "permissions:choose", R, "[PRESET]", ("approvals",)
    ),
    SlashCommand("status", "model, folder, permissions, tokens and limits of this session", "status:show", R),
    SlashCommand("diff", "what has changed in the git working tree, untracked files too", "diff:show", R),
    SlashCommand("new", "start a new thread", "threads:new", argument="[worktree]"),
    SlashCommand("clear", "start a new thread on a clear screen", "threads:clear"),
    SlashCommand("resume", "go on with an earlier thread", "threads:resume", R, "[ID|NAME]"),
    SlashCommand("fork", "branch off this thread into a new one", "threads:fork"),
    SlashCommand("compact", "replace the thread by a summary", "thread_ops:compact", argument="[hint]"),
    SlashCommand("plan", "plan mode: think first, change nothing", "modes:plan", argument="[text]"),
    SlashCommand("review", "have the changes reviewed", "review:review", argument="[text]"),
    SlashCommand("init", "have an AGENTS.md written for this folder", "prompts:init", argument="[text]"),
    SlashCommand("mention", "mention a file in the message", "prompts:mention", R, "[path]"),
    SlashCommand("mcp", "MCP servers, their state and their tools", "servers:mcp", R, "[refresh|NAME]"),
    SlashCommand("skills", "skills that can be used with $NAME", "surroundings:skills", R, "[reload]"),
    SlashCommand("copy", "copy the last answer to the clipboard", "clipboard:copy", R),
    SlashCommand("rename", "give this thread a name", "threads:rename", R, "NAME"),
    SlashCommand("ps", "commands that run in the background", "background:ps", R),
    SlashCommand("stop", "end the commands that run in the background", "background:stop", R, "[NUMBER]"),
    SlashCommand("quit", "quit", "leaving:quit_session", R),
    SlashCommand("exit", "quit", "leaving:quit_session", R),
    SlashCommand("help", "keys and commands", "help:show", R, "[COMMAND]"),
    SlashCommand("login", "sign in, or store an API key", "accounts:login"),
    SlashCommand("logout", "forget the stored credentials", "accounts:logout"),
    SlashCommand("context", "what fills the context window", "context:show", R, "[past]"),
    SlashCommand("undo", "take back the last turn: files and conversation", "undo:undo", argument="[files|redo]"),
    SlashCommand("rewind", "go back to an earlier message: conversation, files or both", "rewind:rewind"),
    SlashCommand("agents", "sub-agents and what they do", "background:agents", R, aliases=("subagents",)),
    SlashCommand("memories", "notes that outlive the thread", "surroundings:memories", aliases=("memory",)),
    SlashCommand("hooks", "hooks and whether they may run", "surroundings:hooks", R),
    SlashCommand("personality", "the tone of the model", "model:personality", argument="[NAME]"),
    SlashCommand("theme", "colours of the interface", "looks:theme", argument="[NAME]"),
    SlashCommand("keymap", "what each key does", "looks:keymap", argument="[codex|claude|pi|vim]", aliases=("keys",)),
    SlashCommand("export", "write the thread to a file", "export:export", argument="[FILE.md|.json|.html]"),
    SlashCommand("pin", "keep a fact through every compaction", "thread_ops:pin", R, "TEXT"),
    SlashCommand("demo", "try the interface with a practice model", "accounts:demo"),
    SlashCommand("goal", "work turn after turn until a goal is reached", "goal:goal", R, "[TEXT|pause|resume|clear]"),
    SlashCommand("config", "settings in force and where they come from", "settings:config", argument="[KEY [VALUE]]"),
    SlashCommand("statusline", "what the status line shows", "looks:status_line", R, "[ITEMS]"),
    SlashCommand("title", "what the title of the terminal shows", "looks:title", R, "[ITEMS]"),
    SlashCommand("vim", "vi keys in the composer, on or off", "looks:vim", argument="[on|off]"),
    SlashCommand("side", "ask a side question, without changing the thread", "side:ask", R, "QUESTION"),
    SlashCommand("btw", "ask a side question, without changing the thread", "side:ask", R, "QUESTION"),
    SlashCommand("raw", "answers as the model wrote them, on or off", "clipboard:raw", R, "[on|off]"),
    SlashCommand("cd", "work in another folder", "folders:cd", argument="FOLDER"),
    SlashCommand("pwd", "the working folder", "folders:pwd", R),
    SlashCommand("warnings", "warnings of this session", "surroundings:warnings", R),
    SlashCommand("recap", "what was asked and done so far", "recap:show", R),
    SlashCommand("archive", "put this thread away", "threads:archive"),
    SlashCommand("delete", "delete this thread for good", "threads:delete"),
    SlashCommand("cost", "tokens and money of this thread", "status:cost", R, aliases=("usage",)),
    SlashCommand("doctor", "check what Spindle needs on this system", "settings:doctor"),
    SlashCommand("experimental", "features that can be switched on", "settings:experimental"),
    SlashCommand("unpin", "remove a pinned fact", "thread_ops:unpin", R, "[TEXT]"),
    SlashCommand("tree", "the threads that branched off each other", "threads:tree", R),
    SlashCommand("hotkeys", "what each key does", "looks:keymap", argument="[codex|claude|pi|vim]"),
)
"""In the order in which they are listed."""

_BY_NAME = {name: command for command in COMMANDS for name in (command.name, *command.aliases)}


def find(name: str) -> SlashCommand | None:
    """The command with this name or alias; upper and lower case are alike."""
    return _BY_NAME.get(name.lower())


def names() -> list[str]:
    """All names and aliases."""
    return [*_BY_NAME]
