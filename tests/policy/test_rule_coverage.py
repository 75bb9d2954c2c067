"""Row 2: what a rule that allows covers beyond its own words, and what may be offered "for good"."""

from __future__ import annotations

import pytest

from spindle.policy.approval import Allow, Ask, Circumstances, Decision, decide_command
from spindle.policy.launchers import COMPILER_WRAPPERS, LAUNCHERS
from spindle.policy.prefixes import means_anything, offerable_prefix
from spindle.policy.rules import Rule, RuleSet
from spindle.policy.wrappers import WRAPPERS
from spindle.protocol.settings import SandboxPolicy

PROGRAMS = ("touch", "sh", "bash", "cat", "ls", "git", "rm", "cp", "evil", "python3", "sort")


def decide(script: str, *rules: str, escalated: bool = False, wanted: str = "") -> Decision:
    return decide_command(
        ["bash", "-lc", script],
        Circumstances(
            policy="on-request",
            sandbox=SandboxPolicy(mode="workspace-write"),
            is_program=lambda word: word in PROGRAMS or word.startswith("./"),
            is_path=lambda word: word in ("evil", "src"),
        ),
        rules=RuleSet(Rule(tuple((word,) for word in rule.split())) for rule in rules),
        escalated=escalated,
        prefix_rule=tuple(wanted.split()),
    )


