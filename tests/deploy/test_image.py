"""The image: its Dockerfile and compose file read by linters, and a real build where one can run."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import yaml

REPOSITORY = Path(__file__).parents[2]
DEPLOY = REPOSITORY / "deploy"
#: What stands in for the base image, which no test fetches: Debian's Python, unpacked.
BASE = "localhost/python:3.13-slim"
BASE_PACKAGES = "bash,dash,coreutils,libc-bin,base-files,base-passwd,python3,python3-venv,ca-certificates"
BUILD_S = 600
#: Prints the modules of a server whose bytecode is not there: the user of the image could not write it.
NOT_COMPILED = """
import os, sys, interlock.app, interlock.cli.main, interlock.http.server
modules = [module for module in sys.modules.values() if getattr(module, "__cached__", None)]
print([module.__name__ for module in modules if not os.path.exists(module.__cached__)])
"""
#: What pip says of an index that it does not reach.
UNREACHABLE = ("NewConnectionError", "Temporary failure in name resolution", "ReadTimeoutError")


def tool(name: str) -> str:
    return str(Path(sys.executable).with_name(name))


def test_hadolint_finds_nothing() -> None:
    found = subprocess.run(
        [tool("hadolint"), str(DEPLOY / "Dockerfile")], capture_output=True, text=True, check=False
    )
    assert (found.returncode, found.stdout) == (0, "")


def test_what_the_image_is_made_of_reaches_its_build() -> None:
    let_in = (REPOSITORY / ".dockerignore").read_text().splitlines()
    needed = re.findall(r"--requirement (\S+)", (DEPLOY / "Dockerfile").read_text())
    assert needed
    for name in needed:
        assert (REPOSITORY / name).is_file()
        assert f"!{name}" in let_in


def test_the_compose_file_is_one_and_fits_the_image() -> None:
    file = DEPLOY / "compose.yaml"
    checked = subprocess.run(
        [tool("check-jsonschema"), "--builtin-schema", "vendor.compose-spec", str(file)],
        capture_output=True,
        text=True,
        check=False,
    )
    assert checked.returncode == 0, checked.stdout
    services = yaml.safe_load(file.read_text())["services"]
    fleet = services["fleet"]
    assert fleet["command"] == ["fleet", "up", "--file", f"{fleet['working_dir']}/fleet.toml"]
    ours = services["interlock"]
    assert (
        (DEPLOY / ours["build"]["context"]) / ours["build"]["dockerfile"]
    ).resolve() == DEPLOY / "Dockerfile"
    assert all(
        port.startswith("127.0.0.1:") for service in services.values() for port in service.get("ports", [])
    )
    for service in services.values():  # nobody gets a password that stands here
        for name, value in service["environment"].items():
            secret = any(word in name for word in ("PASSWORD", "SECRET", "TOKEN", "KEY"))
            assert not secret or value is None or value.startswith("${"), name
    # What the pages tell people to set reaches the server; without a value, as if it were not there.
    for name in ("INTERLOCK_ALLOWED_HOSTS", "INTERLOCK_GITHUB_TOKEN", "OTEL_EXPORTER_OTLP_ENDPOINT"):
        assert ours["environment"][name] is None


Buildah = Callable[..., str]


@pytest.fixture(scope="module")
def buildah(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Buildah]:
    """buildah without a daemon, on a storage of its own that has a base image; else the test says why not."""
    if not os.environ.get("INTERLOCK_EVERY_CASE"):
        pytest.skip(
            "INTERLOCK_EVERY_CASE=1 builds the image, for 40 s of a processor and some of the network."
        )
    if os.geteuid() != 0:
        pytest.skip("Only root can build an image without a daemon.")
    for program in ("buildah", "mmdebstrap"):
        if shutil.which(program) is None:
            pytest.skip(f"There is no {program} on this machine to build the image with.")
    folder = tmp_path_factory.mktemp("buildah")
    options = ["--storage-driver", "vfs", "--root", str(folder / "root"), "--runroot", str(folder / "run")]
    environ = {
        "PATH": os.environ["PATH"],
        "HOME": str(folder),
    }  # what pip is configured to here stays outside

    def run(*args: str) -> str:
        done = subprocess.run(
            ["buildah", *options, *args],
            cwd=REPOSITORY,
            env=environ,
            capture_output=True,
            text=True,
            check=False,
            timeout=BUILD_S,
        )
        if any(words in done.stderr for words in UNREACHABLE):
            pytest.skip(f"What the image is made of cannot be reached: {done.stderr[-300:]}")
        assert done.returncode == 0, done.stderr[-2_000:]
        return done.stdout

    archive = folder / "base.tar"
    made = subprocess.run(
        [
            "mmdebstrap",
            "--variant=extract",
            f"--include={BASE_PACKAGES}",
            "--quiet",
            "bookworm",
            str(archive),
        ],
        capture_output=True,
        text=True,
        check=False,
        timeout=BUILD_S,
    )
    if made.returncode != 0:
        pytest.skip(f"There is no base for the image: {made.stderr.strip()[-300:]}")
    try:
        run("from", "--name", "base", "scratch")
    except AssertionError as error:
        pytest.skip(f"buildah cannot run here: {error}")
    run("add", "base", str(archive), "/")
    archive.unlink()
    run("commit", "--rm", "base", BASE)
    yield run
    for kind in ("rm", "rmi"):
        subprocess.run(["buildah", *options, kind, "--all"], env=environ, capture_output=True, check=False)
    shutil.rmtree(folder, ignore_errors=True)


@pytest.mark.slow
def test_the_image_builds_and_serves_as_nobody(buildah: Buildah) -> None:
    certificates = "/etc/ssl/certs"  # those of this machine may be needed to reach its package index
    buildah(
        *("bud", "--isolation", "chroot", "--pull-never", "--layers=false", "--format", "docker"),
        *("--volume", f"{certificates}:{certificates}:ro"),
        *("--file", "deploy/Dockerfile", "--tag", "interlock", "."),
    )
    buildah("from", "--name", "server", "localhost/interlock")

    def inside(*command: str) -> str:
        return buildah("run", "--isolation", "chroot", "server", "--", *command)

    assert inside("id", "-u").strip() == "10001"
    assert inside("interlock", "token", "create", "ops", "--scope", "admin").startswith("il_")
    assert "All is well" in inside("interlock", "up", "--host", "0.0.0.0", "--once", "--port", "0")
    assert inside("python3", "-B", "-c", NOT_COMPILED) == "[]\n"
    inside("python3", "-c", "import opentelemetry.exporter.otlp.proto.http, opentelemetry.sdk")
    assert inside("python3", "-c", "import importlib.util as u; print(u.find_spec('hatchling'))") == "None\n"
    # A fleet from a file, as user 10001.
    inside("sh", "-c", """printf '[workers.coder]\\ncommand = ["true"]\\n' > fleet.toml""")
    inside("interlock", "add", "work")
    fleet = (
        "interlock fleet up --file fleet.toml --detach && sleep 5 && interlock fleet down --file fleet.toml"
    )
    assert "1 worker was stopped" in inside("sh", "-c", fleet)
    assert "completed" in inside("interlock", "show", "1")
    health = buildah("inspect", "--type", "image", "--format", "{{.Docker.Config.Healthcheck}}", "interlock")
    assert "/readyz" in health
