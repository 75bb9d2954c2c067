"""The commands for work and for its threads, as data."""

from __future__ import annotations

from spindle.frontends.commands import CONFIG, FOLDER, JSON_LINES, PROMPT, REVIEW, SESSION, Command
from spindle.frontends.options import FLAG, OPTIONAL, VALUE, Option

_THREAD = "the thread: its id, the beginning of its id, or its name"
_NEXT_PROMPT = "what to do next; `-`: read it from stdin"
_LAST = Option(("--last",), FLAG, "the newest thread of this folder")
_ALL = Option(("--all",), FLAG, "with --last: the newest of any folder")
_AT = Option(("--at",), VALUE, "branch after this response, or after this many turns", "RESPONSE_ID|TURNS")

_BUDGET = (
    Option(("--max-requests",), VALUE, "stop the turn after this many requests to the model", "COUNT"),
    Option(("--max-tokens",), VALUE, "stop the turn when it has used this many tokens", "COUNT"),
    Option(("--max-cost",), VALUE, "stop the turn when it has cost this many US dollars", "DOLLARS"),
)

# ---- work ------------------------------------------------------------------------------------------

_EXEC_EXIT_CODES = (
    ("0", "the turn completed"),
    ("1", "the turn failed, was interrupted by Ctrl-C, or could not be set up; stderr says why"),
    ("129, 143", "ended by SIGHUP or SIGTERM; the thread can be resumed"),
    ("130", "a second Ctrl-C: ended without waiting"),
)
_GOAL_EXIT_CODES = (
    ("0", "the turn completed; in a thread with an active goal: the goal is complete"),
    ("1", "it failed, was interrupted by Ctrl-C or could not be set up, or the goal is not complete; stderr says why"),
    *_EXEC_EXIT_CODES[2:],
)
_RUN_EXEC = "exec.command:run"
_PRIORITIES = ("P0", "P1", "P2", "P3")

_REVIEW_OPTIONS = (
    Option(("--uncommitted",), FLAG, "everything that is not committed: staged, unstaged and untracked"),
    Option(("--base",), VALUE, "what would be merged into this branch", "BRANCH"),
    Option(("--commit",), VALUE, "what this commit changed", "SHA"),
    Option(("--title",), VALUE, "with --commit: its title, for the reviewer", "TITLE"),
    Option(("--fail-on",), VALUE, "exit with 3 if a finding has this priority or a worse one", "PRIORITY", _PRIORITIES),
    Option(("--sarif",), VALUE, "also write the findings to this file, as SARIF 2.1.0", "FILE"),
)
_GOAL = Option(("--goal",), VALUE, "work until this goal is reached, over as many turns as it takes", "TEXT")
_RUN_OPTIONS = (
    Option(("--json", "--experimental-json"), FLAG, "print events as JSON lines on stdout"),
    Option(("-o", "--output-last-message"), VALUE, "write the last message of the agent to this file", "FILE"),
    Option(("--output-schema",), VALUE, "JSON Schema file that the final answer must follow", "FILE"),
    Option(("--color",), VALUE, "colours on stderr", "WHEN", ("always", "never", "auto")),
    Option(("--skip-git-repo-check",), FLAG, "run outside a git repository"),
    Option(("--ephemeral",), FLAG, "record nothing"),
    *_BUDGET,
    Option(("--ignore-user-config",), FLAG, "do not read config.toml of the Codex home"),
    Option(("--ignore-rules",), FLAG, "do not read .rules files"),
    Option(("--thread-source",), VALUE, "accepted for SDK compatibility, without effect", "NAME"),
    Option(("--cyber-access-program",), VALUE, "accepted for SDK compatibility, without effect", "NAME"),
)
EXEC_REVIEW = Command(
    name="review",
    summary="have changes reviewed, without changing anything",
    run="exec.review:run",
    words=(("[PROMPT]", "what to review, in your own words; `-`: read it from stdin"),),
    usage=(
        "[OPTIONS] --uncommitted",
        "[OPTIONS] --base BRANCH",
        "[OPTIONS] --commit SHA [--title TITLE]",
        "[OPTIONS] PROMPT",
    ),
    about="""A separate reviewer looks at the changes: it can read everything, change nothing, and ask nobody,
whatever the other options say. It reports findings with priorities from P0 (must be fixed first) to P3 (worth knowing).
The report goes to stdout; --json adds it as an object. `spindle exec resume --last "Fix the first one."` goes on from
there. The configuration key `review_model` chooses another model for reviews.""",
    options=_REVIEW_OPTIONS,
    extends=True,
    common=REVIEW,
    exit_codes=(
        ("0", "the review is done"),
        *_EXEC_EXIT_CODES[1:2],
        ("3", "--fail-on found something"),
        *_EXEC_EXIT_CODES[2:],
    ),
    examples=(
        ("spindle exec review --uncommitted", "look at the work in progress"),
        ("spindle exec review --base main --fail-on P1 --sarif review.sarif", "gate a merge"),
        ('spindle exec review "Look for races in src/pool.py."', "in your own words"),
    ),
)

