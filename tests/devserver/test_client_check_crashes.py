"""Uncaught exceptions are recognised in what the runtimes write. The files were written by CPython 3.11, Node.js 20 and
OpenJDK 17; the texts below follow the documented formats of the other runtimes.
"""

from __future__ import annotations

import pytest

from leyden.devserver.client_check.crashes import exit_text, find_crash, is_misuse, json_error
from tests.support.served import ROOT

OUTPUTS = ROOT / "tests" / "devserver" / "client_outputs"

# The message of each file; None for an exception that the program caught and printed.
CAPTURED = {
    "java_handled": None,
    "java_http_error": "java.lang.IllegalStateException: HTTP 503",
    "java_thread": "java.lang.RuntimeException: in a thread",
    "java_wrapped": "java.lang.RuntimeException: no charge (java.net.SocketException: Connection reset)",
    "node_aggregate": "[AggregateError: All promises were rejected]",
    "node_bundle": "TypeError: Cannot read properties of undefined (reading 'id')",
    "node_empty": "SyntaxError: Unexpected end of JSON input",
    "node_error_body": "TypeError: Cannot read properties of undefined (reading 'id')",
    "node_handled": None,
    "node_html": "SyntaxError: Unexpected token '<', \"<html>",
    "node_html_text": "SyntaxError: Unexpected token '<', \"<html>",
    "node_object": "{ status: 503 }",
    "node_reject": "unhandled rejection: no charge",
    "node_rejection": "Error: HTTP 503 for POST /v0/charges",
    "node_reset": "TypeError: fetch failed (Error: read ECONNRESET)",
    "node_stream": "Error: read ECONNRESET",
    "node_string": "no charge",
    "python_empty": "json.decoder.JSONDecodeError: Expecting value: line 1 column 1 (char 0)",
    "python_error_body": "KeyError: 'data'",
    "python_group": "ExceptionGroup: unhandled errors in a TaskGroup (1 sub-exception)"
    " (urllib.error.HTTPError: HTTP Error 503: Service Unavailable)",
    "python_handled": None,
    "python_html": "json.decoder.JSONDecodeError: Expecting value: line 1 column 1 (char 0)",
    "python_http_error": "urllib.error.HTTPError: HTTP Error 503: Service Unavailable",
    "python_reset": "ConnectionResetError: [Errno 104] Connection reset by peer",
    "python_thread": "urllib.error.HTTPError: HTTP Error 503: Service Unavailable",
    "python_wrapped": "RuntimeError: no charge",
}
OF_A_JSON_PARSER = {"node_empty", "node_html", "node_html_text", "python_empty", "python_html"}
OF_A_MISSING_VALUE = {"node_bundle", "node_error_body", "python_error_body"}

DOCUMENTED = {
    "Ruby": (
        "client.rb:9:in `post': 503 Service Unavailable (OpenURI::HTTPError)\n\tfrom client.rb:14:in `<main>'\n",
        "OpenURI::HTTPError: 503 Service Unavailable",
    ),
    "Ruby 3.4": (
        "client.rb:3:in 'JSON::Ext::Parser.parse': unexpected character (JSON::ParserError)\n"
        "\tfrom client.rb:3:in '<main>'\n",
        "JSON::ParserError: unexpected character",
    ),
    "Ruby at the top": (
        "client.rb:1:in `<main>': no charge (RuntimeError)\n",
        "RuntimeError: no charge",
    ),
    "Go": (
        "panic: runtime error: invalid memory address or nil pointer dereference\n"
        "[signal SIGSEGV: segmentation violation code=0x1 addr=0x0 pc=0x47]\n\ngoroutine 1 [running]:\nmain.main()\n"
        "\t/app/main.go:8 +0x1d\nexit status 2\n",
        "runtime error: invalid memory address or nil pointer dereference",
    ),
    "PHP": (
        "PHP Fatal error:  Uncaught JsonException: Syntax error in /app/client.php:4\nStack trace:\n"
        "#0 /app/client.php(4): json_decode()\n#1 {main}\n  thrown in /app/client.php on line 4\n",
        "JsonException: Syntax error in /app/client.php:4",
    ),
    ".NET": (
        "Unhandled exception. System.Net.Http.HttpRequestException: An error occurred while sending the request.\n"
        " ---> System.IO.IOException: Unable to read data\n   at Program.<Main>$(String[] args)\n",
        "System.Net.Http.HttpRequestException: An error occurred while sending the request."
        " (System.IO.IOException: Unable to read data)",
    ),
    "Rust": (
        "thread 'main' panicked at src/main.rs:7:47:\ncalled `Result::unwrap()` on an `Err` value: Status(503)\n"
        "note: run with `RUST_BACKTRACE=1` environment variable to display a backtrace\n",
        "called `Result::unwrap()` on an `Err` value: Status(503)",
    ),
    "Deno": (
        "error: Uncaught (in promise) SyntaxError: Unexpected end of JSON input\n    at parse (<anonymous>)\n",
        "SyntaxError: Unexpected end of JSON input",
    ),
    "rich": (
        "╭─── Traceback (most recent call last) ───╮\n│ /app/client.py:9 in main │\n╰─────────────────╯\n"
        "HTTPStatusError: Server error '503 Service Unavailable'\n",
        "HTTPStatusError: Server error '503 Service Unavailable'",
    ),
    "python -m": (
        'Traceback (most recent call last):\n  File "<frozen runpy>", line 198, in _run_module_as_main\n'
        '  File "/app/client.py", line 3, in <module>\nValueError: no charge\n',
        "ValueError: no charge",
    ),
}  # fmt: skip

