"""Commands that are surely no agent: the shell's own, small tools, git, setting up, building and testing.

Where people talk to a workflow, whatever else its scripts start may be an agent under any name. Programs that
start others (`npm run`, `uv run`, `make`, `docker run`) count as what they start.
"""

from __future__ import annotations

import re

_SHELL = """
    [ [[ ]] { } : . ( ) alias break builtin case cd command continue coproc declare do done echo elif
    else esac eval exit export false fi for function getopts hash if in let local mapfile popd printf
    pushd pwd read readarray readonly return select set shift shopt sleep source test then trap true
    type typeset ulimit umask unalias unset until wait while
"""
_TOOLS = """
    awk base64 basename cat chgrp chmod chown cmp column comm cp curl cut date df diff dirname du egrep
    envsubst expr fgrep file find fold free gawk gpg grep gunzip gzip head hostname iconv id install jq
    kill killall less ln ls lsof md5sum mkdir mkfifo mktemp mv nc nl nproc numfmt od openssl paste patch
    pgrep ping pkill printenv ps readlink realpath rev rm rmdir rsync scp sed seq sha1sum sha256sum
    shasum shuf sort split sponge ssh-add ssh-agent ssh-keygen ssh-keyscan stat strings sync tac tail
    tar tee touch tr tree truncate uname uniq unxz unzip uptime wc wget which whoami xmllint xz yes yq
    zcat zip zstd
"""
_SETTING_UP = """
    apk apt apt-get asdf brew choco conda corepack dnf docker-compose dpkg fnm gh git git-lfs hub
    interlock mamba mise nvm pip pip3 pyenv rbenv rustup snap systemctl service update-alternatives
    volta yum
"""
_BUILDING = """
    actionlint ansible aws az bazel biome black cc clang cmake codecov coverage ctest cypress
    eslint firebase flake8 flyctl g++ gcc gcloud golangci-lint gradle gradlew helm heroku isort javac
    jest kubectl lerna markdownlint meson mkdocs mocha msbuild mvn mvnw mypy netlify ninja nox nx
    phpunit playwright pre-commit prettier prisma psql pylint pyright pytest rake release-please rollup
    rspec rubocop ruff rustc rustfmt semantic-release shellcheck sphinx-build swift terraform tox tsc
    turbo twine vercel vite vitest webpack wrangler xcodebuild yamllint
"""
#: Modules of Python.
_MODULES = """
    black build compileall coverage ensurepip flake8 http.server isort json.tool mypy nox pip pipx
    pre_commit pylint pytest ruff timeit tox twine unittest venv virtualenv zipfile
"""
#: First words of package managers; any other is the name of a script.
_MANAGING = """
    add approve-builds audit build cache cat-file check ci clean-install compile config create dedupe
    doc docs fmt help i import info init install it lint link list login logout ls outdated owner pack
    patch pkg plugin pm prune publish rebuild remove rm root self-update set setup store t test tst
    uninstall unlink up update upgrade version view whoami why workspace workspaces
"""
_CHORES = frozenset(f"{_SHELL}{_TOOLS}{_SETTING_UP}{_BUILDING}".split())
_CHORE_MODULES, _MANAGER_WORDS = frozenset(_MODULES.split()), frozenset(_MANAGING.split())
#: Names of scripts and targets that set up, build, test or ship.
_CHORE_SCRIPT = re.compile(
    r"(all|audit|bench|build|bundle|changelog|check|ci|clean|codegen|compile|coverage|cover|deploy|deps|dist|docs?"
    r"|e2e|eslint|fmt|format|gen|generate|help|init|install|lint|migrate|package|postinstall|prepare|prettier"
    r"|publish|release|setup|smoke|snapshot|style|sync|test|tests|tsc|typecheck|types|unit|update|validate|verify"
    r"|version|type-check)([:_.-].*)?"
)
#: Programs that run a script of the repository, and arguments with which they do not.
_INTERPRETERS = frozenset({"bash", "dash", "node", "perl", "php", "python", "python3", "ruby", "sh", "zsh"})
_INLINE = frozenset({"--version", "-V", "-c", "-e", "-n", "-p", "-r", "-v"})
#: Package managers with scripts of their own; the words before a script, and those before a program.
_MANAGERS = frozenset({"bun", "deno", "npm", "pnpm", "yarn"})
_SCRIPT_WORDS, _PROGRAM_WORDS = frozenset({"run", "run-script", "task"}), frozenset({"dlx", "exec", "x"})
#: Of these only the named words start a program.
_RUN_WORDS = {
    **dict.fromkeys(("cargo", "dotnet", "go"), frozenset({"run"})),
    **dict.fromkeys(("docker", "podman"), frozenset({"exec", "run", "start"})),
}
#: These run the program that follows the word.
_RUNNERS = {
    **dict.fromkeys(("hatch", "pdm", "pipenv", "pipx", "pixi", "poetry", "rye", "uv"), "run"),
    "bundle": "exec",
}
_RUNNER_OPTIONS = ("directory", "env-file", "extra", "group", "project", "python", "spec", "with")
_RUNNER_VALUES = frozenset({"-e", "-p", *(f"--{name}" for name in _RUNNER_OPTIONS)})
_TARGETS = frozenset({"gmake", "just", "make", "task"})
_TARGET_VALUES = frozenset({"-C", "-f", "-j", "--directory", "--file", "--justfile"})


