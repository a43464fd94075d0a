"""`leyden.http_sandbox` with a server that is another program than Leyden."""

from __future__ import annotations

import json
import math
import traceback
import warnings
from collections.abc import Callable, Iterator
from datetime import timedelta
from decimal import Decimal
from inspect import getmembers_static, signature
from itertools import product
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

import leyden
from leyden import Sandbox, conformance
from leyden.errors import ApiError, ArgumentError, LeydenError
from leyden.http_sandbox import HttpSandbox, create_sandbox, delete_sandboxes
from leyden.http_sandbox.resources import HttpCharge
from leyden.server.printable import quoted
from tests.support.http_servers import answering, handling

_CREATED = {
    "id": "a", "name": None, "url": "", "serverUrl": "", "apiKey": "key", "webhookSecret": "whsec_", "seed": 1,
}  # fmt: skip


@pytest.mark.parametrize(
    "body", [b"<html></html>", b"", b"null", b"[]", b'"id"', b'{"id": "a"}', b"\xff\xfe", b"[" * 100_000]
)
def test_a_response_that_leyden_does_not_send_is_an_error_with_the_mend(body: bytes) -> None:
    with handling(answering(body)) as url, pytest.raises(LeydenError, match="did not answer as Leyden does") as raised:
        create_sandbox(url)
    assert "give the URL of `leyden serve`" in str(raised.value)


CALLS: dict[str, Callable[[HttpSandbox], object]] = {
    "charges.create": lambda box: box.charges.create(amount="1000", description="x"),
    "charges": lambda box: list(box.charges),
    "charges[]": lambda box: box.charges["a"],
    "static_charges.create": lambda box: box.static_charges.create(minAmount="1", maxAmount="2", description="x"),
    "static_charges[]": lambda box: box.static_charges["a"].charges,
    "fail": lambda box: HttpCharge(box, "/v0/charges", "a").fail(),
    "pay": lambda box: box.wallet("a").pay("lnbc1"),
    "payments": lambda box: box.payments(),
    "deliveries": lambda box: box.deliveries(),
    "replay_delivery": lambda box: box.replay_delivery("a"),
    "replay_deliveries": lambda box: box.replay_deliveries(["a"]),
    "now": lambda box: box.now,
    "seed": lambda box: box.seed,
    "webhook_secret": lambda box: box.webhook_secret,
    "advance": lambda box: box.advance("1s"),
    "run": lambda box: box.run(),
    "run events": lambda box: box.run(events=2),
    "journal": lambda box: box.journal(),
    "journal_hash": lambda box: box.journal_hash,
    "inbox": lambda box: box.inbox("shop"),
    "script": lambda box: box.receiver("shop").script,
    "always": lambda box: box.receiver("shop").always(500),
    "faults": lambda box: list(box.faults),
    "faults.add": lambda box: box.faults.add("drop"),
    "service_faults.clear": lambda box: box.service_faults.clear(),
    "payers.add": lambda box: box.payers.add(),
    "reset": lambda box: box.reset(),
    "snapshot": lambda box: box.snapshot(),
    "restore": lambda box: box.restore("a"),
    "fork": lambda box: box.fork(),
    "diff": lambda box: box.diff("a"),
    "export": lambda box: box.export(),
    "save": lambda box: box.save("saved.json"),
    "path": lambda box: box.path("createCharge"),
    "ask": lambda box: box.ask("POST", "/sandbox/v1/api-keys", {}),
    "delete": lambda box: box.delete(),
    "delete_sandboxes": lambda box: delete_sandboxes(box.server_url),
}


