"""The parts of the Python API that need a package from an extra: an expression, what the error names, package, extra.

In an expression `sb` is a sandbox with direct payments, `charge` one of its Charges, `leyden` the package.
"""

from __future__ import annotations

from typing import NamedTuple


class Optional(NamedTuple):
    """One expression that raises `MissingExtra` without `package`."""

    expression: str
    named: str
    package: str
    extra: str


OPTIONAL_API = (
    Optional("sb.charges.table", "sb.charges.table", "pandas", "lab"),
    Optional('sb.charges[["status"]]', "sb.charges.table", "pandas", "lab"),
    Optional("sb.static_charges.table", "sb.static_charges.table", "pandas", "lab"),
    *(
        Optional(f"sb.{name}", f"sb.{name}", "pandas", "lab")
        for name in ("payments", "attempts", "htlcs", "deliveries", "callbacks", "balances", "outages", "journal")
    ),
    Optional('sb.table("charges")', "sb.charges", "pandas", "lab"),
    Optional('sb.facts("created")', "sb.facts()", "pandas", "lab"),
    Optional("sb.diff(sb)", "sb.diff()", "pandas", "lab"),
    Optional('sb.kpi.by("1h")', "kpi.by()", "pandas", "lab"),
    Optional('sb.notebook("case.ipynb")', "sb.notebook()", "nbformat", "lab"),
    Optional("charge.qr()", "qr()", "segno", "lab"),
    *(
        Optional(f"sb.plot.{name}()", f"sb.plot.{name}()", "matplotlib", "lab")
        for name in ("conversion", "settle_times", "liquidity", "retries", "success_by_amount")
    ),
    Optional('leyden.plot_sweep(None, "conversion", x="expiresIn")', "plot_sweep()", "matplotlib", "lab"),
    Optional("leyden.sweep(dict, leyden.grid(x=[1]))", "sweep()", "pandas", "lab"),
    Optional('leyden.Sandbox(network="line:4")', "network='line:4'", "scipy", "network"),
)

# What works without any of these packages.
CORE_API = (
    "repr(sb)",
    "sb._repr_html_()",
    "repr(sb.charges)",
    "sb.charges._repr_html_()",
    "charge.status",
    "charge.invoice.decode()",
    "charge.timeline()",
    "charge.sequence()",
    "charge.lifecycle()",
    'sb.lifecycle("Charge")',
    "sb.schedule()",
    "sb.liquidity()",
    'sb.wallet("ana").pay(charge)',
    'sb.receiver("shop").answers([500, 200])',
    'sb.faults.add("drop")',
    'sb.traffic("30/min", count=2)',
    'sb.advance("10m")',
    'repr(sb.receiver("shop").inbox)',
    "repr(sb.kpi)",
    "repr(sb.plot)",
    "sb.kpi.conversion",
    "sb.fork()",
    "sb.script()",
    "leyden.Sandbox.from_snapshot(sb.snapshot())",
    "sb.journal_hash",
    'sb.http.get("/v0/charges").raise_for_status()',
    "leyden.grid(x=[1])",
)
