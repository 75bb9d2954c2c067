python3 - <<'EOF'
import os
import subprocess
import sys
import tempfile


def run(*arguments):
    return subprocess.run([sys.executable, "contents.py", *arguments], capture_output=True, text=True)


text = open("guide.md").read()
table = "<!-- contents -->\n\n- [Begin](#begin)\n  - [Install it](#install-it)\n- [What's new? (2026)](#whats-new-2026)\n- [Begin](#begin-1)\n\n<!-- /contents -->\n"
assert table in text, text
assert run("--check", "guide.md").returncode == 0
folder = tempfile.mkdtemp()
name = os.path.join(folder, "x.md")
body = "# T\n<!-- contents -->\nold\n<!-- /contents -->\n## A_b  c\n~~~\n## no\n~~~\n### \u00c4 & B\n#### deep\n##no\n"
with open(name, "w") as file:
    file.write(body)
assert run("--check", name).returncode == 1 and open(name).read() == body
assert run(name).returncode == 0
once = open(name).read()
assert "\n- [A_b  c](#a_b--c)\n  - [\u00c4 & B](#\u00e4--b)\n\n<!-- /contents -->\n## A_b" in once, once
assert "old" not in once and "deep](" not in once and "no](" not in once
assert run(name).returncode == 0 and open(name).read() == once and run("--check", name).returncode == 0
with open(name, "w") as file:
    file.write("# T\n")
done = run(name)
assert done.returncode == 2 and done.stderr and "Traceback" not in done.stderr, done
EOF
