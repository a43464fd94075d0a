"""The commands for a served sandbox: what they print for people and for programs, and how they refuse."""

from __future__ import annotations

import io
import json
import socket
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import Any

import pytest

from tests.commands.conftest import Leyden
from tests.support.http_servers import answering, handling
from tests.support.served import Client, served_leyden


def created(server: Client, **fields: Any) -> dict[str, Any]:
    body = {"amount": "250000", "description": "Coffee", **fields}
    charge: dict[str, Any] = server.ok("POST", "/v0/charges", body)["data"]
    return charge


def lines(leyden: Leyden, *words: str, **variables: str) -> list[str]:
    """The lines that a command prints; it succeeds without a word on standard error."""
    done = leyden(*words, **variables)
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout.splitlines()


def fields(printed: list[str]) -> dict[str, str]:
    """What a command printed as names and values."""
    return {name.strip(): text.strip() for name, _, text in (line.partition("  ") for line in printed)}


def refusal(leyden: Leyden, *words: str, status: int = 1, **variables: str) -> str:
    """The one line with which a command ends in an error."""
    done = leyden(*words, **variables)
    assert (done.returncode, done.stdout) == (status, "")
    [line] = done.stderr.splitlines()
    return line


def test_a_charge_from_creation_to_its_callback(leyden: Leyden) -> None:
    words = ("charges", "create", "--amount", "250,000", "--description", "Coffee", "--expires-in", "60")
    shown = fields(lines(leyden, *words, "--callback-url", "http://shop.localhost/paid", "--internal-id", "order 7"))
    assert (shown["status"], shown["amount"], shown["internal id"]) == ("pending", "250,000 msat", "order 7")
    assert shown["created"].endswith("Z")
    assert shown["invoice"].startswith("lnbcrt2500n1")

    paid = fields(lines(leyden, "pay", shown["id"]))
    assert (paid["status"], paid["amount"]) == ("succeeded", "250,000 msat")
    assert fields(lines(leyden, "charges", "show", shown["id"]))["status"] == "completed"

    [title, row] = lines(leyden, "deliveries", "list", "--charge", shown["id"])
    assert title.split() == ["id", "event", "status", "attempts", "created", "URL"]
    assert row.split()[1:4] == ["charge.completed", "delivered", "1"]
    delivery = row.split()[0]
    assert "http://shop.localhost/paid" in "\n".join(lines(leyden, "deliveries", "show", delivery))
    assert fields(lines(leyden, "deliveries", "replay", delivery))["status"] == "pending"
    assert lines(leyden, "deliveries", "replay", "--charge", shown["id"])[0] == "replayed: 1"


def test_a_delivery_is_shown_with_the_answers(leyden: Leyden, server: Client) -> None:
    reply = {"status": 503, "headers": {"X-Shop": "busy", "Retry-After": "9"}, "body": "later"}
    server.ok("PUT", "/sandbox/v1/inboxes/heads/script", {"answers": [reply]})
    created(server, callbackUrl="http://heads.localhost/paid", expiresIn=1)
    lines(leyden, "advance", "1m")
    delivery = lines(leyden, "deliveries", "list")[1].split()[0]
    shown = lines(leyden, "deliveries", "show", delivery)
    [place] = [place for place, line in enumerate(shown) if line.startswith("answer to attempt")]
    assert shown[place] == "answer to attempt 1"
    assert [line.split(maxsplit=1) for line in shown[place + 1 : place + 3]] == [
        ["x-shop", "busy"],
        ["retry-after", "9"],
    ]
    assert shown[-1].split() == ["body:", "later"]


def test_a_delivery_that_an_earlier_410_stopped_is_shown_with_the_reason(leyden: Leyden, server: Client) -> None:
    server.ok("PUT", "/sandbox/v1/inboxes/gone/script", {"always": 410})
    amounts = {"minAmount": "1000", "maxAmount": "5000", "description": "Tips"}
    link = server.ok("POST", "/v0/static-charges", {**amounts, "callbackUrl": "http://gone.localhost/paid"})
    for _ in range(2):
        lines(leyden, "pay", link["data"]["id"], "--amount", "5000")
        lines(leyden, "advance", "1m")
    rows = [row.split()[0] for row in lines(leyden, "deliveries", "list", "--charge", link["data"]["id"])[1:]]
    stopped, refused = (fields(lines(leyden, "deliveries", "show", row)) for row in rows)
    assert (stopped["status"], refused["status"], "note" in refused) == ("stopped", "stopped", False)
    assert "another callback to this URL was answered 410" in stopped["note"]