NONE = {
    "a message": "the charge was not created: HTTP 503\n",
    "a logged Ruby exception": "E, ERROR -- : client.rb:9:in `post': 503 (OpenURI::HTTPError)\n",
    "a Go program that ends itself": "2026/01/01 10:00:00 unexpected end of JSON input\nexit status 1\n",
    "the version of Node.js": "Node.js v20.20.2\n",
    "a PHP warning": "PHP Warning:  Undefined variable $x in /app/client.php on line 3\n",
}


@pytest.mark.parametrize("name", CAPTURED)
def test_the_message_of_a_captured_output(name: str) -> None:
    output = (OUTPUTS / f"{name}.txt").read_text()
    crash = find_crash(f"a line before\n{output}", 1)
    assert (None if crash is None else crash.text) == CAPTURED[name]
    assert (json_error(output) is not None) == (name in OF_A_JSON_PARSER)
    if crash is not None:
        assert is_misuse(crash) == (name in OF_A_JSON_PARSER | OF_A_MISSING_VALUE)


def test_every_captured_output_has_a_message() -> None:
    assert {file.stem for file in OUTPUTS.iterdir()} == CAPTURED.keys()


@pytest.mark.parametrize("runtime", DOCUMENTED)
def test_the_message_of_a_documented_format(runtime: str) -> None:
    output, message = DOCUMENTED[runtime]
    crash = find_crash(f"a line before\n{output}a line after\n", 1)
    assert crash is not None
    assert crash.text == message


@pytest.mark.parametrize("name", NONE)
def test_an_output_without_an_uncaught_exception(name: str) -> None:
    assert find_crash(NONE[name], 1) is None


def test_a_signal_is_a_crash() -> None:
    crash = find_crash("", -11)
    assert crash is not None
    assert crash.text == "signal SIGSEGV"
    assert is_misuse(crash)


def test_the_end_of_a_process_is_its_exit_status_or_the_signal() -> None:
    assert [exit_text(status) for status in (0, 3, -6, -100)] == [
        "exit status 0", "exit status 3", "signal SIGABRT", "signal 100",
    ]  # fmt: skip


@pytest.mark.parametrize(
    "line",
    [
        "requests.exceptions.JSONDecodeError: Expecting value: line 1 column 1 (char 0)",
        "aiohttp.ContentTypeError: 503, message='Attempt to decode JSON with unexpected mimetype: text/html'",
        "2026/01/01 10:00:00 invalid character '<' looking for beginning of value",
        "jq: parse error: Invalid numeric literal at line 1, column 6",
        "com.fasterxml.jackson.core.JsonParseException: Unexpected character ('<' (code 60))",
        "System.Text.Json.JsonException: '<' is an invalid start of a value.",
        "org.json.JSONException: A JSONObject text must begin with '{'",
    ],
)  # fmt: skip
def test_the_error_of_a_json_parser(line: str) -> None:
    assert json_error(f"before\n{line}\nafter") == line


@pytest.mark.parametrize(
    "text",
    [
        "the response is no JSON", "HTTP 503 from the service", "JSONError: not a Charge",
        "the response is not valid JSON (content-type text/html)", "HTTP 503: the answer is not valid JSON but HTML",
        "empty response, Unexpected end of JSON input avoided",
    ],
)  # fmt: skip
def test_a_message_of_the_program_is_no_error_of_a_json_parser(text: str) -> None:
    assert json_error(text) is None


@pytest.mark.parametrize("mark", ["      ^", " " * 1_020])
def test_a_line_of_source_is_no_error_of_a_json_parser(mark: str) -> None:
    source = "throw new ResponseError(503); // not SyntaxError: Unexpected end of JSON input"
    node = (
        f"file:///app/c.mjs:5\n{source}\n{mark}\n\nResponseError: status 503\n    at c.mjs:5:20\n\nNode.js v20.20.2\n"
    )
    python = (
        'Traceback (most recent call last):\n  File "/app/c.py", line 3, in <module>\n'
        "    raise NoCharge()  # JSONDecodeError: Expecting value\n          ^^^^^^^^\n__main__.NoCharge\n"
    )
    assert json_error(node) is None
    assert json_error(python) is None
