python3 - <<'EOF'
import os
import subprocess
import tempfile

place = tempfile.mkdtemp()
source = os.path.join(place, "my files")
os.makedirs(os.path.join(source, "a b", "-n"))
names = ["plain", "two words", "a b/new\nline", "a b/-n/*", "quote'\"", "-rf", "tab\there", "a b/$HOME"]
for name in names:
    with open(os.path.join(source, name), "w") as file:
        file.write(name)
os.chmod(os.path.join(source, "plain"), 0o750)
os.utime(os.path.join(source, "plain"), (1_000_000_000, 1_000_000_000))
os.symlink("nowhere at all", os.path.join(source, "link"))


def run(*arguments, cwd=place):
    return subprocess.run(["/bin/sh", os.path.abspath("backup.sh"), *arguments], cwd=cwd, capture_output=True, text=True)


for given, target in ((source, os.path.join(place, "t1")), ("my files", "t2"), ("my files/", "t 3/")):
    done = run(given, target)
    assert done.returncode == 0 and done.stdout.splitlines()[-1] == "9 files", (given, done)
    there = os.path.join(place, target)
    for name in names:
        assert open(os.path.join(there, name)).read() == name, name
    assert os.readlink(os.path.join(there, "link")) == "nowhere at all"
    facts = os.stat(os.path.join(there, "plain"))
    assert facts.st_mode & 0o777 == 0o750 and int(facts.st_mtime) == 1_000_000_000
for wrong in ((), ("my files",), ("none", "t4"), ("my files/plain", "t5"), ("my files", "my files/inside")):
    done = run(*wrong)
    assert done.returncode == 2 and done.stderr, (wrong, done)
blocked = os.path.join(place, "t6")
os.makedirs(os.path.join(blocked, "plain", "full"))  # a folder stands where a file must go
done = run("my files", "t6")
assert done.returncode == 1 and os.path.exists(os.path.join(blocked, "two words")), done
EOF
