"""Which options of which programs neither name a program nor write a file of the caller's choice.

A rule that allows covers what it names and operands behind it. Options behind it count only if they are listed here.
One line is a program or one of its subcommands, or several of them (`a|b, git log|show`):

    -abc        short options, alone or in a cluster        --name      a long option, with or without `=value`
    -k= --k=    an option with a value                      --a=b       this option with this value only
    *           every option, except those that follow as !-x, !--name or !-word
    ~           options are whole words with one dash: `-run`
    assigns!    operands of the form NAME=VALUE are not covered     at!     operands that begin with @ are not covered
    paths!      operands that are paths or addresses are not        remote! the first operand must be a remote's name
    dashes!     a first operand without a dash may be options, and is not covered
    exact!      nothing behind the rule's own words is covered: its operands are programs, or files that are written
"""

from __future__ import annotations

import re
from functools import cache
from itertools import product

import msgspec

_GENERAL = """
--verbose --quiet --silent --help --version --dry-run --color --colour --no-color --no-colour --json --yes
--assume-yes --all --recursive --debug --progress --no-progress --offline --locked --frozen --jobs --timeout --retries
--retry --limit --max-count --count --long --short --no-pager --non-interactive --no-interactive --no-input --ci
--force --check --list --watch --release --strict --stats --stat --summary --no-summary --fail-fast --no-fail-fast
"""
GENERAL = frozenset(_GENERAL.split())
"""Long options that mean the same wherever there are any."""
GENERAL_SHORT = "hVvq"

