"""All metrics of the program: their names, their page, and what deploy/ asks of them."""

import importlib.util
import json
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from prometheus_client.core import Metric

ROOT = Path(__file__).parents[3]
PAGE, DASHBOARD = ROOT / "docs/metrics.md", ROOT / "deploy/grafana/bmcsim.json"
ALERTS = ROOT / "deploy/prometheus/alerts.yaml"

spec = importlib.util.spec_from_file_location("make_metrics", ROOT / "docs/make_metrics.py")
assert spec is not None and spec.loader is not None
page = importlib.util.module_from_spec(spec)
spec.loader.exec_module(page)

FAMILIES: list[Metric] = [family for one in page.collectors().values() for family in one.collect()]
NAMES = {name: family for family in FAMILIES for name in page.series(family)}

# Prometheus' own names, as client libraries have them.
STANDARD = {"process_start_time_seconds", "process_cpu_seconds", "process_resident_memory_bytes"}
# Units of which another one is the base (https://prometheus.io/docs/practices/naming/).
NO_BASE_UNITS = re.compile(
    r"(^|_)(milliseconds|microseconds|ms|minutes|hours|days|kilobytes|kib|kb|mb|mib|bits|percent|celsius)(_|$)"
)
WORDS = frozenset(
    {
        "sum", "min", "max", "avg", "count", "and", "or", "unless", "rate", "increase", "changes", "avg_over_time",
        "min_over_time", "max_over_time", "histogram_quantile",
    }
)  # fmt: skip


@pytest.mark.parametrize("family", FAMILIES, ids=lambda family: family.name)
def test_names_are_as_prometheus_wants_them(family: Metric) -> None:
    name = family.name
    assert re.fullmatch(r"[a-z][a-z0-9_]*", name) and "__" not in name
    assert name.startswith("bmcsim_") or name in STANDARD
    assert not NO_BASE_UNITS.search(name)
    if family.type != "counter":
        assert not name.endswith(("_total", "_count", "_sum", "_bucket", "_info")) or name == "bmcsim_build_info"
    assert not re.search(r"(^|_)(counter|gauge|histogram)(_|$)", name)
    for unit in ("seconds", "bytes"):
        # Last, where there is one.
        assert unit not in name.split("_")[:-1], name
    assert family.documentation.endswith(".") and "\n" not in family.documentation
    assert family.type in ("counter", "gauge", "histogram")
    for label in page.labels(family):
        assert re.fullmatch(r"[a-z][a-z0-9_]*", label)
        assert label not in ("bmc", "id", "address", "rack", "le", "instance", "job", "client", "path")


def test_no_name_and_no_text_is_there_twice() -> None:
    for values in ([family.name for family in FAMILIES], [family.documentation for family in FAMILIES]):
        assert sorted(values) == sorted(set(values))
    assert len(NAMES) == sum(len(page.series(family)) for family in FAMILIES)


def test_the_page_is_current() -> None:
    made = subprocess.run(
        [sys.executable, "docs/make_metrics.py"], cwd=ROOT, capture_output=True, text=True, check=True
    )
    assert PAGE.read_text() == made.stdout, "python docs/make_metrics.py > docs/metrics.md"


def check(expression: str) -> set[str]:
    """The metrics that an expression names. Whatever it names must be there, labels included."""
    bare = re.sub(r"\[[^\]]*\]", "", expression)
    for name, matchers in re.findall(r"([a-z_][a-z0-9_]*)\{([^}]*)\}", bare):
        known = set(page.labels(NAMES[name])) | {"instance", "job", "le"}
        assert set(re.findall(r"([a-z_]+)\s*(?:=~|!~|!=|=)", matchers)) <= known, (expression, name)
    bare = re.sub(r"\{[^}]*\}", "", bare)
    grouped = {
        label.strip()
        for labels in re.findall(r"(?:by|without|on|ignoring) ?\(([^)]*)\)", bare)
        for label in labels.split(",")
    }
    bare = re.sub(r"(?:by|without|on|ignoring) ?\([^)]*\)", "", bare)
    named = {word for word in re.findall(r"(?<![\w$])[a-z_][a-z0-9_]*", bare) if word not in WORDS}
    assert named and named <= set(NAMES), (expression, named - set(NAMES))
    labels = {label for name in named for label in page.labels(NAMES[name])} | {"instance", "job", "le"}
    assert grouped <= labels, (expression, grouped - labels)
    assert bare.count("(") == bare.count(")")
    for name in named:
        counts = NAMES[name].type != "gauge"
        assert not counts or re.search(rf"(rate|increase)\([^()]*{name}\b", expression), f"{name} only grows"
    return named