EXEC = Command(
    name="exec",
    aliases=("e",),
    summary="run one prompt without a screen and exit",
    run=_RUN_EXEC,
    words=(("[PROMPT]", "what to do; without one, or with `-`, it is read from stdin"),),
    about="""You are never asked: Spindle refuses what the sandbox does not allow, and tells the model so. Progress goes
to stderr and the final message to stdout. If you give a prompt and pipe input, the piped text follows the prompt. With
--goal, or in a thread with an active goal, turn follows turn until the goal is complete, blocked, or out of budget.""",
    options=(_GOAL, *_RUN_OPTIONS),
    common=PROMPT,
    exit_codes=_GOAL_EXIT_CODES,
    examples=(
        ('spindle exec "Why does test_parser fail?"', "look, and change nothing"),
        ('spindle exec -s workspace-write "Fix test_parser."', "let it edit the files of this folder"),
        ('git diff | spindle exec "Review this change."', "with piped input"),
        ('spindle exec -i screen.png "What is wrong here?"', "with a picture"),
        ('spindle exec -s workspace-write --goal "All tests pass."', "turn after turn, until they do"),
    ),
    commands=(
        Command(
            name="resume",
            summary="go on with a recorded thread",
            run=_RUN_EXEC,
            words=(("[THREAD]", f"{_THREAD}; left out with --last"), ("[PROMPT]", _NEXT_PROMPT)),
            usage=("[OPTIONS] THREAD [PROMPT]", "[OPTIONS] --last [PROMPT]"),
            about="""Without the argument, the prompt is read from stdin; a thread with an active goal needs no prompt.
If there is no thread to go on with, --last begins a new one.""",
            options=(_LAST, _ALL),
            extends=True,
            common=PROMPT,
            exit_codes=_GOAL_EXIT_CODES,
            examples=(('spindle exec -s workspace-write resume --last "Good. Fix it."', ""),),
        ),
        Command(
            name="fork",
            summary="branch off a recorded thread into a new one",
            run=_RUN_EXEC,
            words=(("[THREAD]", f"{_THREAD}; left out with --last"), ("[PROMPT]", _NEXT_PROMPT)),
            usage=("[OPTIONS] THREAD [PROMPT]", "[OPTIONS] --last [PROMPT]"),
            about="The old thread stays as it is. Without the argument, the prompt is read from stdin.",
            options=(_LAST, _ALL, _AT),
            extends=True,
            common=PROMPT,
            exit_codes=_GOAL_EXIT_CODES,
            examples=(('spindle exec fork 019a8c2e --at 2 "Try it without the cache."', "keep its first two turns"),),
        ),
        EXEC_REVIEW,
    ),
)
REVIEW_COMMAND = Command(
    name="review",
    summary=EXEC_REVIEW.summary,
    run=EXEC_REVIEW.run,
    words=EXEC_REVIEW.words,
    usage=EXEC_REVIEW.usage,
    about=EXEC_REVIEW.about,
    options=(*_REVIEW_OPTIONS, *_RUN_OPTIONS),
    common=REVIEW,
    exit_codes=EXEC_REVIEW.exit_codes,
    examples=tuple((line.replace("spindle exec", "spindle"), about) for line, about in EXEC_REVIEW.examples),
)

