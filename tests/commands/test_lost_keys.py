"""A command that made a sandbox and cannot print its key names the sandbox, and the command that ends it."""

from __future__ import annotations

import argparse
import io
import sys

import orjson
import pytest

from leyden.commands.served.sandbox_output import print_new
from leyden.files.standard_streams import OutputError


class Full(io.StringIO):
    def __init__(self, error: Exception) -> None:
        super().__init__()
        self._error = error

    def flush(self) -> None:
        raise self._error


@pytest.mark.parametrize("error", [OutputError("standard output cannot be written (no space): x"), BrokenPipeError()])
@pytest.mark.parametrize("as_json", [False, True])
def test_the_error_names_the_sandbox_whose_key_is_lost(
    error: Exception, as_json: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "stdout", Full(error))
    options = argparse.Namespace(env=True, json=as_json, url="http://127.0.0.1:8402")
    raw = orjson.dumps({"id": "sandbox-1", "url": "http://127.0.0.1:8402/sandboxes/sandbox-1", "apiKey": "k"})
    with pytest.raises(OutputError) as refused:
        print_new(options, raw)
    assert "`leyden sandbox delete sandbox-1 --url http://127.0.0.1:8402` ends it" in str(refused.value)
