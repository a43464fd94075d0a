"""A run: steps that are done to the target and to the model; after each step the two are compared."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from traceback import walk_tb

from leyden.files.json_files import WRONG_DATA
from leyden.harness.checks.violations import ContractViolation
from leyden.harness.executors import hosted, lnurl, machine, requests, service, whole, world
from leyden.harness.model.records import Charge
from leyden.harness.session.journal import check_journal
from leyden.harness.session.observe import check_deliveries, check_everything, check_received_requests
from leyden.harness.session.session import Session
from leyden.harness.steps import Step, StepImpossible, public_functions
from leyden.harness.targets.adapter import TargetError
from leyden.server.errors import LeydenError
from leyden.server.printable import printable

_HARNESS = Path(__file__).parents[1]
# An executor does the step of its name, first to the model and then to the service, and compares the results. If what
# the step refers to does not exist, it raises `StepImpossible` without any effect: any subset of a case is a case.
EXECUTORS: Mapping[str, Callable[[Session, Step], None]] = public_functions(
    hosted, lnurl, machine, requests, service, whole, world
)


class Run(Session):
    """A session that does steps."""

    def do(self, step: Step) -> bool:
        """Do one step and compare. Returns False, without any effect, if what the step refers to does not exist.

        Raises `ContractViolation`, `TargetError` for an answer that cannot be read, and `KeyError` for an unknown `do`.
        """
        self.delivery_cache.clear()
        try:
            self._records = True
            with self._reading():
                EXECUTORS[step["do"]](self, step)
            self._records = False
            self.done += 1
            with self._reading():
                self.catch_up()
            if "obligation" in step:
                self.reached["obligation", step["obligation"]] = None
        except StepImpossible:
            self._records = False
            return False
        except (ContractViolation, TargetError):
            raise
        except Exception as error:  # the service in process raised it, and did not respond
            if not self._is_from_service(error):
                raise
            text = f"{type(error).__name__}: {error}"
            raise ContractViolation("errors_are_problems", "statuses", step["do"], "a response", text) from error
        return True

    def do_within(self, step: Step) -> None:
        """Do a step within another one, if what it refers to exists."""
        self.delivery_cache.clear()
        with suppress(StepImpossible):
            EXECUTORS[step["do"]](self, step)
        records, self._records = self._records, False
        self.catch_up()
        self._records = records

    @staticmethod
    def _is_from_service(error: BaseException) -> bool:
        """Whether the service in process raised an exception, and not the harness itself."""
        files = [Path(frame.f_code.co_filename) for frame, _ in walk_tb(error.__traceback__)]
        return _HARNESS not in files[-1].parents and _HARNESS / "targets" in [file.parent for file in files]

    def catch_up(self) -> None:
        """Let the model do what is due now, and check every resource that this step has changed."""
        model = self.model
        model.advance_to(model.now)
        changed, model.changed = model.changed, {}
        for resource in changed:
            self.check_resource(resource)
            if isinstance(resource, Charge):
                check_deliveries(self, resource)
        for host in model.outbox.receivers_reached:
            check_received_requests(self, host)
        model.outbox.receivers_reached.clear()
        for item in model.reached():
            self.reached[item] = None

    def final_checks(self) -> None:
        """Compare every resource and delivery, the lists, the balances and the clock. Raises `ContractViolation`."""
        self.delivery_cache.clear()
        with self._reading():
            check_everything(self)
            if self.target.controlled and ("policy", "restart", "resumed") not in self.reached:
                check_journal(self)  # a restart begins another journal

    @contextmanager
    def _reading(self) -> Iterator[None]:
        """Raises `TargetError` where an answer over the network, which every check has passed, cannot be read."""
        before = self.last
        try:
            yield
        except WRONG_DATA as error:
            if not self.target.network or isinstance(error, LeydenError) or self.last in (None, before):
                raise
            (request, response), hide = self.last, self.target.without_secrets
            body = hide(response.body.decode("utf-8", "replace"))[:100]
            why = f"{type(error).__name__}: {hide(str(error))[:100]}"
            raise TargetError(printable(
                f"{self.target.name}: the answer to {request.method} {hide(request.path)[:200]} cannot be read ({why}):"
                f" {response.status} {body}"
            )) from error  # fmt: skip