INTERFACE_OPTIONS = (
    Option(("--plain",), FLAG, "plain lines instead of a drawn screen, for screen readers and simple terminals"),
    *_BUDGET,
)
INTERFACE = (*PROMPT, "ask_for_approval", "no_alt_screen")
INTERFACE_EXIT_CODES = (
    ("0", "you quit"),
    ("1", "it could not begin: no terminal, no such thread, a bad configuration; stderr says why"),
    ("129, 130, 143", "ended by SIGHUP, SIGINT or SIGTERM; the thread can be resumed"),
)
_RUN_INTERFACE = "tui.command:run"

RESUME = Command(
    name="resume",
    summary="go on with a recorded thread in the terminal interface",
    run=_RUN_INTERFACE,
    words=(("[THREAD]", f"{_THREAD}; left out with --last"), ("[PROMPT]", "what to do next; sent at once")),
    usage=("[OPTIONS]", "[OPTIONS] THREAD [PROMPT]", "[OPTIONS] --last [PROMPT]"),
    about="""Without a thread you choose one from a list that you can search. The earlier conversation is printed first.
Without a terminal, use `spindle exec resume`.""",
    options=(
        _LAST,
        Option(("--all",), FLAG, "threads of every folder, not only of this one; also with --last"),
        Option(("--include-non-interactive",), FLAG, "accepted; threads of `spindle exec` are always listed"),
        *INTERFACE_OPTIONS,
    ),
    common=INTERFACE,
    exit_codes=INTERFACE_EXIT_CODES,
    examples=(("spindle resume --last", ""), ('spindle resume 019a8c2e "Good. Fix it."', "")),
)
FORK = Command(
    name="fork",
    summary="branch off a recorded thread in the terminal interface",
    run=_RUN_INTERFACE,
    words=RESUME.words,
    usage=RESUME.usage,
    about="""The old thread stays as it is. Without a thread you choose one from a list that you can search. Without a
terminal, use `spindle exec fork`.""",
    options=(*RESUME.options[:2], _AT, *INTERFACE_OPTIONS),
    common=INTERFACE,
    exit_codes=INTERFACE_EXIT_CODES,
    examples=(('spindle fork 019a8c2e "Try it without the cache."', ""),),
)
DEMO = Command(
    name="demo",
    summary="see Spindle work, without an account: a practice model fixes a failing test",
    run="demo_command:run",
    about="""The answers come from a script, not from a model. All else is real: the loop, the tools, the sandbox, the
patch. The demo works in a scratch folder and touches none of your files. With --tui you try the interface yourself.""",
    options=(
        Option(("--tui",), FLAG, "in the terminal interface, with approvals, plans and questions"),
        Option(("--plain",), FLAG, "with --tui: line by line, for screen readers and simple terminals"),
        Option(("--fast",), FLAG, "do not pause between the steps"),
        Option(("--keep",), FLAG, "keep the scratch repository"),
    ),
    exit_codes=(("0", "the test failed before and passes now"), ("1", "it does not")),
)

# ---- threads ---------------------------------------------------------------------------------------

