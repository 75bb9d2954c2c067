"""The script for PowerShell, to be put into $PROFILE."""

from __future__ import annotations

from spindle.frontends.completion.places import (
    Place,
    all_valued_options,
    filled,
    names_with_value,
    places,
    values_of,
)

_FRAME = """\
# PowerShell completion for spindle; made by `spindle completion powershell`.

Register-ArgumentCompleter -Native -CommandName 'spindle' -ScriptBlock {
    param($wordToComplete, $commandAst, $cursorPosition)

    $places = @{
@STEPS@
    }
    $takesValue = @(@WITH_VALUE@)
    $values = @{
@VALUES@
    }
    $commands = @{
@COMMANDS@
    }
    $options = @{
@OPTIONS@
    }
    $verbatim = @(@VERBATIM@)

    # The words before the one that is being typed.
    $before = @()
    foreach ($element in $commandAst.CommandElements | Select-Object -Skip 1) {
        if ($element.Extent.EndOffset -lt $cursorPosition) { $before += $element.Extent.Text }
    }
    $place = ''
    $words = 0
    $skips = $false
    foreach ($word in $before) {
        if ($skips) { $skips = $false; continue }
        if ($word -ceq '--') { return }
        if ($takesValue -ccontains $word) { $skips = $true; continue }
        if ($word.StartsWith('-')) { continue }
        $step = "$place $word".Trim()
        if ($words -eq 0 -and $places.ContainsKey($step)) { $place = $places[$step] } else { $words += 1 }
    }
    if ($words -gt 0 -and $verbatim -ccontains $place) { return }

    $offered = @()
    if ($skips) {
        $last = $before[-1]
        if (-not $values.ContainsKey($last)) { return }
        $offered = $values[$last]
    } elseif ($wordToComplete.StartsWith('-')) {
        $offered = $options[$place]
    } elseif ($words -eq 0) {
        $offered = $commands[$place]
    }
    foreach ($entry in $offered) {
        $name, $text = $entry -split '\\|', 2
        if ($name.StartsWith($wordToComplete)) {
            if (-not $text) { $text = $name }
            [System.Management.Automation.CompletionResult]::new($name, $name, 'ParameterValue', $text)
        }
    }
}
"""


def script() -> str:
    known = places()
    valued = [option for option in all_valued_options() if values_of(option).words]
    parts = {
        "STEPS": "\n".join(
            f"        {_quoted(spelling)} = {_quoted(place.path)}"
            for place in known
            if place.path
            for spelling in place.spellings
        ),
        "WITH_VALUE": ", ".join(map(_quoted, names_with_value())),
        "VALUES": "\n".join(
            f"        {_quoted(name)} = @({', '.join(map(_quoted, values_of(option).words))})"
            for option in valued
            for name in option.names
        ),
        "COMMANDS": "\n".join(f"        {_quoted(place.path)} = @({_commands(place)})" for place in known),
        "OPTIONS": "\n".join(f"        {_quoted(place.path)} = @({_options(place)})" for place in known),
        "VERBATIM": ", ".join(_quoted(place.path) for place in known if place.is_verbatim),
    }
    return filled(_FRAME, parts)


def _commands(place: Place) -> str:
    entries = [f"{name}|{summary}" for name, summary in place.commands]
    return ", ".join(map(_quoted, [*entries, *place.words.words]))


def _options(place: Place) -> str:
    return ", ".join(_quoted(f"{name}|{option.help}") for option in place.options for name in option.names)


def _quoted(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"
