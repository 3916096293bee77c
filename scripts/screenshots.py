#!/usr/bin/env python3
"""Pictures of the page: screenshots.py URL DIRECTORY. Called by ./dev screenshots."""

import os
import pathlib
import sys

sys.path.insert(0, f"{os.environ['KVRELAY_SOURCE_DIR']}/tests/e2e/web")
import browser as browsers

PROMPT = "The river runs to the sea, and the sea"


def save_svg(page, directory, name):
  """What "Save SVG" gives for the only figure that has the button in view."""
  with page.expect_download() as download:
    page.click("text=Save SVG")
  download.value.save_as(directory / f"{name}.svg")


def main():
  url, directory = sys.argv[1], pathlib.Path(sys.argv[2])
  directory.mkdir(parents=True, exist_ok=True)
  browser = browsers.Browser()
  page = browser.open(url, color_scheme="light", viewport={"width": 1180, "height": 935})
  browsers.wait_state(page, "finished")
  page.fill("#step", "1")
  page.hover("#stream .token >> nth=0")
  page.wait_for_selector("#alternatives li")
  page.evaluate("document.activeElement.blur()")
  page.screenshot(path=directory / "cache.png")
  for run in (1, 2):
    page.fill("#step", str(run - 1))
    page.wait_for_selector(f'#step-text:text("run {run} of 3")')
    save_svg(page, directory, f"attention-run-{run}")

  page.fill("#prompt", PROMPT)
  page.fill("#maxTokens", "10")
  page.click("#compare")
  page.wait_for_selector('#verdict[data-identical="true"]:has-text("3 executions")')
  page.wait_for_selector("#run")
  page.evaluate("document.activeElement.blur()")
  page.locator("#panel .three").screenshot(path=directory / "compare.png")
  save_svg(page, directory, "work")
  page.click('[data-execution="EXECUTION_SPLIT"] >> text=Step through it')
  page.click("#tab-journey")
  save_svg(page, directory, "journey")
  browser.stop()


if __name__ == "__main__":
  main()