def test_deliveries_are_sent_again_later(leyden: Leyden, server: Client) -> None:
    for name in ("first", "second"):
        created(server, callbackUrl=f"http://{name}.localhost/paid", expiresIn=1)
    lines(leyden, "advance", "1m")
    ids = [line.split()[0] for line in lines(leyden, "deliveries", "list")[1:3]]
    assert fields(lines(leyden, "deliveries", "replay", ids[0], "--delay", "1h"))["status"] == "pending"
    assert lines(leyden, "deliveries", "replay", *ids, "--at", "2999-01-01T00:00:00Z") == [
        "replayed: 2",
        *(f"  {delivery}" for delivery in ids),
    ]
    assert fields(lines(leyden, "deliveries", "show", ids[1]))["next attempt"] == "2999-01-01 00:00:00Z"
    assert "abc" in refusal(leyden, "deliveries", "replay", ids[0], "abc")
    lines(leyden, "deliveries", "replay", *ids)


def test_json_is_the_response_of_the_api(leyden: Leyden, server: Client) -> None:
    charge = created(server)
    for words, path in (
        (("charges", "show", charge["id"]), f"/sandbox/v1/charges/{charge['id']}"),
        (("charges", "list", "--limit", "1"), "/sandbox/v1/charges?limit=1"),
        (("static-charges", "list"), "/sandbox/v1/static-charges"),
        (("payments", "list"), "/sandbox/v1/payments"),
        (("deliveries", "list", "--bodies"), "/sandbox/v1/deliveries?bodies=true"),
        (("clock",), "/sandbox/v1/clock"),
        (("sandbox", "list"), "/sandbox/v1/sandboxes"),
    ):
        [line] = lines(leyden, *words, "--json")
        assert json.loads(line) == server.ok("GET", path), words


def test_reading_charges_and_static_charges_leaves_the_journal_as_it_is(leyden: Leyden, server: Client) -> None:
    charge = created(server, description="an unusual description")
    link = server.ok("POST", "/v0/static-charges", {"minAmount": "1000", "maxAmount": "5000", "description": "Tips"})
    before = server.ok("GET", "/sandbox/v1")["journalHash"]
    shown = lines(leyden, "charges", "show", charge["id"])
    assert "issues the invoice" in "\n".join(shown[shown.index("events") :])
    assert "scheduled" in shown
    assert len(lines(leyden, "charges", "list", "--text", "UNUSUAL")) == 2
    lines(leyden, "static-charges", "show", link["data"]["id"])
    lines(leyden, "static-charges", "list")
    assert leyden("charges", "list", "--static-charge", link["data"]["id"]).stdout == ""
    assert "there is no Static Charge" in refusal(leyden, "charges", "list", "--static-charge", charge["id"])
    assert server.ok("GET", "/sandbox/v1")["journalHash"] == before


def test_a_list_with_all_pages_is_one_row_on_each_line(leyden: Leyden, server: Client) -> None:
    name = {"internalId": "all pages"}
    ids = [created(server, **name)["id"] for _ in range(3)]
    query = ("charges", "list", "--internal-id", "all pages")
    rows = [json.loads(line) for line in lines(leyden, *query, "--all", "--limit", "2", "--json")]
    assert [row["id"] for row in rows] == ids[::-1]
    assert [line.split()[0] for line in lines(leyden, *query, "--all", "--limit", "2")] == ["id", *ids[::-1]]

    page = leyden(*query, "--limit", "2")
    assert [line.split()[0] for line in page.stdout.splitlines()] == ["id", *ids[:0:-1]]
    more = page.stderr.split()[2].rstrip(",")
    assert page.stderr == f"more: --after {more}, or --all\n"
    assert lines(leyden, *query, "--after", more)[1].split()[0] == ids[0]

    none = leyden("charges", "list", "--internal-id", "nobody", "--status", "expired")
    assert (none.returncode, none.stdout) == (0, "")
    wanted = "no Charges with status='expired', internalId='nobody': leave out an option that selects to see others"
    assert none.stderr == f"{wanted}\n"


