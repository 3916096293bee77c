#!/usr/bin/env python3
"""Prints the outcome of a ghz JSON report in a few lines; exit 1 if a call failed or none was made.

    load_summary.py REPORT
"""

import json
import sys


def milliseconds(nanoseconds):
  return f"{nanoseconds / 1e6:.0f} ms"


def main():
  with open(sys.argv[1], encoding="utf-8") as file:
    report = json.load(file)
  codes = report.get("statusCodeDistribution") or {}
  errors = report["count"] - codes.get("OK", 0)
  print(f"{report['count']} streams in {report['total'] / 1e9:.1f} s, {report['rps']:.2f} per second, {errors} errors")
  percentiles = ", ".join(f"p{row['percentage']} {milliseconds(row['latency'])}"
                          for row in report.get("latencyDistribution") or [] if row["percentage"] in (50, 90, 99))
  print(f"whole streams: mean {milliseconds(report['average'])}, {percentiles}, "
        f"slowest {milliseconds(report['slowest'])}")
  for text, count in (report.get("errorDistribution") or {}).items():
    print(f"{count} x {text}")
  print(f"report: {sys.argv[1]}")
  return 1 if errors or not report["count"] else 0


if __name__ == "__main__":
  sys.exit(main())
