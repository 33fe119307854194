"""Dashboard and alert rules speak of metrics that exist, and every alert has its page in the runbook."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml
from prometheus_client import ProcessCollector

from wa_orchestrator.metrics.families import of_process, of_store
from wa_orchestrator.store.numbers import StoreNumbers

ROOT = Path(__file__).resolve().parents[2]
RULES = ROOT / "deploy" / "prometheus" / "alerts.yml"
DASHBOARD = ROOT / "deploy" / "grafana" / "wa-orchestrator.json"
HOWTO = ROOT / "docs" / "howto" / "monitoring.md"
RUNBOOK = (ROOT / "docs" / "runbook.md").read_text(encoding="utf-8")

NOTHING = StoreNumbers(
    sessions={}, sessions_waiting_for_proxy=0, workers_reporting=0, worker_memory_sum=0, worker_memory_max=0,
    lanes_waiting=0, lanes_under_way=0, lanes_blocked=0, lanes_slowed=0, lanes_due=0, oldest_due_s=0, jobs=0, claimed=0,
    dead=0, totals={}, failed={"SOME": 1}, proxies={}, free_slots=0, journal=0, leaders=0,
    orchestrators=0, webhooks={"total": 0, "failing": 0, "disabled": 0, "waiting": 0, "dead": 0, "behind": 0},
)  # fmt: skip
_NAME = re.compile(r"\b(wa_[a-z_0-9]+|process_[a-z_0-9]+)\b")
_LABELS = re.compile(r"(wa_[a-z_0-9]+)\{([^}]*)\}")


def exported() -> dict[str, tuple[str, dict[str, set[str]]]]:
    """Every name a query may use: what kind it is, and its labels with the values known beforehand."""
    found: dict[str, tuple[str, dict[str, set[str]]]] = {}
    families = [*of_process(role="x", leads=True, claims_waiting=0), *of_store(NOTHING)]
    for family in [*families, *ProcessCollector(registry=None).collect()]:
        labels: dict[str, set[str]] = {}
        for sample in family.samples:
            for name, value in sample.labels.items():
                labels.setdefault(name, set()).add(value)
        ends = {"histogram": ("_bucket", "_sum", "_count"), "counter": ("_total",)}.get(family.type, ("",))
        for end in ends:
            found[family.name + end] = (family.type, labels)
    return found


def queries() -> list[str]:
    rules = yaml.safe_load(RULES.read_text(encoding="utf-8"))
    panels = json.loads(DASHBOARD.read_text(encoding="utf-8"))["panels"]
    return [rule["expr"] for rule in alerts(rules)] + [t["expr"] for p in panels for t in p.get("targets", [])]


def alerts(rules: dict[str, Any]) -> list[dict[str, Any]]:
    return [rule for group in rules["groups"] for rule in group["rules"]]


def test_every_name_in_a_query_is_exported() -> None:
    known = exported()
    assert len(queries()) > 40
    missing = {name for query in queries() for name in _NAME.findall(query) if name not in known}
    assert not missing


def test_every_exported_name_is_shown_somewhere() -> None:
    shown = {name for query in queries() for name in _NAME.findall(query)}
    ours = {name.removesuffix("_bucket") for name in exported() if name.startswith("wa_")}
    unseen = {
        name for name in ours if not any(s.startswith(name) for s in shown) and not name.endswith(("_sum", "_count"))
    }
    assert not unseen


def test_label_values_in_queries_exist() -> None:
    known = exported()
    looked_at = 0
    for query in queries():
        for name, inside in _LABELS.findall(query):
            for key, sign, wanted in re.findall(r"(\w+)(=~|=)\"([^\"]*)\"", inside):
                values = known[name][1].get(key, set())
                if values:
                    for value in wanted.split("|") if sign == "=~" else [wanted]:
                        assert value in values, f"{name}{{{key}={value}}}"
                        looked_at += 1
    assert looked_at >= 5


def test_counters_are_rated_and_gauges_are_not() -> None:
    for query in queries():
        for name in _NAME.findall(query):
            kind = exported()[name][0]
            rated = re.search(rf"(rate|increase)\({name}[{{\[]", query)
            assert bool(rated) == (kind in {"counter", "histogram"}), f"{name} in {query}"


def test_every_alert_says_what_to_do_and_has_a_section_in_the_runbook() -> None:
    rules = yaml.safe_load(RULES.read_text(encoding="utf-8"))
    for rule in alerts(rules):
        assert f"### {rule['alert']}\n" in RUNBOOK, rule["alert"]
        assert rule["annotations"]["runbook"] == f"docs/runbook.md#{rule['alert'].lower()}"
        assert rule["annotations"]["summary"].endswith(".")
        assert rule["labels"]["severity"] in {"warning", "critical"}


def test_the_howto_lists_every_metric() -> None:
    text = HOWTO.read_text(encoding="utf-8")
    families = [*of_process(role="x", leads=True, claims_waiting=0), *of_store(NOTHING)]
    missing = [f.name for f in families if f"`{f.name}" not in text]
    assert not missing


def test_prometheus_itself_understands_the_rules() -> None:
    promtool = shutil.which("promtool")
    if not promtool:
        pytest.skip("promtool is not installed here (Debian: apt-get install prometheus)")
    done = subprocess.run([promtool, "check", "rules", str(RULES)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