def test_an_empty_list_says_how_its_rows_are_made(leyden: Leyden) -> None:
    with served_leyden("--rate", "0") as client:
        for command, said in (
            ("charges list", "no Charges: leyden charges create makes one"),
            ("static-charges list", "no Static Charges: leyden static-charges create makes one"),
            ("payments list", "no payments: leyden pay makes one"),
            (
                "deliveries list --bodies",
                "no deliveries: a Charge with a --callback-url that is paid or expires makes one",
            ),
            ("deliveries list --status stopped", "no deliveries with status='stopped': leave out an option"),
            ("journal --after 99999", "no entries after 99999"),
        ):
            done = leyden(*command.split(), LEYDEN_URL=client.url)
            assert (done.returncode, done.stdout) == (0, ""), done.stderr
            assert done.stderr.startswith(said)


@pytest.mark.parametrize("columns", [80, 100, 140])
def test_a_table_fits_the_terminal(leyden: Leyden, server: Client, columns: int) -> None:
    link = server.ok(
        "POST", "/v0/static-charges", {"minAmount": "1000", "maxAmount": "500000000", "description": "茶" * 100}
    )["data"]
    created(server, description="one \x1b[31mred\u202e " * 20, callbackUrl=f"http://shop.localhost/{'x' * 200}")
    lines(leyden, "advance", "1h")
    for words in (("charges", "list"), ("static-charges", "list"), ("deliveries", "list"), ("payments", "list")):
        for line in lines(leyden, *words, COLUMNS=str(columns)):
            assert sum(1 + (char == "茶") for char in line) <= columns, words
            assert line.isprintable()
    assert link["id"] in "\n".join(lines(leyden, "static-charges", "list", COLUMNS="40"))
    assert "茶" * 100 in "\n".join(lines(leyden, "static-charges", "list"))


def test_static_charges(leyden: Leyden) -> None:
    amounts = ("--min-amount", "1000", "--max-amount", "50_000")
    link = fields(lines(leyden, "static-charges", "create", *amounts, "--description", "Tips", "--allowed-slots", "2"))
    assert (link["least amount"], link["most amount"], link["slots"]) == ("1,000 msat", "50,000 msat", "0/2")
    assert fields(lines(leyden, "pay", link["id"], "--amount", "5000"))["status"] == "succeeded"
    changed = fields(lines(leyden, "static-charges", "update", link["id"], "--max-amount", "60,000"))
    assert (changed["most amount"], changed["slots"]) == ("60,000 msat", "1/2")
    [_, row] = lines(leyden, "charges", "list", "--static-charge", link["id"])
    assert row.split()[1:3] == ["completed", "5,000"]
    assert "nothing to change" in refusal(leyden, "static-charges", "update", link["id"], status=2)


def test_a_held_payment_is_settled_or_cancelled(leyden: Leyden, server: Client) -> None:
    for action, status in (("settle", "succeeded"), ("cancel", "failed")):
        charge = created(server)
        held = fields(lines(leyden, "pay", charge["invoice"]["request"], "--outcome", "hold", "--delay", "2s"))
        assert held["status"] == "in_flight"
        lines(leyden, "advance", "2")
        assert fields(lines(leyden, "payments", "show", held["id"]))["status"] == "held"
        assert fields(lines(leyden, "payments", action, held["id"]))["status"] == status
        assert "only a held one can be" in refusal(leyden, "payments", action, held["id"])


def test_time(leyden: Leyden, server: Client) -> None:
    charge = created(server, expiresIn=60)
    before = server.ok("GET", "/sandbox/v1/clock")["now"]
    [first, title, row] = lines(leyden, "advance", "--next-event")
    assert first.endswith(", 1 event")
    assert (title.split(), row.split()[2:]) == (["due", "event", "id"], ["charge_expiry", charge["id"]])
    assert lines(leyden, "advance", "--to", before)[0] == f"{first.partition(',')[0]}, 0 events"
    assert lines(leyden, "clock")[0].endswith("Z, paused")
    assert lines(leyden, "clock", "--rate", "60")[0].endswith(", 60 times real time")
    assert lines(leyden, "clock", "--rate", "1")[0].endswith(", real time")
    assert json.loads(lines(leyden, "clock", "--pause", "--json")[0])["rate"] == 0


