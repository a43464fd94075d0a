"""Exports of a case that only its target has: programs that run the steps there again, with the ids of its answers.

Each reads the environment: LEYDEN_TARGET and LEYDEN_ADAPTER replace those of the case, LEYDEN_API_KEY and
LEYDEN_SECOND_API_KEY are the API keys, which no case contains.
"""

from __future__ import annotations

from pprint import pformat

from leyden.harness.runs.cases import Case
from leyden.harness.runs.describe import describe_step
from leyden.harness.targets.adapter import NO_ADAPTER, is_relative
from leyden.lab.actions.source_text import comment
from leyden.lab.notebook_writer import CODE, MARKDOWN, Cell, document, dumps, plain
from leyden.server.printable import printable
from leyden.server.version import VERSION

_WRITTEN_BY = comment(f"Written by Leyden {VERSION}.")
_ENVIRONMENT = (
    "LEYDEN_API_KEY and LEYDEN_SECOND_API_KEY are the API keys.\n"
    "LEYDEN_TARGET and LEYDEN_ADAPTER replace those of the case."
)
_IMPORTS = "import os\n\nfrom leyden.harness.runs.at_target import target_of\n"


def runs_at_target(case: Case) -> bool:
    """Whether the case has a violation that only its target has."""
    return not case.is_reproduced and case.target != ""


def head(case: Case) -> str:
    """The comment about what the exported file reads and runs."""
    has_adapter = case.adapter not in ("", NO_ADAPTER)
    program = f"This runs the adapter {printable(case.adapter)}, a program." if has_adapter else ""
    return comment(f"{program}\n{_ENVIRONMENT}".strip())


def pytest_at_target(case: Case, title: str) -> str:
    """A pytest file that fails with the report as long as the target has the violation. A relative path of the adapter
    is from the folder of the file."""
    file = ", __file__" if is_relative(case.adapter) else ""
    return (
        f"{comment(title)}\n#\n{comment(case.describe())}\n#\n{head(case)}\n{_WRITTEN_BY}\n\n"
        f"{_IMPORTS}from leyden.harness.runs.cases import read_case, replay\n\n"
        f"{_case(case)}\n\n\n"
        "def test_there_is_no_violation():\n"
        "    case = read_case(CASE)\n"
        f"    replay(case, target_of(case, os.environ{file})).check()\n"
    )


def notebook_at_target(case: Case, title: str) -> str:
    """A notebook with a cell for each step, which prints its requests and responses. The cell of the violation fails
    as long as the target has it."""
    report = "\n".join(f"    {printable(line)}".rstrip() for line in case.describe().split("\n"))
    cells = [
        Cell(MARKDOWN, f"# {plain(title)}\n\n{report}"),
        Cell(
            CODE,
            f"{head(case)}\n{_WRITTEN_BY}\n{_IMPORTS}from leyden.harness.runs.at_target import PrintedRun\n"
            f"from leyden.harness.runs.cases import read_case\n\n{_case(case)}\n"
            "case = read_case(CASE)\nrun = PrintedRun(case, target_of(case, os.environ))",
        ),
    ]
    for number, step in enumerate(case.steps):
        cells.append(Cell(CODE, f"{comment(describe_step(step))}\nrun.do(case.steps[{number}])"))
    cells.append(Cell(CODE, "run.finish()"))
    return dumps(document(cells))


def _case(case: Case) -> str:
    return f"CASE = {pformat(case.document(), width=116, sort_dicts=False)}"
