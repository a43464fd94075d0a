"""The Containerfile and the compose file: linted, and their commands run on this machine, in a plain environment.

`python -m tests.recipes.container` builds the image and starts a container, where there is buildah.
"""

from __future__ import annotations

import json
import re
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import yaml

from tests.support.containerfile import CONTAINERFILE, instructions
from tests.support.core_environment import ROOT
from tests.support.deep import deep
from tests.support.served import Client

COMPOSE = ROOT / "tests" / "recipes" / "compose" / "compose.yaml"
TOKEN = "a-random-text"


@contextmanager
def started(installed: Path, data: Path, *options: str) -> Iterator[tuple[Client, str]]:
    """The ENTRYPOINT with these options, on a free port: a client with the key that was printed, and the messages."""
    entrypoint: list[str] = json.loads(instructions("ENTRYPOINT")[0])
    command = [str(data) if word == "/data" else "0" if word == "8402" else word for word in [*entrypoint, *options]]
    assert command[0] == "leyden"
    log = data.parent / f"{data.name}.log"
    with log.open("w") as messages:
        process = subprocess.Popen(
            [str(installed / "bin" / "leyden"), *command[1:]], stdout=subprocess.PIPE, stderr=messages, text=True
        )
        try:
            assert process.stdout is not None
            line = process.stdout.readline()
            assert line.startswith("Leyden listening on http://"), log.read_text()
            port = line.rsplit(":", 1)[1].strip()
            yield Client(f"http://127.0.0.1:{port}", (data / "api-key").read_text().strip()), port
        finally:
            process.terminate()
            process.communicate(timeout=20)
    assert process.returncode == 0


@deep("test_the_image_is_slim_and_its_user_has_no_privileges")
def test_hadolint_finds_nothing(linters: Path) -> None:
    done = subprocess.run([str(linters / "hadolint"), str(CONTAINERFILE)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout


def test_the_image_is_slim_and_its_user_has_no_privileges() -> None:
    assert instructions("VOLUME") == ["/data"]
    assert int(instructions("USER")[-1]) >= 1_000
    install = instructions("RUN")[0]
    assert "[" not in install, "no extra is installed"
    text = CONTAINERFILE.read_text()
    assert text.index("\nUSER ") < text.index("\nENTRYPOINT ")
    assert set(instructions("FROM")) == {"${PYTHON_IMAGE} AS build", "${PYTHON_IMAGE}"}


def test_the_commands_of_the_image_run_in_a_plain_environment(installed: Path, tmp_path: Path) -> None:
    data = tmp_path / "data"
    data.mkdir()
    with started(installed, data) as (client, port):
        status, charge = client("POST", "/v0/charges", {"amount": "1000", "description": "tea"})
        assert status == 200
        words: list[str] = json.loads(instructions("HEALTHCHECK")[0].split("CMD", 1)[1])
        check = [word.replace("/opt/leyden", str(installed)).replace(":8402/", f":{port}/") for word in words]
        assert "/readyz" in check[-1]
        assert subprocess.run(check, timeout=30, check=False).returncode == 0
    assert subprocess.run(check, capture_output=True, timeout=30, check=False).returncode == 1, "the server has ended"
    key, token = (data / "api-key").read_text().strip(), (data / "admin-token").read_text().strip()
    messages = (tmp_path / "data.log").read_text()
    assert f"apikey: {key}" in messages
    assert f"admin token: {token}" in messages
    assert len(key) > 30
    with started(installed, data) as (client, _):
        assert client.key == key, "a second start has the same key"
        assert client("GET", f"/v0/charges/{charge['data']['id']}")[0] == 200


def test_the_image_has_the_core_alone(installed: Path) -> None:
    names = {path.name.split("-")[0].lower() for path in installed.glob("lib/python*/site-packages/*.dist-info")}
    assert "leyden" in names
    assert names & {"pandas", "numpy", "scipy", "hypothesis", "jupyterlab", "pip"} == set()


def compose() -> dict[str, Any]:
    """The compose file."""
    loaded: dict[str, Any] = yaml.safe_load(COMPOSE.read_text())
    return loaded


@deep("test_the_server_of_the_compose_file_works_for_the_other_container")
def test_the_compose_file_is_valid(linters: Path) -> None:
    command = [str(linters / "check-jsonschema"), "--builtin-schema", "vendor.compose-spec", str(COMPOSE)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout
    build = compose()["services"]["leyden"]["build"]
    assert (COMPOSE.parent / build["context"] / build["dockerfile"]).resolve() == CONTAINERFILE
    [recipe] = compose()["services"]["shop"]["volumes"]
    assert (COMPOSE.parent / recipe.split(":")[0]).resolve() == COMPOSE.parents[1] / "javascript"


def test_the_server_of_the_compose_file_works_for_the_other_container(installed: Path, tmp_path: Path) -> None:
    data = tmp_path / "data"
    data.mkdir()
    command = compose()["services"]["leyden"]["command"]
    words = [re.sub(r"\$\{LEYDEN_ADMIN_TOKEN:.*\}", TOKEN, word) for word in command]
    [subnet] = [one["subnet"] for one in compose()["networks"]["default"]["ipam"]["config"]]
    assert subnet in words, "callbacks may go to the network of the containers"
    with started(installed, data, *words) as (client, _):
        name = {"host": compose()["services"]["shop"]["environment"]["LEYDEN_URL"].removeprefix("http://")}
        status, made = client("POST", "/sandbox/v1/sandboxes", {"rate": 0}, authorization=f"Bearer {TOKEN}", **name)
        assert (status, made["serverUrl"]) == (201, "http://leyden:8402")
        client.key = made["apiKey"]
        path = made["url"].removeprefix(made["serverUrl"])
        assert client("GET", f"{path}/v0/charges", **name)[0] == 200
