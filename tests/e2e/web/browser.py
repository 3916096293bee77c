"""A real Chromium, and the page in it, for tests and screenshots."""

import json
import os
import shutil
import sys
import time

sys.path.insert(0, f"{os.environ['KVRELAY_SOURCE_DIR']}/models/python-%d.%d" % sys.version_info[:2])
from playwright import sync_api

PATIENCE_MS = 20_000
# Tells of each thing that the page's policy did not allow, and keeps each answer that came to its end.
WATCH = """window.violations = [];
document.addEventListener("securitypolicyviolation",
                          (event) => violations.push(`${event.violatedDirective} ${event.blockedURI}`));
window.answers = [];
const fetched = window.fetch;
window.fetch = async (path, options) => {
  const response = await fetched(path, options);
  if (path === "/kvrelay/v1/generate") response.clone().text().then((text) => answers.push(text), () => {});
  return response;
};"""


class Browser:
  """Chromium as Debian has it, without a window."""

  def __init__(self):
    program = os.environ.get("KVRELAY_CHROMIUM") or shutil.which("chromium")
    if not program:
      raise RuntimeError("there is no chromium: run ./dev test, or apt-get install chromium")
    self.playwright = sync_api.sync_playwright().start()
    # Tests may run as root, where Chromium has no sandbox; what it loads is our own.
    self.chromium = self.playwright.chromium.launch(executable_path=program, args=["--no-sandbox", "--disable-dev-shm-usage"])

  def stop(self):
    self.chromium.close()
    self.playwright.stop()

  def open(self, url, **options):
    """A page of its own context at `url`."""
    context = self.chromium.new_context(**({"viewport": {"width": 1280, "height": 1000}} | options))
    context.set_default_timeout(PATIENCE_MS)
    page = context.new_page()
    page.add_init_script(WATCH)
    page.complaints = []
    page.on("pageerror", lambda error: page.complaints.append(str(error)))
    page.on("console", lambda message: page.complaints.append(message.text)
            if message.type == "error" and "Failed to load resource" not in message.text else None)
    page.goto(url)
    return page


def until(page, expression):
  """Waits until an expression is true in the page. (Playwright's own way evaluates text there, which the policy forbids.)"""
  give_up = time.monotonic() + PATIENCE_MS / 1000
  while not page.evaluate(expression):
    if time.monotonic() > give_up:
      raise TimeoutError(f"never true: {expression}")
    page.wait_for_timeout(20)


def wait_state(page, *states):
  """Waits until the request that is shown has come to one of these states."""
  page.wait_for_selector(", ".join(f'.answer[data-state="{state}"]' for state in states))


def answer(page, number):
  """The messages of the page's answer number `number`, from 0, as they came over HTTP."""
  until(page, f"answers.length > {number}")
  return [json.loads(line) for line in page.evaluate(f"answers[{number}]").splitlines()]


def press_run(page):
  """Starts what is typed; returns when it is what the page shows."""
  before = int(page.get_attribute(".answer", "data-request") or 0)
  page.click("#run")
  page.wait_for_selector(f'.answer:not([data-request="{before}"])')


def run(page, prompt, execution="EXECUTION_LOCAL", max_tokens=8, **fields):
  """Types a request, runs it to its end, and returns its events."""
  page.fill("#prompt", prompt)
  page.select_option("#execution", execution)
  page.fill("#maxTokens", str(max_tokens))
  for field, value in fields.items():
    page.fill(f"#{field}", str(value))
  number = page.evaluate("answers.length")
  press_run(page)
  wait_state(page, "finished")
  return answer(page, number)
