"""The tools of a developer's day."""

from __future__ import annotations

import os
import shlex
import shutil
import sqlite3
import subprocess
import zipfile

from escape.case import MODES, Place, work
from escape.cases.work_files import sh
from escape.cases.work_processes import python

WHO = "GIT_AUTHOR_NAME=a GIT_AUTHOR_EMAIL=a@b GIT_COMMITTER_NAME=a GIT_COMMITTER_EMAIL=a@b"
GIT = f"export GIT_CONFIG_GLOBAL=/dev/null {WHO}; "


@work("gcc")
def compiles_and_runs_c(p: Place) -> None:
    sh(
        "printf '#include <stdio.h>\\nint main(){puts(\"hi\");}' >x.c; gcc -O1 -pipe -o x x.c; gcc -o y x.c;"
        "test $(./x) = hi"
    )


@work("gcc")
def builds_and_loads_a_shared_library(p: Place) -> None:
    sh(
        "echo 'int f(){return 7;}' >l.c; gcc -shared -fPIC -o libl.so l.c; echo 'int f();int main(){return f();}' >m.c;"
        "gcc m.c -L. -ll -o m; LD_LIBRARY_PATH=. ./m; test $? = 7; LD_PRELOAD=./libl.so true"
    )


@work("make", "gcc")
def builds_with_make(p: Place) -> None:
    sh("printf 'all: a b\\na b:\\n\\techo $@ >$@\\n' >Makefile; make -s -j4; test -s a -a -s b; make -q")


@work("cmake", "gcc", "make", is_slow=True)
def configures_with_cmake(p: Place) -> None:
    sh(
        "echo 'int main(){return 0;}' >m.c;"
        "printf 'cmake_minimum_required(VERSION 3.10)\\nproject(x C)\\nadd_executable(x m.c)\\n' >CMakeLists.txt;"
        " cmake -S . -B build >/dev/null; cmake --build build >/dev/null; ./build/x"
    )


@work(is_slow=True)
def runs_pytest(p: Place) -> None:
    with open("test_x.py", "w") as file:
        file.write("def test_x(tmp_path):\n    (tmp_path / 'x').write_text('x')\n")
    env = {**os.environ, "PYTHONPATH": p.python_path}
    done = subprocess.run([p.python, "-m", "pytest", "-q", "."], capture_output=True, text=True, env=env)
    assert done.returncode == 0 and "1 passed" in done.stdout, done.stdout + done.stderr


@work()
def runs_unittest(p: Place) -> None:
    python(
        p, "import unittest\nclass T(unittest.TestCase):\n    def test(self): self.assertEqual(1, 1)\nunittest.main()\n"
    )


@work()
def makes_a_virtual_environment(p: Place) -> None:
    sh(
        f"{shlex.quote(p.python)} -I -m venv --without-pip env;"
        "./env/bin/python -c 'import sys; assert sys.prefix != sys.base_prefix'"
    )


