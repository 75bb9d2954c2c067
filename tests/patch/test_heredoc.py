"""Which shell commands are patches, and which only look like one."""

from __future__ import annotations

import pytest

from spindle.patch.heredoc import find_patch, is_bare_patch

PATCH = "*** Begin Patch\n*** Delete File: f\n*** End Patch\n"


@pytest.mark.parametrize(
    ("command", "folder"),
    [
        (f"apply_patch <<'EOF'\n{PATCH}EOF", None),
        (f"apply_patch <<EOF\n{PATCH}EOF\n\n", None),
        (f'\n applypatch<<"PATCH" \n{PATCH}PATCH\n', None),
        (f"cd sub/dir && apply_patch <<'EOF'\n{PATCH}EOF\n", "sub/dir"),
        (f"cd 'a b' && apply_patch <<'EOF'\n{PATCH}EOF\n", "a b"),
        (f"cd \"a b\" && apply_patch <<'EOF'\n{PATCH}EOF\n", "a b"),
        (f"apply_patch <<\\EOF\n{PATCH}EOF", None),
        (f"apply_patch <<-EOF\n{PATCH}EOF", None),
        ("apply_patch <<-'EOF'\n" + "".join(f"\t{line}\n" for line in PATCH.splitlines()) + "\tEOF", None),
        (f"apply_patch <<'EOF'\n{PATCH}", None),
        (f"apply_patch <<'EOF'\n{PATCH} EOF", None),
        (f"apply_patch <<'EOF'\n{PATCH}EOF  \n", None),
        (f"LC_ALL=C X= apply_patch <<'EOF'\n{PATCH}EOF\n", None),
    ],
)
@pytest.mark.parametrize("shell", [[], ["bash", "-lc"], ["/usr/bin/zsh", "-c"], ["sh", "-c"], ["dash", "-c"]])
def test_a_here_document_to_apply_patch_is_a_patch(shell: list[str], command: str, folder: str | None):
    assert find_patch([*shell, command] if shell else command) == (PATCH, folder)


@pytest.mark.parametrize("name", ["apply_patch", "applypatch"])
def test_the_argument_of_apply_patch_is_a_patch(name: str):
    assert find_patch([name, PATCH]) == (PATCH, None)


@pytest.mark.parametrize(
    "script",
    [
        f"apply_patch <<'EOF'\n{PATCH}EOF\nls",
        f"apply_patch <<'EOF' && ls\n{PATCH}EOF\n",
        f"apply_patch <<'EOF' > out\n{PATCH}EOF\n",
        f"apply_patch <<'EOF'\n{PATCH}EOF && rm x\n",
        f"apply_patch <<'EOF\n{PATCH}EOF\n",
        f"apply_patch <<E'O'F\n{PATCH}EOF\n",
        f"apply_patch <<'EOF'\n{PATCH}ls",
        f"FOO=$(ls) apply_patch <<'EOF'\n{PATCH}EOF\n",
        f"apply_patch -v <<'EOF'\n{PATCH}EOF\n",
        f"ls; apply_patch <<'EOF'\n{PATCH}EOF\n",
        f"cd a; apply_patch <<'EOF'\n{PATCH}EOF\n",
        f"cd a b && apply_patch <<'EOF'\n{PATCH}EOF\n",
        f"cd $HOME && apply_patch <<'EOF'\n{PATCH}EOF\n",
        f"cd \"$(pwd)\" && apply_patch <<'EOF'\n{PATCH}EOF\n",
        f"cd ~ && apply_patch <<'EOF'\n{PATCH}EOF\n",
        f"cd '-' && apply_patch <<'EOF'\n{PATCH}EOF\n",
        f"cd - && apply_patch <<'EOF'\n{PATCH}EOF\n",
        f"cd a && cd b && apply_patch <<'EOF'\n{PATCH}EOF\n",
        f"cd a || apply_patch <<'EOF'\n{PATCH}EOF\n",
        f"echo apply_patch <<'EOF'\n{PATCH}EOF\n",
        "echo apply_patch",
    ],
)
def test_anything_more_than_the_exact_form_is_left_to_the_shell(script: str):
    assert find_patch(script) is None
    assert find_patch(["bash", "-lc", script]) is None


@pytest.mark.parametrize(
    "argv",
    [
        [],
        ["apply_patch"],
        ["apply_patch", PATCH, "x"],
        ["bash", "-lc", f"apply_patch <<'EOF'\n{PATCH}EOF\n", "x"],
        ["bash", "-x", f"apply_patch <<'EOF'\n{PATCH}EOF\n"],
        ["python", "-c", f"apply_patch <<'EOF'\n{PATCH}EOF\n"],
    ],
)
def test_other_argument_lists_are_not_patches(argv: list[str]):
    assert find_patch(argv) is None


@pytest.mark.parametrize("command", [PATCH, [PATCH], ["bash", "-lc", PATCH], f"<<'EOF'\n{PATCH}EOF"])
def test_a_bare_patch_is_told_from_a_command(command: list[str] | str):
    assert is_bare_patch(command)
    assert find_patch(command) is None


@pytest.mark.parametrize("command", ["ls", ["ls"], [], ["bash", "-lc", "ls"], ["apply_patch", PATCH], ["cat", PATCH]])
def test_commands_are_not_bare_patches(command: list[str] | str):
    assert not is_bare_patch(command)
