"""What agents leave in their worktrees: one shell script for each way to make, hide, move or break work.

Each script runs at the top of a fresh worktree of `Clone` (see test_left_behind.py). `w PATH TEXT` writes a
file and `owe TEXT` says that a text is left somewhere: whoever comes next must be able to reach it. A script
without either leaves no work.
"""

from __future__ import annotations

#: Shell functions for all of them. `$base` is the commit that the worktree began with.
PRELUDE = r"""
set -e
n=0
owe() { n=$((n + 1)); printf '%s\n' "$1" > "$EVIDENCE/owed-$n"; }
w() { mkdir -p -- "$(dirname -- "./$1")"; printf '%s\n' "$2" > "./$1"; owe "$2"; }
commit() { git add -A; git -c diff.ignoreSubmodules=none commit -qm "$1 $me"; }
lib() { git -c protocol.file.allow=always submodule --quiet update --init lib; }
alone() { flock "$CLONE.stash" sh -c "$*"; }
fail() { if "$@" > /dev/null 2>&1; then echo "$* did not fail" >&2; exit 9; fi; }
base=$(git rev-parse HEAD); admin=$(git rev-parse --git-dir); me=run-$INTERLOCK_FENCE
"""

#: Scripts after which the worktree must be gone, and nothing kept.
NO_WORK = {
    "does nothing": "",
    "looks around": "git status; git log -3; git diff; ls -la",
    "leaves ignored files only": "echo x > noise.log; mkdir -p build/deep; echo y > build/deep/y",
    "clones into an ignored directory": "git init -q build/other; echo x > build/other/x",
    "touches a file": "touch page dir/a; chmod 600 page",
    "writes what was there": "cp page p; cat p > page; rm p",
    "looks into a submodule": "lib",
    "checks the user's own branch out": "git checkout -q --detach main",
    "checks what it fetched out": "git fetch -q origin main; git checkout -q FETCH_HEAD",
    "commits and pushes": "echo x > pushed; commit pushed; git push -q origin HEAD:refs/heads/from-$me",
    "pushes to the address": (
        'echo x > pushed; commit pushed; git push -q "$(git remote get-url origin)" HEAD:refs/heads/url-$me'
    ),
    "narrows its checkout": "git sparse-checkout set dir",
    "forgets that a file is tracked, and adds it again": "git rm -q --cached page; git add page",
}