def test_a_sandbox_of_its_own(leyden: Leyden, server: Client) -> None:
    made = fields(
        lines(leyden, "sandbox", "create", "--name", "checkout", "--seed", "7", "--rate", "0", "--ttl", "10m")
    )
    own = {"LEYDEN_URL": made["URL"], "LEYDEN_API_KEY": made["API key"]}
    assert (made["seed"], made["ttl"], made["name"]) == ("7", "600 s", "checkout")
    lines(leyden, "charges", "create", "--amount", "1000", "--description", "Tea", **own)
    assert fields(lines(leyden, "sandbox", "show", **own))["Charges"] == "1 pending"
    [_, row] = lines(leyden, "sandbox", "list", "--name", "checkout")
    assert row.split()[:2] == [made["id"], "checkout"]
    assert "Charges" not in fields(lines(leyden, "sandbox", "reset", made["id"]))
    assert fields(lines(leyden, "sandbox", "reset", "--seed", "8", **own))["Charges"] == "none"
    assert lines(leyden, "sandbox", "delete", made["id"]) == [f"deleted {made['id']}"]
    line = refusal(leyden, "sandbox", "show", made["id"])
    assert (
        line
        == f"leyden sandbox show: there is no sandbox {made['id']}: `leyden sandbox list` lists those that there are"
    )
    assert "deleted" in refusal(leyden, "charges", "list", LEYDEN_URL=server.url, LEYDEN_API_KEY=made["API key"])


def test_the_variables_of_a_new_sandbox(leyden: Leyden) -> None:
    [url, key] = lines(leyden, "sandbox", "create", "--env")
    assert url.startswith("export LEYDEN_URL=http://127.0.0.1:")
    assert key.startswith("export LEYDEN_API_KEY=leyden_")


def test_the_sandboxes_of_the_server_are_found_by_the_url_of_one(leyden: Leyden) -> None:
    [url, key] = [line.partition("=")[2].strip("'") for line in lines(leyden, "sandbox", "create", "--env")]
    own = {"LEYDEN_URL": url, "LEYDEN_API_KEY": key}
    sandbox_id = url.rpartition("/")[2]
    assert fields(lines(leyden, "sandbox", "show", sandbox_id, **own))["id"] == sandbox_id
    assert any(line.startswith(sandbox_id) for line in lines(leyden, "sandbox", "list", **own))
    other = fields(lines(leyden, "sandbox", "create", **own))["id"]
    for one in (other, sandbox_id):
        assert lines(leyden, "sandbox", "delete", one, **own)
    assert sandbox_id not in "".join(lines(leyden, "sandbox", "list"))


NOTHING = [
    "no differences; not compared are the event journal, API keys, the rate of the clock, the posts of inboxes besides"
    " their number, what faults and inboxes delay, returning customers, responses kept for an Idempotency-Key, and the"
    " random numbers to come"
]


def test_the_help_names_what_a_diff_does_not_compare(leyden: Leyden) -> None:
    [nothing] = NOTHING
    left_out = nothing.removeprefix("no differences; not compared are ")
    assert f"Not compared are {left_out}." in " ".join(leyden("sandbox", "diff", "--help").stdout.split())