# rule | what somebody puts behind it
STRETCHED = """
rg TODO | rg TODO --pre ./x
cloc src | cloc src --vcs=./x
cloc src | cloc src --out=/etc/x
tar | tar xIf ./x a.tar
tar | tar cf /etc/x f
tar | tar -cf /etc/x f
tar -xf a.tar | tar -xf a.tar -C /etc
unzip a.zip | unzip a.zip -d /etc
zstd a | zstd a -o /etc/x
systemctl start | systemctl start ./evil.service
systemctl enable | systemctl enable /tmp/evil.service
git apply | git apply --unsafe-paths p
git apply | git apply --directory=/etc p
git clone | git clone https://h/r x/../../etc
gem install x | gem install x -n /usr/bin
rg TODO | rg TODO --pre=./x src
rg TODO | rg TODO --hostname-bin ./x
rg TODO | rg TODO -z
rg --pre | rg --pre ./x TODO
rg TODO | rg TODO *
git fetch origin | git fetch origin --upload-pack=./x
git fetch origin | git fetch origin --upload-pack ./x
git fetch | git fetch ./evil
git fetch | git fetch evil
git fetch | git fetch --depth 1 ./evil
git fetch | git fetch --depth 1 evil
git fetch | git fetch 'ext::sh -c x'
git pull | git pull -s ours origin
git push | git push --receive-pack=./x origin
git push | git push --exec=./x
git push | git push /tmp/evil main
git clone | git clone -c core.hooksPath=x https://h/r
git clone | git clone --template=./t https://h/r
git clone | git clone --upload-pack ./x https://h/r
git clone | git clone ./evil
git log | git log --output=/etc/x
git log | git log --outp=/etc/x
git diff | git diff --ext-diff
git diff | git diff --textconv
git show | git show --show-signature
git grep foo | git grep foo -O./x
git grep foo | git grep foo --open-files-in-pager=./x
git rebase main | git rebase main -x ./x
git rebase main | git rebase main --exec ./x
git | git -c core.pager=./x log
git | git --exec-path=./x log
git config user.name | git config user.name x --file /etc/x
git config | git config core.pager ./x
git archive HEAD | git archive HEAD -o /etc/x
git format-patch HEAD | git format-patch HEAD --output-directory=/etc
git commit | git commit -e
git merge topic | git merge topic -s evil
git bisect | git bisect run ./x
git submodule | git submodule foreach ./x
tar xf a.tar | tar xf a.tar --to-command=./x
tar xf a.tar | tar xf a.tar --checkpoint=1 --checkpoint-action=exec=./x
tar xf a.tar | tar xf a.tar -I ./x
tar xf a.tar | tar xf a.tar --use-compress-program=./x
find . | find . -exec ./x ';'
find . | find . -delete
find . -name a | find . -name a -fprintf /etc/x %p
find . | find . -okdir ./x ';'
fd foo | fd foo -x ./x
sort f | sort f -o /etc/x
sort f | sort f --compress-program=./x
sort f | sort f --outpu /etc/x
sed -n | sed -n 1e./x f
sed | sed 'w /etc/x' f
awk | awk 'BEGIN{system("x")}'
uniq | uniq in /etc/x
rsync -a | rsync -a -e ./x h:d .
rsync -a | rsync -a --rsh=./x h:d .
rsync -a | rsync -a --rsync-path=./x h:d .
ssh host | ssh -o ProxyCommand=./x host
ssh | ssh -oProxyCommand=./x host
ssh | ssh -F ./config host
scp a | scp a -S ./x h:b
curl https://h | curl https://h -o /etc/x
curl https://h | curl https://h --output /etc/x
curl https://h | curl https://h -K ./c
curl https://h | curl https://h -sSo /etc/x
wget https://h | wget https://h -O /etc/x
wget https://h | wget https://h -e use_askpass=./x
make test | make test SHELL=./x
make test | make test -f ./Makefile
make test | make test -C evil
make test | make test --eval=x
make | make CC=./x
python3 | python3 -c 'import os'
python3 | python3 -m evil
python3 -m | python3 -m evil
python3 x.py | python3 x.py --exec ./x
node | node -e 'x'
node | node -r ./x y.js
bash | bash -c 'echo $X'
bash -lc | bash -lc 'echo $X'
perl | perl -e 1
npm test | npm test --script-shell=./x
npm test | npm test --prefix evil
npm install | npm install ./evil
npm install | npm install --script-shell ./x
npm install | npm install git+https://h/r
npm | npm exec touch
npm config | npm config set script-shell ./x
pytest | pytest -p evil
pytest | pytest --rootdir=evil
pytest | pytest -c ./x.ini
pytest | pytest -o addopts=x
pytest | pytest @args
pytest | pytest --basetemp=/etc
pytest | pytest --debug=/etc/x
cargo test | cargo test --config build.rustc-wrapper='./x'
cargo test | cargo test --target-dir /etc
cargo | cargo +evil test
go | go run ./evil
go run | go run evil.go
bun | bun run evil
deno run | deno run evil.ts
deno | deno run evil.ts
deno eval | deno eval 'Deno.removeSync("/")'
deno task | deno task evil
zig run | zig run evil.zig
dotnet run | dotnet run evil
go test | go test -exec ./x
go test | go test -toolexec=./x
go test | go test -o /etc/x
go test | go test --vettool=./x
go vet | go vet -vettool ./x
gcc a.c | gcc a.c -o /etc/x
gcc a.c | gcc a.c -wrapper ./x
gcc a.c | gcc a.c -B./x
gcc a.c | gcc a.c -fplugin=./x
gcc a.c | gcc a.c @args
eslint . | eslint . --rulesdir x
eslint . | eslint . -o /etc/x
eslint . | eslint *.js
prettier . | prettier . --plugin=./x
jest | jest --config ./x
tsc | tsc --outDir /etc
mypy . | mypy . --python-executable ./x
gradle build | gradle build -I ./x
gradle build | gradle build --init-script ./x
mvn test | mvn test -Dexec.executable=./x
docker build . | docker build . -o /etc
docker run alpine | docker run -v /:/h alpine
docker compose | docker compose -f ./x up
kubectl get pods | kubectl get pods --kubeconfig=./x
terraform plan | terraform plan -out=/etc/x
apt-get install | apt-get install ./evil.deb
apt-get install | apt-get install -o Dpkg::Pre-Invoke::=./x y
pip install | pip install ./evil
pip install | pip install --target=/etc x
pip install | pip install -e ./evil
pip install | pip install --editable=./evil
gem install | gem install ./evil.gem
tsc | tsc @args
tsx watch | tsx watch evil.ts
gh api | gh api repos
gh pr create | gh pr create --editor
env | env touch f
env A=1 | env A=1 touch f
timeout 5 | timeout 5 touch f
nice | nice touch f
nohup | nohup touch f
xargs | xargs touch
sudo | sudo touch f
flock f | flock f touch g
taskset 1 | taskset 1 touch f
setarch -R | setarch -R touch f
prlimit | prlimit touch f
chrt 1 | chrt 1 touch f
numactl | numactl touch f
valgrind | valgrind touch f
hyperfine | hyperfine 'touch f'
watchexec | watchexec touch f
unbuffer | unbuffer touch f
script | script -qc 'touch f'
ccache | ccache touch f
uv run | uv run touch f
poetry run | poetry run touch f
npx | npx evil
bundle exec | bundle exec touch f
cargo-watch | cargo-watch -x test
mytool | mytool touch f
mytool a | mytool a ./x
mytool | mytool --exec=./x
mytool | mytool -x f
mytool | mytool --config ./c
mytool | mytool 'touch f'
mytool | mytool *
mytool | mytool @args
"""
ORDINARY = """
rg TODO | rg TODO -n src
rg | rg -tpy --hidden -g '*.py' foo src
rg TODO | rg TODO src/*.py
git fetch origin | git fetch origin --prune --tags
git fetch | git fetch origin main
git push | git push -u origin feature/x
git push | git push origin HEAD --force-with-lease
git pull | git pull --rebase origin main
git clone | git clone --depth 1 https://h/r
git log | git log --oneline -20 -p --stat
git diff | git diff --stat HEAD -- src
git commit | git commit -am 'x y'
git commit -m | git commit -m 'x y'
git add | git add -A
git | git --no-pager log --oneline
git checkout | git checkout -b topic
git stash | git stash push -m x
git rebase | git rebase origin/main
git tag | git tag -a v1 -m v1
ls | ls -la src
find . | find . -type f -name '*.py'
sort f | sort f -u -k 2
make test | make test -j8
make | make test
npm test | npm test -- --watch
npm install | npm install left-pad --save-dev
npm install | npm install @types/node
npm run build | npm run build --silent
pytest | pytest -q -x tests/test_a.py -k 'a and b'
pytest | pytest -p no:cacheprovider --tb=short --cov=src --cov-report=term-missing
python3 -m pytest | python3 -m pytest -q tests
python3 | python3 build.py
python3 build.py | python3 build.py all --verbose
python3 run | python3 run all
deno run main.ts | deno run main.ts all
deno task build | deno task build
bash build.sh | bash build.sh test
cargo test | cargo test --release -p core -- --nocapture
cargo clippy | cargo clippy --all-targets -- -D warnings
go test | go test ./... -run TestX -count=1 -v
gcc -c | gcc -c a.c -O2 -Wall
docker build . | docker build . -t x
kubectl get pods | kubectl get pods -n a -o yaml
terraform plan | terraform plan -no-color
pip install | pip install -U requests
pip install | pip install -e .
pip install | pip install -r requirements.txt
apt-get install | apt-get install -y curl
curl https://h | curl https://h -sSfL
ssh host | ssh host uptime
timeout 60 npm test | timeout 60 npm test -- --watch
env CI=1 npm test | env CI=1 npm test
uv run pytest | uv run pytest -q
mytool | mytool build --verbose
mytool | mytool test
mytool sub | mytool sub src/x
./run | ./run all
"""


