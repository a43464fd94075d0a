"""Requests that block, as the program of a receiver sends them."""

from __future__ import annotations

import json
from typing import Any
from urllib.error import HTTPError
from urllib.request import Request, urlopen


def post(url: str, path: str, body: dict[str, Any], key: str = "leyden") -> tuple[int, dict[str, Any]]:
    """The status and the JSON of the answer."""
    headers = {"apikey": key, "content-type": "application/json"}
    try:
        with urlopen(Request(f"{url}{path}", json.dumps(body).encode(), headers), timeout=20) as answer:
            return answer.status, json.load(answer)
    except HTTPError as refused:
        with refused:
            return refused.code, json.load(refused)