def test_copies_of_a_sandbox(leyden: Leyden, tmp_path: Path) -> None:
    made = json.loads(lines(leyden, "sandbox", "create", "--seed", "7", "--rate", "0", "--json")[0])
    own = {"LEYDEN_URL": made["url"], "LEYDEN_API_KEY": made["apiKey"]}
    snapshot = fields(lines(leyden, "sandbox", "snapshot", made["id"], "--name", "empty"))
    assert (snapshot["snapshot"], snapshot["name"]) == ("snapshot-1", "empty")
    lines(leyden, "charges", "create", "--amount", "1000", "--description", "Tea", **own)
    assert "fields differ" in lines(leyden, "sandbox", "diff", made["id"], "--snapshot", "snapshot-1")[0]
    forked = fields(lines(leyden, "sandbox", "fork", made["id"], "--name", "other"))
    assert lines(leyden, "sandbox", "diff", made["id"], "--sandbox", forked["id"]) == NOTHING
    lines(leyden, "sandbox", "restore", made["id"], "snapshot-1")
    assert lines(leyden, "sandbox", "diff", made["id"], "--snapshot", "snapshot-1") == NOTHING
    assert lines(leyden, "sandbox", "snapshot", made["id"], "--list")[1].split()[:2] == ["snapshot-1", "empty"]
    assert fields(lines(leyden, "sandbox", "snapshot", made["id"], "--delete", "snapshot-1"))["deleted"] == "snapshot-1"
    assert "no snapshot snapshot-1 of" in refusal(leyden, "sandbox", "snapshot", made["id"], "--delete", "snapshot-1")

    done = leyden("sandbox", "export", forked["id"], "case.json")
    assert (done.returncode, done.stdout) == (0, "")
    assert "keys and secrets" in done.stderr
    assert (tmp_path / "case.json").stat().st_mode & 0o077 == 0
    again = fields(lines(leyden, "sandbox", "import", "case.json", "--name", "again"))
    assert lines(leyden, "sandbox", "diff", forked["id"], "--sandbox", again["id"]) == NOTHING
    assert "check the path" in refusal(leyden, "sandbox", "import", "nothing.json", status=2)
    saved = json.loads((tmp_path / "case.json").read_text())
    (tmp_path / "older.json").write_text(json.dumps({**saved, "leyden": "0.0.1"}))
    done = leyden("sandbox", "import", "older.json", "--json")
    note = "the file of this sandbox was written by Leyden 0.0.1, and this is Leyden"
    assert done.stderr.startswith(f"leyden sandbox import: {note}")
    older = json.loads(done.stdout)
    state = leyden("api", "GET", "/sandbox/v1", "--url", older["url"], "--api-key", older["apiKey"])
    assert [one[: len(note)] for one in json.loads(state.stdout)["notes"]] == [note]
    (tmp_path / "other.json").write_text('{"format": 99}')
    assert "format 99" in refusal(leyden, "sandbox", "import", "other.json", status=2)


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (None, "No such file or directory; check the path"),
        ("directory", "Is a directory; check the path"),
        (b"", "the body is empty: send a JSON object"),
        (b'{"a":', "the body is not JSON: Expecting value at line 1 column 6"),
        (b"\xff\xfe", "encode it as UTF-8"),
        (b"[]", "the body must be a JSON object"),
        (b'{"format": 2}', ""),
    ],
    ids=["missing", "directory", "empty", "cut", "utf-16", "array", "incomplete"],
)
def test_an_error_of_a_file_names_it(
    leyden: Leyden, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, content: bytes | str | None, words: str
) -> None:
    file = tmp_path / "given.json"
    if isinstance(content, bytes):
        file.write_bytes(content)
    elif content is not None:
        file.mkdir()
    for command in (("sandbox", "import", "given.json"), ("api", "POST", "/v0/charges", "--data", "@given.json")):
        line = refusal(leyden, *command, status=2)
        assert line.startswith(
            f"leyden {' '.join(command[:2] if command[0] == 'sandbox' else command[:1])}: given.json: "
        )
        assert words in line
    if isinstance(content, bytes):
        monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(content)))
        line = refusal(leyden, "sandbox", "import", "-", status=2)
        assert line.startswith("leyden sandbox import: standard input: ")


def test_an_option_beside_a_file_is_named_without_it(leyden: Leyden, tmp_path: Path) -> None:
    assert leyden("sandbox", "create", "--name", "first").returncode == 0
    (tmp_path / "given.json").write_text("{}")
    line = refusal(leyden, "sandbox", "import", "given.json", "--name", "", status=2)
    assert line.startswith("leyden sandbox import: --name: ")


def test_the_sandbox_of_the_key_is_copied_without_its_id(leyden: Leyden, tmp_path: Path) -> None:
    made = json.loads(lines(leyden, "sandbox", "create", "--seed", "7", "--rate", "0", "--json")[0])
    own = {"LEYDEN_URL": made["url"], "LEYDEN_API_KEY": made["apiKey"], "LEYDEN_ADMIN_TOKEN": ""}
    assert fields(lines(leyden, "sandbox", "snapshot", **own))["snapshot"] == "snapshot-1"
    lines(leyden, "charges", "create", "--amount", "1000", "--description", "Tea", **own)
    assert "fields differ" in lines(leyden, "sandbox", "diff", "--snapshot", "snapshot-1", **own)[0]
    forked = fields(lines(leyden, "sandbox", "fork", **own))
    assert forked["API key"] != made["apiKey"]
    leyden("sandbox", "export", "case.json", **own)
    assert json.loads((tmp_path / "case.json").read_text())["tables"]
    assert fields(lines(leyden, "sandbox", "restore", "snapshot-1", **own))["Charges"] == "none"
    line = refusal(leyden, "sandbox", "snapshot", "--delete", "snapshot-7", **own)
    assert line.endswith(
        "there is no snapshot snapshot-7 of this sandbox: `leyden sandbox snapshot --list` lists those that there are"
    )


