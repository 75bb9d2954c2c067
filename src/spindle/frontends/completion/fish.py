"""The script for fish."""

from __future__ import annotations

from spindle.frontends.completion.places import (
    FILES,
    FOLDERS,
    PROGRAMS,
    Place,
    names_with_value,
    places,
    takes_value,
    values_of,
)
from spindle.frontends.options import Option

_FRAME = """\
# fish completion for spindle; made by `spindle completion fish`.

# Prints the command that is being typed, and on a second line how many words follow it.
function __spindle_place
    set -l tokens (commandline -opc)
    set -l place ''
    set -l words 0
    set -l skips 0
    for token in $tokens[2..-1]
        if test $skips = 1
            set skips 0
            continue
        end
        switch $token
            case --
                set words 99
                break
            case @WITH_VALUE@
                set skips 1
            case '-*'
            case '*'
                if test $words -gt 0
                    set words (math $words + 1)
                else
                    switch (string trim -- "$place $token")
@STEPS@
                        case '*'
                            set words 1
                    end
                end
        end
    end
    printf '%s\\n' "$place" $words
end

# Whether that command is being typed; with a second argument: and no word of its own yet.
function __spindle_at
    set -l found (__spindle_place)
    test "$found[1]" = "$argv[1]"; or return 1
    test (count $argv) -lt 2; or test $found[2] = 0
end

complete -c spindle -e
@LINES@
"""


def script() -> str:
    known = places()
    steps = [
        f"{' ' * 24}case {' '.join(map(_quoted, place.spellings))}\n{' ' * 28}set place {_quoted(place.path)}"
        for place in known
        if place.path
    ]
    lines = [line for place in known for line in _lines(place)]
    text = _FRAME.replace("@WITH_VALUE@", " ".join(names_with_value()))
    return text.replace("@STEPS@", "\n".join(steps)).replace("@LINES@", "\n".join(lines))


def _lines(place: Place) -> list[str]:
    first = f'complete -c spindle -n "__spindle_at {_quoted(place.path)} first"'
    here = f'complete -c spindle -n "__spindle_at {_quoted(place.path)}{" first" if place.is_verbatim else ""}"'
    lines = [f"{first} -f -a {name} -d {_quoted(summary)}" for name, summary in place.commands]
    if place.words.words:
        lines.append(f"{first} -f -a {_quoted(' '.join(place.words.words))}")
    if place.words.kind == PROGRAMS:
        depth = len(place.path.split()) + 1
        lines.append(f'{here.replace(" first", "")} -x -a "(__fish_complete_subcommand --fcs-skip={depth})"')
    return [*lines, *(f"{here} {_option(option)}" for option in place.options)]


def _option(option: Option) -> str:
    names = [f"-l {name[2:]}" if name.startswith("--") else f"-s {name[1:]}" for name in option.names]
    values = values_of(option)
    takes = ""
    if takes_value(option):
        if values.kind == FILES:
            takes = " -r -F"
        elif values.kind == FOLDERS:
            takes = ' -x -a "(__fish_complete_directories)"'
        else:
            takes = f" -x -a {_quoted(' '.join(values.words))}" if values.words else " -x"
    return f"{' '.join(names)}{takes} -d {_quoted(option.help)}"


def _quoted(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace("'", "\\'")
    return f"'{escaped}'"
