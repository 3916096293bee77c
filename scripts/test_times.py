#!/usr/bin/env python3
"""Prints time, cases and outcome of each suite of a ctest JUnit file, slowest first, and one line for all.

    test_times.py FILE
"""

import re
import sys
import xml.etree.ElementTree as ElementTree

CASES = re.compile(r"^\[==========\] (\d+) tests? from", re.MULTILINE)


def main():
  suites = ElementTree.parse(sys.argv[1]).getroot().findall("testcase")
  failed, cases, seconds = [], 0, 0.0
  print(f"\n{'suite':<28}{'seconds':>9}{'cases':>8}  outcome")
  for suite in sorted(suites, key=lambda suite: -float(suite.get("time"))):
    ran = CASES.search(suite.findtext("system-out") or "")
    count = int(ran.group(1)) if ran else 1
    outcome = "passed" if suite.get("status") == "run" else "FAILED"
    if outcome == "FAILED":
      failed.append(suite.get("name"))
    cases += count
    seconds += float(suite.get("time"))
    print(f"{suite.get('name'):<28}{float(suite.get('time')):>9.1f}{count:>8}  {outcome}")
  print(f"\n{len(suites)} suites, {cases} cases, {seconds:.0f} s: " +
        (f"{len(failed)} FAILED: {', '.join(failed)}" if failed else "all passed"))


if __name__ == "__main__":
  main()