def test_the_requests_of_clients(leyden: Leyden, server: Client) -> None:
    charge = created(server, internalId="in the log")
    query = ("logs", "--charge", charge["id"], "--operation", "createCharge")
    [title, row] = lines(leyden, *query)
    assert title.split() == ["id", "time", "method", "status", "ms", "path", "operation", "fault"]
    assert row.split()[3:5] == ["POST", "200"]
    shown = "\n".join(lines(leyden, "logs", row.split()[0]))
    assert "\nPOST /v0/charges\n" in shown
    assert '"internalId": "in the log"' in shown
    assert f'"id":"{charge["id"]}"' in shown
    assert "apikey: leyden\n" not in shown
    [line] = lines(leyden, *query, "--json")
    assert json.loads(line) == server.ok("GET", f"/sandbox/v1/requests?chargeId={charge['id']}&operation=createCharge")
    # Reading the log is no request in the log.
    assert not leyden("logs", "--operation", "listRequests", "--client", "cli").stdout
    assert "there is no request 999999 in the log" in refusal(leyden, "logs", "999999")


def test_the_event_journal(leyden: Leyden, server: Client) -> None:
    created(server)
    length = len(lines(leyden, "journal", "--all", "--json"))
    entries = server.ok("GET", f"/sandbox/v1/journal?after={length - 2}")
    assert json.loads(lines(leyden, "journal", "--after", str(length - 2), "--json")[0]) == entries
    [title, first, second] = lines(leyden, "journal", "--after", str(length - 2))
    assert title.split() == ["entry", "time", "kind", "subject", "facts"]
    assert [first.split()[0], second.split()[0]] == [str(length - 1), str(length)]
    done = leyden("journal", "--limit", "2")
    assert (len(done.stdout.splitlines()), done.stderr) == (3, "more: --after 2, or --all\n")
    assert leyden("journal", "--after", str(length)).stderr == f"no entries after {length}\n"


def test_a_look_at_a_sandbox_leaves_its_journal_as_it_is(leyden: Leyden, server: Client) -> None:
    created(server)
    before = server.ok("GET", "/sandbox/v1")["journalHash"]
    for words in (
        ("sandbox", "show"),
        ("clock",),
        ("payments", "list"),
        ("deliveries", "list"),
        ("logs",),
        ("journal",),
    ):
        leyden(*words)
    assert server.ok("GET", "/sandbox/v1")["journalHash"] == before


def test_any_operation(leyden: Leyden, server: Client, tmp_path: Path) -> None:
    (tmp_path / "fault.json").write_text('{"kind": "drop"}')
    [line] = lines(leyden, "api", "post", "/sandbox/v1/faults", "--data", "@fault.json")
    assert json.loads(line)["kind"] == "drop"
    assert json.loads(lines(leyden, "api", "GET", "/sandbox/v1/faults?limit=1")[0])["data"][0] == json.loads(line)
    lines(leyden, "api", "DELETE", "/sandbox/v1/faults")
    assert "no operation has the path" in refusal(leyden, "api", "GET", "/nothing")
    assert "/kind: " in refusal(leyden, "api", "POST", "/sandbox/v1/faults", "--data", '{"kind": "dropp"}', status=2)
    assert "begins with a slash" in refusal(leyden, "api", "GET", "nothing", status=2)


@pytest.mark.parametrize(
    ("words", "line"),
    [
        (
            ("charges", "show", "abc"),
            "leyden charges show: there is no Charge abc: `leyden charges list` lists those that there are",
        ),
        (
            ("deliveries", "show", "abc"),
            "leyden deliveries show: there is no delivery abc: `leyden deliveries list` lists those that there are",
        ),
        (
            ("payments", "show", "a/b"),
            "leyden payments show: there is no payment a/b: `leyden payments list` lists those that there are",
        ),
        (
            ("pay", "00000000-0000-4000-8000-000000000000"),
            "leyden pay: there is no Charge or Static Charge 00000000-0000-4000-8000-000000000000:"
            " `leyden charges list` and `leyden static-charges list` list those that there are",
        ),
    ],
)
def test_an_unknown_id_is_named(leyden: Leyden, words: tuple[str, ...], line: str) -> None:
    assert refusal(leyden, *words) == line