@work(is_slow=True)
def installs_a_wheel(p: Place) -> None:
    with zipfile.ZipFile("tiny-1.0-py3-none-any.whl", "w") as wheel:
        wheel.writestr("tiny.py", "x = 1\n")
        wheel.writestr("tiny-1.0.dist-info/METADATA", "Metadata-Version: 2.1\nName: tiny\nVersion: 1.0\n")
        wheel.writestr("tiny-1.0.dist-info/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
        wheel.writestr("tiny-1.0.dist-info/RECORD", "")
    pip = f"PYTHONPATH={shlex.quote(p.python_path)} PIP_DISABLE_PIP_VERSION_CHECK=1 {shlex.quote(p.python)} -m pip -q"
    sh(f"{pip} install --no-index --no-deps --target lib tiny-1.0-py3-none-any.whl; test -e lib/tiny.py")


@work("git", modes=MODES)
def looks_at_the_history(p: Place) -> None:
    sh(
        f"{GIT} cd {p.ws}; git -c safe.directory='*' status --short >/dev/null;"
        "git -c safe.directory='*' rev-parse --git-dir"
    )


@work("git")
def commits_in_a_repository_below_the_workspace(p: Place) -> None:
    sh(
        f"{GIT} git init -q r; cd r; echo x >f; git add f; git commit -qm one; echo y >>f; git diff --stat;"
        "git stash -q; git log --oneline; git checkout -qb b; git branch -D b 2>/dev/null; git gc -q; git fsck"
    )


@work("git", is_slow=True)
def clones_a_repository(p: Place) -> None:
    sh(
        f"{GIT} git init -q a; cd a; echo x >f; git add f; git commit -qm one; cd ..; git clone -q a b;"
        "git clone -q file://$PWD/a c; cd c; git pull -q; git worktree add -q ../w; test -e ../w/f"
    )


@work("git")
def runs_hooks_of_its_own_repository(p: Place) -> None:
    sh(
        f"{GIT} git init -q r; cd r; mkdir -p .git/hooks; printf '#!/bin/sh\\ntouch ran\\n' >.git/hooks/pre-commit;"
        "chmod +x .git/hooks/pre-commit; git commit -q --allow-empty -m x; test -e ran"
    )


@work()
def writes_a_database(p: Place) -> None:
    with sqlite3.connect("x.db") as db:
        assert db.execute("pragma journal_mode=wal").fetchone() == ("wal",)
        db.execute("create table t(x)")
        db.executemany("insert into t values(?)", [(n,) for n in range(1000)])
        db.commit()
    if os.fork() == 0:
        with sqlite3.connect("x.db") as other:
            other.execute("insert into t values(7)")
        os._exit(0)
    os.wait()
    assert sqlite3.connect("x.db").execute("select count(*) from t").fetchone() == (1001,)


@work("sqlite3")
def asks_a_database_on_the_command_line(p: Place) -> None:
    assert sh("sqlite3 y.db 'create table t(x); insert into t values(3); select x from t'") == "3\n"


@work("node", modes=MODES)
def runs_a_node_script(p: Place) -> None:
    assert "lo" in sh("node -e 'console.log(Object.keys(require(\"os\").networkInterfaces()).join(), process.pid > 0)'")


@work("node", is_slow=True)
def serves_and_forks_in_node(p: Place) -> None:
    with open("x.js", "w") as file:
        file.write(
            "const net=require('net'),cp=require('child_process'),{Worker}=require('worker_threads');"
            "if(process.argv[2]){process.send('hi');process.disconnect();}else{"
            "const s=net.createServer(c=>c.end('pong')).listen('n.sock',()=>{net.connect('n.sock').on('data',d=>{"
            "if(String(d)!=='pong')process.exit(3);s.close();const c=cp.fork('x.js',['child']);c.on('message',m=>{"
            "new Worker('setTimeout(()=>{},1)',{eval:true}).on('exit',()=>process.exit(m==='hi'?0:4))})})})}"
        )
    sh("timeout 20 node x.js")


@work("npm", "node", is_slow=True)
def runs_a_script_of_npm(p: Place) -> None:
    with open("package.json", "w") as file:
        file.write('{"name":"x","version":"1.0.0","scripts":{"hi":"echo from-npm >out"}}')
    sh(
        "export npm_config_cache=$PWD/.npm npm_config_update_notifier=false HOME=$PWD;"
        "npm run --silent hi; grep -q from-npm out"
    )


@work("java")
def asks_java_for_its_version(p: Place) -> None:
    sh("java -XX:TieredStopAtLevel=1 -version")


@work("javac", "java", is_slow=True)
def compiles_and_runs_java(p: Place) -> None:
    with open("A.java", "w") as file:
        file.write(
            "import java.net.*; import java.util.concurrent.*; public class A {"
            "public static void main(String[] a) throws Exception { var e = Executors.newFixedThreadPool(4);"
            "System.out.println(e.submit(() -> 42).get()); e.shutdown();"
            "var s = new ServerSocket(0, 5, InetAddress.getLoopbackAddress());"
            "new Socket(s.getInetAddress(), s.getLocalPort()).close();"
            'System.exit(new ProcessBuilder("true").start().waitFor()); } }'
        )
    printed = sh("javac A.java; java -XX:TieredStopAtLevel=1 A")
    assert printed.splitlines()[-1:] == ["42"], printed  # a machine that is short of something is warned on stdout


@work("dbus-run-session", "dbus-send")
def talks_on_a_bus_of_its_own(p: Place) -> None:
    ask = "dbus-send --session --print-reply --dest=org.freedesktop.DBus / org.freedesktop.DBus.ListNames"
    assert "org.freedesktop.DBus" in sh(f"timeout 20 dbus-run-session -- {ask}")


@work("perl", modes=MODES)
def runs_perl_and_awk(p: Place) -> None:
    assert sh("perl -e 'print 6*7'; awk 'BEGIN{print 1+1}'; echo '1+2' | bc || true").startswith("42")


@work("jq", modes=MODES)
def filters_json(p: Place) -> None:
    assert sh("echo '{\"a\":[1,2]}' | jq -c .a") == "[1,2]\n"


@work(modes=MODES)
def uses_the_features_of_bash(p: Place) -> None:
    script = """
        mapfile -t lines < <(printf 'a\\nb\\n'); cat <<EOF
${lines[1]} $((3*4))
EOF
        coproc cat; echo via >&"${COPROC[1]}"; read -r x <&"${COPROC[0]}"; echo "$x"; diff <(echo 1) <(echo 1)
        trap 'echo bye' EXIT
    """
    assert sh(script) == "b 12\nvia\nbye\n"


@work()
def searches_with_find_and_xargs(p: Place) -> None:
    sh(
        "mkdir -p a/b; touch a/1.py a/b/2.py;"
        "test $(find . -name '*.py' -print0 | xargs -0 -P4 -n1 basename | wc -l) = 2;"
        "find . -name '*.py' -exec grep -L x {} + | wc -l; grep -r x . || true"
    )


@work()
def runs_python_with_bytecode_and_threads(p: Place) -> None:
    os.makedirs("pkg", exist_ok=True)
    with open("pkg/__init__.py", "w") as file:
        file.write("import threading, ssl, ctypes, hashlib, decimal\n")
    env = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    subprocess.run([p.python, "-c", "import pkg"], check=True, env=env)
    assert os.path.isdir("pkg/__pycache__")


@work()
def compiles_rust(p: Place) -> None:
    rustc = shutil.which("rustc", path=p.rust_path)
    if not rustc or not p.rust_home or not os.access(p.rust_home, os.R_OK):
        return
    env = {**os.environ, "RUSTUP_HOME": p.rust_home, "PATH": f"{p.rust_path}:{os.environ['PATH']}"}
    with open("m.rs", "w") as file:
        file.write("fn main(){}")
    subprocess.run([rustc, "m.rs"], check=True, env=env)
    subprocess.run(["./m"], check=True)


@work("go", is_slow=True)
def builds_and_tests_go_where_there_is_no_repository(p: Place) -> None:
    sh(
        "export GOCACHE=$PWD/cache GOPATH=$PWD/path GOTOOLCHAIN=local; go mod init x;"
        "printf 'package main\\nfunc main(){}\\n' >m.go;"
        "printf 'package main\\nimport \"testing\"\\nfunc TestA(t *testing.T){}\\n' >m_test.go;"
        "go build -o m . && ./m && go test . && go vet ."
    )


@work("tar")
def keeps_the_marks_of_folders(p: Place) -> None:
    """A folder that hands on its group, and one where only owners remove."""
    sh(
        "mkdir shared && chmod 2775 shared && chmod +t shared && touch shared/a;"
        "tar cpf t.tar shared && rm -rf shared && tar xpf t.tar && test -g shared -a -k shared"
    )


@work("tar")
def unpacks_what_others_packed(p: Place) -> None:
    sh("echo a >a; tar cf t.tar --owner=4711 --group=4711 a; rm a; tar xf t.tar && test -s a")
