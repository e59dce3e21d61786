"""The web page in a real Chromium: how fast it is, what it does, and that names of a fleet are never more than text.

What it looked like is in tests/artefacts.
"""

import os
import re
import shutil
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from statistics import median
from typing import Any

import pytest
import requests
from playwright.sync_api import Browser, CDPSession, Page, ViewportSize, expect, sync_playwright

from tests.serving import Process, serving, started

pytestmark = [pytest.mark.system, pytest.mark.filterwarnings("ignore:Unverified HTTPS request")]

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
ARTEFACTS = Path(__file__).parent.parent / "artefacts"
DESKTOP, PHONE = ViewportSize(width=1360, height=850), ViewportSize(width=360, height=740)
TOKEN = "a-token-of-24-characters"
HOSTILE = "<img src=x onerror=alert(1)>"
SIZES = {1: ("--hosts", "1", "--dpus", "0"), 300: ("--hosts", "100", "--dpus", "2"), 13_500: ()}
FAST = ("--time-scale", "20")

MEASURE = """
window.measured = { paint: 0, inputs: [], cells: 0 };
new PerformanceObserver((list) => { measured.paint = list.getEntries().at(-1).startTime; })
  .observe({ type: "largest-contentful-paint", buffered: true });
for (const type of ["event", "first-input"])
  new PerformanceObserver((list) => measured.inputs.push(...list.getEntries().map((one) => one.duration)))
    .observe({ type, buffered: true, durationThreshold: 16 });
for (const name of ["fillRect", "fill"]) {
  const draws = CanvasRenderingContext2D.prototype[name];
  CanvasRenderingContext2D.prototype[name] = function (...args) {
    if (this.canvas.id === "grid") measured.cells++;
    return draws.apply(this, args);
  };
}
"""

NAMED_ROLES = frozenset(
    {
        *("button", "textbox", "searchbox", "combobox", "checkbox", "tab", "tablist", "tabpanel", "menu", "menuitem"),
        *("dialog", "application", "img", "link", "table", "region", "progressbar", "search", "complementary"),
    }
)


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    if CHROMIUM is None:
        text = "Chromium is not here; on Debian and Ubuntu: apt-get install chromium"
        if os.environ.get("CI"):
            pytest.fail(text)
        pytest.skip(text)
    ARTEFACTS.mkdir(exist_ok=True)
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield browser
        browser.close()


@pytest.fixture(scope="module", params=SIZES)
def sized(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[int, Process]]:
    log = tmp_path_factory.mktemp("sized") / "serve.log"
    with serving(log, *SIZES[request.param], *FAST) as process:
        yield request.param, process


@pytest.fixture(scope="module")
def medium(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Process]:
    with serving(tmp_path_factory.mktemp("medium") / "serve.log", *SIZES[300], *FAST) as process:
        yield process


@contextmanager
def opened(
    browser: Browser, url: str, viewport: ViewportSize = DESKTOP, *, lost: bool = False, **options: Any
) -> Iterator[Page]:
    """The page, loaded. It must not say anything on the console; lost: but that a server is gone or refuses."""
    context = browser.new_context(viewport=viewport, ignore_https_errors=True, **options)
    page = context.new_page()
    page.set_default_timeout(10_000)
    said: list[str] = []
    page.on("console", lambda message: said.append(message.text))
    page.on("pageerror", lambda error: said.append(str(error)))
    page.on("dialog", lambda dialog: said.append(f"dialog {dialog.message}"))
    page.add_init_script(MEASURE)
    page.goto(url)
    expect(page.locator("#connection")).to_have_text("Live")
    expect(page.locator("#legend button").first).to_be_visible()
    yield page
    context.close()
    own = ("getImageData", *(("net::ERR_", "401 (Unauthorized)") if lost else ()))
    assert [text for text in said if not any(part in text for part in own)] == []