_RUN_THREADS = "threads:run"
_LIST_OPTIONS = (
    Option(("--all",), FLAG, "threads of every folder, not only of this one"),
    Option(("--archived",), FLAG, "archived threads"),
    Option(("--find",), VALUE, "only threads whose name or text has these words", "WORDS"),
    Option(("--limit",), VALUE, "how many (default 25)", "N"),
    JSON_LINES,
)
THREADS = Command(
    name="threads",
    summary="recorded threads: list, search, export and repair them",
    default="list",
    examples=(
        ("spindle threads --all --find parser", "list the threads of every folder that mention it"),
        ("spindle threads search parser", "show where they mention it"),
        ("spindle threads export 019a8c2e -o parser.md", "the whole conversation, to read"),
    ),
    commands=(
        Command(
            name="list",
            summary="list recorded threads, the most recently used first",
            run=_RUN_THREADS,
            options=_LIST_OPTIONS,
            common=FOLDER,
        ),
        Command(
            name="search",
            summary="find where something was said, in threads of every folder",
            run="search:run",
            words=(("WORDS...", "what to look for; a turn must have all the words; upper and lower case are alike"),),
            about="""Looks through prompts, answers, commands, what they printed, patches, and the names of threads.
Words in quotes must appear exactly so. Prints the thread, the turn, and the words around the place.""",
            options=(Option(("--limit",), VALUE, "how many (default 100)", "N"), JSON_LINES),
            examples=(("spindle threads search parser", ""), ('spindle threads search "No such file" config', "")),
        ),
        Command(
            name="export",
            summary="a thread as a document: prompts, answers, commands, diffs",
            run="export:run",
            words=(("THREAD", _THREAD),),
            about="""Markdown is for reading, HTML is one file that loads nothing, JSON has the thread and its turns in
the form of the app-server. Turns that you have undone are left out. Secrets that were masked when the thread was
recorded stay masked.""",
            options=(
                Option(("--format",), VALUE, "markdown when left out", "FORMAT", ("markdown", "html", "json")),
                Option(("-o", "--output"), VALUE, "write to this file, not to standard output", "FILE"),
            ),
            examples=(("spindle threads export 019a8c2e --format html -o thread.html", ""),),
        ),
        Command(
            name="repair",
            summary="repair the files of threads",
            run="repair:run",
            words=(("[THREAD]", f"{_THREAD}; left out with --all"),),
            usage=("[OPTIONS] THREAD", "[OPTIONS] --all"),
            about="""Removes lines that were cut off, do not belong to the thread or are there twice, and NUL bytes;
adds a missing first line or a missing output of a call. The original is kept beside the file, with `.bak` after its
name. An intact file is not touched. A thread that is open elsewhere is refused.""",
            options=(
                Option(("--all",), FLAG, "every thread, archived ones too"),
                Option(("--dry-run",), FLAG, "only say what would be done"),
                JSON_LINES,
            ),
            exit_codes=(
                ("0", "all are intact now; with --dry-run: all are intact"),
                ("1", "something cannot be repaired; with --dry-run also: something would be repaired"),
            ),
        ),
    ),
)
UNDO = Command(
    name="undo",
    summary="take back what turns did to files, by patch or by command, and to the conversation",
    run="undo:run",
    words=(("[THREAD]", f"{_THREAD}; without it, the newest of this folder"),),
    about="""Without options it takes back the last turn. A file that anybody else has changed since is a conflict:
then undo changes nothing at all, and names the files. --redo reverses the last undo, until the next turn begins.

Undo covers the files that git does not ignore, and outside a repository everything below the folder. It does not cover
files that git ignores and only a command has changed, `.git` itself, owners and times.""",
    options=(
        Option(("--turns",), VALUE, "the last N turns", "N"),
        Option(("--to",), VALUE, "everything from this turn on", "TURN_ID"),
        Option(("--files",), FLAG, "only files; your next message tells the model"),
        Option(("--conversation",), FLAG, "only the conversation; files stay as they are"),
        Option(("--keep-mine",), FLAG, "leave files that somebody else has changed, and restore the rest"),
        Option(("--dry-run",), FLAG, "change nothing, only show what would change"),
        Option(("--redo",), FLAG, "reverse the last undo"),
        Option(("--list",), FLAG, "list the turns and what each of them changed"),
        Option(("--json",), FLAG, "print one JSON object"),
    ),
    common=CONFIG,
    exit_codes=(("0", "done"), ("1", "nothing was changed: a conflict, nothing to undo, or the thread is in use")),
    examples=(
        ("spindle undo", "the last turn of the newest thread of this folder"),
        ("spindle undo --turns 2 --dry-run", "show what undoing the last two turns would change"),
        ("spindle undo --redo", "reverse the undo"),
    ),
)
CONTEXT_OPTIONS = (
    Option(("--json",), FLAG, "print one JSON object"),
    Option(("--html",), OPTIONAL, "one page with plots, to FILE or to standard output", "FILE"),
    Option(("--request",), VALUE, "everything the model saw at the N-th request", "N"),
    _LAST,
    _ALL,
)
CONTEXT_WORDS = (
    ("[THREAD]", f"{_THREAD}, or its file; left out with --last"),
    ("[FILE]", "with --html: where the page goes; `-` is standard output"),
)
CONTEXT = Command(
    name="context",
    summary="what the model saw, request by request, and what it cost",
    run="context.command:run",
    words=CONTEXT_WORDS,
    usage=("[OPTIONS] THREAD", "[OPTIONS] --last", "THREAD --html [FILE] [--request N]"),
    options=CONTEXT_OPTIONS,
    common=FOLDER,
    examples=(
        ("spindle context --last", "the newest thread of this folder"),
        ("spindle context 019a8c2e --html page.html", "as a page with plots"),
    ),
)
REPLAY = Command(
    name="replay",
    summary="build every request of a thread again and compare: what changed between versions?",
    run="replay:run",
    words=(("THREAD", f"{_THREAD}, or its file"),),
    about="""Runs nothing and sends nothing. For the first request that differs, it says the number and the place where
the difference begins.""",
    options=(Option(("--json",), FLAG, "print one JSON object"),),
    exit_codes=(
        ("0", "every request is the same, byte for byte"),
        ("1", "one or more differ"),
        ("2", "it cannot tell: no such thread, or its requests are not recorded"),
    ),
    examples=(("spindle replay 019a8c2e", "by the beginning of its id"),),
)
ARCHIVE = Command(
    name="archive",
    summary="put a thread away; nothing is lost",
    run=_RUN_THREADS,
    words=(("THREAD", _THREAD),),
)
UNARCHIVE = Command(
    name="unarchive", summary="bring an archived thread back", run=_RUN_THREADS, words=(("THREAD", _THREAD),)
)
DELETE = Command(
    name="delete",
    summary="delete a thread for good",
    run=_RUN_THREADS,
    words=(("THREAD", _THREAD),),
    about="""On a terminal it shows you the thread and asks first. Elsewhere it deletes nothing without --force.
`spindle archive` puts a thread away without losing it.""",
    options=(Option(("-f", "--force"), FLAG, "delete without asking"),),
    exit_codes=(("0", "deleted"), ("1", "there is no such thread, you said no, or --force is missing")),
)
DEBUG = Command(
    name="debug",
    summary="look inside: the request that would be sent, a thread's context",
    commands=(
        Command(
            name="prompt-input",
            summary="print exactly the request that would be sent, and send nothing",
            run="debug:run",
            words=(("[PROMPT]", "the prompt; without it, an empty one"),),
            common=(*SESSION, "image"),
        ),
        Command(
            name="context",
            summary="`spindle context`, of the newest thread of this folder if none is named",
            run="debug:run",
            words=CONTEXT_WORDS,
            usage=("[OPTIONS] [THREAD]",),
            options=CONTEXT_OPTIONS,
            common=FOLDER,
        ),
    ),
)