def cases(text: str) -> list[tuple[str, str]]:
    return [(rule, command) for rule, command in (line.split(" | ") for line in text.strip().splitlines())]


@pytest.mark.parametrize(("rule", "command"), cases(STRETCHED))
def test_row_2_a_rule_is_not_stretched(rule: str, command: str) -> None:
    assert decide(command, rule) != Allow(sandboxed=False)
    asked = decide(command, rule, escalated=True, wanted=rule)
    assert isinstance(asked, Ask) and asked.prefix != tuple(rule.split())


@pytest.mark.parametrize(("rule", "command"), cases(ORDINARY))
def test_row_2_a_rule_covers_ordinary_words_behind_it(rule: str, command: str) -> None:
    assert decide(command, rule) == Allow(sandboxed=False)
    assert decide(command, rule, escalated=True) == Allow(sandboxed=False)


def test_row_2_the_question_says_why_the_rule_does_not_help() -> None:
    asked = decide("rg TODO --pre ./x", "rg TODO", escalated=True)
    assert isinstance(asked, Ask)
    assert asked.reason == "the rule that allows `rg TODO` does not cover all of this command"


BY_THEIR_BEGINNING = {"qemu-aarch64", "qemu-x86_64-static", "ld-linux-x86-64.so.2", "ld-musl-x86_64.so.1", "ld64.so.2"}


@pytest.mark.parametrize("name", sorted(LAUNCHERS | WRAPPERS | COMPILER_WRAPPERS | BY_THEIR_BEGINNING))
def test_row_2_no_program_that_starts_programs_is_offered_for_good(name: str) -> None:
    for behind in ([], ["1"], ["-x"], ["sh", "-c"], ["1", "sh"], ["-x", "sh", "-c"]):
        assert not offerable_prefix([name, *behind], [[name, *behind]]), behind
    assert means_anything([name]) and means_anything([name, "bash"]) and means_anything([name, "python3", "-c"])