def admin(process: Process) -> str:
    return f"http://127.0.0.1:{process.admin}/"


def operate(process: Process, selection: dict[str, Any], **operation: Any) -> None:
    body = {"selection": selection, "operation": operation}
    requests.post(f"{admin(process)}api/v1/operations", json=body, timeout=10).raise_for_status()


def at_open_cell(page: Page) -> list[int]:
    """The colour of the cell whose BMC is open."""
    colour: list[int] = page.evaluate(
        """() => {
          const grid = document.getElementById("grid"), box = grid.getBoundingClientRect();
          const mark = document.querySelector(".mark.open").getBoundingClientRect(), ratio = devicePixelRatio;
          const x = (mark.left + mark.width / 2 - box.left) * ratio, y = (mark.top + mark.height / 2 - box.top) * ratio;
          return [...grid.getContext("2d").getImageData(x, y, 1, 1).data];
        }"""
    )
    return colour


def until(page: Page, what: Callable[[], bool]) -> None:
    """Wait until something is so, for 10 s at most."""
    for _ in range(200):
        if what():
            return
        page.wait_for_timeout(50)
    pytest.fail("it did not come")


def shot(page: Page, name: str) -> None:
    page.screenshot(path=ARTEFACTS / f"{name}.png")


# how fast and how large


def test_page_is_fast_and_small(browser: Browser, sized: tuple[int, Process]) -> None:
    size, process = sized
    with _bare(browser) as (page, session):
        received: list[int] = []
        session.on("Network.loadingFinished", lambda event: received.append(event["encodedDataLength"]))
        page.goto(admin(process))
        until(page, lambda: page.evaluate("performance.getEntriesByName('fleet').length > 0 && measured.paint > 0"))
        expect(page.locator("#summary")).to_have_text(f"{size:,} BMC{'s' if size > 1 else ''}")
        assert page.evaluate("measured.paint") < 1000
        page.wait_for_timeout(300)
        assert sum(received) > 10_000
        assert sum(received) + _bytes_of_stream(process) < 1_000_000
        shot(page, f"fleet-{size}-light")

        slow = [
            _input(page, text) for text in ("host-1", "state:up", "kind:host power:On", "address:127.64.0.0/24", "")
        ]
        page.mouse.click(300, 600)
        assert median(slow) < 100, slow
        page.keyboard.press("Escape")
        page.wait_for_timeout(500)
        session.send("HeapProfiler.collectGarbage")
        metrics = {one["name"]: one["value"] for one in session.send("Performance.getMetrics")["metrics"]}
        assert metrics["JSHeapUsedSize"] < 200 * 2**20


def _bytes_of_stream(process: Process) -> int:
    """What the stream sends first: its answer has no end, so the browser does not say."""
    url = f"{admin(process)}api/v1/events?topics=fleet,rates,job"
    size, ends = 0, time.monotonic() + 1
    with requests.get(url, headers={"Accept-Encoding": "gzip"}, stream=True, timeout=5) as response:
        while time.monotonic() < ends:
            size += len(response.raw.read1(65536))
    return size


@contextmanager
def _bare(browser: Browser) -> Iterator[tuple[Page, CDPSession]]:
    """A page before it is loaded, and what tells what its browser does."""
    context = browser.new_context(viewport=DESKTOP)
    page = context.new_page()
    page.set_default_timeout(10_000)
    page.add_init_script(MEASURE)
    session = context.new_cdp_session(page)
    session.send("Network.enable")
    session.send("Performance.enable")
    yield page, session
    context.close()


def _input(page: Page, text: str) -> float:
    """Milliseconds from a key to the paint that shows what it did; those under 16 count as 16."""
    page.locator("#search").fill(text)
    page.evaluate("measured.inputs = []")
    page.keyboard.press("Space")
    page.wait_for_timeout(150)
    return float(max([16.0, *page.evaluate("measured.inputs")]))


