python3 - <<'EOF'
import json
import subprocess
import sys
import tempfile
import os

folder = tempfile.mkdtemp()
name = os.path.join(folder, "t.txt")
with open(name, "w", encoding="utf-8") as file:
    file.write("b a B c a \u00c4pfel \u00e4pfel b\n")


def run(*arguments, stdin=""):
    return subprocess.run([sys.executable, "wordcount.py", *arguments], input=stdin, capture_output=True, text=True, encoding="utf-8",
                          env={**os.environ, "LC_ALL": "C.UTF-8"})


assert run(name).stdout == "8\n"
assert run(stdin="x y").stdout == "2\n"
assert run("--top", "2", name).stdout == "3 b\n2 a\n"
assert run("--top", "9", name).stdout == "3 b\n2 a\n2 \u00e4pfel\n1 c\n"
assert json.loads(run("--json", name).stdout) == {"words": 8}
assert json.loads(run("--json", "--top", "1", name).stdout) == {"words": 8, "top": [["b", 3]]}
missing = run(os.path.join(folder, "none.txt"))
assert missing.returncode == 1 and "none.txt" in missing.stderr and "Traceback" not in missing.stderr and not missing.stdout, missing
assert run("--top", "0", name).returncode == 2
assert "--top" in open("README.md").read() and "--json" in open("README.md").read()
EOF
