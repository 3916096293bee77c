"""What is said of our metrics must be true: every name kvrelay_... in deploy/, in the operator's page and in the tests of the
alerts is one that a program exposes, and the operator's page lists all that are, and every alert. Names are read from
the C++ sources, where each is a literal in the call that adds it. Also: the dashboard is JSON, with panels of their own.

    check_monitoring.py ROOT_OF_THE_REPOSITORY
"""

import json
import pathlib
import re
import sys

root = pathlib.Path(sys.argv[1])
PAGE = root / "docs/operate.md"
ADD = re.compile(r'\bAdd(Counter|ReadCounter|Gauge|Histogram)\(\s*"(kvrelay_\w+)"')


def text_of(paths):
    return "\n".join(path.read_text() for path in sorted(paths))


def added():
    """Name of each metric -> its kind. Fails on a name that stands elsewhere, for it might be one that is missed here."""
    source = text_of(path for folder in ("common", "router", "prefill_worker", "decode_worker")
                     for path in (root / folder).rglob("*.cc"))
    kinds = {name: kind for kind, name in ADD.findall(source)}
    literals = set(re.findall(r'"(kvrelay_\w+)"', source))
    return kinds, [f"{name}: not the first argument of a call that adds a metric" for name in literals - set(kinds)]


def problems():
    kinds, found = added()
    series = {name + suffix for name, kind in kinds.items()
              for suffix in (("_bucket", "_sum", "_count") if kind == "Histogram" else ("",))}
    deploy = root / "deploy"
    for path in sorted([*deploy.rglob("*.yaml"), *deploy.rglob("*.json"), root / "tests/deploy/alerts_test.yaml"]):
        names = set(re.findall(r"\bkvrelay_\w+", path.read_text()))
        found += [f"{path.name}: nobody exposes {name}" for name in sorted(names - series)]

    page = PAGE.read_text()
    named = set(re.findall(r"\bkvrelay_\w+", page))
    found += [f"{PAGE.name}: nobody exposes {name}" for name in sorted(named - series - set(kinds))]
    alerts = set(re.findall(r"- alert: (\w+)", (deploy / "monitoring/alerts.yaml").read_text()))
    found += [f"{PAGE.name} does not tell of {name}" for name in sorted((set(kinds) | alerts) - set(re.findall(r"\w+", page)))]
    found += [f"{PAGE.name}: no alert {name}" for name in sorted(set(re.findall(r"\bKvrelay\w+", page)) - alerts)]

    panels = json.loads((deploy / "monitoring/dashboard.json").read_text())["panels"]
    for what in ("id", "title", "gridPos"):
        if len({json.dumps(panel[what]) for panel in panels}) < len(panels):
            found.append(f"dashboard.json: two panels have one {what}")
    print("\n".join(found) or f"{len(kinds)} metrics, {len(alerts)} alerts, {len(panels)} panels checked")
    return found or not kinds or not alerts


sys.exit(1 if problems() else 0)