def test_change_of_one_draws_its_cell_alone(browser: Browser, sized: tuple[int, Process]) -> None:
    size, process = sized
    with opened(browser, admin(process)) as page:
        page.locator("#search").fill("ids:host-0")
        page.keyboard.press("Enter")
        page.keyboard.press("Enter")
        expect(page.locator("#panel h2")).to_have_text("host-0")
        page.wait_for_timeout(300)
        on = at_open_cell(page)
        page.evaluate("measured.cells = 0")
        operate(process, {"ids": ["host-0"]}, type="power", reset="ForceOff")
        until(page, lambda: page.locator("#panel .chips .pill").first.inner_text() == "Off")
        page.wait_for_timeout(1200)
        assert at_open_cell(page) != on
        drawn = page.evaluate("measured.cells")
        # A few frames while what is new fades, and the DPUs that lose their host.
        assert 0 < drawn < 100
        shot(page, f"off-{size}")


# what it does


def test_filter_by_words_legend_and_text(browser: Browser, medium: Process) -> None:
    with opened(browser, admin(medium)) as page:
        search, matches = page.locator("#search"), page.locator("#matches")
        for text, count in (
            ("kind:dpu", 200),
            ("kind:host,dpu group:host", 300),
            ("hardware:bluefield3 host-7-", 2),
            ("address:127.64.0.0/29", 6),
            ("ids:host-1,host-2", 2),
            ("02:00:00:00:00:07", 1),
            ("state:resetting", 0),
            ("nothing-like-it", 0),
        ):
            search.fill(text)
            expect(matches).to_have_text(f"{count} of 300")
        search.fill("colour:red")
        expect(page.locator("#search-error")).to_contain_text("There is no word colour; there are ids, group")
        search.fill("address:1.2.3")
        expect(page.locator("#search-error")).to_contain_text("no address")
        search.fill("kind:dpu")
        legend = page.get_by_role("group", name="States").get_by_role("button", name="On")
        legend.click()
        expect(search).to_have_value("kind:dpu state:up power:On")
        expect(legend).to_have_attribute("aria-pressed", "true")
        legend.click()
        expect(search).to_have_value("kind:dpu")
        page.locator("#view").select_option("hardware")
        expect(page.locator("#legend")).to_contain_text("bluefield3 200")


def test_panel_shows_one_bmc_in_full(browser: Browser, medium: Process) -> None:
    address = "127.64.0.8"
    requests.get(medium.url(address) + "/redfish/v1/Systems", auth=("root", "wrong"), verify=False, timeout=10)
    with opened(browser, admin(medium)) as page:
        page.locator("#search").fill(f"address:{address}")
        page.keyboard.press("Enter")
        page.keyboard.press("Enter")
        panel = page.locator("#panel")
        expect(panel.locator("h2")).to_have_text("host-2")
        expect(panel).to_contain_text("Dell PowerEdge R750")
        expect(panel.locator(".finding").first).to_be_visible()
        panel.get_by_role("button", name="host-2-dpu-1").click()
        expect(panel.locator("h2")).to_have_text("host-2-dpu-1")
        panel.get_by_role("button", name="host-2", exact=True).click()
        panel.get_by_role("tab", name="Sensors").click()
        chart = panel.get_by_role("img", name=re.compile(r"Temperature Sensor 1: [\d.]+ °C"))
        expect(chart).to_be_visible()
        assert panel.locator(".chart").count() == 50
        panel.get_by_role("tab", name="Log").click()
        expect(panel.locator("tbody tr").first).to_contain_text("OK")
        panel.get_by_role("tab", name="Requests").click()
        expect(panel.locator("tbody tr").first).to_contain_text("GET /redfish/v1/Systems")
        expect(panel.locator("tbody tr").first).to_contain_text("401")
        panel.get_by_role("tab", name="Redfish").click()
        panel.locator("summary", has_text=re.compile("^Systems$")).click()
        panel.locator("summary", has_text="System.Embedded.1").first.click()
        expect(panel.locator(".json")).to_contain_text("PowerEdge R750")
        panel.get_by_role("button", name="/redfish/v1/Systems/System.Embedded.1/Bios", exact=True).click()
        expect(panel.locator(".json")).to_contain_text("Attributes")
        shot(page, "redfish")