@pytest.mark.parametrize(
    ("words", "start"),
    [
        (
            "charges create --amount 1 --description Tea",
            "leyden charges create: --amount: expected whole millisatoshis",
        ),
        ("charges create --amount 1000 --description Tea --expires-in soon", "leyden charges create: --expires-in: "),
        ("charges list --limit 5000", "leyden charges list: --limit: expected a whole number from 1 to 1000"),
        ("charges list --status open", "leyden charges list: argument --status: open is none of pending, completed,"),
        ("advance", "leyden advance: one of the arguments SPAN --by --to --next-event --idle is required"),
        ("advance 5x", "leyden advance: argument SPAN: '5x' is not a duration: give seconds, or a span"),
        ("api POST /v0/charges --data {bad", "leyden api: the body is not JSON"),
        ("advance --to noon", "leyden advance: --to: expected a time"),
        ("pay lnbcrt1 --outcome setle", "leyden pay: argument --outcome: setle is none of settle,"),
        ("pay lnbcrt1 --delay soon", "leyden pay: argument --delay: 'soon' is not a duration"),
        ("deliveries replay", "leyden deliveries replay: give the ids of deliveries, or a filter"),
        (
            "deliveries replay --all --status exhausted",
            "leyden deliveries replay: a filter and --all are given: give the ids of deliveries, or a filter",
        ),
        ("deliveries replay 1 --all", "leyden deliveries replay: ids and --all are given: give the ids"),
        ("deliveries replay 1 --event charge.completed --all", "leyden deliveries replay: ids and a filter and --all"),
        ("clock --url localhost", "leyden clock: --url: 'localhost' is not a base URL"),
    ],
)
def test_a_wrong_argument_names_its_option(leyden: Leyden, words: str, start: str) -> None:
    assert refusal(leyden, *words.split(), status=2).startswith(start)


def test_a_wrong_variable_is_named(leyden: Leyden) -> None:
    assert refusal(leyden, "clock", LEYDEN_URL="nowhere", status=2).startswith("leyden clock: LEYDEN_URL: 'nowhere'")


def test_without_a_server_the_error_names_the_command_that_starts_it(leyden: Leyden) -> None:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        port = listener.getsockname()[1]
    line = refusal(leyden, "charges", "list", "--url", f"http://127.0.0.1:{port}")
    assert line.startswith(f"leyden charges list: no server answers at http://127.0.0.1:{port} (")
    assert f"start it with `leyden serve --port {port}`, or give its URL with --url or LEYDEN_URL" in line


def test_a_refused_key_is_reported_with_the_reason_of_the_server(leyden: Leyden) -> None:
    ended = json.loads(leyden("sandbox", "create", "--json").stdout)
    assert leyden("sandbox", "delete", ended["id"]).returncode == 0
    given = ("--url", ended["url"], "--api-key", ended["apiKey"])
    for words in (
        "charges list",
        "deliveries list",
        "logs",
        "logs --follow",
        "advance 1s",
        "clock",
        "journal",
        "journal --follow",
    ):
        line = refusal(leyden, *words.split(), *given)
        assert f"refused the API key: the sandbox {ended['id']} was deleted: create a new one with POST" in line, words
        assert line.endswith("give the key with --api-key or LEYDEN_API_KEY")


def test_a_wrong_key_names_the_option(leyden: Leyden) -> None:
    line = refusal(leyden, "charges", "list", "--api-key", "another")
    assert "refused the API key: " in line
    assert line.endswith("give the key with --api-key or LEYDEN_API_KEY")
    assert "another;" not in line
    assert "another " not in line.replace("another one", "")


def test_the_admin_token(leyden: Leyden) -> None:
    with served_leyden("--admin-token", "a-secret-token") as server:
        line = refusal(leyden, "sandbox", "list", LEYDEN_URL=server.url)
        assert "asks for its admin token: give it with --admin-token or LEYDEN_ADMIN_TOKEN" in line
        assert "a-secret" not in refusal(
            leyden, "sandbox", "list", LEYDEN_URL=server.url, LEYDEN_ADMIN_TOKEN="a-secret-x"
        )
        lines(leyden, "sandbox", "list", "--json", LEYDEN_URL=server.url, LEYDEN_ADMIN_TOKEN="a-secret-token")
        lines(leyden, "sandbox", "list", "--json", "--admin-token", "a-secret-token", LEYDEN_URL=server.url)