@pytest.mark.parametrize("body", [b"<html></html>", b"", b"null", b"{}", b"[]", b'{"data": [1, null, {}], "next": 1}'])
def test_every_method_refuses_a_success_of_another_program(
    body: bytes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with handling(answering(body)) as url:
        sandbox = HttpSandbox({**_CREATED, "url": url, "serverUrl": url})
        for name, call in CALLS.items():
            if (name, body) == ("journal", b"[]"):
                continue  # as of an empty journal
            with pytest.raises(LeydenError, match="did not answer as Leyden does"):
                print(name, call(sandbox))
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("status", [401, 404, 409, 500])
def test_a_refusal_of_another_program_is_no_end_of_a_sandbox_and_no_empty_inbox(status: int) -> None:
    with handling(answering(b"<html></html>", status)) as url:
        sandbox = HttpSandbox({**_CREATED, "url": url, "serverUrl": url})
        for call in (sandbox.delete, lambda: sandbox.inbox("shop"), lambda: sandbox.receiver("shop").script):
            with pytest.raises(ApiError, match=str(status)):
                call()


@pytest.mark.parametrize(
    ("body", "call"),
    [
        (b'[{"sequence": 1, "at": "2030-01-01T09:00:00Z", "kind": "a", "facts": {}}]', HttpSandbox.journal),
        (
            b'{"name": "shop", "received": 1, "objections": 0, "posts": [{"number": 1}],'
            b' "script": {"rules": [], "answers": [], "always": {}}}',
            lambda sandbox: sandbox.inbox("shop"),
        ),
    ],
)
def test_a_page_that_is_answered_again_and_again_is_an_error(body: bytes, call: Callable[[HttpSandbox], Any]) -> None:
    with handling(answering(body)) as url, pytest.raises(LeydenError, match="the page after row 1 ends with row 1"):
        call(HttpSandbox({**_CREATED, "url": url}))


@pytest.mark.parametrize("url", ["localhost:8402", "file:///etc/passwd", "ftp://127.0.0.1", "data:,{}", "http://[::1"])
def test_what_is_no_url_of_http_is_refused_before_it_is_opened(url: str) -> None:
    with pytest.raises(LeydenError, match="is no base URL"):
        create_sandbox(url)


def test_a_page_that_follows_itself_ends_a_list() -> None:
    with handling(answering(b'{"data": [], "next": "again"}')) as url:
        sandbox = HttpSandbox({**_CREATED, "url": url})
        with pytest.raises(LeydenError, match="a page follows itself"):
            len(sandbox.charges)


class Unprintable:
    """A value whose repr raises."""

    def __repr__(self) -> str:
        raise RuntimeError("no repr")


_WRONG = (
    None, "", 10**400, 10**5000, -1, math.nan, b"x", Unprintable(), "\ud800", "a\0b", "one\ntwo", "x" * 5_000, [],
    {1: 2}, pd.Series([1, 2]), slice(1), [Unprintable()], {"a": Unprintable()}, True, 1.5, Decimal("1e400"),
    timedelta(days=1), object, print,
)  # fmt: skip
_RIGHT: dict[str, Any] = {
    "target": "/v0/charges",
    "method": "GET",
    "when": 0,
    "by": "1s",
    "reply": 200,
    "script": [200],
}


def given(call: Callable[..., Any], wrong: Any) -> Iterator[tuple[str, tuple[Any, ...], dict[str, Any]]]:
    """For each parameter the arguments of a call in which it has the wrong value."""
    parameters = list(signature(call).parameters.values())
    for one in parameters:
        if one.kind is one.VAR_KEYWORD:
            named = {"colour": wrong, "amount": wrong, "limit": wrong}
        else:
            named = {one.name: wrong}
        for other in parameters:
            if other is not one and other.default is other.empty and other.kind is other.POSITIONAL_OR_KEYWORD:
                named[other.name] = _RIGHT.get(other.name, "x")
        yield one.name, (), named


def test_each_wrong_argument_is_accepted_or_refused_by_an_error_of_leyden() -> None:
    faults = []
    page = {"data": [], "next": None, "id": "a", "fired": [], "posts": [], "cleared": 0, "differences": [], "script": {
        "rules": [], "answers": [], "always": {}}, "replayed": 0, "ids": [], "request": "x"}  # fmt: skip
    with handling(answering(json.dumps({**_CREATED, **page, "data": page}).encode())) as url:
        sandbox = HttpSandbox({**_CREATED, "url": url, "serverUrl": url})
        objects = (
            sandbox, sandbox.charges, sandbox.faults, sandbox.service_faults, sandbox.payers, sandbox.wallet("ana"),
            sandbox.receiver("shop"), HttpCharge(sandbox, "/v0/charges", "a"),
        )  # fmt: skip
        calls = [
            (f"{type(one).__name__}.{name}", getattr(one, name))
            for one in objects
            for name, _ in getmembers_static(type(one), callable)
            if (not name.startswith("_") or name == "__getitem__")
            and name not in {"save", "inbox", "journal", "run", "path"}
        ]
        calls += [("conformance", conformance), ("HttpSandbox", HttpSandbox)]
        for wrong, (name, call) in product(_WRONG, calls):
            for parameter, places, named in given(call, wrong):
                try:
                    call(*places, **named)
                except LeydenError as error:
                    if len(str(error).splitlines()) != 1:
                        faults.append(f"{name}({parameter}={quoted(wrong, 40)}): {str(error)[:200]!r}")
                except Exception as error:
                    *_, last = traceback.extract_tb(error.__traceback__)
                    where = f"{last.filename[-40:]}:{last.lineno}"
                    faults.append(f"{name}({parameter}={quoted(wrong, 40)}): {type(error).__name__} at {where}")
    assert not faults, "\n" + "\n".join(faults)


@pytest.mark.parametrize("wrong", [None, "", b"x", 5, Unprintable(), "\ud800", "x"])
def test_what_is_no_url_and_no_token_is_refused(wrong: Any) -> None:
    for call in (create_sandbox, delete_sandboxes):
        with pytest.raises(LeydenError, match=r"server|is no base URL"):
            call(wrong)
    with handling(answering(json.dumps(_CREATED).encode())) as url:
        for token in (b"x", 5, Unprintable(), "one\ntwo", "\ud800"):
            with pytest.raises(LeydenError, match="admin_token is no token"):
                create_sandbox(url, admin_token=token)  # type: ignore[arg-type]


_ITSELF: list[object] = []
_ITSELF.append(_ITSELF)
_DEEP: list[object] = []
for _ in range(100_000):
    _DEEP = [_DEEP]


@pytest.mark.parametrize("value", [{1}, b"a", object(), int, _ITSELF, _DEEP], ids=lambda value: type(value).__name__)
def test_an_argument_without_a_json_form_is_one_error_of_leyden(value: Any) -> None:
    sandbox = HttpSandbox({**_CREATED, "url": "http://127.0.0.1:1"})
    calls: list[Callable[[], Any]] = [
        lambda: create_sandbox("http://127.0.0.1:1", name=value),
        lambda: sandbox.charges.create(amount=value),
        lambda: sandbox.snapshot(value),
        lambda: sandbox.advance(value),
        lambda: sandbox.ask("POST", "/v0/charges", {"amount": value}),
    ]
    for call in calls:
        with pytest.raises(LeydenError) as raised:
            call()
        assert "\n" not in str(raised.value)
        assert "as JSON" in str(raised.value) or "span" in str(raised.value) or "duration" in str(raised.value)


@pytest.mark.parametrize(("method", "target"), [(1, "/v0/charges"), ("GET", 1.5), (None, None)])
def test_a_method_or_a_target_that_is_no_text_is_refused(method: Any, target: Any) -> None:
    with pytest.raises(ArgumentError, match=r"is no (method|path)"):
        HttpSandbox({**_CREATED, "url": "http://127.0.0.1:1"}).ask(method, target)


@pytest.fixture(scope="module")
def in_process() -> Iterator[tuple[Sandbox, str]]:
    sandbox = Sandbox(seed=7)
    url = sandbox.serve(port=0)
    yield sandbox, url
    sandbox.close()


def pairs(sandbox: Sandbox, url: str) -> list[tuple[Any, Any]]:
    """Objects of a sandbox in process, each with the one that has its place over HTTP."""
    remote = create_sandbox(url)
    fields = {"minAmount": "1000", "maxAmount": "2000", "description": "tea", "allowedSlots": 2}
    charges = [one.charges.create(amount="1000", description="tea") for one in (sandbox, remote)]
    wallets = [one.wallet("ana") for one in (sandbox, remote)]
    return [
        (sandbox, remote),
        (sandbox.charges, remote.charges),
        (charges[0], charges[1]),
        (sandbox.static_charges.create(**fields), remote.static_charges.create(**fields)),
        (sandbox.faults, remote.faults),
        (sandbox.service_faults, remote.service_faults),
        (sandbox.payers, remote.payers),
        (wallets[0], wallets[1]),
        (wallets[0].pay(charges[0]), wallets[1].pay(charges[1])),
        (sandbox.receiver("shop"), remote.receiver("shop")),
    ]


def test_each_attribute_that_http_does_not_have_is_refused_with_what_to_use_instead(
    in_process: tuple[Sandbox, str],
) -> None:
    sandbox, url = in_process
    seen = []
    for local, remote in pairs(sandbox, url):
        for name in {name for name in dir(local) if not name.startswith("_")} - {*dir(remote), *vars(remote)}:
            with pytest.raises(AttributeError) as refused:
                getattr(remote, name)
            what, _, instead = str(refused.value).partition(", which is not available over HTTP: ")
            assert what == f"{type(remote).__name__} has no {name}"
            assert instead
            seen.append(name)
    assert {"network", "table", "kpi", "every", "timeline", "close", "outcome"} <= {*seen}


def test_a_run_that_would_write_files_is_refused_with_what_bounds_the_memory() -> None:
    with pytest.raises(ArgumentError, match=r"leyden serve --keep"):
        HttpSandbox({**_CREATED, "url": "http://127.0.0.1:1"}).run(spill="rows")


@pytest.mark.parametrize("name", ["a b", "", "shop/one", "-shop", "é", 5])
def test_a_name_that_no_receiver_can_have_is_refused_as_in_process(name: Any, in_process: tuple[Sandbox, str]) -> None:
    texts = []
    for one in (in_process[0], HttpSandbox({**_CREATED, "url": "http://127.0.0.1:1"})):
        with pytest.raises(ArgumentError, match="is not the name of a receiver") as refused:
            one.receiver(name)
        texts.append(str(refused.value))
    assert texts[0] == texts[1]


def test_what_looks_at_a_state_works_on_the_copy_that_the_refusal_names(in_process: tuple[Sandbox, str]) -> None:
    sandbox = create_sandbox(in_process[1])
    charge = sandbox.charges.create(amount="1000", description="tea", callbackUrl="http://shop.localhost/")
    sandbox.wallet("ana").pay(charge)
    sandbox.run()
    for name in ("balances", "callbacks", "kpi", "schedule", "htlcs", "attempts"):
        with pytest.raises(AttributeError) as refused:
            getattr(sandbox, name)
        expression = f"leyden.Sandbox.from_snapshot(sandbox.export()).{name}"
        assert expression in str(refused.value)
        assert eval(expression, {"leyden": leyden, "sandbox": sandbox}) is not None
    assert Sandbox.from_snapshot(sandbox.export()).charges[charge.id].status == "completed"


def test_a_field_that_the_service_ignores_is_a_warning(in_process: tuple[Sandbox, str]) -> None:
    remote = create_sandbox(in_process[1])
    tips = {"minAmount": "1000", "maxAmount": "2000", "description": "tea"}
    with pytest.warns(UserWarning, match='charges ignores "callback_url"; did you mean "callbackUrl"') as caught:
        charge = remote.charges.create(amount="1000", description="tea", callback_url="http://shop.localhost/")
    assert caught[0].filename == __file__
    static = remote.static_charges.create(**tips)
    with pytest.warns(UserWarning, match='PATCH /v0/static-charges/.* ignores "colour"'):
        static.update(colour="red")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        remote.ask("POST", "/v0/charges", {"amount": "1000", "description": "tea", "colour": "red"})
    assert charge.status == "pending"


def test_a_misspelt_name_gets_the_nearest_one() -> None:
    sandbox = HttpSandbox({**_CREATED, "url": "http://127.0.0.1:1"})
    for one, name, near in (
        (sandbox, "chages", "charges"),
        (sandbox, "restor", "restore"),
        (sandbox.wallet("ana"), "pays", "pay"),
        (HttpCharge(sandbox, "/v0/charges", "a"), "expires", "expires_at"),
    ):
        with pytest.raises(AttributeError, match=f"has no {name}: did you mean {near}[?]"):
            getattr(one, name)
    with pytest.raises(AttributeError, match=r"HttpWallet has no colour: it has name, pay, scan$"):
        _ = sandbox.wallet("ana").colour


def test_a_url_in_place_of_the_response_is_refused_with_the_call_to_make() -> None:
    with pytest.raises(ArgumentError, match=r"is a text: call create_sandbox\(url\)"):
        HttpSandbox("http://127.0.0.1:8402")  # type: ignore[arg-type]
