#!/usr/bin/env python3
"""Draws the distributions of a load test from the file that `kvrelay bench --records` wrote. Needs matplotlib.

    plot_load.py RECORDS FILE.svg
"""

import json
import sys

import matplotlib

matplotlib.use("svg")
from matplotlib import pyplot  # noqa: E402


def cumulative(axes, values, title):
  values = sorted(values)
  axes.set_title(title)
  axes.set_xlabel("ms")
  axes.set_ylim(0, 100)
  axes.grid(True, alpha=0.3)
  if not values:
    return
  axes.step(values, [100 * (i + 1) / len(values) for i in range(len(values))], where="post")
  for share in (50, 99):
    axes.axhline(share, color="grey", linewidth=0.5, linestyle="--")


def main():
  if len(sys.argv) != 3:
    sys.exit(__doc__)
  with open(sys.argv[1], encoding="utf-8") as file:
    records = [json.loads(line) for line in file]
  done = [record for record in records if record["code"] == "OK"]
  figure, axes = pyplot.subplots(2, 2, figsize=(10, 7))
  cumulative(axes[0][0], [record["ttft_ms"] for record in done if "ttft_ms" in record], "time to first token, % within")
  cumulative(axes[0][1], [gap for record in done for gap in record["itl_ms"]], "gap between tokens, % within")
  cumulative(axes[1][0], [sum(record["itl_ms"]) / len(record["itl_ms"]) for record in done if record["itl_ms"]],
             "mean gap of a request, % within")
  axes[1][1].set_title("time to first token over the run")
  axes[1][1].set_xlabel("due, s")
  axes[1][1].set_ylabel("ms")
  axes[1][1].plot([record["due_s"] for record in done], [record.get("ttft_ms", 0) for record in done], ".", markersize=4)
  for record in records:
    if record["code"] != "OK":
      axes[1][1].axvline(record["due_s"], color="red", linewidth=0.5)
  figure.suptitle(f"{len(done)} of {len(records)} requests completed")
  figure.tight_layout()
  figure.savefig(sys.argv[2])


if __name__ == "__main__":
  main()