def panels(dashboard: dict[str, Any]) -> Iterator[dict[str, Any]]:
    for panel in dashboard["panels"]:
        yield panel
        yield from panel.get("panels", ())


def test_the_dashboard_asks_for_what_there_is() -> None:
    dashboard = json.loads(DASHBOARD.read_text())
    named: set[str] = set()
    for panel in panels(dashboard):
        for target in panel.get("targets", ()):
            named |= check(target["expr"].replace("$__rate_interval", "5m").replace(" * 1000", ""))
            assert 'instance=~"$instance"' in target["expr"]
            assert target["datasource"]["uid"] == panel["datasource"]["uid"] == "${datasource}"
            used = set(re.findall(r"\{\{(\w+)\}\}", target["legendFormat"]))
            assert used <= {label for name in named for label in page.labels(NAMES[name])} | {"instance", "le"}
    for part in ("bmcs", "http", "journal", "dhcp", "registration", "control", "event", "timers", "gc"):
        assert any(name.startswith(f"bmcsim_{part}") for name in named), part


def test_the_dashboard_is_of_grafanas_present_schema() -> None:
    dashboard = json.loads(DASHBOARD.read_text())
    assert dashboard["schemaVersion"] >= 39 and dashboard["uid"] and dashboard["title"] == "bmcsim"
    assert [one["name"] for one in dashboard["templating"]["list"]] == ["datasource", "instance"]
    every = list(panels(dashboard))
    assert len({panel["id"] for panel in every}) == len(every)
    assert [panel["title"] for panel in every if panel["type"] == "row"] == [
        "Fleet", "Requests", "Control plane", "Store", "DHCP and registration", "Process",
    ]  # fmt: skip
    assert {panel["type"] for panel in every} == {"row", "stat", "timeseries", "heatmap", "table"}
    taken: set[tuple[int, int]] = set()
    for panel in every:
        place = panel["gridPos"]
        assert place["x"] + place["w"] <= 24
        cells = {
            (x, y)
            for x in range(place["x"], place["x"] + place["w"])
            for y in range(place["y"], place["y"] + place["h"])
        }
        assert not cells & taken, panel["title"]
        taken |= cells


def test_the_alerts_ask_for_what_there_is() -> None:
    groups = yaml.safe_load(ALERTS.read_text())["groups"]
    rules = [rule for group in groups for rule in group["rules"]]
    assert len({rule["alert"] for rule in rules}) == len(rules) >= 6
    for rule in rules:
        assert rule.keys() <= {"alert", "expr", "for", "labels", "annotations"}
        assert re.fullmatch(r"\d+[smh]", rule.get("for", "1m"))
        assert rule["labels"]["severity"] in ("warning", "critical") and rule["annotations"]["summary"]
        check(rule["expr"])


def test_the_questions_of_the_page_ask_for_what_there_is() -> None:
    asked = re.findall(r"^\| [^|]+ \| `(.+)` \|$", PAGE.read_text().partition("## Questions")[2], re.MULTILINE)
    assert len(asked) >= 5
    for expression in asked:
        check(expression.replace("\\|", "|"))


@pytest.mark.parametrize(
    "wrong",
    [
        "sum(bmcsim_nothing)",
        "sum by (colour) (bmcsim_bmcs)",
        'bmcsim_bmcs{rack="1"}',
        "sum(bmcsim_http_requests_total)",
        "rate(bmcsim_http_requests[5m])",
    ],
)
def test_wrong_expressions_are_found(wrong: str) -> None:
    with pytest.raises((AssertionError, KeyError)):
        check(wrong)