@pytest.mark.parametrize(
    ("command", "wanted", "offered"),
    [
        ("frobnicate a --b", "frobnicate", "frobnicate a --b"),
        ("frobnicate a", "", "frobnicate a"),
        ("frobnicate", "frobnicate", None),
        ("frobnicate 1 touch f", "frobnicate 1", None),
        ("frobnicate 1 python3 f", "", None),
        ("rg --pre ./x TODO", "rg --pre ./x", None),
        ("git fetch --upload-pack=./x origin", "", None),
        ("git log --output=x", "git log", None),
        ("make SHELL=./x", "make", None),
        ("env LD_PRELOAD=./x ls", "", None),
        ("env GIT_SSH_COMMAND=./x git fetch", "", None),
        ("cd src", "cd", None),
        ("hash -p ./x git", "", None),
        ("npm test -- --watch", "npm test", "npm test"),
        ("git push -u origin main", "git push", "git push"),
    ],
)
def test_row_2_what_is_offered_for_good(command: str, wanted: str, offered: str | None) -> None:
    asked = decide(command, escalated=True, wanted=wanted)
    assert isinstance(asked, Ask)
    assert asked.prefix == (None if offered is None else tuple(offered.split()))


@pytest.mark.parametrize(
    "line",
    [
        *("cd sub && ./ok.sh", "hash -p ./x npm; npm test", "pushd sub && npm test", "alias npm=./x; npm test"),
        *("cd sub && bash ok.sh", "cd sub; python3 ok.py", "read PATH; npm test", "shopt -s expand_aliases; npm test"),
    ],
)
def test_row_16_what_a_shell_would_make_of_later_words_is_not_what_the_rules_mean(line: str) -> None:
    rules = ("cd", "pushd", "hash", "./ok.sh", "npm test", "alias", "bash ok.sh", "python3 ok.py", "read", "shopt -s")
    assert decide(line, *rules) == Allow(sandboxed=True)
    assert isinstance(decide(line, *rules, escalated=True), Ask)
    assert decide("cd sub && npm test", *rules) == Allow(sandboxed=False)


def test_row_16_a_program_found_by_a_pattern_is_not_the_one_that_a_rule_means() -> None:
    assert decide("./o* x", "./o*") == Allow(sandboxed=True)


BUILTINS = [
    ".",
    "alias",
    "bind",
    "builtin",
    "chdir",
    "compgen",
    "complete",
    "declare",
    "dirs",
    "disown",
    "enable",
    "eval",
    "exec",
    "export",
    "fc",
    "getopts",
    "hash",
    "history",
    "let",
    "local",
    "mapfile",
    "popd",
    "pushd",
    "read",
    "readarray",
    "readonly",
    "set",
    "shift",
    "shopt",
    "source",
    "suspend",
    "trap",
    "typeset",
    "ulimit",
    "umask",
    "unalias",
    "unset",
    "zmodload",
    "autoload",
    "emulate",
]
"""What decides in a shell which program a later name is, where it runs, and with what."""
LATER_WORDS = ("x", "-p /tmp/evil git", "git=/tmp/evil", "./evil", "PATH=/tmp/evil", "-f ./evil.so x", "000")


@pytest.mark.parametrize("name", BUILTINS)
@pytest.mark.parametrize("later", LATER_WORDS)
def test_row_2_what_changes_the_state_of_a_shell_is_not_offered_and_no_rule_reaches_behind_it(
    name: str, later: str
) -> None:
    words = [name, *later.split()]

    def decided(script: str, *prefixes: list[str]) -> Decision:
        rules = RuleSet(tuple(Rule(pattern=tuple((word,) for word in prefix)) for prefix in prefixes))
        circumstances = Circumstances(policy="on-request", sandbox=SandboxPolicy(mode="workspace-write"))
        return decide_command(["bash", "-c", script], circumstances, rules=rules)

    for count in range(1, len(words) + 1):
        assert not offerable_prefix(words[:count], [words]), words[:count]
    inside, git = Allow(sandboxed=True), ["git", "status"]
    line = " ".join(words)
    assert decided("git status", git) == Allow(sandboxed=False)  # that rule does let git out
    is_alone = decided(line, [name])
    assert is_alone == inside or isinstance(is_alone, Ask), "a rule for the name alone covers no words behind it"
    # The person agreed to each of the two, and not to git being another program by then.
    together = decided(f"{line}; git status", words, git)
    assert together == inside or isinstance(together, Ask)


def test_row_2_going_to_a_folder_is_no_change_of_what_names_mean() -> None:
    rules = RuleSet((Rule(pattern=(("git",), ("status",))), Rule(pattern=(("cd",),))))
    circumstances = Circumstances(policy="on-request", sandbox=SandboxPolicy(mode="workspace-write"))
    decision = decide_command(["bash", "-c", "cd src && git status"], circumstances, rules=rules)
    assert decision == Allow(sandboxed=False)
