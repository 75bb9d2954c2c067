"""The script for bash. It works with bash 3.2 (macOS) and needs no bash-completion package."""

from __future__ import annotations

from spindle.frontends.completion.places import (
    FILES,
    FOLDERS,
    PROGRAMS,
    Place,
    Values,
    all_valued_options,
    filled,
    names_with_value,
    places,
    values_of,
)

_FRAME = """\
# bash completion for spindle; made by `spindle completion bash`.

_spindle() {
    local IFS=$' \\t\\n' cur=${COMP_WORDS[COMP_CWORD]} prev="" place="" word words=0 i=1 offered="" options=""
    COMPREPLY=()
    # bash takes --option=value apart at the equals sign.
    if [[ $cur == "=" ]]; then
        cur=""
        prev=${COMP_WORDS[COMP_CWORD-1]}
    elif (( COMP_CWORD > 2 )) && [[ ${COMP_WORDS[COMP_CWORD-1]} == "=" ]]; then
        prev=${COMP_WORDS[COMP_CWORD-2]}
    elif (( COMP_CWORD > 1 )); then
        prev=${COMP_WORDS[COMP_CWORD-1]}
    fi
    # Which command is being typed: the words so far that are neither options nor their values.
    while (( i < COMP_CWORD )); do
        word=${COMP_WORDS[i]}
        case "$word" in
            --) return 0 ;;
            @WITH_VALUE@)
                if [[ ${COMP_WORDS[i+1]} == "=" ]]; then (( i += 1 )); fi
                (( i += 1 )) ;;
            -*) ;;
            *)
                if (( words > 0 )); then
                    (( words += 1 ))
                else
                    case "$place${place:+ }$word" in
@STEPS@
                        *) words=1 ;;
                    esac
                fi ;;
        esac
        (( i += 1 ))
    done
    # The rest of the line belongs to another program.
    case "$place" in
        @VERBATIM@) if (( words > 0 )); then return 0; fi ;;
    esac
    case "$prev" in
@VALUES@
        @WITH_VALUE@) return 0 ;;
    esac
    case "$place" in
@TABLES@
    esac
    if [[ $cur == -* ]]; then
        COMPREPLY=($(compgen -W "$options" -- "$cur"))
    elif (( words == 0 )); then
        case "$place" in
            @PROGRAMS@) COMPREPLY=($(compgen -c -- "$cur")) ;;
            *) COMPREPLY=($(compgen -W "$offered" -- "$cur")) ;;
        esac
    fi
}

complete -o bashdefault -o default -F _spindle spindle
"""


def script() -> str:
    known = places()
    parts = {
        "WITH_VALUE": "|".join(names_with_value()),
        "STEPS": "\n".join(_step(place) for place in known if place.path),
        "VERBATIM": "|".join(_quoted(place.path) for place in known if place.is_verbatim),
        "PROGRAMS": "|".join(_quoted(place.path) for place in known if place.words.kind == PROGRAMS),
        "VALUES": "\n".join(
            f"        {'|'.join(option.names)}) {_offer(values_of(option))}return 0 ;;"
            for option in all_valued_options()
        ),
        "TABLES": "\n".join(_table(place) for place in known),
    }
    return filled(_FRAME, parts)


def _step(place: Place) -> str:
    return " " * 24 + f"{'|'.join(map(_quoted, place.spellings))}) place={_quoted(place.path)} ;;"


def _table(place: Place) -> str:
    options = " ".join(name for option in place.options for name in option.names)
    offered = " ".join([*(name for name, _ in place.commands), *place.words.words])
    return f'        {_quoted(place.path)}) options="{options}" offered="{offered}" ;;'


def _offer(values: Values) -> str:
    """File names are left to readline, which knows how to quote them."""
    if values.kind == FOLDERS:
        return "IFS=$'\\n'; COMPREPLY=($(compgen -d -- \"$cur\")); compopt -o filenames 2>/dev/null; "
    return "" if values.kind == FILES else f'COMPREPLY=($(compgen -W "{" ".join(values.words)}" -- "$cur")); '


def _quoted(text: str) -> str:
    return f'"{text}"'
