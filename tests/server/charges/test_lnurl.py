"""LNURL and bech32: the standard's example, a slow reference implementation, and every invalid input."""

import json
from functools import reduce
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from leyden.server.charges.lnurl import (
    CHARSET,
    Bech32Error,
    LnurlError,
    bech32_chars,
    bech32_decode,
    bech32_encode,
    decode_lnurl,
    encode_lnurl,
    pay_metadata,
    remainder,
    strip_uri_scheme,
)

LUD01 = json.loads((Path(__file__).parents[2] / "vectors" / "lud01.json").read_text())
GENERATOR = (0x3B6A57B2, 0x26508E6D, 0x1EA119FA, 0x3D4233DD, 0x2A1462B3)
URL_TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=300)


def slow_remainder(groups):
    """BIP 173's checksum as the BIP describes it: one group at a time."""
    state = 0
    for group in groups:
        top = state >> 25
        state = (state & 0x1FFFFFF) << 5 ^ group
        state = reduce(lambda kept, bit: kept ^ GENERATOR[bit] if top >> bit & 1 else kept, range(5), state)
    return state


def as_integer(groups):
    return reduce(lambda value, group: value << 5 | group, groups, 0)


@given(st.lists(st.integers(0, 31), max_size=700))
def test_the_remainder_by_shifts_is_the_remainder_group_by_group(groups):
    assert remainder(as_integer(groups)) == slow_remainder(groups)


@pytest.mark.parametrize(("top", "rest"), [(200, (37, 30, 28, 27, 2, 0)), (124, (36, 35, 27, 17, 5, 0))])
def test_the_sparse_multiples_are_multiples_of_the_generator(top, rest):
    assert slow_remainder([int(place in {top, *rest}) for place in range(top, -1, -1)]) == 0


@given(st.lists(st.integers(0, 31), min_size=1, max_size=60), st.sampled_from([0, 2_000, 2_048, 4_100]))
def test_bech32_chars_writes_each_group_as_its_character_at_any_length(groups, zeros):
    groups = groups + [0] * zeros
    assert bech32_chars(as_integer(groups), len(groups)) == "".join(CHARSET[group] for group in groups)


@given(st.text("abcln1!~0", min_size=1, max_size=20), st.lists(st.integers(0, 31), max_size=400))
def test_bech32_decodes_what_it_encoded(hrp, groups):
    text = bech32_encode(hrp, as_integer(groups), len(groups))
    back = bech32_decode(text)
    assert (back.hrp, back.value, len(back.chars)) == (hrp, as_integer(groups), len(groups))
    assert back.chars == "".join(CHARSET[group] for group in groups)
    assert [int(chr(digit), 32) for digit in back.digits] == groups
    assert bech32_decode(text.upper()) == back


# BIP 173's own lists of valid and invalid texts; the one that is only too long is read, since LUD-01 lifts the limit.
@pytest.mark.parametrize(
    "text",
    [
        "A12UEL5L",
        "a12uel5l",
        "an83characterlonghumanreadablepartthatcontainsthenumber1andtheexcludedcharactersbio1tt5tgs",
        "abcdef1qpzry9x8gf2tvdw0s3jn54khce6mua7lmqqqxw",
        "11qqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqc8247j",
        "split1checkupstagehandshakeupstreamerranterredcaperred2y9e3w",
        "?1ezyfcl",
    ],
)
def test_the_bips_valid_texts_are_read(text):
    assert bech32_decode(text).hrp == text.lower().rpartition("1")[0]


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (" 1nwldj5", "space"),
        ("\x7f1axkwrx", "control"),
        ("\x801eym55h", "ASCII"),
        ("pzry9x0s0muk", "separator"),
        ("1pzry9x0s0muk", "separator"),
        ("x1b4n0q5v", "'b' at place 3"),
        ("li1dgmt3", "only 5 characters"),
        ("A1G7SGD8", "checksum"),
        ("10a06t8", "separator"),
        ("1qzzfhee", "separator"),
        ("a12UEL5L", "mixes"),
        ("", "separator"),
        ("lnurl1_0000000", "'_' at place 7"),
        ("lnurl1b_000000", "'b' at place 7"),
        ("lnurl1 qqqqqqq", "' ' at place 7"),
    ],
)
def test_the_bips_invalid_texts_are_refused_by_name(text, reason):
    with pytest.raises(Bech32Error, match=reason):
        bech32_decode(text)


