"""A secret never appears in what is recorded."""

from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bmcsim.fleet.redaction import HIDDEN, is_secret, redacted, redacted_body, redacted_query

MARKER = "mArKeR-5ecret"
NAMES = ["Password", "OldPassword", "password", "CurrentUefiPassword", "Token", "X-Auth-Token", "ClientSecret",
         "AuthenticationKey", "EncryptionKey", "Authorization", "PrivateKey", "HttpHeaders", "Passphrase", "Pin",
         "SNMPv3AuthPassword", "CommunityString", "Credentials", "Cookie", "PWD", "ApiKey"]  # fmt: skip

plain = st.none() | st.booleans() | st.integers(-(2**63), 2**63 - 1) | st.text(max_size=10)
values = st.recursive(
    plain, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=6), inner, max_size=3)
)
secrets = st.sampled_from([MARKER, [MARKER], {"a": MARKER}, [{"Value": [MARKER]}], f"https://u:{MARKER}@h/"])


@st.composite
def documents(draw: st.DrawFn) -> Any:
    """A JSON value with a secret somewhere inside, under a key that says so."""
    value: Any = {
        **draw(st.dictionaries(st.text(max_size=6), values, max_size=2)),
        draw(st.sampled_from(NAMES)): draw(secrets),
    }
    for wrap in draw(st.lists(st.sampled_from("ld"), max_size=5)):
        value = [draw(values), value] if wrap == "l" else {"Inner": value, "Other": draw(values)}
    return value


@given(documents())
def test_what_a_key_calls_a_secret_is_gone(document: Any) -> None:
    assert MARKER not in redacted_body(orjson.dumps(document), 1_000_000).decode()


@given(st.binary(max_size=40), st.binary(max_size=40))
def test_what_is_no_json_is_not_shown(before: bytes, after: bytes) -> None:
    body = before + MARKER.encode() + after
    shown = redacted_body(body, 1000)
    try:
        orjson.loads(body)
    except orjson.JSONDecodeError:
        assert shown == b""


@given(
    st.lists(
        st.tuples(st.sampled_from([*NAMES, "%50assword", "access_token"]), st.just(MARKER)), min_size=1, max_size=4
    )
)
def test_parameters_that_sound_like_secrets_are_gone(pairs: list[tuple[str, str]]) -> None:
    assert MARKER not in redacted_query("$top=3&" + "&".join(f"{name}={value}" for name, value in pairs))


@pytest.mark.parametrize(
    "value",
    [
        {"AttributeName": "RootPassword", "AttributeValue": MARKER},
        {"Certificate": f"-----BEGIN PRIVATE KEY-----\n{MARKER}"},
        {"ImageURI": f"https://user:{MARKER}@files.example/image.bin"},
        {"ImportBuffer": f'<SystemConfiguration><Attribute Name="Users.2#Password">{MARKER}</Attribute>'},
    ],
)
def test_secrets_in_other_places(value: Any) -> None:
    assert MARKER not in orjson.dumps(redacted(value)).decode()


def test_the_rest_is_as_it_was() -> None:
    value = {
        "UserName": "root",
        "Password": "x",
        "Enabled": True,
        "PasswordChangeRequired": False,
        "Oem": [1, None, "a"],
    }
    assert redacted(value) == {**value, "Password": HIDDEN}
    assert redacted_query("$filter=Id eq 1&only") == "$filter=Id eq 1&only"
    assert redacted_body(b'{"a":1}', 3) == b""
    assert not any(map(is_secret, ("Id", "ResetType", "Monkeys", "Spinning", "Name", "Targets")))


def test_depth_is_bounded() -> None:
    value: Any = "x"
    for _ in range(100):
        value = [value]
    shown = redacted(value)
    for _ in range(65):
        shown = shown[0]
    assert shown == HIDDEN
