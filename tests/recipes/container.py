"""Builds the image and checks a running container, with buildah: `python -m tests.recipes.container`.

It needs root, buildah, and a registry with the base image; `--debian` makes a base of Debian with debootstrap instead,
where no registry of images is reached. What is built is removed at the end. Returns 1 if a check fails.
"""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
from argparse import ArgumentParser
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

from tests.support.core_environment import ROOT
from tests.support.served import Client

IMAGE, BASE = "localhost/leyden-check", "localhost/leyden-check-base"
# Isolation and storage that need no further privileges of the machine.
OPTIONS = {"BUILDAH_ISOLATION": "chroot", "STORAGE_DRIVER": "vfs"}
CERTIFICATES = Path("/etc/ssl/certs")
PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"


def buildah(*arguments: str, timeout_s: float = 900) -> str:
    """Run a command of buildah and return what it printed."""
    done = subprocess.run(
        ["buildah", *arguments], env={**os.environ, **OPTIONS}, capture_output=True, text=True, timeout=timeout_s
    )
    if done.returncode != 0:
        raise SystemExit(f"buildah {arguments[0]} failed: {done.stderr[-2_000:]}")
    return done.stdout.strip()


def debian_base() -> None:
    """Make an image of the Debian release `stable` with Python."""
    with TemporaryDirectory() as root:
        subprocess.run(
            ["debootstrap", "--variant=minbase", "--include=python3,python3-venv,ca-certificates", "stable", root],
            stdout=subprocess.DEVNULL, check=True,
        )  # fmt: skip
        container = buildah("from", "scratch")
        buildah("add", "--quiet", container, root, "/")
    buildah("config", "--env", f"PATH={PATH}", container)
    buildah("commit", "--quiet", "--rm", container, BASE)


def build(base: str | None) -> None:
    """Build the image from what git tracks and what is new."""
    with TemporaryDirectory() as context:
        listed = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
        names = subprocess.run(listed, cwd=ROOT, capture_output=True, check=True).stdout
        pack = ["tar", "-c", "--null", "-T", "-"]
        packed = subprocess.run(pack, cwd=ROOT, input=names, capture_output=True, check=True)
        subprocess.run(["tar", "-x", "-C", context], input=packed.stdout, check=True)
        arguments = ["--build-arg", f"PYTHON_IMAGE={base}"] if base else []
        # Registries behind a proxy have certificates that this machine knows.
        arguments += ["--volume", f"{CERTIFICATES}:{CERTIFICATES}:ro"]
        arguments += ["--build-arg", f"PIP_CERT={CERTIFICATES}/ca-certificates.crt"]
        file = str(Path(context) / "server" / "Containerfile")
        buildah("build", "--format", "docker", "--network", "host", "--tag", IMAGE, "--file", file, *arguments, context)


def check() -> list[str]:
    """Start a container from the image, and return what is wrong with it."""
    image = json.loads(buildah("inspect", "--type", "image", IMAGE))["Docker"]["config"]
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = str(free.getsockname()[1])
    command = [port if word == "8402" else word for word in [*image["Entrypoint"], "--pid-file", "/data/pid"]]
    health = [word.replace(":8402/", f":{port}/") for word in image["Healthcheck"]["Test"][1:]]
    container = buildah("from", IMAGE)
    try:
        server = subprocess.Popen(
            ["buildah", "run", "--network", "host", container, "--", *command],
            env={**os.environ, **OPTIONS}, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
        )  # fmt: skip
        assert server.stdout is not None
        listening, described = server.stdout.readline(), server.stdout.readline()

        def inside(*words: str) -> str:
            return buildah("run", "--network", "host", container, "--", *words)

        key, user = inside("cat", "/data/api-key"), inside("id", "-u")
        answered, _ = Client(f"http://127.0.0.1:{port}", key)("GET", "/v0/charges")
        inside(*health)
        os.kill(int(inside("cat", "/data/pid")), signal.SIGTERM)  # this isolation shares the process ids
        server.communicate(timeout=30)
        facts = {
            "the server listens": listening.startswith("Leyden listening on"),
            "the key is random and printed": len(key) > 30 and f"apikey: {key}" in described,
            "the key is accepted": answered == 200,
            "the user has no privileges": user == image["User"] != "0",
            "the data is in a volume": image["Volumes"] == {"/data": {}},
            "it ends with 0": server.returncode == 0,
        }
        for fact, holds in facts.items():
            print(f"{fact}: {'ok' if holds else 'NO'}")
        return [fact for fact, holds in facts.items() if not holds]
    finally:
        buildah("rm", container)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command and return its exit status."""
    parser = ArgumentParser(prog="python -m tests.recipes.container", description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--debian", action="store_true", help="make the base image with debootstrap")
    options = parser.parse_args(arguments)
    try:
        if options.debian:
            debian_base()
        build(BASE if options.debian else None)
        print(f"built: {buildah('images', '--format', '{{.Size}}', IMAGE)}")
        return int(bool(check()))
    finally:
        for image in buildah("images", "--quiet", "--filter", f"reference={IMAGE}*").split():
            buildah("rmi", "--force", image)


if __name__ == "__main__":
    sys.exit(main())