def test_the_standards_example_is_encoded_and_decoded():
    assert encode_lnurl(LUD01["url"]) == LUD01["lnurl"].lower()
    assert decode_lnurl(LUD01["lnurl"]) == LUD01["url"]
    assert decode_lnurl(LUD01["lnurl"].lower()) == LUD01["url"]


@pytest.mark.parametrize("scheme", ["lightning:", "LIGHTNING:", "Lightning:"])
def test_the_uri_scheme_may_stand_before_it_in_any_case(scheme):
    assert decode_lnurl(scheme + LUD01["lnurl"]) == LUD01["url"]
    assert strip_uri_scheme(scheme + "x") == "x"


@given(URL_TEXT, st.sampled_from(["https://", "http://", "HTTP://"]))
def test_every_url_is_decoded_as_it_was_encoded(rest, scheme):
    url = scheme + rest
    lnurl = encode_lnurl(url)
    assert lnurl == lnurl.lower()
    assert lnurl.startswith("lnurl1")
    assert decode_lnurl(lnurl) == decode_lnurl(lnurl.upper()) == decode_lnurl(f"lightning:{lnurl}") == url


def test_a_very_long_url_is_decoded_as_it_was_encoded():
    url = "https://localhost/?q=" + "é7" * 5_000
    assert decode_lnurl(encode_lnurl(url)) == url


def test_every_change_of_one_character_is_refused():
    lnurl = encode_lnurl("https://localhost/lnurlp/1")
    for place, right in enumerate(lnurl):
        for wrong in set(CHARSET + "1bio_ -") - {right}:
            with pytest.raises(LnurlError):
                decode_lnurl(lnurl[:place] + wrong + lnurl[place + 1 :])
        if right.isalpha():
            with pytest.raises(LnurlError, match="mixes"):
                decode_lnurl(lnurl[:place] + right.upper() + lnurl[place + 1 :])


@pytest.mark.parametrize("url", ["", "ftp://x", "localhost", "lnurlp://x", "HTTPS//x", "javascript:alert(1)"])
def test_a_text_that_is_no_web_address_is_not_encoded(url):
    with pytest.raises(LnurlError, match="https://"):
        encode_lnurl(url)


def test_a_lone_surrogate_cannot_be_encoded():
    with pytest.raises(LnurlError, match="UTF-8"):
        encode_lnurl("https://x/\ud800")


def of_bytes(raw, hrp="lnurl", padding=0, extra_groups=0):
    groups = (8 * len(raw) + 4) // 5
    value = int.from_bytes(raw, "big") << 5 * groups - 8 * len(raw) | padding
    return bech32_encode(hrp, value << 5 * extra_groups, groups + extra_groups)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (of_bytes(b"https://x", hrp="lnbc"), "begins with 'lnbc'"),
        (of_bytes(b"https://xy", padding=0, extra_groups=1), "whole number of bytes"),
        (of_bytes(b"https://x", padding=1), "whole number of bytes"),
        (of_bytes(b"https://\xff"), "UTF-8"),
        (of_bytes(b"mailto:x"), "not a web address"),
        (of_bytes(b""), "not a web address"),
        ("https://localhost/", "not an LNURL"),
    ],
)
def test_an_invalid_lnurl_is_refused_with_the_reason(text, reason):
    with pytest.raises(LnurlError, match=reason):
        decode_lnurl(text)


@given(st.text(st.characters(exclude_categories=["Cs"]), max_size=200), st.none() | st.just("ana@localhost"))
def test_metadata_is_json_text_with_one_plain_description(description, identifier):
    metadata = pay_metadata(description, identifier)
    assert dict(json.loads(metadata)).get("text/identifier") == identifier
    assert [value for kind, value in json.loads(metadata) if kind == "text/plain"] == [description]
    assert metadata == pay_metadata(description, identifier)


def test_metadata_has_no_spare_spaces_and_no_escaped_characters():
    assert pay_metadata("thé", "ana@localhost") == '[["text/plain","thé"],["text/identifier","ana@localhost"]]'


@pytest.mark.parametrize("text", ["lnurl1b" + "q" * 6, "lnurl1qqb" + "q" * 6, "x1" + "q" * 8 + "i"])
def test_the_place_of_a_wrong_character_is_counted_from_one(text):
    with pytest.raises(Bech32Error, match=r"at place .* is not") as caught:
        bech32_decode(text)
    place = int(str(caught.value).partition("at place ")[2].split()[0])
    assert repr(text[place - 1]) == str(caught.value).split()[0]
    assert text[place - 1] in "bi"