def test_bulk_change_is_a_job(browser: Browser, medium: Process) -> None:
    with opened(browser, admin(medium)) as page:
        page.locator("#search").fill("kind:dpu ids:host-8-dpu-0,host-9-dpu-0,host-9-dpu-1")
        bulk = page.locator("#bulk")
        bulk.get_by_role("button", name="Faults").click()
        bulk.get_by_role("menuitem", name="flaky").click()
        dialog = page.get_by_role("dialog", name=re.compile("flaky: 3 BMCs"))
        expect(dialog).to_be_visible()
        dialog.get_by_role("button", name="Cancel").click()
        assert requests.get(f"{admin(medium)}api/v1/jobs", timeout=10).json()["jobs"] == []
        bulk.get_by_role("button", name="Faults").click()
        bulk.get_by_role("menuitem", name="flaky").click()
        dialog.get_by_role("button", name="flaky").click()
        expect(page.locator("#jobs .job")).to_contain_text("3 done")
        faulty = page.locator("#legend button", has_text="With faults")
        expect(faulty).to_contain_text("3")
        page.locator("#search").fill("")
        faulty.click()
        expect(page.locator("#matches")).to_have_text("3 of 300")
        # The API has no word for these: they go by their ids.
        bulk.get_by_role("button", name="Faults").click()
        bulk.get_by_role("menuitem", name="Clear all faults").click()
        page.get_by_role("dialog").get_by_role("button", name="Clear all faults").click()
        expect(page.locator("#matches")).to_have_text("0 of 300")


def test_all_by_keyboard(browser: Browser, medium: Process) -> None:
    with opened(browser, admin(medium)) as page:
        page.keyboard.press("/")
        page.keyboard.type("host-50")
        page.keyboard.press("Enter")
        expect(page.locator("#live")).to_contain_text("host-50, host in host, On, 127.64.")
        page.keyboard.press("ArrowRight")
        expect(page.locator("#live")).to_contain_text("host-50-dpu-0, dpu")
        page.keyboard.press("ArrowLeft")
        page.keyboard.press("Enter")
        expect(page.locator("#panel h2")).to_be_focused()
        page.keyboard.press("Tab")
        page.keyboard.press("Tab")
        expect(page.locator("#panel").get_by_role("button", name="Power")).to_be_focused()
        page.keyboard.press("Enter")
        page.keyboard.press("ArrowDown")
        page.keyboard.press("ArrowDown")
        expect(page.locator("#panel").get_by_role("menuitem", name="Force off")).to_be_focused()
        page.keyboard.press("Enter")
        expect(page.get_by_role("dialog", name=re.compile("Force off: host-50"))).to_be_visible()
        page.keyboard.press("Enter")
        expect(page.locator("#panel .chips")).to_contain_text("Off")
        page.keyboard.press("Escape")
        expect(page.locator("#panel")).to_be_hidden()
        expect(page.locator("#grid")).to_be_focused()
        page.keyboard.press("Home")
        before = page.locator("#live").inner_text()
        page.keyboard.press("ArrowDown")
        assert page.locator("#live").inner_text() != before


def test_list_has_the_same(browser: Browser, medium: Process) -> None:
    with opened(browser, admin(medium)) as page:
        page.get_by_role("button", name="List").click()
        rows = page.locator("#list tbody tr")
        expect(rows).to_have_count(100)
        page.get_by_role("button", name="Next").click()
        expect(page.locator("#list")).to_contain_text("Page 2 of 3")
        page.locator("#search").fill("ids:host-99")
        expect(rows).to_have_count(1)
        page.get_by_role("button", name="host-99", exact=True).click()
        expect(page.locator("#panel h2")).to_have_text("host-99")
        shot(page, "list")


