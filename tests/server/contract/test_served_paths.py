"""The paths of an edited document are served as they are written, or refused at start with their place."""

from __future__ import annotations

import copy
from itertools import permutations
from typing import Any
from urllib.parse import urlsplit

import pytest

from leyden import Sandbox
from leyden.devserver.console.console import CONSOLE_PATH
from leyden.devserver.health import PATHS as HEALTH_PATHS
from leyden.devserver.sandboxes.routing import URL_PREFIX
from leyden.server.charges.lnurl import decode_lnurl
from leyden.server.contract.document.yaml_loader import read_yaml
from leyden.server.contract.load import default_spec, load_contract
from leyden.server.contract.paths import specificity
from leyden.server.errors import ContractError
from leyden.world.components import CONTROL_PATH
from leyden.world.trial.reserved_paths import RESERVED_SEGMENTS
from tests.support.deep import sampled

WALLET, CHARGE = "/v0/wallet", "/v0/charges/{id}"
DOCUMENT = read_yaml(default_spec("charges").read_bytes(), "charges.openapi.yaml")


def moved(old: str, new: str) -> dict[str, Any]:
    """The packaged document with one path under another name."""
    document = copy.deepcopy(DOCUMENT)
    document["paths"] = {new if path == old else path: item for path, item in document["paths"].items()}
    return document


def sandbox(document: dict[str, Any]) -> Sandbox:
    return Sandbox(spec=load_contract(document, known_as="charges.openapi.yaml"))


@pytest.mark.parametrize(
    "path",
    sampled(
        [
            "/",
            "/wallet",
            "/healthz/",
            "/v0/healthz",
            "/v0/wallet/",
            "/v0/wal;let",
            "/v0/wal*let",
            "/v0/w(l)et",
            "/v0/w@l:t~",
            "/favicon.ico",
        ],
        3,
    ),
)
def test_a_path_of_the_characters_of_a_url_is_served(path):
    with sandbox(moved(WALLET, path)) as world:
        assert world.ask("GET", path)["data"]["balance"] == "0"
        assert world.request("GET", "/docs").status == 200


@pytest.mark.parametrize(
    "path", sampled(["/{id}", "/c/{id}/", "/c/{id}.json", "/c/a{id}c", "/v0/{id}/charges", "/v1/{id}"], 3)
)
def test_a_template_in_another_place_is_served(path):
    with sandbox(moved(CHARGE, path)) as world:
        charge = world.charges.create(amount="1000", description="tea")
        assert world.ask("GET", path.replace("{id}", charge.id))["data"]["id"] == charge.id
        for other in ("/docs", "/openapi.json", "/v0/wallet"):
            assert world.request("GET", other).status == 200


@pytest.mark.parametrize(
    ("old", "path", "problem"),
    [
        (WALLET, "/v0/chargés", r"'\xe9' in a path is not served; write it in ASCII letters"),
        (WALLET, "/v0/wal let", "' ' in a path is not served"),
        (WALLET, "/v0/wal\nlet", r"'\n' in a path is not served"),
        (WALLET, "/v0/\ud800", r"'\ud800' in a path is not served"),
        (WALLET, "/v0/charg%C3%A9s", "a percent-encoding in a path is not served"),
        (WALLET, "/v0/%77allet", "a percent-encoding in a path is not served"),
        (WALLET, "/v0//wallet", "has an empty segment; write one /"),
        (WALLET, "//wallet", "has an empty segment; write one /"),
        (WALLET, "/v0/./wallet", "has the segment . or .., which clients take out"),
        (WALLET, "/v0/../wallet", "has the segment . or .., which clients take out"),
        (WALLET, "/v0/wallet?x=1", "without query or fragment"),
        (WALLET, "/v0/wallet#x", "without query or fragment"),
        (CHARGE, "/v0/charges/{id}/{id}", "has {id} twice; give each part a name of its own"),
        (CHARGE, "/v0/charges/{id}{id}", "has {id} twice; give each part a name of its own"),
        (CHARGE, "/v0/charges/{id}{x}", "has two names with nothing between them"),
        (CHARGE, "/v0/charges/{id:int}", "a path is /segments and {names}"),
        *((WALLET, f"/{name}{rest}", f"Leyden answers the paths below /{name} itself; choose another path")
          for name in RESERVED_SEGMENTS for rest in ("", "/v1/wallet")),
        (CHARGE, "/sandbox/{id}", "Leyden answers the paths below /sandbox itself"),
        (WALLET, "/docs", "Leyden answers the path /docs itself; choose another path"),
        *((WALLET, path, f"Leyden answers the path {path} itself; choose another path")
          for path in ("/openapi.json", *sorted(HEALTH_PATHS))),
    ],
)  # fmt: skip
def test_a_path_that_no_request_reaches_is_refused_with_its_place(old, path, problem):
    with pytest.raises(ContractError) as refusal:
        sandbox(moved(old, path))
    text = str(refusal.value)
    assert problem in text
    assert "\n" not in text
    pointer = path.replace("/", "~1").replace("\n", "\\n").replace("\ud800", "\\ud800")
    assert f"#/paths/{pointer}: " in text


