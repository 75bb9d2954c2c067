"""Row 3: what a rule forbids or asks about is found however it is started, as far as a script can be read."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from spindle.policy.approval import Allow, Ask, Circumstances, Decision, Refuse, decide_command
from spindle.policy.destroyers import OWN_LANGUAGE
from spindle.policy.languages import LANGUAGES
from spindle.policy.launchers import LAUNCHERS
from spindle.policy.rules import Rule, RuleSet
from spindle.policy.wrappers import WRAPPERS
from spindle.protocol.settings import ApprovalPolicy, SandboxPolicy

FORBIDDEN = [
    *(Rule(((word,),), "forbidden") for word in ("touch", "./deploy.sh", "terraform")),
    *(Rule((("git",), (word,)), "forbidden") for word in ("push", "tag")),
    Rule((("npm",), ("publish", "unpublish")), "forbidden"),
    Rule((("rm",), ("-rf",)), "forbidden"),
    Rule((("/usr/sbin/useradd",),), "forbidden"),
]


def decide(script: str | list[str], policy: ApprovalPolicy = "on-request") -> Decision:
    argv = ["bash", "-lc", script] if isinstance(script, str) else script
    here = Circumstances(policy=policy, sandbox=SandboxPolicy(mode="workspace-write"))
    return decide_command(argv, here, rules=RuleSet(FORBIDDEN))


EVASIONS = r"""
flock F touch x
taskset 1 touch x
setarch -R touch x
setarch x86_64 -R touch x
script -qc 'touch x' /dev/null
script -qc 'touch x'
script -c touch
trap 'touch x' EXIT
trap touch EXIT
git -C . tag v1
git --no-pager tag v1
git --git-dir=.git tag v1
git -c a.b=c tag v1
git --namespace x tag v1
git -p -C . -c a=b push
git -c alias.t=tag t v1
git -c alias.p='!git push' p
command git push
time -p git push
time git push
nice -n 5 git push
nice --adjustment=5 git push
chrt -f 1 touch x
ionice -c 3 touch x
prlimit --nofile=10 touch x
unshare -r touch x
nsenter -t 1 touch x
systemd-run --user touch x
strace -o f touch x
valgrind --tool=none touch x
watch -n 1 touch x
parallel touch ::: x
ssh localhost touch x
su -c 'touch x' me
runuser -u me -- touch x
setpriv --reuid 1 touch x
stdbuf -oL touch x
start-stop-daemon --start --exec /usr/bin/touch -- x
expect -c 'spawn touch x'
hyperfine 'touch x'
entr touch x
xvfb-run touch x
unbuffer touch x
fakeroot touch x
faketime '1 day ago' touch x
firejail touch x
tmux new-session -d 'touch x'
screen -dm touch x
echo touch x | sh
printf 'touch x\n' | bash
cat <<E | sh⏎touch x⏎E
sh <<< 'touch x'
bash -s <<E⏎touch x⏎E
bash -c 'flock F touch x'
env -S 'touch x'
env A=1 B=2 /usr/bin/touch x
busybox touch x
xargs -I{} touch {}
find . -exec touch {} ;
find . -name x -execdir touch {} +
fd . -x touch
coproc touch x
{ touch x; }
{touch,x}
x=touch; $x y
x=tou; y=ch; $x$y z
$'touch' x
t""ouch x
alias t=touch; t x
f() { touch x; }; f
eval 'touch x'
exec touch x
exec -a other touch x
uv run touch x
npm exec touch x
npx touch x
poetry run touch x
docker exec c touch x
ccache touch x
bundle exec touch x
git bisect run touch x
git submodule foreach touch x
git rebase -x 'touch x' main
python3 -c 'import os; os.system("touch x")'
perl -e 'system("touch x")'
bash ./deploy.sh
sh deploy.sh
source ./deploy.sh
. ./deploy.sh
/abs/path/deploy.sh
useradd x
sudo useradd x
npm --loglevel silent publish
npm --loglevel=silent publish --tag x
npm -s unpublish x
terraform -chdir=x apply
rm -fr x
rm -r -f x
rm -r x -f
rm --recursive --force x
rm -rvf x
sudo -n rm -f -r x
/bin/rm -rf x
"""


def lines(text: str) -> list[str]:
    return [line.replace("⏎", "\n") for line in text.strip().splitlines()]


@pytest.mark.parametrize("script", lines(EVASIONS))
def test_row_3_what_is_forbidden_is_forbidden_however_it_is_started(script: str) -> None:
    for policy in ("on-request", "never", "untrusted"):
        decision = decide(script, policy)
        assert isinstance(decision, Refuse)
        assert "rejected: policy forbids commands starting with" in decision.message


@pytest.mark.parametrize("name", sorted((LAUNCHERS | WRAPPERS) - {"chroot", "timeout", "command", "time"}))
def test_row_3_every_program_that_starts_programs_is_seen_through(name: str) -> None:
    for behind in (["touch", "x"], ["-a", "1", "touch", "x"], ["--abc", "touch", "x"], ["/usr/bin/touch", "x"]):
        assert isinstance(decide([name, *behind]), Refuse), behind


UNCLEAR = r"""
$X push
$X x
git $X
git "$(cat f)" v1
"$(cat f)" push
`cat f` x
/usr/bin/t?uch x
t* x
./dep*.sh
$(echo touch) x
mytool touch x
mytool --run git push
zrun 1 2 terraform apply
"""


@pytest.mark.parametrize("script", lines(UNCLEAR))
def test_row_3_what_cannot_be_read_is_asked_about_or_refused_where_nobody_is_asked(script: str) -> None:
    asked = decide(script)
    assert isinstance(asked, Ask) and asked.reason is not None and "a rule speaks about" in asked.reason
    assert isinstance(decide(script, "never"), Refuse)


ORDINARY = r"""
git status
git log --oneline
git -C . log
git --no-pager diff
git commit -m 'touch it, then push'
git log --grep push
git stash push -m x
git fetch --tags
echo touch x
echo 'git push'
printf 'git push\n'
rg touch src
grep -rn 'git push' docs
cat <<E > f⏎git push⏎E
man touch
which git
command -v touch
apt-get install git
npm run publish-docs
npm test -- publish
rm -r x
rm x
ls *.py
pytest -k touch
python3 x.py touch
make push
timeout 5 make tag
env A=1 npm test
for f in *.py; do wc -l "$f"; done
if [ -x touch ]; then ls; fi
test -f touch
x=$(ls); echo "$x"
sed -n 1,5p touch
cargo test push
docker push x
vim deploy
cat deploy.sh
chmod +x deploy.sh
git add deploy.sh
"""


@pytest.mark.parametrize("script", lines(ORDINARY))
def test_row_3_other_commands_are_left_alone(script: str) -> None:
    assert isinstance(decide(script), Allow)
    assert isinstance(decide(script, "never"), Allow)


HERE = Path(__file__).parent
VICTIM = RuleSet([Rule((("victim",),), "forbidden")])
BESIDE = """
touch|git push|git tag|terraform|npm publish|rm -rf|docker|curl|kubectl delete|sudo|ssh|make deploy|chmod 777|dd|
git commit --no-verify|pip install|git reset --hard
"""


def under(rules: RuleSet, script: str, policy: ApprovalPolicy) -> Decision:
    here = Circumstances(policy=policy, sandbox=SandboxPolicy(mode="workspace-write"))
    return decide_command(["bash", "-lc", script], here, rules=rules)


def test_row_3_nothing_that_runs_a_forbidden_program_runs_unasked() -> None:
    """Every line of `evasions.txt` starts `victim` when bash runs it: by a launcher, a text in another language, an
    option or a variable that names a program, what a shell is fed, or what it evaluates later."""
    for policy in ("never", "on-request"):
        evaded = [
            script
            for script in lines((HERE / "evasions.txt").read_text("utf-8"))
            if isinstance(under(VICTIM, script, policy), Allow)
        ]
        assert evaded == []


def test_row_3_an_interpreter_by_its_name_with_a_version_is_the_same() -> None:
    """Debian has `perl5.36.0` beside `perl`, others `lua5.4`, `ruby3.1` or `bash-5.2`."""
    known = r"^(perl|ruby|php|lua|node|bash|zsh|dash|python3?)(?= )"
    plain = [script for script in lines((HERE / "evasions.txt").read_text("utf-8")) if re.match(known, script)]
    assert len(plain) > 50
    for version in ("5.36.0", "5.36-x86_64-linux-gnu", "-5.2"):
        scripts = [re.sub(known, rf"\g<1>{version}", script) for script in ("perl ./victim", *plain)]
        assert [script for script in scripts if isinstance(under(VICTIM, script, "never"), Allow)] == []


def test_row_3_ordinary_work_beside_many_rules_is_left_alone() -> None:
    """The names of forbidden programs are words like others: of searches, messages, files, tests and branches."""
    rules = RuleSet(
        Rule(tuple((word,) for word in rule.split()), "forbidden") for rule in BESIDE.replace("\n", "").split("|")
    )
    scripts = lines((HERE / "beside_rules.txt").read_text("utf-8"))
    assert [script for script in scripts if not isinstance(under(rules, script, "never"), Allow)] == []


def test_the_list_of_programs_with_a_language_is_whole() -> None:
    assert frozenset(LANGUAGES) == OWN_LANGUAGE


MANY = "; ".join(f"echo {number}" for number in range(6000))


@pytest.mark.parametrize(
    "script",
    [f"{MANY}; x", f"x; {MANY}", "eval " * 30 + "x", "nice " * 30 + "x"],
    ids=["many before", "many behind", "deep", "wrapped"],
)
def test_row_3_what_is_too_long_to_compare_is_asked_about_or_refused_where_nobody_is_asked(script: str) -> None:
    assert isinstance(decide(script), Ask)
    assert isinstance(decide(script, "never"), Refuse)


def test_row_3_what_can_be_compared_is_free_however_long() -> None:
    assert isinstance(decide("; ".join(f"echo {number}" for number in range(1000)), "never"), Allow)
