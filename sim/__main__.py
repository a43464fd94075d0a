"""The command line: `python -m leyden` is `leyden`."""

from __future__ import annotations

import os
import sys

# Nothing else is imported here: an interrupt before `main` would be shown as a traceback.
TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

_CHECKS = ("conformance", "fuzz", "replay", "adapter", "receiver-check", "client-check")


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command and return its exit status: 0 for success, 1 for a failure, 2 for wrong arguments.

    A file that cannot be used is a wrong argument, and so is a standard output that cannot be written.

    The checks return 3 when they could not check everything, or could not test the target. An interrupt is the regular
    end of what runs until then; any other command has not done what it was to do. Without `arguments` it is the command
    of the process: SIGTERM and SIGHUP interrupt it as SIGINT does, and none interrupts the end of the process.
    """
    is_process = arguments is None
    given = list(sys.argv[1:] if arguments is None else arguments)
    try:
        status = _run(list(given), is_process=is_process)
    except (KeyboardInterrupt, RuntimeError) as error:
        # Before Python 3.12 one that comes while a class sets the names of its members is the cause of a RuntimeError.
        if isinstance(error, RuntimeError) and not isinstance(error.__cause__, KeyboardInterrupt):
            raise
        status = _interrupted(given)
        # CPython notes an interrupt that leaves an `exec` of a text, as a dataclass has one, and ends the process by
        # SIGINT then, whatever its exit status. Another `exec` clears the note.
        exec("")
    if is_process:
        from leyden.files.standard_streams import discard_output
        from leyden.server.system.stop_signals import ignore_stop_signals

        ignore_stop_signals()
        discard_output()
        # Not imported: a command without such work has no thread of it.
        threads = sys.modules.get("leyden.server.system.work_threads")
        if threads is not None and threads.is_working():
            os._exit(status)
    return status


def _interrupted(given: list[str]) -> int:
    if given[:1] in (["serve"], ["listen"]) or "--follow" in given:
        return 0
    print("leyden: interrupted before the end", file=sys.stderr)
    return 3 if given[:1] and given[0] in _CHECKS else 1


def _run(given: list[str], *, is_process: bool) -> int:
    # Imported here, because an interrupt during the imports ends the command as quietly as a later one.
    from leyden.server.system.stop_signals import interrupt_on_stop_signals, is_stopping, stop_signals_held

    was_stopping = is_stopping()
    if is_process or given[:1] == ["serve"]:
        interrupt_on_stop_signals()  # before a port is opened: a client that was accepted may stop the server
    if "orjson" not in sys.modules:
        with stop_signals_held():
            import orjson  # noqa: F401
    from leyden.commands.catalogue import COMMANDS, build_parser
    from leyden.errors import MissingExtra
    from leyden.files.standard_streams import all_written, discard_output, guard_streams
    from leyden.server.errors import OPEN_MORE_FILES, TOO_MANY_FILES, LeydenError
    from leyden.server.printable import printable_lines

    if is_process:
        guard_streams()
    if given[:1] == ["--version"]:
        given[0] = "version"
    parser = build_parser(*[name for name in given[:1] if name in COMMANDS])
    prog = parser.prog
    try:
        with all_written():
            options = parser.parse_args(given)
            if options.command is None:
                parser.print_help()
                return 2
            prog = options.parser.prog
            return int(options.run(options))
    except MissingExtra as error:
        text = printable_lines(str(error))
        print(text if text.startswith(f"{prog} ") else f"{prog}: {text}", file=sys.stderr)
        return 1
    except LeydenError as error:
        if given[:1] != ["serve"] and is_stopping() and not was_stopping:
            raise KeyboardInterrupt from None  # a library may have made another error of the interrupt
        print(f"{prog}: {printable_lines(str(error))}", file=sys.stderr)
        return error.exit_status
    except BrokenPipeError:  # the reader of what prints until it is ended has left
        discard_output()
        return 0
    except OSError as error:
        if error.errno not in TOO_MANY_FILES:
            raise
        print(f"{prog}: {error.strerror}: {OPEN_MORE_FILES}", file=sys.stderr)
        return 2


if __name__ == "__main__":
    sys.exit(main())