def test_every_control_has_a_name(browser: Browser, medium: Process) -> None:
    with opened(browser, admin(medium)) as page:
        session = page.context.new_cdp_session(page)
        page.locator("#grid").focus()
        page.keyboard.press("Enter")
        for tab in ("Overview", "Sensors", "Log", "Requests", "Redfish"):
            page.get_by_role("tab", name=tab).click()
            page.wait_for_timeout(400)
            assert _nameless(session) == []
        page.get_by_role("button", name="List").click()
        page.locator("#panel").get_by_role("button", name="Power").click()
        assert _nameless(session) == []
        page.locator("#panel").get_by_role("menuitem", name="Force off").click()
        assert _nameless(session) == []


def _nameless(session: CDPSession) -> list[str]:
    found = []
    for node in session.send("Accessibility.getFullAXTree")["nodes"]:
        role = node.get("role", {}).get("value")
        if not node["ignored"] and role in NAMED_ROLES and not node.get("name", {}).get("value", "").strip():
            found.append(role)
    return found


def test_light_and_dark(browser: Browser, medium: Process) -> None:
    def back(page: Page) -> int:
        return sum(page.evaluate("getComputedStyle(document.body).backgroundColor.match(/\\d+/g).map(Number)"))

    for scheme in ("light", "dark"):
        with opened(browser, admin(medium), color_scheme=scheme) as page:
            assert (back(page) > 380) is (scheme == "light")
            page.get_by_role("button", name="Light or dark").click()
            assert (back(page) > 380) is (scheme == "dark")
            page.reload()
            expect(page.locator("#connection")).to_have_text("Live")
            assert (back(page) > 380) is (scheme == "dark")
            shot(page, f"toggled-from-{scheme}")


def test_phone(browser: Browser, medium: Process) -> None:
    options = {"has_touch": True, "is_mobile": True, "device_scale_factor": 3, "color_scheme": "dark"}
    with opened(browser, admin(medium), PHONE, **options) as page:
        assert page.evaluate("document.documentElement.scrollWidth") <= 360
        assert page.evaluate("document.getElementById('grid').width") == 3 * page.evaluate(
            "document.getElementById('grid').parentElement.clientWidth"
        )
        shot(page, "phone")
        page.locator("#grid").tap(position={"x": 30, "y": 30})
        box = page.locator("#panel").bounding_box()
        assert box is not None
        assert box["width"] == 360
        expect(page.locator("#panel dl")).to_be_visible()
        assert page.evaluate("document.documentElement.scrollWidth") <= 360
        shot(page, "phone-panel")
        page.get_by_role("button", name="Close").tap()
        expect(page.locator("#panel")).to_be_hidden()


# whom it trusts


def test_token_is_asked_for_once(browser: Browser, tmp_path: Path) -> None:
    (tmp_path / "token").write_text(TOKEN)
    with serving(tmp_path / "serve.log", *SIZES[1], "--token-file", str(tmp_path / "token"), *FAST) as process:
        urls: list[str] = []
        with opened(browser, admin(process), lost=True) as page:
            page.on("request", lambda request: urls.append(request.url))
            page.locator("#grid").focus()
            page.keyboard.press("Enter")
            panel, token = page.locator("#panel"), page.get_by_label("Token", exact=True)

            def force_off() -> None:
                panel.get_by_role("button", name="Power").click()
                panel.get_by_role("menuitem", name="Force off").click()
                page.get_by_role("dialog").get_by_role("button", name="Force off").click()

            force_off()
            token.fill("another-token-of-24-chars")
            page.keyboard.press("Enter")
            expect(page.get_by_role("dialog", name="Changes need the token")).to_contain_text("was refused")
            token.fill(TOKEN)
            page.keyboard.press("Enter")
            expect(page.locator("#jobs .job").last).to_contain_text("1 done")
            force_off()
            expect(page.locator("#jobs .job").last).to_contain_text("skipped")
            assert page.evaluate("[sessionStorage.length, location.href]") == [0, admin(process)]
            assert not any(TOKEN in url for url in urls)


