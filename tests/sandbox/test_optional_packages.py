"""Without the packages of the extras the sandbox works, and what needs one of them says so in one line."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from leyden import Sandbox
from leyden.world.config import packaged_contract
from tests.support.optional_api import CORE_API, OPTIONAL_API
from tests.support.served import served_leyden

ABSENT = """
import importlib.abc, sys

ABSENT = set(
    "pandas numpy scipy matplotlib nbformat jupyterlab segno loky tqdm hypothesis schemathesis freezegun".split()
)

class Absent(importlib.abc.MetaPathFinder):
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] in ABSENT:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)

sys.meta_path.insert(0, Absent())
import leyden
import leyden.extras

leyden.extras.is_installed = lambda package: package not in ABSENT
import leyden.sandbox.collections

leyden.sandbox.collections.is_installed = leyden.extras.is_installed
"""

PROGRAM = f"""
{ABSENT}
sb = leyden.Sandbox(seed=7)
charge = sb.charges.create(amount="1000", description="tea", callbackUrl="http://shop.localhost/paid")
for expression in {CORE_API!r}:
    eval(expression)
for expression, named, package, extra in {[tuple(each) for each in OPTIONAL_API]!r}:
    try:
        eval(expression)
    except leyden.errors.MissingExtra as missing:
        install = f'pip install "leyden[{{extra}}]", or in a checkout pip install ".[{{extra}}]"'
        assert str(missing) == f"{{named}} needs {{package}}: {{install}}", str(missing)
    else:
        raise AssertionError(expression)
assert not ABSENT & {{name.split(".")[0] for name in sys.modules}}
"""


# Every operation of both control planes with each example of its body, on a sandbox that has one of each thing.
OPERATIONS = (
    ABSENT
    + """
import http.client, json
from pathlib import Path
from leyden.server.version import VERSION
from leyden.world.config import packaged_contract

sb = leyden.Sandbox(seed=7)
hook = "http://shop.localhost/paid"
charge = sb.charges.create(amount="1000", description="tea", callbackUrl=hook)
tips = sb.static_charges.create(minAmount="1000", maxAmount="5000", description="tips", allowedSlots=3)
held = sb.wallet("ana").pay(charge, outcome="hold")
sb.wallet("ana").pay(sb.charges.create(amount="1000", description="tea", callbackUrl=hook))
sb.run()
host, port = sb.serve().removeprefix("http://").split(":")

def send(method, path, body=None):
    connection = http.client.HTTPConnection(host, int(port), timeout=60)
    raw = body if body is None or isinstance(body, bytes) else json.dumps(body)
    connection.request(method, path, raw, {"apikey": "leyden", "content-type": "application/json"})
    answer = connection.getresponse()
    if path.endswith("/events"):
        return answer.status, ""
    return answer.status, answer.read().decode()

def id_of(path, body):
    status, text = send("POST", path, body)
    assert status in (200, 201), text
    found = json.loads(text)
    return found.get("id", found.get("data", [{}])[0].get("id"))

box = id_of("/sandbox/v1/sandboxes", {})
ids = {
    "payments": held.id, "charges": charge.id, "static-charges": tips.id, "name": "shop", "channel": "1",
    "deliveries": json.loads(send("GET", "/sandbox/v1/deliveries")[1])["data"][0]["id"], "sandboxes": box,
    "snapshots": id_of("/sandbox/v1/snapshots", {}),
}
send("POST", f"/sandbox/v1/sandboxes/{box}/snapshots", {})

def resolved(value, document):
    while isinstance(value, dict) and "$ref" in value:
        *_, kind, name = value["$ref"].split("/")
        value = document["components"][kind][name]
    return value

def filled(path):
    parts = path.split("/")
    for place, part in enumerate(parts):
        if part.startswith("{"):
            parts[place] = ids.get(part[1:-1]) or ids.get("/".join(parts[place - 1:place])) or "x"
    return "/".join(parts)