def test_what_is_no_leyden_is_not_believed(leyden: Leyden) -> None:
    class Proxy(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(502)
            self.send_header("content-type", "text/html")
            self.end_headers()
            self.wfile.write(b"<h1>Bad gateway</h1>")

        def log_message(self, *_: Any) -> None:
            """Log nothing."""

    with handling(Proxy) as url:
        assert "answered 502 (text/html), and not as Leyden does" in refusal(leyden, "clock", "--url", url)


def test_a_lost_answer_is_one_line(leyden: Leyden, server: Client) -> None:
    server.ok("POST", "/sandbox/v1/service-faults", {"kind": "connection_reset"})
    line = refusal(leyden, "charges", "create", "--amount", "1000", "--description", "Tea")
    assert "gave no answer" in line
    assert "service fault" in line


def test_a_payment_whose_amount_is_unknown_shows_none(leyden: Leyden) -> None:
    failed = json.loads(leyden("pay", "lnurl1dp6", "--json").stdout)["id"]
    assert "amount" not in fields(lines(leyden, "payments", "show", failed))
    [row] = [line for line in lines(leyden, "payments", "list") if failed in line]
    assert " 0 " not in row


def test_a_payment_that_fails_is_shown_and_ends_with_1(leyden: Leyden) -> None:
    made = fields(lines(leyden, "charges", "create", "--amount", "1000", "--description", "x"))
    for more in ((), ("--json",)):
        done = leyden("pay", made["invoice"], "--outcome", "fail", *more)
        assert (done.returncode, done.stderr) == (1, "")
        assert "failed" in done.stdout
    failed = json.loads(done.stdout)["id"]
    assert fields(lines(leyden, "payments", "show", failed))["status"] == "failed"


_ID = "11111111-1111-4111-8111-111111111111"
_COMMANDS = (
    "charges create --amount 1000 --description Tea",
    "charges list",
    f"charges show {_ID}",
    f"charges fail {_ID}",
    "static-charges list",
    f"static-charges show {_ID}",
    f"pay {_ID}",
    "payments list",
    f"payments settle {_ID}",
    "advance 5m",
    "clock",
    "deliveries list",
    f"deliveries show {_ID}",
    f"deliveries replay {_ID}",
    "logs",
    "logs 1",
    "logs --follow",
    "journal --follow",
    "sandbox show",
    "sandbox list",
    "sandbox create --env",
    "sandbox snapshot",
    "sandbox fork",
)
_ROW = {"id": 5, "status": None, "amount": "x", "createdAt": 7, "at": [], "attempts": 3, "request": {}}
_OF_ANOTHER_PROGRAM: dict[str, bytes] = {
    "a page": b"<html></html>",
    "nothing": b"",
    "no object": b"null",
    "no list": b'"data"',
    "no field": b"{}",
    "fields of other types": json.dumps({"data": [_ROW], "next": None, **_ROW}).encode(),
    "too deep": b"[" * 100_000,
}


@pytest.mark.parametrize("body", _OF_ANOTHER_PROGRAM.values(), ids=_OF_ANOTHER_PROGRAM)
def test_a_server_that_is_no_leyden_is_an_error_of_one_line_of_each_command(leyden: Leyden, body: bytes) -> None:
    with handling(answering(body)) as url:
        for command in _COMMANDS:
            done = leyden(*command.split(), "--url", url)
            assert done.returncode == 1, (command, done)
            [line] = done.stderr.splitlines()
            assert "check the URL" in line or "ended" in line, (command, line)


@pytest.mark.parametrize(
    "command", ["charges list --all", "charges list --all --json", "journal --all --json", "logs --all"]
)
def test_pages_that_repeat_end_a_command(leyden: Leyden, command: str) -> None:
    entry = {"sequence": 3, "at": "2030-01-01T00:00:00.000Z", "kind": "x", "facts": {}}
    body = [entry] if command.startswith("journal") else {"data": [], "next": "again"}
    with handling(answering(json.dumps(body).encode())) as url:
        done = leyden(*command.split(), "--url", url)
    assert done.returncode == 1
    assert "again and again" in done.stderr.splitlines()[-1]


def test_a_replay_says_how_many_deliveries_it_does_not_list(leyden: Leyden) -> None:
    with handling(answering(json.dumps({"replayed": 1_050, "ids": ["a", "b"]}).encode())) as url:
        printed = leyden("deliveries", "replay", "--all", "--url", url).stdout.splitlines()
    assert printed == ["replayed: 1,050", "  a", "  b", "  and 1,048 more"]


def test_what_is_left_out_of_an_answer_is_found_with_the_command_that_is_named(leyden: Leyden) -> None:
    fired = {"at": "2030-01-01T00:00:00.000Z", "kind": "charge_expiry", "id": "a"}
    moved = {"now": fired["at"], "fired": [fired], "count": 1_001, "from": fired["at"], "to": fired["at"]}
    with handling(answering(json.dumps(moved).encode())) as url:
        printed = leyden("advance", "1h", "--url", url)
    assert printed.stdout.splitlines()[-1] == "and 1,000 more: leyden journal --all lists what happened", printed


def test_a_number_of_an_entry_that_is_none_is_a_wrong_argument(leyden: Leyden) -> None:
    assert "--after: 'x' is not the number of an entry" in refusal(
        leyden, "journal", "--follow", "--after", "x", status=2
    )