def test_two_templates_that_differ_in_their_names_are_refused():
    document = moved("/v0/static-charges/{id}/charges", "/v0/charges/{other}")
    with pytest.raises(
        ContractError, match=r"#/paths/~1v0~1charges~1\{other\}: is the same path as '/v0/charges/\{id\}'"
    ):
        sandbox(document)


def test_the_reserved_segments_are_those_of_the_server():
    served = {path.split("/")[1] for path in (CONTROL_PATH, URL_PREFIX, CONSOLE_PATH)}
    assert served == set(RESERVED_SEGMENTS)


@pytest.mark.parametrize("turn", sampled(range(24), 3))
def test_of_two_templates_that_fit_the_more_concrete_one_answers_in_any_order(turn):
    paths = ("/v0/a/b", "/v0/a/x{id}", "/v0/a/{id}", "/v0/{id}/b")
    order = list(permutations(paths))[turn]
    document = copy.deepcopy(DOCUMENT)
    source = {"/v0/a/b": WALLET, "/v0/a/x{id}": CHARGE, "/v0/a/{id}": "/v0/static-charges/{id}"}
    items = {path: document["paths"].pop(old) for path, old in source.items()}
    items["/v0/{id}/b"] = document["paths"].pop("/v0/static-charges/{id}/charges")
    document["paths"] = {**{path: items[path] for path in order}, **document["paths"]}
    with sandbox(document) as world:
        assert world.ask("GET", "/v0/a/b")["message"] == "Wallet"
        charge = world.charges.create(amount="1000", description="tea")
        tips = world.static_charges.create(minAmount="1000", maxAmount="2000", description="tips")
        assert world.ask("GET", f"/v0/a/x{charge.id}")["message"] == "Charge found"
        assert world.ask("GET", f"/v0/a/{tips.id}")["message"] == "Static charge found"
        assert world.ask("GET", f"/v0/{tips.id}/b")["message"] == "0 charges"


def test_a_longer_text_in_a_segment_is_the_more_concrete_one():
    paths = ["/{x}", "/a{x}", "/ab{x}", "/ab", "/{x}/b", "/a/{x}"]
    assert sorted(paths, key=specificity) == ["/ab", "/a/{x}", "/ab{x}", "/a{x}", "/{x}", "/{x}/b"]


def test_a_link_leads_to_the_pay_request_at_its_path() -> None:
    with sandbox(moved("/lnurlp/{id}", "/tips/{id}")) as world:
        tips = world.static_charges.create(minAmount="1000", maxAmount="2000", description="tips")
        path = urlsplit(decode_lnurl(tips.request)).path
        assert path == f"/tips/{tips.id}"
        assert world.ask("GET", path)["tag"] == "payRequest"
