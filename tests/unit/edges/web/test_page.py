"""The page as it is sent: whole, small, cached, and allowed to do what it needs and nothing else."""

import gzip
import json
import re
from base64 import b64encode
from hashlib import sha256
from typing import get_args

import httpx
import pytest
from starlette.applications import Starlette

from bmcsim.edges.web import page
from bmcsim.edges.web.page import Mode, Page
from bmcsim.tree import fault_presets

MODES = get_args(Mode)


async def ask(mode: Mode, method: str = "GET", **headers: str) -> httpx.Response:
    named = {name.replace("_", "-"): value for name, value in {"accept_encoding": "identity", **headers}.items()}
    async with httpx.AsyncClient(transport=httpx.ASGITransport(Page(mode)), base_url="http://test") as client:
        return await client.request(method, "/", headers=named)


@pytest.mark.parametrize("mode", MODES)
async def test_it_is_whole_and_loads_nothing(mode: Mode) -> None:
    answer = await ask(mode)
    assert answer.status_code == 200
    assert answer.headers["content-type"] == "text/html; charset=utf-8"
    assert "{{" not in answer.text
    assert f'data-mode="{mode}"' in answer.text
    assert not re.search(r"<(?:script|img|iframe|link)[^>]* (?:src|href)=\"(?!data:)", answer.text)
    assert not re.search(r"https?://(?!www\.w3\.org)", answer.text)
    assert "innerHTML" not in answer.text
    assert "insertAdjacentHTML" not in answer.text


@pytest.mark.parametrize("mode", MODES)
async def test_the_policy_allows_its_own_script_and_style_only(mode: Mode) -> None:
    answer = await ask(mode)
    rules = dict(rule.split(" ", 1) for rule in answer.headers["content-security-policy"].split("; "))
    for rule, element in (
        ("script-src", r'<script type="module">(.*?)</script>'),
        ("style-src", r"<style>(.*?)</style>"),
    ):
        (text,) = re.findall(element, answer.text, re.DOTALL)
        assert rules[rule] == f"'sha256-{b64encode(sha256(text.encode()).digest()).decode()}'"
    assert rules["default-src"] == rules["base-uri"] == rules["frame-ancestors"] == "'none'"
    assert rules["connect-src"] == "'self'"
    assert answer.headers["x-content-type-options"] == "nosniff"


async def test_it_is_packed_and_cached() -> None:
    plain, packed = await ask("control"), await ask("control", accept_encoding="gzip")
    assert packed.headers["content-encoding"] == "gzip"
    assert int(packed.headers["content-length"]) < 40_000
    assert packed.text == plain.text
    assert packed.headers["etag"] != plain.headers["etag"]
    assert gzip.decompress(page.document("control").packed) == plain.content
    for tag in (plain.headers["etag"], packed.headers["etag"]):
        again = await ask("control", if_none_match=tag)
        assert (again.status_code, again.content) == (304, b"")
    assert (await ask("status", if_none_match=plain.headers["etag"])).status_code == 200


async def test_it_is_only_read() -> None:
    answer = await ask("control", "POST")
    assert (answer.status_code, answer.headers["allow"]) == (405, "GET, HEAD")
    assert (await ask("control", "HEAD")).status_code == 200


async def test_it_knows_the_presets_where_they_can_be_used() -> None:
    for mode, presets in (("control", fault_presets.names()), ("status", [])):
        (facts,) = re.findall(r'<script type="application/json" id="facts">(.*?)</script>', (await ask(mode)).text)
        assert "<" not in facts
        assert [name for name, _ in json.loads(facts)["presets"]] == list(presets)


async def test_it_is_at_the_root_of_the_admin_listener() -> None:
    app = Starlette(routes=page.routes())
    async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://test") as client:
        assert 'data-mode="control"' in (await client.get("/")).text
        assert (await client.get("/other")).status_code == 404
