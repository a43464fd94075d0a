"""The command line: `python -m leyden` is `leyden`."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence

_CHECKS = ("conformance", "fuzz", "replay", "adapter", "receiver-check", "client-check")


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command and return its exit status: 0 for success, 1 for a failure, 2 for wrong arguments.

    A file that cannot be used is a wrong argument.

    The checks return 3 when they could not check everything, or could not test the target. An interrupt is the regular
    end of what runs until then; any other command has not done what it was to do.
    """
    given = list(sys.argv[1:] if arguments is None else arguments)
    try:
        return _run(list(given))
    except KeyboardInterrupt:
        if given[:1] in (["serve"], ["listen"]) or "--follow" in given:
            return 0
        print("leyden: interrupted before the end", file=sys.stderr)
        return 3 if given[:1] and given[0] in _CHECKS else 1


def _run(given: list[str]) -> int:
    # Imported here, because an interrupt during the imports ends the command as quietly as a later one. A server ends
    # as quietly by SIGTERM, from here on.
    if "orjson" not in sys.modules:
        from leyden.server.system.stop_signals import stop_signals_held

        with stop_signals_held():
            import orjson  # noqa: F401
    if given[:1] == ["serve"]:
        from leyden.server.system.stop_signals import interrupt_on_stop_signals

        interrupt_on_stop_signals()
    from leyden.commands.catalogue import COMMANDS, build_parser
    from leyden.errors import MissingExtra
    from leyden.server.errors import LeydenError
    from leyden.server.printable import printable_lines

    if given[:1] == ["--version"]:
        given[0] = "version"
    parser = build_parser(*[name for name in given[:1] if name in COMMANDS])
    options = parser.parse_args(given)
    if options.command is None:
        parser.print_help()
        return 2
    try:
        return int(options.run(options))
    except MissingExtra as error:
        print(error, file=sys.stderr)
        return 1
    except LeydenError as error:
        print(f"{options.parser.prog}: {printable_lines(str(error))}", file=sys.stderr)
        return error.exit_status
    except BrokenPipeError:
        # The reader of our output closed the pipe (`leyden table | head`).
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0


if __name__ == "__main__":
    sys.exit(main())