answers = []
for document in (packaged_contract("sandbox").document, packaged_contract("server").document):
    operations = [
        (operation, method.upper(), path)
        for path, item in document["paths"].items()
        for method, operation in item.items() if "operationId" in operation
    ]
    for operation, method, path in sorted(operations, key=lambda each: each[1] == "DELETE"):
        content = resolved(operation.get("requestBody", {"content": {}}), document)["content"]
        content = content.get("application/json", {})
        given = [resolved(each, document)["value"] for each in content.get("examples", {}).values()] or [None]
        if operation["operationId"] == "createSandbox":
            given.append({"network": "line:3"})
        if operation["operationId"] == "diffSandbox":
            given.append({"snapshot": "snapshot-1"})
        if operation["operationId"] == "search":
            path += "?text=tea"
        if operation["operationId"] == "openChannel":
            given.append({"peer": "bob", "capacity": "5000000000"})
        if operation["operationId"] == "importSandbox":
            given = [Path(sys.argv[1]).read_bytes()]
        for body in given:
            answers.append((operation["operationId"], *send(method, filled(path), body)))
print(json.dumps(answers))
"""
)


def test_the_control_planes_work_without_the_extras_and_say_which_one_is_missing(tmp_path: Path) -> None:
    with Sandbox(seed=7, network="line:3") as sandbox:
        sandbox.save(tmp_path / "network.json")
    program = [sys.executable, "-c", OPERATIONS, str(tmp_path / "network.json")]
    done = subprocess.run(program, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    answers = json.loads(done.stdout)
    assert {name for name, *_ in answers} == {
        name for plane in ("sandbox", "server") for name in packaged_contract(plane).operations
    }
    assert [(name, text) for name, status, text in answers if status == 500] == []
    succeeded = {name for name, status, _ in answers if status < 300}
    assert {"diffSandbox", "forkSandbox", "exportSandbox", "inspectCharge", "search"} <= succeeded
    refused = [(name, status, json.loads(text)["detail"]) for name, status, text in answers if "pip install" in text]
    needs = 'needs scipy: pip install "leyden[network]", or in a checkout pip install ".[network]"'
    assert refused == [
        ("createSandbox", 409, f"network='line:3' {needs}"),
        ("importSandbox", 409, f"the network of the body {needs}"),
    ]


COMMAND = ABSENT + "from leyden.__main__ import main\nsys.exit(main())\n"


@pytest.mark.parametrize("network", ["line:3", "map"])
def test_a_file_with_a_network_names_the_extra_and_nothing_else(network: str, tmp_path: Path) -> None:
    saved, data, own = tmp_path / "saved.json", tmp_path / "data", tmp_path / "own"
    with Sandbox(seed=7, network="line:3") as made:
        chosen = network if network == "line:3" else made.network.graph
        with Sandbox(seed=7, network=chosen, data=own) as sandbox:
            sandbox.save(saved)
        graph = tmp_path / "graph.json"
        graph.write_text("{}")
    with served_leyden("--data", str(data), "--network", "line:3"):
        pass
    extra = 'needs scipy: pip install "leyden[network]", or in a checkout pip install ".[network]"\n'
    for words, what in [
        (("replay", str(saved)), f"the network of {saved}"),
        (("serve", "--port", "0", "--data", str(data)), "network='line:3'"),
        (("serve", "--port", "0", "--network", str(graph)), f"--network {graph}"),
    ]:
        done = subprocess.run([sys.executable, "-c", COMMAND, *words], capture_output=True, text=True, check=False)
        assert (done.returncode, done.stdout, done.stderr) == (1, "", f"leyden {words[0]}: {what} {extra}")
    for call, what in [
        (f".load({str(saved)!r})", f"the network of {saved}"),
        (f"(data={str(own)!r})", "network='line:3'" if network == "line:3" else "the saved network"),
    ]:
        program = [sys.executable, "-c", f"{ABSENT}leyden.Sandbox{call}"]
        done = subprocess.run(program, capture_output=True, text=True, check=False)
        assert done.stderr.endswith(f"leyden.errors.MissingExtra: {what} {extra}")


def test_the_sandbox_works_without_the_extras_and_says_which_one_is_missing() -> None:
    done = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_the_packages_of_the_extras_are_not_imported_with_the_sandbox() -> None:
    program = "import sys; from leyden import Sandbox; Sandbox(); print(*{name.split('.')[0] for name in sys.modules})"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert not {each.package for each in OPTIONAL_API} & set(done.stdout.split())