_TABLE = """
ls|cat|head|tail|wc|nl|tac|rev|cut|tr|paste|pwd|echo|seq|stat|id|whoami|uname|df|du|ps|free|uptime|which|type: *
basename|dirname|realpath|readlink|cmp|comm|md5sum|sha1sum|sha256sum|sha512sum|cksum|b2sum|sum|expr|true|false: *
fold|fmt|expand|unexpand|od|hexdump|strings|nproc|arch|groups|users|who|lsblk|lscpu|jq|tokei|sleep: *
touch|mkdir|rmdir|rm|mv|cp|ln|chmod|chown|chgrp|tee|test: *
date: * !-s !--set
printf: * !-v
diff: * !-l !--paginate
grep|egrep|fgrep|zgrep: * !--filter !--pager !--save-config !--view !--config
rg: * !--pre !--hostname-bin !--search-zip !-z
ag|ack: * !--pager !--ackrc !--env !--output
tree: * !-o !-R
cloc: --by-file --by-file-by-lang --exclude-dir --exclude-lang --include-lang --include-ext --exclude-ext --csv --md
sort: * !-o !--output !--compress-program !-T !--temporary-directory
base64|base32: -diw= --decode --ignore-garbage --wrap
find: * !-exec !-ok !-delete !-fls !-fprint !-files0-from
fd|fdfind: * !-x !-X !--exec
column: *
uniq|sed|awk|gawk|mawk|nawk|ed|ex|vi|vim|nvim|emacs|nano|psql|sqlite3|mysql|redis-cli|less|more|man|xxd: exact!
dd|split|csplit|shuf: exact!
git: -P --no-pager --no-optional-locks --literal-pathspecs --no-replace-objects
git status: *
git log|show|diff|shortlog|whatchanged|reflog|range-diff|show-branch|diff-tree|diff-index|diff-files: * !--output
    !--ext-diff !--textconv !--show-signature !--paginate
git add: * !-e !--edit
git commit: -a -q -v -s -n -p -m= -F= -C= -t= --amend --no-edit --no-verify --message --file --signoff --allow-empty
    --author --date --only --include --fixup --squash --no-gpg-sign --cleanup --trailer --patch --allow-empty-message
    --reset-author
git push: remote! -u -n -q -v -f -d -4 -6 -o= --set-upstream --force-with-lease --force-if-includes --tags --delete
    --prune --atomic --no-verify --follow-tags --porcelain --mirror --push-option= --branches --no-force-with-lease
git fetch: remote! -p -t -q -v -f -a -n -j= -4 -6 --prune --tags --depth= --unshallow --prune-tags --no-tags --append
    --shallow-since= --deepen= --set-upstream --atomic --no-recurse-submodules --refetch --no-auto-gc
git pull: remote! -p -t -q -v -f -n -r -j= -4 -6 --prune --tags --depth= --unshallow --no-tags --rebase --no-rebase
    --ff --ff-only --no-ff --no-commit --no-edit --autostash --no-autostash --squash --no-recurse-submodules --no-stat
git clone: remote! -n -q -v -b= --depth= --branch= --single-branch --no-single-branch --bare --mirror --no-checkout
    --shallow-since= --filter= --no-tags --sparse
git ls-remote: remote! -h -t -q --heads --tags --refs --get-url --symref --exit-code --sort
git checkout|switch|restore|reset|rm|mv|describe|rev-parse|rev-list|ls-files|ls-tree|show-ref|for-each-ref|name-rev: *
git merge-base|blame|annotate|stash|update-index|write-tree|hash-object|count-objects|check-ignore|cherry|var|fsck: *
git branch: * !--edit-description
git clean: * !-i !--interactive
git cat-file: * !--textconv !--filters
git tag: * !-s !-u !--sign !--local-user !-v !--verify !-e !--edit
git merge: * !-s !--strategy !-S !--gpg-sign !-e !--edit
git cherry-pick|revert: * !--strategy !-S !--gpg-sign !-e !--edit
git rebase: * !-x !--exec !-s !--strategy !-i !--interactive !--edit-todo !-S !--gpg-sign
git am: * !-i !--interactive !-S !--gpg-sign !--resolvemsg
git apply: * !--build-fake-ancestor !--unsafe-paths !--directory
git grep: * !-O !--open-files-in-pager !--ext-grep !--textconv
git remote: paths! -v -t= -m= -p --tags --prune
git worktree: -b= -d -f --detach --force --porcelain --lock
git config: exact!
npm|pnpm|yarn|bun: paths! -s -D -E -O -P -w= -r -W --save-dev --save --save-exact --save-optional --save-peer
    --workspace --workspaces --if-present --omit --include --no-audit --no-fund --ignore-scripts --legacy-peer-deps
    --prefer-offline --production --only --loglevel --package-lock-only --no-save --depth --parseable --dev --exact
    --filter --frozen-lockfile --no-frozen-lockfile --immutable --include-workspace-root --audit-level --no-optional
    --watchAll --runInBand --coverage --bail --testNamePattern --maxWorkers -t= -u -i --run --fix --passWithNoTests
    --updateSnapshot --noEmit
npm config|set|pkg, pnpm|yarn config: exact!
jest|vitest: -t= -i -u -w= --runInBand --coverage --testNamePattern --testPathPattern --bail --maxWorkers
    --updateSnapshot --run --passWithNoTests --watchAll --changed --onlyChanged -o
mocha|ava|tap: -g= -b --grep --bail --forbid-only --slow --parallel
eslint: --fix --fix-dry-run --ext --max-warnings --cache --no-cache --report-unused-disable-directives
prettier: -c -w -l --write --list-different --no-cache --cache --ignore-unknown
tsc: at! -w -b -p= --noEmit --project --build --pretty --skipLibCheck --incremental --noEmitOnError --traceResolution
biome: --write --apply --unsafe
pytest|py.test: at! -q -v -x -s -l -k= -m= -r= -n= --maxfail --lf --ff --last-failed --failed-first --tb --durations
    --co --collect-only --no-header --sw --stepwise --nf --capture --showlocals --exitfirst --deselect --ignore
    --ignore-glob --disable-warnings --strict-markers --strict-config --reruns --numprocesses --dist --cov
    --cov-branch --cov-fail-under --no-cov --hypothesis-seed --randomly-seed --setup-show --fixtures --markers
    --runxfail --import-mode --doctest-modules --cov-report=term --cov-report=term-missing -p=no:cacheprovider
    --no-cov-on-fail --new-first !--debug
unittest: -v -q -f -b -c -k= -s= -p= -t= --failfast --buffer --catch --locals
tox|nox: -e= -q -v -s= -k= -r -l --recreate --skip-missing-interpreters --session --reuse-existing-virtualenvs
ruff: --fix --unsafe-fixes --diff --select --ignore --extend-select --statistics --show-fixes --preview --exit-zero
    --target-version --line-length --show-files --fix-only --no-fix --no-cache
black|isort: -q -v -l= --diff --line-length --profile --check-only --skip-string-normalization -t= --target-version
flake8|pylint: --max-line-length --select --ignore --disable --enable --count --statistics -E -j= --exclude
mypy: --strict --ignore-missing-imports --pretty --no-error-summary --show-error-codes --no-incremental -p= -m=
    --follow-imports --check-untyped-defs --explicit-package-bases --namespace-packages
basedpyright|pyright: --stats --warnings --level --outputjson --threads --skipunannotated --pythonversion
pip|pip3: paths! -U -r= -q -v -y -I --upgrade --requirement --user --no-deps --pre --no-cache-dir --no-input
    --outdated --break-system-packages --only-binary --no-binary --force-reinstall --disable-pip-version-check
    -e=. -e=.[dev] -e=.[test] -e=.[tests] -e=.[all]
uv: paths! --dev --no-dev --all-extras --extra --group --all-groups --upgrade -U -P= --upgrade-package --no-sync
    --no-build-isolation --prerelease --resolution -r= --system --only-group --no-install-project --active --outdated
poetry|pdm|hatch|pipenv: paths! --dev --no-dev --with --without --only --group -G= --no-root --sync --all-extras -E=
    -D -d
cargo: -p= -j= -v -q -r -F= --all --workspace --package --features --all-features --no-default-features --lib --bins
    --bin --tests --test --examples --example --benches --bench --all-targets --target --profile --message-format
    --no-run --doc --keep-going --exclude --no-deps --nocapture --test-threads --ignored --exact --skip --show-output
    --include-ignored -D= -W= -A= --fix --allow-dirty --allow-staged --dev --build --depth --format-version --precise
    --invert -i= --bench --no-capture
rustfmt: --edition
rustc: exact!
go: ~ -v -run -count -race -short -timeout -bench -benchmem -benchtime -cover -tags -p -parallel -failfast -json -list
    -trimpath -buildvcs -x -n -a -u -m -d -skip -shuffle -cpu -fuzz -fuzztime -fullpath -e -w -s -l -t -mod=readonly
    -mod=mod -mod=vendor
go env: exact!
gofmt: -d -l -s -e -w
golangci-lint: --fix --fast --new --timeout --enable --disable
make|gmake: assigns! -s -k -B -n -i -q -w -S -t -j= -l= -o= -W= --keep-going --always-make --just-print
    --no-print-directory --print-directory --touch --question --output-sync
ninja: -v -n -j= -k= -l= -d=
cmake: -j= --build --target --parallel --config --clean-first --verbose
ctest: ~ -j -R -E -V -VV -N -L -LE -C --output-on-failure --rerun-failed --parallel --tests-regex --build-config
    --test-dir
meson|bazel: -v -j= --keep_going -k --test_output --no-rebuild --suite
gradle|gradlew: -q -i -s -S -x= -t --info --stacktrace --no-daemon --daemon --parallel --tests --rerun-tasks --console
    --build-cache --no-build-cache --continue --continuous --exclude-task --refresh-dependencies --warn --scan
    --configuration-cache
mvn|mvnw: ~ -q -B -o -U -e -X -T -pl -am -amd -ntp -N -fae -ff -fn --batch-mode --also-make --projects --threads
    --errors --update-snapshots --no-transfer-progress -DskipTests -Dtest -DskipITs -DfailIfNoTests -Dmaven.test.skip
dotnet: -c= -v= -f= -r= --configuration --no-build --no-restore --verbosity --filter --nologo --framework --runtime
    --no-dependencies --list-tests --blame -t
swift: -c= --configuration --filter --parallel --skip-build
bundle|rake|composer|mix: -j= -s -n -T -D --without --with --path=vendor/bundle --deployment --no-dev --trace
    --prefer-dist --no-scripts --only --cover
gem: paths! -v= --version --no-document --user-install --local
rspec: -e= -t= -P= --example --tag --order --seed --only-failures --next-failure --backtrace
gcc|g++|cc|c++|clang|clang++: at! ~ -c -g -O0 -O1 -O2 -O3 -Os -Og -Wall -Wextra -Werror -Wpedantic -pedantic -std -I
    -D -U -fPIC -pthread -shared -static -S -E -m32 -m64 -fsyntax-only -lm -lpthread -ldl
javac: at! ~ -g -nowarn -Werror -Xlint -deprecation -source -target --release
apt|apt-get|dnf|yum|apk|zypper|pacman|brew: paths! -y -q -qq -s -S -u --no-install-recommends --install-recommends
    --only-upgrade --reinstall --no-cache --cask --formula --noconfirm --needed --simulate --upgradable --installed
systemctl|service: paths! --user --now --no-block --failed --type --state -l -n= -t= --no-legend --plain
journalctl: -u= -f -n= -r -k -b -x -e -p= -o= --since --until --unit --follow --lines --output --boot --user
docker|podman ps|images|logs|inspect|top|stats|port|version|info|history|search|diff|network|volume: *
docker|podman build: -t= -f= --tag --no-cache --pull --target --build-arg --platform --file --rm --load --cache-from
docker|podman compose: -d --build --detach --remove-orphans --no-deps --force-recreate --tail -t= --wait --no-build
    --rm
docker|podman run|exec: -i -t -d -e= -p= -w= -u= --rm --name --env --publish --detach --interactive --tty --workdir
    --platform --pull --init --hostname
docker|podman: -t= --tag
kubectl: -n= -o= -A -w -l= -c= -p --namespace --all-namespaces --selector --tail --since --previous --output
    --container --show-labels --sort-by --field-selector --replicas --follow --no-headers --ignore-not-found
    --grace-period
helm: -n= -A --namespace --all-namespaces --revision --wait --atomic
terraform|tofu: ~ -no-color -input -lock -json -compact-warnings -refresh -detailed-exitcode -upgrade -recursive
    -check -diff -auto-approve -target -destroy
gh|glab: -R= -L= -s= -t= -b= -B= -H= -l= -a= -r= -q= -d -f --repo --title --body --base --head --draft --fill --label
    --assignee --reviewer --state --jq --author --milestone --squash --merge --rebase --delete-branch --auto
    --comments --log --log-failed --name-only --approve --request-changes --comment --method --paginate --exit-status
    --interval --workflow --branch --event --status --job --required --search
gh api|alias|extension|config: exact!
ssh: -p= -q -v -t -T -n -N -4 -6 -i= -l= -C -x
scp: -r -p -q -C -v -B -4 -6 -3 -P= -i= -l=
rsync: -a -v -z -r -t -p -l -n -h -P -u -c -H -A -X -S -x -i -q -g -o -D -m -W --archive --delete --exclude --include
    --compress --checksum --human-readable --itemize-changes --partial --size-only --times --perms --links --update
    --ignore-existing --one-file-system --hard-links --prune-empty-dirs --bwlimit --delete-after --delete-excluded
curl: -s -S -f -L -v -I -k -g -G -i -4 -6 -X= -H= -m= -A= --fail --show-error --location --max-time --header --request
    --compressed --connect-timeout --head --insecure --include --http1.1 --http2 --user-agent --get --fail-with-body
    --retry-delay --retry-all-errors --no-buffer --ipv4 --ipv6
wget: -q -c -S -N -r -l= -t= -T= --spider --no-verbose --tries --server-response --continue --no-check-certificate
    --max-redirect --waitretry
tar: dashes! -x -z -j -J -v -t -k -p -a -f= --extract --list --gzip --bzip2 --xz --file --exclude --strip-components
    --keep-old-files --no-same-owner --wildcards --zstd
zip|unzip: -r -q -l -n -u -j -k -f -t -9 -1 -6 -v
gzip|gunzip|bzip2|xz|zstd: -r -q -l -k -f -d -t -9 -1 -6 -v
7z: -r -y
ping: -c= -i= -W= -w= -4 -6 -n -q
dig|nslookup|host: +short -t= -x= -4 -6
kill|pkill|killall: -9 -15 -TERM -KILL -HUP -INT -s= -f -u= -n -o -x
sysctl|mount|umount: exact!
alembic|django-admin: --noinput --autogenerate -m= --message --sql --head --empty --merge --check --plan
mkdocs|sphinx-build: -W -n -b= -j= -q -a -E --strict --clean --keep-going
pre-commit: -a --all-files --show-diff-on-failure --hook-stage --files --from-ref --to-ref
"""