def test_names_are_text_only(browser: Browser, tmp_path: Path) -> None:
    (tmp_path / "fleet.toml").write_text(
        f'[racks.lab]\ntype = "wiwynn_gb200_nvl72"\nids = ["{HOSTILE}", "rack-2"]\n[machines.free]\n'
        'hw_type = "dell_poweredge_r750"\nhost_count = 2\n'
    )
    with serving(tmp_path / "serve.log", str(tmp_path / "fleet.toml"), *FAST) as process:
        query = {"kind": "host", "rack": HOSTILE, "limit": "1"}
        host = requests.get(f"{admin(process)}api/v1/bmcs", query, timeout=10).json()["items"][0]
        requests.get(
            process.url(host["address"]) + "/redfish/v1/Systems", auth=(HOSTILE, HOSTILE), verify=False, timeout=10
        )
        with opened(browser, admin(process)) as page:
            page.locator("#grid").click(position={"x": 20, "y": 6})
            expect(page.locator("#search")).to_have_value(f'rack:"{HOSTILE}"')
            expect(page.locator("#matches")).to_have_text("71 of 144")
            page.get_by_role("button", name="List").click()
            expect(page.locator("#list")).to_contain_text(HOSTILE)
            page.locator("#search").fill(f"ids:{host['id']}")
            page.get_by_role("button", name=host["id"], exact=True).click()
            expect(page.locator("#panel dl")).to_contain_text(HOSTILE)
            page.get_by_role("tab", name="Requests").click()
            expect(page.locator("#panel tbody")).to_contain_text(HOSTILE)
            assert page.locator("img").count() == 0
            page.get_by_role("button", name="List").click()
            page.locator("#search").fill("")
            shot(page, "racks")


def test_page_of_the_redfish_port_only_looks(browser: Browser, medium: Process) -> None:
    asked: list[str] = []
    tags: list[tuple[int, bool]] = []
    with opened(browser, medium.url("127.64.0.2") + "/") as page:
        page.on("request", lambda request: asked.append(f"{request.method} {request.url}"))
        page.on(
            "response",
            lambda answer: tags.append((answer.status, "if-none-match" in answer.request.headers)),
        )
        expect(page.locator("#summary")).to_have_text("300 BMCs")
        assert page.locator(".drops").count() == 0
        page.locator("#grid").focus()
        page.keyboard.press("End")
        page.keyboard.press("Enter")
        expect(page.locator("#panel .json")).to_contain_text('"device_kind": "dpu"')
        assert page.get_by_role("tab").count() == 0
        shot(page, "redfish-port")
        until(page, lambda: (304, True) in tags)
        operate(medium, {"ids": ["host-99-dpu-1"]}, type="power", reset="ForceOff")
        expect(page.locator("#panel .chips")).to_contain_text("Off", timeout=15_000)
    assert asked
    assert {one.split("/", 3)[-1] for one in asked} == {"machines/status"}


def test_lost_connection_is_shown_and_comes_back(browser: Browser, tmp_path: Path) -> None:
    with serving(tmp_path / "serve.log", *SIZES[1]) as process, opened(browser, admin(process), lost=True) as page:
        process.stop()
        expect(page.locator("#connection")).to_contain_text("Connection lost")
        command = [str(part) for part in process.process.args]  # type: ignore[union-attr]
        with started(tmp_path / "again.log", command, process.port, process.admin):
            expect(page.locator("#connection")).to_have_text("Live", timeout=15_000)
            expect(page.locator("#summary")).to_have_text("1 BMC")
