"""The script for elvish, to be put into rc.elv."""

from __future__ import annotations

from spindle.frontends.completion.places import (
    FILES,
    FOLDERS,
    Place,
    all_valued_options,
    filled,
    names_with_value,
    places,
    values_of,
)

_FRAME = """\
# elvish completion for spindle; made by `spindle completion elvish`.

use str

set edit:completion:arg-completer[spindle] = {|@args|
    var places = [
@STEPS@
    ]
    var takes-value = [&@WITH_VALUE@=$true]
    var takes-file = [&@WITH_FILE@=$true]
    var values = [
@VALUES@
    ]
    var commands = [
@COMMANDS@
    ]
    var options = [
@OPTIONS@
    ]
    var verbatim = [&@VERBATIM@=$true]

    # Which command is being typed: the words so far that are neither options nor their values.
    var place = ''
    var words = 0
    var skips = $false
    var last = ''
    for word $args[1..-1] {
        set last = $word
        if $skips {
            set skips = $false
        } elif (has-key $takes-value $word) {
            set skips = $true
        } elif (not (str:has-prefix $word -)) {
            var step = (str:trim-space $place' '$word)
            if (and (== $words 0) (has-key $places $step)) {
                set place = $places[$step]
            } else {
                set words = (+ $words 1)
            }
        }
    }
    if $skips {
        if (has-key $takes-file $last) {
            edit:complete-filename $@args
        } elif (has-key $values $last) {
            all $values[$last]
        }
    } elif (and (> $words 0) (has-key $verbatim $place)) {
        edit:complete-filename $@args
    } elif (str:has-prefix $args[-1] -) {
        for entry $options[$place] {
            edit:complex-candidate $entry[0] &display=$entry[0]'  '$entry[1]
        }
    } elif (== $words 0) {
        for entry $commands[$place] {
            edit:complex-candidate $entry[0] &display=$entry[0]'  '$entry[1]
        }
    }
}
"""


def script() -> str:
    known = places()
    valued = all_valued_options()
    with_file = [name for option in valued if values_of(option).kind in (FILES, FOLDERS) for name in option.names]
    parts = {
        "STEPS": "\n".join(
            f"        &{_quoted(spelling)}={_quoted(place.path)}"
            for place in known
            if place.path
            for spelling in place.spellings
        ),
        "WITH_VALUE": "=$true &".join(map(_quoted, names_with_value())),
        "WITH_FILE": "=$true &".join(map(_quoted, with_file)),
        "VALUES": "\n".join(
            f"        &{_quoted(name)}=[{' '.join(map(_quoted, values_of(option).words))}]"
            for option in valued
            if values_of(option).words
            for name in option.names
        ),
        "COMMANDS": "\n".join(f"        &{_quoted(place.path)}=[{_commands(place)}]" for place in known),
        "OPTIONS": "\n".join(f"        &{_quoted(place.path)}=[{_options(place)}]" for place in known),
        "VERBATIM": "=$true &".join(_quoted(place.path) for place in known if place.is_verbatim),
    }
    return filled(_FRAME, parts)


def _commands(place: Place) -> str:
    entries = [*place.commands, *((word, "") for word in place.words.words)]
    return " ".join(f"[{_quoted(name)} {_quoted(text)}]" for name, text in entries)


def _options(place: Place) -> str:
    return " ".join(f"[{_quoted(name)} {_quoted(option.help)}]" for option in place.options for name in option.names)


def _quoted(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"
