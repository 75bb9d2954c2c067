"""The commands of the fleet, as data."""

from __future__ import annotations

from spindle.frontends.commands import Command
from spindle.frontends.options import FLAG, VALUE, Option

_DIR = ("DIR", "the folder of the run: what was given as --out")
_JSON = Option(("--json",), FLAG, "for programs: JSON")
_STATUSES = (
    *("ok", "verify_failed", "invalid_output", "agent_failed", "setup_failed"),
    *("model_error", "timeout", "budget", "quarantined", "cancelled"),
)

_RUN = Command(
    name="run",
    summary="run a list of tasks, and record one result for each",
    run="fleet.run:run",
    words=(
        (
            "[TASKS]",
            "a file of JSON lines, `-` for stdin, or repositories: a folder of them, or a pattern in quotes; can be "
            "left out with --resume",
        ),
    ),
    usage=("TASKS --out DIR [OPTIONS]", "[TASKS] --out DIR --resume [OPTIONS]"),
    about="""Each task gets its own workspace, with a clone of its repository. You are never asked. What a task changed
is its patch; the record of each task is a line in DIR/results.jsonl, and its files are in DIR/tasks/ID.

Spindle checks the whole list before it starts anything. --resume continues a run that was stopped or killed; recorded
tasks do not run again. Options that you leave out then are those of the previous run, but --retry, --select, --limit
and --shard hold for one run only.""",
    options=(
        Option(("--out",), VALUE, "the folder of the run", "DIR"),
        Option(("--prompt",), VALUE, "for tasks without one; {id} and {repo} are replaced", "TEXT|@FILE"),
        Option(("--engine",), VALUE, "where the workers run; `local` needs nothing else", "NAME", ("local", "ray")),
        Option(("--address",), VALUE, "a running Ray cluster; else one is started and stopped", "HOST:PORT"),
        Option(("--insecure-cluster",), FLAG, "join a Ray cluster that asks for no token"),
        Option(("--jobs",), VALUE, "tasks at a time, on all machines together (8 for each core)", "N"),
        Option(("--workers",), VALUE, "worker processes (one for each core)", "N"),
        Option(("--per-worker",), VALUE, "tasks at a time in one worker (jobs divided by workers)", "M"),
        Option(("--timeout",), VALUE, "the longest time of an attempt, in seconds (3600)", "SECONDS"),
        Option(("--retries",), VALUE, "how often a task is tried again when its model or worker failed (2)", "N"),
        Option(("--max-cost",), VALUE, "stop when the whole run has cost this many US dollars", "DOLLARS"),
        Option(("--max-tokens",), VALUE, "stop when the whole run has used this many tokens", "COUNT"),
        Option(("--rpm",), VALUE, "requests a minute to each provider, all workers together", "N"),
        Option(("--tpm",), VALUE, "tokens a minute to each provider, all workers together", "N"),
        Option(("--resume",), FLAG, "continue the run in DIR"),
        Option(
            ("--retry",),
            VALUE,
            f"with --resume: run tasks with these again ({', '.join(_STATUSES)})",
            "STATUS[,STATUS]",
        ),
        Option(("--select",), VALUE, "only tasks whose id matches", "GLOB"),
        Option(("--limit",), VALUE, "only the first N tasks of the list", "N"),
        Option(("--shard",), VALUE, "only part I of N, for several machines with one list", "I/N"),
        Option(("--keep",), VALUE, "which workspaces stay (never)", "WHEN", ("never", "failed", "always")),
        Option(("--speculate",), FLAG, "start a very slow task a second time on an idle worker; costs money"),
        Option(("--output-schema",), VALUE, "JSON Schema file that final answers must follow", "FILE"),
        Option(("--json",), FLAG, "print events as JSON lines on stdout"),
    ),
    common=("config", "model", "profile", "sandbox"),
    exit_codes=(
        ("0", "every task is recorded and ok"),
        ("1", "every task is recorded, some are not ok"),
        ("2", "the command line or the list cannot be used; nothing was started"),
        ("3", "stopped before the end: budget, cancel or signal; --resume goes on"),
        ("130", "a second Ctrl-C: ended without waiting"),
    ),
    examples=(
        ("spindle fleet run tasks.jsonl --out run1 --max-cost 20", "a list of tasks, for 20 dollars at most"),
        (
            'spindle fleet run "repos/*" --out run2 --prompt "Update the licence year."',
            "one prompt for many repositories",
        ),
        ("spindle fleet run --out run1 --resume --retry model_error,timeout", "go on, and try some again"),
    ),
)

FLEET = Command(
    name="fleet",
    summary="run many tasks, one record each",
    commands=(
        _RUN,
        Command(
            name="status",
            summary="how far a run is, while it works and afterwards",
            run="fleet.status:run",
            words=(_DIR,),
            options=(_JSON,),
        ),
        Command(
            name="results",
            summary="the records of a run, in the order of the list",
            run="fleet.results:run",
            words=(_DIR,),
            options=(
                Option(("--status",), VALUE, "only these", "STATUS[,STATUS]"),
                Option(("--json",), FLAG, "print the records as JSON lines"),
                Option(("--csv",), FLAG, "print a table with a column for each field"),
            ),
        ),
        Command(
            name="report",
            summary="one HTML page about a run, and its table as CSV",
            run="fleet.report:run",
            words=(_DIR,),
            options=(Option(("-o", "--output"), VALUE, "the page (DIR/report.html)", "FILE"),),
        ),
        Command(
            name="cancel",
            summary="stop a run, or remove tasks from it",
            run="fleet.cancel:run",
            words=(_DIR, ("[ID...]", "the tasks; without one, the whole run is stopped and can be resumed")),
        ),
        Command(
            name="export",
            summary="the patches of a run, for a benchmark",
            run="fleet.export:run",
            words=(_DIR,),
            options=(
                Option(("--format",), VALUE, "the form of the file", "NAME", ("swebench",)),
                Option(("-o", "--output"), VALUE, "write to this file instead of stdout", "FILE"),
                Option(("--model-name",), VALUE, "the name to give as model_name_or_path", "NAME"),
            ),
        ),
        Command(
            name="worker", summary="the worker process of a run; started by it", run="fleet.worker:run", is_hidden=True
        ),
    ),
)
