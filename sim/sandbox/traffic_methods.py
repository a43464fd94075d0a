"""The traffic of a sandbox, which its action log records."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from leyden.arguments import methods_with_hints
from leyden.lab.traffic import Rate, Traffic, Values, plain_arguments, start_traffic
from leyden.sandbox.resources import StaticCharge
from leyden.sandbox.session import Session
from leyden.sandbox.time.spans import Span


class RecordedTraffic(Traffic):
    """A traffic stream of a sandbox, whose `stop` is recorded in the action log."""

    def __init__(self, session: Session, traffic_id: str) -> None:
        super().__init__(session.world, traffic_id)
        self._session = session

    def stop(self) -> Traffic:
        """As `Traffic.stop`."""
        with self._session.record("stop", traffic=self.id):
            return super().stop()


@methods_with_hints
class TrafficMethods:
    """Simulated customers of a sandbox."""

    session: Session

    def traffic(
        self,
        rate: Rate = "30/min",
        *,
        amount: Values | None = "lognorm(250000, 1)",
        patience: Values | None = "lognorm(45s)",
        think_time: Values = "lognorm(15s)",
        expiresIn: Values = 300,
        behaviours: str | Mapping[str, float] = "pays",
        payers: int | str | Sequence[str] | Mapping[str, float] = 100,
        to: StaticCharge | str | None = None,
        returning: float = 0,
        return_after: Values = "exp(1d)",
        callbackUrl: str | None = None,
        description: str = "Traffic",
        duration: Span | None = "1d",
        count: int | None = None,
    ) -> Traffic:
        """Start a stream of customers, who arrive when time moves. `leyden.lab.traffic.traffic` has all details.

        rate:          when they come: "30/min", "daily(30/min, 8:1, 22:0)", "weekly(...)", "burst(20, 10m)", sums and
                       products of these, a mapping from instants to customers per minute, a function of the time
        amount:        msat; this and the next three: a text such as "pareto(1000, 1.2, 9e6)", values, weights, or a
                       function of a random stream
        patience:      a span; after it the customer leaves (None: never)
        think_time:    a span, from seeing the Charge to paying it
        expiresIn:     seconds, of each Charge
        behaviours:    "pays", or a choice of what customers do
        payers:        the wallets, of equal or unequal weight
        to:            a Static Charge, an LNURL or a Lightning address that they pay, instead of Charges of their own
        returning:     the share of the visits after which the customer comes back
        return_after:  a span, until then
        duration: the time in which they come (None: without end)
        count: their largest number

        Raises `DistributionError`.
        """
        given = {name: value for name, value in locals().items() if name != "self"}
        if isinstance(to, StaticCharge):
            given["to"] = to.id
        world = self.session.world
        with self.session.record("call", call="traffic", args=[], named={}) as facts:
            plain = plain_arguments(world, given)
            facts["args"] = [plain["rate"]]
            facts["named"] = {name: value for name, value in plain.items() if name != "rate"}
            facts["id"] = start_traffic(world, plain).id
        return RecordedTraffic(self.session, facts["id"])