WORK = {
    # -- files
    "adds a file": "w new.txt fresh",
    "changes a file": "w page changed",
    "changes a file and keeps its size and time": "cp -p page old; w page two; touch -r old page; rm old",
    "removes a file": "rm page; w other x",
    "removes every file": (
        "git rm -rq --cached . ; find . -mindepth 1 -maxdepth 1 ! -name .git -exec rm -rf {} +; w x y"
    ),
    "renames a file": "git mv page moved; w moved renamed",
    "has names in every spelling": (
        "w 'deep/näw file' a; w ' spaces ' b; w -x c; w ':(top)y' d; w 'q\"uo\\te' e; w '*' f"
    ),
    "has a name that is no text": 'w "$(printf "caf\\351")" latin; w plain beside',
    "has a name of two lines": 'w "$(printf "a\\nb")" lines; w plain beside',
    "has a name that only other systems forbid": "w 'git~1' a; w '.git ' b; w 'con' c; w 'back\\slash' d",
    "has a name that git keeps for itself": "w .GIT/inner a; w plain beside",
    "replaces a directory by a link": "rm -r dir; ln -s page dir; w plain beside",
    "replaces a file by a directory": "rm page; w page/inner x",
    "replaces a link by a file": "rm link; w link x",
    "replaces a submodule by a file": "rmdir lib; w lib x",
    "makes links": "ln -s /etc/passwd out; ln -s nowhere dangling; ln -s dir/../page odd; w plain beside",
    "makes a file executable": "chmod +x page; chmod -x run.sh; w plain beside",
    "makes a file that nobody may read": "w shut x; chmod 000 shut; w plain beside",
    "makes its worktree read-only": "w dir/new x; chmod -R a-w .",
    "makes hard links": "w one x; ln one two",
    "makes empty directories": "mkdir -p empty/deep; w plain beside",
    "makes a FIFO": "mkfifo pipe; w plain beside",
    "replaces a file by a FIFO": "rm page; mkfifo page; w plain beside",
    "makes a socket": (
        "python3 -c 'import socket; socket.socket(socket.AF_UNIX).bind(\"sock\")'; w plain beside"
    ),
    "makes a huge file": "truncate -s 60M huge; w plain beside",
    "makes an empty file": ": > void; w plain beside",
    "writes binary data": "printf '\\0\\1\\377\\r\\n' > binary; w plain beside",
    # -- conversions
    "mixes line ends": "printf 'a\\r\\nb\\n' > crlf.txt; w plain beside",
    "edits a file with other line ends": "printf 'a\\r\\nb\\r\\nc\\r\\n' > crlf.txt; w plain beside",
    "writes line ends that git would change": (
        "echo '*.txt text' >> .gitattributes; printf 'x\\r\\ny\\n' > x.txt"
    ),
    "edits a file with a filter": "echo secret words > note.rot; owe 'secret words'",
    "has a filter that is missing": (
        "echo '*.bin filter=gone' >> .gitattributes; git config filter.gone.clean /does/not/exist;"
        " git config filter.gone.required true; w x.bin a; w plain beside"
    ),
    "has an encoding that does not fit": (
        "echo '*.u16 working-tree-encoding=UTF-16' >> .gitattributes; printf odd > x.u16; w plain beside"
    ),
    # -- what git is told not to see
    "ignores its own work": "echo '*' > .gitignore; w hidden x",
    "ignores its own work, committed": "echo '*' > .gitignore; git commit -qam hide; w hidden x",
    "ignores its own work for itself": (
        'echo "hidden-*" >> "$(git rev-parse --git-path info/exclude)"; w hidden-1 x'
    ),
    "has a file that the user's own rules ignore": "w private-notes x",
    "adds an ignored file by force": "w forced.log x; git add -f forced.log",
    "assumes a file unchanged": "git update-index --assume-unchanged page; w page changed",
    "skips a file": "git update-index --skip-worktree page; w page changed",
    "narrows its checkout and works": "git sparse-checkout set dir; w dir/new x; w outside y",
    "only intends to add": "w intended x; git add -N intended",
    # -- the index
    "stages and removes": "w staged x; git add staged; rm staged",
    "stages and changes": "w page first; git add page; w page second",
    "stages and resets the file": "w page staged; git add page; git show HEAD:page > page",
    "loses its index": 'w new x; rm "$admin/index"',
    "breaks its index": 'w new x; echo junk > "$admin/index"',
    "stages in a second index": (
        'echo x > f; GIT_INDEX_FILE="$admin/alt.index" git add f; rm f;'
        ' cp "$admin/alt.index" "$EVIDENCE/owed-1"'
    ),
    "writes into git's own directory": 'owe x; echo x > "$(git rev-parse --git-path NOTES.md)"',
    "leaves a lock": 'w new x; : > "$admin/index.lock"',
    # -- commits
    "commits": "w page committed; commit work",
    "commits and goes on": "w page committed; commit work; w page more",
    "commits without a branch": "git checkout -q --detach; w new x; commit work",
    "commits without a branch and returns": (
        "git checkout -q --detach; w new x; commit work; git checkout -q interlock/$me"
    ),
    "makes a branch and returns": (
        "git checkout -qb side-$me; w new x; commit side; git checkout -q interlock/$me"
    ),
    "makes a branch without history": "git checkout -q --orphan alone-$me; w new x; commit alone",
    "amends": "w page first; commit first; w page second; git commit -qa --amend -m second",
    "drops a commit": "w page dropped; commit dropped; git reset -q --hard HEAD~1",
    "takes a commit back but not its files": "w new x; commit work; git reset -q --soft HEAD~1",
    "deletes its branch": (
        "w new x; commit work; git checkout -q --detach $base; git branch -qD interlock/$me"
    ),
    "commits by plumbing": (
        "w new x; git add new; tree=$(git write-tree);"
        ' git checkout -q --detach "$(git commit-tree -p HEAD -m made "$tree")"; git reset -q --hard HEAD'
    ),
    "keeps a ref of its own": (
        "w new x; git add new; tree=$(git write-tree);"
        ' git update-ref refs/worktree/own "$(git commit-tree -m made "$tree")"; git reset -q --hard'
    ),
    "keeps a blob under a ref of its own": (
        "owe x; git update-ref refs/worktree/blob $(echo x | git hash-object -w --stdin)"
    ),
    "tags a commit": (
        "git checkout -q --detach; w new x; commit work; git tag -a t-$me -m tagged; git checkout -q $base"
    ),
    "replaces an object": "w page two; commit two; git replace HEAD $base; w new x",
    "forges a tracking branch": "w new x; commit x; git update-ref refs/remotes/origin/forged-$me HEAD",
    "pushes to a remote of its own": (
        "w new x; commit x; git init -q --bare own.git; git push -q ./own.git HEAD:refs/heads/x;"
        " git update-ref refs/remotes/own/x HEAD"
    ),
    "pushes and takes it back": (
        "w new x; commit x; git push -q origin HEAD:refs/heads/back-$me;"
        " git push -q origin :refs/heads/back-$me"
    ),
    "pushes and goes on": "echo p > p; commit p; git push -q origin HEAD:refs/heads/on-$me; w page more",
    # -- the stash; worktrees share it, and `git stash pop` of one takes what another put there last
    "stashes": "w page stashed; alone git stash -q",
    "stashes new files": "w new stashed; alone git stash -qu; w other x",
    "stashes without a branch": "git checkout -q --detach; w page stashed; alone git stash -q",
    "stashes and drops it": "w page gone; alone 'git stash -q; git stash pop -q'",
    # -- half done
    "stops in a merge": (
        "git checkout -qb other-$me; w page theirs; commit theirs; git checkout -q interlock/$me;"
        " w page ours; commit ours; fail git merge other-$me"
    ),
    "stops in a rebase": (
        "w page ours; commit ours; git checkout -qb onto-$me $base; w page theirs; commit theirs;"
        " git checkout -q interlock/$me; fail git rebase onto-$me"
    ),
    "stops in a rebase with changes put aside": (
        "w page ours; commit ours; git checkout -qb onto-$me $base; w page theirs; commit theirs;"
        " git checkout -q interlock/$me; w dir/a aside; fail git rebase --autostash onto-$me"
    ),
    "stops in a cherry-pick": (
        "git checkout -qb pick-$me; w page theirs; commit theirs; git checkout -q interlock/$me;"
        " w page ours; commit ours; fail git cherry-pick pick-$me"
    ),
    "stops in a bisection": "w new x; commit x; git bisect start HEAD $base~1 > /dev/null 2>&1; w other y",
    # -- its own .git, and its place
    "removes .git": "w new x; rm .git",
    "removes .git after a commit": "w new x; commit x; rm .git; w other y",
    "makes .git again": "w new x; rm .git; git init -q; git add -A; git commit -qm again; w other y",
    "writes nonsense into .git": "w new x; echo nonsense > .git",
    "points .git to the clone": 'w new x; echo "gitdir: $CLONE/.git" > .git',
    "makes .git a link": 'w new x; rm .git; ln -s "$CLONE/.git" .git',
    "removes git's own directory": 'w new x; commit x; rm -r "$admin"; w other y',
    "renames its worktree": 'w new x; cd ..; mv "$OLDPWD" moved-$me',
    "moves its worktree": 'w new x; here=$PWD; cd ..; git -C "$here" worktree move "$here" "$PWD/away-$me"',
    "puts another directory in its place": (
        'w new x; here=$PWD; cd ..; mv "$here" aside-$me; mkdir "$here"; echo strange > "$here/strange"'
    ),
    "copies its worktree over itself": (
        'w new x; here=$PWD; cd ..; cp -a "$here" copy-$me; rm -r "$here"; mv copy-$me "$here"'
    ),
    "removes its worktree": 'w new x; commit x; here=$PWD; cd ..; rm -r "$here"',
    "locks its worktree": "w new x; git worktree lock .",
    # -- repositories inside
    "makes a repository inside": (
        "git init -q inside; cd inside; w a committed; commit inside; w b loose; cd ..; w plain beside"
    ),
    "makes a repository of a directory": "git init -q dir; w dir/new x; w plain beside",
    "makes a bare repository inside": "git init -q --bare inside.git; w plain beside",
    "makes a worktree inside": "git worktree add -q -b inner-$me inner; cd inner; w new x; cd ..",
    "edits a submodule": "lib; w lib/code changed",
    "adds to a submodule": "lib; w lib/new x",
    "commits in a submodule": "lib; cd lib; git checkout -q --detach; w code x; commit sub; cd ..",
    "commits in a submodule and outside": "lib; cd lib; w code x; commit sub; cd ..; commit pointer",
    "drops a commit of a submodule": "lib; cd lib; w code x; commit sub; git reset -q --hard HEAD~1; cd ..",
    "stashes in a submodule": "lib; cd lib; w code x; git stash -q; cd ..",
    "stages in a submodule": "lib; cd lib; w code x; git add code; git show HEAD:code > code; cd ..",
    "commits in a submodule and puts it away": (
        "lib; cd lib; w code x; commit sub; cd ..; git submodule --quiet deinit -f lib"
    ),
    "works where a submodule belongs": "w lib/new x",
    "replaces a submodule by a repository": "rmdir lib; git init -q lib; cd lib; w new x; commit new; cd ..",
    "moves a submodule to another commit": "lib; cd lib; git checkout -q origin/other; cd ..; w plain beside",
}
