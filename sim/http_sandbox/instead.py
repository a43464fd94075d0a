"""What takes the place over HTTP of the attributes that only the objects of a sandbox in process have."""

from __future__ import annotations

# A copy of the served sandbox in this process has everything that looks at a state.
_COPY = "leyden.Sandbox.from_snapshot(sandbox.export())"
_STATE = (
    "action_log", "attempts", "balances", "callbacks", "facts", "htlcs", "kpi", "kpis", "lifecycle", "liquidity",
    "outages", "plot", "schedule", "table",
)  # fmt: skip
_IN_PROCESS = "it calls or runs code of this process, so only leyden.Sandbox has it; over HTTP "
_MOVE = _IN_PROCESS + 'move time to the instant with advance_to(when) or run("next_event"), and act then'

# The ends of errors: by the name of the attribute, or by the class and the name.
INSTEAD = {
    **{name: f"copy the present state into this process, {_COPY}.{name} shows it" for name in _STATE},
    "HttpSandbox.attempts": f"deliveries() has those of callbacks; those of a payment are at"
    f" /sandbox/v1/payments/ID/attempts, and all in a table {_COPY}.attempts",
    "HttpCharge.lifecycle": f"it is a drawing: {_COPY}.charges[id].lifecycle draws it",
    "HttpStaticCharge.lifecycle": f"it is a drawing: {_COPY}.static_charges[id].lifecycle draws it",
    "HttpCollection.table": f"a table of the present state is {_COPY}.charges.table or .static_charges.table",
    "HttpSandbox.callbacks": f"deliveries() has them with their attempts; a table of them is {_COPY}.callbacks",
    "HttpSandbox.facts": f"journal() has all entries; a table of one kind is {_COPY}.facts(kind)",
    "HttpSandbox.schedule": f'ask("GET", "/sandbox/v1/clock/due") has what is due; a table of it is {_COPY}.schedule',
    "action_log": 'the server records no Python: ask("GET", "/sandbox/v1/requests") has the requests that it got',
    "script": 'the server records no Python: ask("GET", "/sandbox/v1/requests") has the requests that it got',
    "notebook": f"the server records no Python: open a copy of the state, {_COPY}, and look at its tables",
    "app": "the server answers at sandbox.url: send the requests there, or call ask(method, path)",
    "http": "the server answers at sandbox.url: send the requests there, or call ask(method, path)",
    "request": "call ask(method, path, body), which returns the JSON of the response and raises ApiError for a refusal",
    "serve": "it is served already, at sandbox.url",
    "at": _MOVE,
    "every": _MOVE,
    "scheduled": _MOVE,
    "cancel": f"{_MOVE}; a held payment has cancel()",
    "traffic": _IN_PROCESS + "payers.add() adds payers that pay by themselves",
    "close": "call delete(), which ends it on the server",
    "from_snapshot": "give the state to ask of the server: POST /sandbox/v1/sandboxes/import makes a sandbox of it",
    "load": "give the file to the server: POST /sandbox/v1/sandboxes/import, or the command leyden sandbox import FILE",
    "network": 'ask("GET", "/sandbox/v1/network/nodes") has the nodes, and the paths below it and below'
    " /sandbox/v1/network/channels and /sandbox/v1/network/interceptors change the network",
    "set_egress": "a server of Sandbox.serve() follows set_egress() of that Sandbox, in its program and at any time;"
    " leyden serve takes --egress and --egress-allow at its start; a fork sends nothing without egress of fork()",
    "step": 'run("next_event") runs all events of the next instant',
    "session": f"it is inside of leyden.Sandbox; {_COPY} has the state",
    "world": f"it is inside of leyden.Sandbox; {_COPY} has the state",
    "invoice": "its payment request is .request, and leyden.lightning.bolt11.codec.decode reads it",
    "qr": f"its payment request is .request, and {_COPY} draws that of the same id",
    "sequence": f"it is a drawing: {_COPY} draws that of the same id",
    "timeline": f"it is a drawing: {_COPY} draws that of the same id",
    "hits": 'the number of hits is the field "hits" of each, and journal() has their entries',
    "HttpWallet.payments": "HttpSandbox.payments() has those of all wallets",
    "HttpPayment.outcome": "its status is .status, and the cause of a failure .reason",
    "HttpPayment.row": "its fields are .data",
    "behaves": "answers(), always() and faults.add() change what it answers",
    "use_secret": "it verifies with the secrets of the sandbox; rotate them by POST /sandbox/v1/webhook-secret/rotate",
}
