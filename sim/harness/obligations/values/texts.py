"""Lists of the harness's own: texts, dates and header values that implementations are known to confuse."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from urllib.parse import unquote_to_bytes

from leyden.harness.constants import CREDENTIAL

# Texts that a service must keep as they are, by what could change them.
TEXTS = {
    "empty": "",
    "blank": " ",
    "blank-before": " tea",
    "blank-after": "tea ",
    "tab-after": "tea\t",
    "line-end": "tea\n",
    "carriage-return": "te\r\na",
    "two-blanks": "te  a",
    "upper-case": "TEA",
    "dotless": "I\u0131i\u0130",
    "sharp-s": "stra\u00dfe",
    "composed": "caf\u00e9",
    "decomposed": "cafe\u0301",
    "ligature": "\ufb01n",
    "wide": "\uff54\uff45\uff41",
    "greek-final": "\u03a3\u03c3\u03c2",
    "combining-only": "\u0301",
    "emoji-joined": "\U0001f469\u200d\U0001f4bb",
    "outside-bmp": "\U0001d11e",
    "right-to-left": "\u202eabc",
    "zero-width": "te\u200ba",
    "no-break-space": "te\u00a0a",
    "byte-order-mark": "\ufefftea",
    "line-separator": "te\u2028a",
    "null-character": "te\u0000a",
    "control": "te\u001f\u007fa",
    "percent-encoded": "te%2Fa",
    "percent": "100%",
    "plus": "te+a",
    "ampersand": "te&a=b",
    "slash": "te/a",
    "question": "te?a#b",
    "quotes": "te\"a'b",
    "backslash": "te\\a\\n",
    "braces": "{0}{tea}${tea}%s",
    "markup": "<b>te&amp;a</b>",
    "number": "0",
    "digits": "007",
    "null-word": "null",
    "json": '{"a":[1]}',
    "semicolon": "te;a,b",
}
# URLs of receivers, by what could be read or written in another way.
URLS = tuple(
    text.replace("%40@", "@r3.inbox.localhost").replace("//@", "//r3.inbox.localhost")
    for text in (
        *(f"http://@:{port}/hook" for port in (1, 79, 80, 81, 442, 443, 444, 1023, 1024, 1025, 8080, 65534, 65535)),
        *(f"https://@:{port}" for port in (1, 80, 443, 1023, 1024, 65535)),
        *(f"http://@:{port}/" for port in (0, 65536, 99999, "00080", "8e1", "", "-1", "+80")),
        "http://@", "https://@", "http://@/", "http://@?", "http://@/?", "http://@?a=1", "http://@/a?b=c&b=d&e",
        "HTTP://@/", "hTTps://@/", "http://R3.INBOX.LocalHost/Hook", "http://@./hook", "http://@/a//b/", "http://@//",
        "http://@/a/../b/./c", "http://@/%7Ehook", "http://@/~hook", "http://@/%41%2f%2F", "http://@/a%20b?c=%26",
        "http://@/a+b?c+d", "http://@/a;b=c,d", "http://@/a:b%40c", "http://@/hook?url=http://x.y/",
        "http://@/" + "p" * 1_000, "http://@/?" + "q=1&" * 400, "http://@/(a)!*'$", "http://@/#", "http://@/a#b",
        *(f"{scheme}{user}%40@{rest}" for scheme, user, rest in (
            ("http://", f"ann:{CREDENTIAL}", "/hook"), ("https://", f"ann:{CREDENTIAL}", ""),
            ("http://", f":{CREDENTIAL}", "/"), ("http://", f"ann:{CREDENTIAL}:x", "/"),
            ("http://", f"ann:x:{CREDENTIAL}", "/"), ("ftp://", f"ann:{CREDENTIAL}", "/"),
            ("http://", f"ann:{CREDENTIAL}", ":99999/"), ("http://", f"ann:{CREDENTIAL}", "/a b"),
            ("http://", f"ann:{CREDENTIAL}", "/#x"), ("HTTP://", f"ann:{CREDENTIAL}", "?x"),
            ("http://", f"ann:x@{CREDENTIAL}", "/hook"), ("http://", f"ann:{CREDENTIAL}@x", "/hook"),
            ("http://", f"ann@x:{CREDENTIAL}", ":99999/"), ("//", f"ann:x@{CREDENTIAL}", "/"),
        )),
        "http://u:p%40@/hook", "http://[::1]:1024/", "http://[::1]/", "http://127.0.0.1:65535/", "http://127.1/",
        "http://2130706433/", "http://0x7f.1/", "ftp://@/", "//@/", "http:/@/", "http:@", " http://@/", "http://@/ ",
        "http://@ /", "http://@/a b", "http://@/\u00e9", "http://b\u00fccher.localhost/",
        "http://xn--bcher-kva.localhost/", "http://a_b.localhost/", "http://-a.localhost/", "http://a..localhost/",
    )
)  # fmt: skip
# For each instant a date-time of RFC 3339, by its form.
DATES = {
    "utc": "2030-01-01T00:00:02Z",
    "lower-case": "2030-01-01t00:00:02z",
    "fraction-1": "2030-01-01T00:00:02.7Z",
    "fraction-3": "2030-01-01T00:00:02.000Z",
    "fraction-6": "2030-01-01T00:00:02.000001Z",
    "fraction-9": "2030-01-01T00:00:01.999999999Z",
    "offset-plus": "2030-01-01T05:30:02+05:30",
    "offset-minus": "2029-12-31T19:00:02-05:00",
    "offset-zero": "2030-01-01T00:00:02+00:00",
    "offset-minus-zero": "2030-01-01T00:00:02-00:00",
    "offset-largest": "2030-01-01T23:59:02+23:59",
    "offset-24": "2030-01-02T00:00:02+24:00",
    "offset-60-minutes": "2030-01-01T01:00:02+00:60",
    "offset-hours": "2030-01-01T05:00:02+05",
    "offset-no-colon": "2030-01-01T05:30:02+0530",
    "offset-none": "2030-01-01T00:00:02",
    "date-only": "2030-01-01",
    "no-seconds": "2030-01-01T00:00Z",
    "blank-for-t": "2030-01-01 00:00:02Z",
    "basic": "20300101T000002Z",
    "leap-day": "2028-02-29T00:00:00Z",
    "no-leap-day": "2030-02-29T00:00:00Z",
    "leap-century": "2400-02-29T00:00:00Z",
    "no-leap-century": "2100-02-29T00:00:00Z",
    "february-30": "2028-02-30T00:00:00Z",
    "april-31": "2030-04-31T00:00:00Z",
    "december-31": "2030-12-31T23:59:59Z",
    "month-0": "2030-00-01T00:00:00Z",
    "month-13": "2030-13-01T00:00:00Z",
    "day-0": "2030-01-00T00:00:00Z",
    "hour-24": "2030-01-01T24:00:00Z",
    "minute-60": "2030-01-01T00:60:00Z",
    "second-61": "2030-01-01T00:00:61Z",
    "leap-second": "2029-12-31T23:59:60Z",
    "before-1970": "1969-12-31T23:59:59Z",
    "year-0001": "0001-01-01T00:00:00Z",
    "year-0000": "0000-01-01T00:00:00Z",
    "end-of-clock": "2999-12-31T23:59:59.999Z",
    "year-9999": "9999-12-31T23:59:59.999Z",
    "beyond-9999": "9999-12-31T23:59:59-01:00",
    "year-10000": "10000-01-01T00:00:00Z",
    "year-of-two-digits": "30-01-01T00:00:02Z",
    "unix-time": "1893456002",
    "blank-before": " 2030-01-01T00:00:02Z",
    "blank-after": "2030-01-01T00:00:02Z ",
    "fraction-empty": "2030-01-01T00:00:02.Z",
    "fraction-comma": "2030-01-01T00:00:02,5Z",
    "arabic-digits": "٢٠٣٠-01-01T00:00:02Z",
    "week": "2030-W01-2T00:00:02Z",
    "word": "now",
    "empty": "",
}
# Percent-encoded bytes that are no UTF-8 (RFC 3629): no lead byte, a lead byte alone, a cut or an overlong one, half
# of a surrogate pair or both in UTF-8, and a code point above the last; and some that are UTF-8.
BYTES: Mapping[str, str] = {
    "no-lead": "%80", "no-lead-and-text": "a%bfb", "never": "%ff%fe", "never-after-text": "tea%ff", "latin-1": "caf%e9",
    "two-bytes-cut": "%c3", "two-bytes-and-text": "%c3a", "three-bytes-cut": "%e2%82", "four-bytes-cut": "%f0%9f%98",
    "overlong-2": "%c0%af", "overlong-2-letter": "%c1%a1", "overlong-3": "%e0%80%af", "overlong-4": "%f0%80%80%af",
    "overlong-null": "%c0%80", "high-surrogate": "%ed%a0%80", "low-surrogate": "%ed%bf%bf",
    "surrogate-pair": "%ed%a0%bd%ed%b8%80", "above-last": "%f4%90%80%80", "five-bytes": "%f8%88%80%80%80",
    "utf-16": "%fe%ff%00a", "after-blank": "+%ff", "mixed": "%c3%a9%ff", "raw-and-bad": "%F0%9F%98%80%C3",
    "utf-8-last": "%f4%8f%bf%bf", "utf-8-before-surrogates": "%ed%9f%bf", "utf-8-after-surrogates": "%ee%80%80",
    "utf-8-capitals": "%C3%A9", "utf-8-no-character": "%ef%bf%bf", "utf-8-mark": "%ef%bb%bf", "cut-percent": "a%",
    "cut-escape": "a%4", "no-hex": "a%zz", "encoded-percent": "%25ff",
}  # fmt: skip
# Values of a whole number in a query, beside those at its bounds.
NUMBER_TEXTS = (
    "", "-", "+", "+1", "-1", "-0", "00", "01", "007", " 1", "1 ", "1.0", "1.", ".5", "1e1", "1E0", "0x1", "1_0", "1,0",
    "\uff11", "\u0663", "\u00b2", "1\uff10", "\uff110", "1\u06630", "1\u00b2",
    "true", "null", "NaN", "Infinity", "one", "1;2", "[1]", '"1"', "9" * 18, "9" * 19,
    "1" + "0" * 40, "2147483648", "4294967297", "9007199254740993", "18446744073709551617",
)  # fmt: skip
# Values of the header Accept; the model decides which of them allow JSON (RFC 9110, 12.5.1).
ACCEPTS = (
    "", "*/*", "application/json", "Application/JSON", "application/*", "application/problem+json", "text/html",
    "text/html, application/json;q=0.5", "text/html, */*;q=0.1", "application/json;q=0", "application/json;q=0.0",
    "application/json;q=0.000", "application/json;q=0.001", "application/json;q=1.000", "*/*;q=0",
    "*/*;q=0, application/json", "application/*;q=0, */*", "application/json;q=0, */*", "application/*;q=0.5",
    "application/json; charset=utf-8", "application/json ; q=0.4", "application/jsonp", "application/xml", "json",
    "application/json,", ",application/json", "text/*", "image/png, image/*;q=0.8", "application/vnd.api+json",
    "text/html,application/xhtml+xml,application/xml;q=0.9,image/avif,*/*;q=0.8",
)  # fmt: skip
CONTENT_TYPES = (
    "application/json", "Application/JSON", "application/json; charset=utf-8", "application/json;charset=UTF-8",
    'application/json; charset="utf-8"', "application/json; charset=iso-8859-1", "application/json; charset=utf-16",
    "application/json ", "application/jsonp", "application/json5", "application/problem+json",
    "application/vnd.api+json", "application/x-www-form-urlencoded", "multipart/form-data; boundary=x", "text/json",
    "text/plain", "json", 'application/json; x="a; charset=latin-1"', "application/json; profile=x; charset=utf-8",
    "application/json; x-charset=utf-16", "application/json; charset=", "application/json;", "", "application/xml",
    "application/json, application/json", "application/octet-stream", "application/json-patch+json",
    "application/json-seq", "application/json.x", "xapplication/json", "application/jso",
)  # fmt: skip
# JSON texts, by what could be read in them. `{}` stands for the members of a valid body.
JSON_TEXTS = {
    "blanks": " \t\r\n{{{}}} \n",
    "comment": "{{{} /* x */}}",
    "trailing-comma": "{{{},}}",
    "single-quotes": "{{{}, 'x': 1}}",
    "two-values": "{{{}}} {{}}",
    "trailing-text": "{{{}}} x",
    "array": "[{{{}}}]",
    "text": '"{{}}"',
    "nan": '{{{}, "x": NaN}}',
    "infinity": '{{{}, "x": -Infinity}}',
    "leading-zero": '{{{}, "x": 01}}',
    "plus": '{{{}, "x": +1}}',
    "point-first": '{{{}, "x": .5}}',
    "huge-exponent": '{{{}, "x": 1e400}}',
    "long-number": '{{{}, "x": ' + "9" * 400 + "}}",
    "escape": '{{{}, "x": "\\u0041\\/"}}',
    "bad-escape": '{{{}, "x": "\\x41"}}',
    "surrogate-pair": '{{{}, "x": "\\ud83d\\ude00"}}',
    "lone-surrogate": '{{{}, "x": "\\ud83d"}}',
    "lone-surrogate-in-capitals": '{{{}, "x": "\\uD83D"}}',
    "second-surrogate-in-capitals": '{{{}, "x": "\\uDE00 "}}',
    "surrogates-in-the-wrong-order": '{{{}, "x": "\\uDE00\\uD83D"}}',
    "lone-surrogate-name": '{{{}, "\\ude00": 1}}',
    "lone-surrogate-in-array": '{{{}, "x": ["te", "\\ud83d"]}}',
    "lone-surrogate-in-object": '{{{}, "x": {{"y": "\\ude00"}}}}',
    "lone-surrogate-in-both": '{{{}, "x": [1, {{"y": [[{{"\\ud83d": 1}}]]}}]}}',
    "control-character": '{{{}, "x": "\x01"}}',
    "repeated-name": '{{{}, "x": 1, "x": 1}}',
    "repeated-name-escaped": '{{{}, "x": 1, "\\u0078": 2}}',
    "repeated-name-inside": '{{{}, "x": {{"y": 1, "y": 1}}}}',
    "repeated-name-in-array": '{{{}, "x": [[{{"y": 1, "y": 1}}]]}}',
    "many-arrays": '{{{}, "x": [' + "[], " * 80 + "[]]}}",
    "many-objects": '{{{}, "x": [' + "{{}}, " * 80 + "{{}}]}}",
    "brackets-in-text": '{{{}, "x": "' + "[{{" * 80 + '\\"]"}}',
    "slash-in-name": '{{{}, "a/b": 1, "~": 2, "a~1b": 3}}',
    "prototype": '{{{}, "__proto__": {{"admin": true}}}}',
    "empty-name": '{{{}, "": 1}}',
    "null": "null",
    "number": "17",
    "cut": '{{{}, "x": "te',
    "byte-order-mark": "\u00ef\u00bb\u00bf{{{}}}",
    "not-utf-8": '{{{}, "x": "\u00ff"}}',
    "overlong-utf-8": '{{{}, "x": "\u00c0\u00af"}}',
    "empty": "",
    "blank": " ",
}
# Those with names that a JSON Pointer or a program may take for something else.
NAMES_OF_ANY_KIND = ("slash-in-name", "prototype", "empty-name")


def bad_bytes() -> Iterator[tuple[str, str]]:
    """Percent-encoded texts of a query that are no UTF-8, each with its kind."""
    for kind, text in BYTES.items():
        try:
            unquote_to_bytes(text).decode()
        except UnicodeDecodeError:
            yield kind, text


def near_misses(text: str) -> Iterator[tuple[str, str]]:
    """Texts that a careless comparison takes for this one, each with its kind."""
    yield "other-case", text.swapcase()
    yield "upper-case", text.upper()
    yield "lower-case", text.lower()
    yield "blank-before", f" {text}"
    yield "blank-after", f"{text} "
    yield "tab-after", f"{text}\t"
    yield "longer", f"{text}{text[-1:] or 'x'}"
    yield "shorter", text[:-1]
    yield "without-first", text[1:]
    yield "prefixed", f"x{text}"
    yield "quoted", f'"{text}"'
    yield "comma", f"{text},"
    yield "twice", f"{text},{text}"
    yield "null-character", f"{text}\x00"
    yield "wildcard", "*"
    yield "percent-wildcard", f"{text[:-1]}%"