class Options(msgspec.Struct, frozen=True):
    """What one line of the table says."""

    all_but: tuple[str, ...] | None = None
    """Every option but these is harmless; None where only `listed` are."""
    listed: frozenset[str] = frozenset()
    """Long options, and short ones: `-q`, or `-k=` where a value follows. `~`: whole words with one dash."""
    excluded: frozenset[str] = frozenset()
    """Long options of the general list that mean something else here."""
    marks: frozenset[str] = frozenset()


@cache
def options_table() -> dict[str, Options]:
    """By program, or program and subcommand: `git log`."""
    table: dict[str, Options] = {}
    for entry in _TABLE.replace("\n    ", " ").strip().splitlines():
        names, _, text = entry.partition(":")
        tokens = text.split()
        denied = tuple(token[1:] for token in tokens if token.startswith("!"))
        is_all = "*" in tokens
        options = Options(
            all_but=denied if is_all else None,
            listed=frozenset(one for token in tokens if token[0] in "-+" for one in _each(token, "~" in tokens)),
            excluded=frozenset() if is_all else frozenset(denied),
            marks=frozenset(token for token in tokens if token == "~" or token.endswith("!")),
        )
        for name in names.split(", "):
            table.update((" ".join(one), options) for one in product(*(word.split("|") for word in name.split())))
    return table


def _each(token: str, is_whole_word: bool) -> list[str]:
    """`-abc` are three options, `-km=` two with a value each."""
    cluster = None if is_whole_word else re.fullmatch(r"-(\w+)(=?)", token, re.ASCII)
    return [token] if cluster is None else [f"-{letter}{cluster[2]}" for letter in cluster[1]]