def started(program: list[str]) -> list[str]:
    """The program that `uv run`, `npm exec` and the like start; otherwise the program itself."""
    for _ in range(3):
        name = _name(program)
        words = _after_options(program[1:], _RUNNER_VALUES)
        if words[:1] != [_RUNNERS.get(name)] and not (
            name in _MANAGERS and words[:1] and words[0] in _PROGRAM_WORDS
        ):
            break
        program = _after_options(words[1:], _RUNNER_VALUES)
    return program


def is_chore(program: list[str]) -> bool:
    """Whether a command is certainly no agent."""
    program = started(program)
    name, arguments = _name(program), program[1:]
    words = [word for word in arguments if not word.startswith("-")]
    if not name or name.startswith("-") or "]]" in program or name in _CHORES:
        return True
    if program[0].startswith(("/usr/bin/", "/bin/")) or arguments[:1] in (["--version"], ["--help"]):
        return True
    if name in _INTERPRETERS:
        return _is_chore_of_interpreter(arguments)
    if name in _RUNNERS:
        return True  # `started` has unwrapped what it runs
    if name in _MANAGERS:
        return _is_chore_of_manager(name, words)
    if name in _RUN_WORDS:
        compose = words[:1] == ["compose"]
        starts = bool(_RUN_WORDS[name].intersection(words[compose : compose + 1])) or (
            compose and "up" in words
        )
        return not starts or not {"-d", "--detach"}.isdisjoint(arguments)
    if name in _TARGETS:
        targets = [
            word for word in _after_options(arguments, _TARGET_VALUES, everywhere=True) if "=" not in word
        ]
        return all(_CHORE_SCRIPT.fullmatch(target) for target in targets)
    return False


def _is_chore_of_interpreter(arguments: list[str]) -> bool:
    if arguments[:1] == ["-m"]:
        return bool(_CHORE_MODULES.intersection(arguments[1:2]))
    return (
        arguments[:1] == [] or arguments[0] in _INLINE or all(len(a) > 1 and a[0] == "-" for a in arguments)
    )


def _is_chore_of_manager(name: str, words: list[str]) -> bool:
    if words[:1] and words[0] in _SCRIPT_WORDS:
        words = words[1:]
    elif words[:1] == ["start"]:
        return False
    elif name == "npm" or _MANAGER_WORDS.intersection(words[:1]):
        return True
    return not words or bool(_CHORE_SCRIPT.fullmatch(words[0]))


def _name(program: list[str]) -> str:
    return program[0].rpartition("/")[2] if program else ""


def _after_options(words: list[str], with_value: frozenset[str], *, everywhere: bool = False) -> list[str]:
    """The words from the first that is not an option; with `everywhere`, all words that are not options."""
    left: list[str] = []
    skip = False
    for at, word in enumerate(words):
        if skip or word.startswith("-"):
            skip = not skip and word in with_value
        elif not everywhere:
            return words[at:]
        else:
            left.append(word)
    return left
