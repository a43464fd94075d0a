"""Writing and reading BOLT11 invoices, beside the one thing neither can do without: a secp256k1 signature."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from hashlib import sha256
from itertools import cycle
from typing import Any

from coincurve import PrivateKey, PublicKey

from leyden.lightning.bolt11.codec import InvoiceSigner, decode
from tests.benchmarks.bench import Bench
from tests.benchmarks.measuring import COST, Goal, Row, compared, in_turn, seconds_each

PART = "bolt11"
_SECRET = bytes(range(1, 33))


def rows(bench: Bench) -> Iterator[Row]:
    """Encode beside signing, decode beside recovering the signer's key."""
    signer, key = InvoiceSigner(_SECRET), PrivateKey(_SECRET)
    count = bench.scale.of(2_000, 50)
    # No two alike: an invoice that comes again and again is found in the processor's nearest cache, and no real one is.
    hashes = [sha256(b"%d" % number).digest() for number in range(count)]

    def encode(payment_hash: bytes) -> str:
        return signer.sign(
            amount_msat=250_000,
            timestamp_s=1_893_488_400,
            payment_hash=payment_hash,
            payment_secret=payment_hash,
            description="Flat white, table 7",
            expiry_s=600,
        )

    texts = [encode(payment_hash) for payment_hash in hashes]
    messages = [b"lnbcrt2500n" + 4 * payment_hash for payment_hash in hashes]
    signatures = [key.sign_recoverable(message) for message in messages]
    runs: dict[str, Callable[[], object]] = {
        "encode": _each(encode, hashes),
        "sign": _each(key.sign_recoverable, messages),
        "decode": _each(decode, texts),
        "recover": _each(
            lambda pair: PublicKey.from_signature_and_message(*pair), list(zip(signatures, messages, strict=True))
        ),
    }
    found = in_turn(2 * bench.scale.repeats, {name: partial(seconds_each, run, count) for name, run in runs.items()})
    beside = "bare recoverable signature"
    yield compared(PART, "BOLT11 encode", COST, [found["encode"]], beside, [found["sign"]], goal=Goal("at most", 2.2))
    yield compared(PART, "BOLT11 decode", COST, [found["decode"]], "bare key recovery", [found["recover"]])


def _each(run: Callable[[Any], object], items: Sequence[Any]) -> Callable[[], object]:
    """A function that works on the next of the items, round and round."""
    following = cycle(items)
    return lambda: run(next(following))
