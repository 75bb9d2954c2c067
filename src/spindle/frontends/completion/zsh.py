"""The script for zsh: to be evaluated after compinit, or to be put as `_spindle` into a folder of $fpath."""

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
#compdef spindle
# zsh completion for spindle; made by `spindle completion zsh`.

_spindle() {
    local place="" word prev="$words[CURRENT-1]"
    local -a offered options
    integer i=2 count=0 first=0
    # Which command is being typed: the words so far that are neither options nor their values.
    while (( i < CURRENT )); do
        word=$words[i]
        case $word in
            (--) _default; return ;;
            (@WITH_VALUE@) (( i += 1 )) ;;
            (-*) ;;
            (*)
                if (( count > 0 )); then
                    (( count += 1 ))
                else
                    case "$place${place:+ }$word" in
@STEPS@
                        (*) count=1; first=i ;;
                    esac
                fi ;;
        esac
        (( i += 1 ))
    done
    # The rest of the line belongs to another program.
    case $place in
        (@VERBATIM@)
            if (( count > 0 )); then
                shift $(( first - 1 )) words
                (( CURRENT -= first - 1 ))
                _normal
                return
            fi ;;
    esac
    if [[ $words[CURRENT] == --*=* ]]; then
        prev=${words[CURRENT]%%=*}
        compset -P '*='
    elif [[ $prev == "=" ]]; then
        prev=""
    fi
    case $prev in
@VALUES@
        (@WITH_VALUE@) _message 'a value'; return ;;
    esac
    case $place in
@TABLES@
    esac
    if [[ $words[CURRENT] == -* ]]; then
        _describe -o option options
    elif (( count == 0 && $#offered )); then
        _describe command offered
    elif (( count == 0 )); then
        case $place in
            (@PROGRAMS@) _command_names -e ;;
            (*) _default ;;
        esac
    else
        _default
    fi
}

if [[ $funcstack[1] == _spindle ]]; then
    _spindle "$@"
else
    compdef _spindle spindle
fi
"""


def script() -> str:
    known = places()
    parts = {
        "WITH_VALUE": "|".join(names_with_value()),
        "STEPS": "\n".join(_step(place) for place in known if place.path),
        "VERBATIM": "|".join(_quoted(place.path) for place in known if place.is_verbatim),
        "PROGRAMS": "|".join(_quoted(place.path) for place in known if place.words.kind == PROGRAMS),
        "VALUES": "\n".join(
            f"        ({'|'.join(option.names)}) {_offer(values_of(option))}; return ;;"
            for option in all_valued_options()
        ),
        "TABLES": "\n".join(_table(place) for place in known),
    }
    return filled(_FRAME, parts)


def _step(place: Place) -> str:
    return " " * 24 + f"({'|'.join(map(_quoted, place.spellings))}) place={_quoted(place.path)} ;;"


def _table(place: Place) -> str:
    options = [_entry(name, option.help) for option in place.options for name in option.names]
    offered = [_entry(name, summary) for name, summary in place.commands]
    offered += [_quoted(word) for word in place.words.words]
    start = f"        ({_quoted(place.path)})"
    return f"{start}\n            options=({' '.join(options)})\n            offered=({' '.join(offered)}) ;;"


def _entry(name: str, text: str) -> str:
    return _quoted(f"{name}:{text}")


def _offer(values: Values) -> str:
    if values.kind == FOLDERS:
        return "_files -/"
    return "_files" if values.kind == FILES else f"compadd -- {' '.join(map(_quoted, values.words))}"


def _quoted(text: str) -> str:
    escaped = text.replace("'", "'\\''")
    return f"'{escaped}'"
