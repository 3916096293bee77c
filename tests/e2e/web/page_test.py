#!/usr/bin/env python3
"""The page of the router in a real Chromium, in front of real workers.

What it draws is compared with the events that came over HTTP, which the tests read for themselves. Screenshots are left
in $KVRELAY_BINARY_DIR/web-screenshots.
"""

import json
import os
import pathlib
import sys
import unittest
from xml.etree import ElementTree

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "http"))
import browser as browsers
import service as services
from axe_playwright_python.sync_playwright import Axe

SHOTS = pathlib.Path(os.environ["KVRELAY_BINARY_DIR"]) / "web-screenshots"
TOKEN = "0123456789abcdef0123456789abcdef"
HOSTILE = ('<img src=x onerror="window.pwned=1"><script>window.pwned=1</script></style>{{7*7}}${window.pwned=1}'
           '\u202egnp\u0007\u001b[31m\ufeff"\'`&lt;')

service = url = browser = None


def setUpModule():
  global service, url, browser
  SHOTS.mkdir(exist_ok=True)
  service = services.Service(decodes=2)
  url = service.start_router("router")
  service.wait_ready("router")
  browser = browsers.Browser()


def tearDownModule():
  browser.stop()
  complaints = service.stop()
  assert not complaints, "\n".join(complaints)


def runs_of(events):
  return [event["run"] for event in events if "run" in event]


def expected(run, shipped):
  """The cells of one run, by what generation.proto says of its counts: kind to (first, last)."""
  first, end = run["first_position"], run["end_position"]
  fresh = first + run["recomputed"]
  ranges = {"again": (first, fresh), "first": (fresh, end), "rejected": (end, end + run["rejected"]),
            "shipped": (end - shipped, end), "selected": (run["history"] - 1, run["history"])}
  cells = {kind: (a, b - 1) for kind, (a, b) in ranges.items() if a < b}
  assert end - fresh == run["computed"] and run["positions_read"] == end
  if first > 0:
    cells["read"] = (0, first - 1)
  return cells


def drawn(page):
  """The cells that are on the page, by run."""
  cells = {}
  for run, kind, first, last in page.eval_on_selector_all(
      "#cache-figure [data-kind]", "all => all.map((e) => [e.dataset.run, e.dataset.kind, e.dataset.first, e.dataset.last])"):
    kinds = cells.setdefault(int(run), {})
    # What was found in the prefix cache is read too.
    kind = "read" if kind == "reused" else kind
    first, last = int(first), int(last)
    if kind in kinds:
      first, last = min(first, kinds[kind][0]), max(last, kinds[kind][1])
    kinds[kind] = (first, last)
  return cells


def colours(page):
  return page.evaluate("""() => Object.fromEntries([...document.querySelectorAll("#cache-figure [data-kind]")]
      .map((e) => [e.dataset.kind, getComputedStyle(e).fill]))""")


def text_of_tokens(page):
  return page.eval_on_selector_all("#stream .token", "all => all.map((e) => e.textContent).join('')")


class Page(unittest.TestCase):
  def tearDown(self):
    for context in browser.chromium.contexts:
      for page in context.pages:
        self.assertEqual(page.evaluate("violations"), [])
        self.assertEqual(page.complaints, [])
        self.assertIsNone(page.evaluate("window.pwned ?? null"))
      context.close()

  def check_drawing(self, page, events):
    """Every cell, boundary and pair of every run."""
    runs = runs_of(events)
    page.click("#fit")
    browsers.until(page, f"document.querySelectorAll('#cache-figure [data-kv-ready]').length === {len(runs)}")
    after = [event["positions"]["shipped"] for event in events if "run" in event]
    shipped = [now - before for before, now in zip([0] + after, after)]
    self.check_places(page)
    cells = drawn(page)
    self.assertEqual(sorted(cells), [run["run"] for run in runs])
    boundaries = dict(page.eval_on_selector_all(
        "#cache-figure [data-kv-ready]", "all => all.map((e) => [Number(e.dataset.run), Number(e.dataset.kvReady)])"))
    for run, sent in zip(runs, shipped):
      self.assertEqual(cells[run["run"]], expected(run, sent))
      self.assertEqual(boundaries[run["run"]], run["kv_ready"])
      page.fill("#step", str(run["run"] - 1))
      pairs = page.wait_for_selector(f'#layer-figure[data-pairs="{run["attention_pairs"]}"]')
      drawn_pairs = pairs.evaluate("e => [...e.querySelectorAll('.pair')].reduce((n, p) => n + Number(p.dataset.pairs), 0)")
      self.assertEqual(drawn_pairs, int(run["attention_pairs"]))
    page.click("#fit")

  def check_places(self, page):
    """What an element says of its positions is where it stands, and how wide it is."""
    places = page.eval_on_selector_all("#cache-figure [data-kind]", """all => all.map((e) => [Number(e.dataset.first),
        Number(e.dataset.last) + 1, Number(e.getAttribute("x")), Number(e.getAttribute("width"))])""")
    gap = 1  # between cells
    cell = (places[0][3] + gap) / (places[0][1] - places[0][0])
    left = places[0][2] - places[0][0] * cell
    for first, end, x, width in places:
      self.assertAlmostEqual(x, left + first * cell, places=3)
      self.assertAlmostEqual(width + gap, (end - first) * cell, places=3)

  def check_exports(self, page):
    def saved(button):
      with page.expect_download() as download:
        page.click(button)
      return pathlib.Path(download.value.path()).read_bytes()
    figure = ElementTree.fromstring(saved("text=Save SVG"))
    fills = {element.get("fill") for element in figure.iter() if "pair" in element.get("class", "")}
    self.assertEqual(fills, {"rgb(87, 180, 138)"}, "looks are written into the file")
    png = saved("text=Save PNG")
    self.assertEqual(png[:8], b"\x89PNG\r\n\x1a\n")
    self.assertGreater(len(png), 2000)
    page.click("#tab-journey")
    trace = json.loads(saved("#perfetto"))["traceEvents"]
    self.assertEqual(sorted(event["name"] for event in trace if event.get("cat") in ("prefill", "decode")
                            and event["name"].startswith("run")), ["run 1", "run 2", "run 3"])

  def test_1_the_example_opens_from_a_real_run(self):
    page = browser.open(url)
    browsers.wait_state(page, "finished")
    page.wait_for_selector('#step-text:text("run 3 of 3")')
    events = browsers.answer(page, 0)
    self.assertEqual([(run["computed"], run["positions_read"], run["kv_ready"], run["history"]) for run in runs_of(events)],
                     [(3, 3, 3, 4), (1, 4, 4, 5), (1, 5, 5, 6)])
    self.check_drawing(page, events)
    page.screenshot(path=SHOTS / "example.png")
    self.check_exports(page)
    print("first paint, ms:", page.evaluate("performance.getEntriesByName('first-contentful-paint')[0]?.startTime"))

  def test_2_cells_equal_events_in_all_executions(self):
    page = browser.open(url)
    browsers.wait_state(page, "finished")
    page.fill("#prompt", "one two three four one two three four one two three")
    page.fill("#maxTokens", "12")
    page.click("#compare")
    page.wait_for_selector('#verdict[data-identical="true"]:has-text("3 executions")')
    page.screenshot(path=SHOTS / "compare.png", full_page=True)
    answers = [browsers.answer(page, number) for number in (1, 2, 3)]  # 0 was the example
    for execution, events in zip(("NO_CACHE", "LOCAL", "SPLIT"), answers):
      self.assertEqual(events[0]["started"]["placement"]["execution"], f"EXECUTION_{execution}")
      computed = page.inner_text(f'[data-execution="EXECUTION_{execution}"] [data-cost="computed"]')
      self.assertEqual(int(computed.replace(",", "")), sum(run["computed"] + run["recomputed"] for run in runs_of(events)))
      for cost, field in (("flops", "flops"), ("read", "kv_bytes_read")):
        shown = page.get_attribute(f'[data-execution="EXECUTION_{execution}"] [data-cost="{cost}"]', "data-value")
        self.assertEqual(int(shown), sum(int(run[field]) for run in runs_of(events)))
      page.click(f'[data-execution="EXECUTION_{execution}"] >> text=Step through it')
      self.check_drawing(page, events)
      seen = colours(page)
      self.assertEqual(seen["first"], "rgb(238, 138, 51)")
      self.assertEqual(seen.get("again", "rgb(155, 120, 201)"), "rgb(155, 120, 201)")
      self.assertEqual("again" in seen, execution == "NO_CACHE")
      self.assertEqual("read" in seen, execution != "NO_CACHE")
      self.assertEqual("shipped" in seen, execution == "SPLIT")
      page.click("#tab-compare")

  def test_3_typed_streamed_stopped_shared_reopened(self):
    page = browser.open(url)
    browsers.wait_state(page, "finished")
    page.fill("#prompt", "The river")
    page.fill("#maxTokens", "400")
    page.fill("#temperature", "0.8")
    page.click("summary")
    page.check("text=Go on past the end")
    browsers.press_run(page)
    browsers.until(page, "document.querySelectorAll('#stream .token').length > 5")
    page.click("#stop")
    page.wait_for_selector("#stopped")
    self.assertLess(page.locator("#stream .token").count(), 400)
    services.wait_until(lambda: service.idle("router"), "the service still works for a stopped request")

    browsers.run(page, "The river", max_tokens=12, temperature=0.8)
    first = text_of_tokens(page)
    page.hover("#stream .token >> nth=1")
    self.assertGreaterEqual(page.locator("#alternatives li").count(), 5)
    page.focus("#stream")
    page.keyboard.press("ArrowRight")
    page.wait_for_selector('#alternatives:has-text("x2")')
    page.click("#share")
    browsers.until(page, "location.hash.startsWith('#r=')")
    page.screenshot(path=SHOTS / "shared.png")

    other = browser.open(page.url)
    other.wait_for_selector('#notice:has-text("came with the link")')
    self.assertEqual(other.input_value("#prompt"), "The river")
    self.assertEqual(other.input_value("#temperature"), "0.8")
    self.assertEqual(other.locator("#stream").count(), 0, "a link runs nothing by itself")
    other.click("#run")
    browsers.wait_state(other, "finished")
    self.assertEqual(text_of_tokens(other), first)

  def test_4_two_thousand_positions(self):
    page = browser.open(url)
    browsers.wait_state(page, "finished")
    page.fill("#prompt", " word" * 1900)
    page.select_option("#execution", "EXECUTION_LOCAL")
    page.fill("#maxTokens", "100")
    page.click("summary")
    page.check("text=Go on past the end")
    browsers.press_run(page)
    browsers.wait_state(page, "finished", "failed")
    runs = runs_of(browsers.answer(page, 1))
    self.assertEqual(runs[-1]["history"], 2000)
    page.wait_for_selector('#step-text:text("run 100 of 100")')
    # Every frame something else is in view: another run, another part of the columns.
    frames = page.evaluate("""() => new Promise((done) => {
      const times = [], grid = document.querySelector("#cache-figure .grid"), step = document.querySelector("#step");
      let last = performance.now(), n = 0;
      const frame = (now) => {
        times.push(now - last);
        last = now;
        if (++n > 90) return done(times.slice(1).sort((a, b) => a - b));
        grid.scrollLeft = (n * 211) % grid.scrollWidth;
        step.value = String(n);
        step.dispatchEvent(new Event("input", {bubbles: true}));
        requestAnimationFrame(frame);
      };
      requestAnimationFrame(frame);
    })""")
    elements = page.evaluate("document.querySelectorAll('*').length")
    print(f"2,000 positions: frame time median {frames[45]:.1f} ms, worst {frames[-1]:.1f} ms; {elements} elements")
    self.assertLess(elements, 3000)
    page.click("#fit")
    page.fill("#step", "99")
    read = runs[-1]["first_position"]
    self.assertGreaterEqual(read, 1990)
    page.wait_for_selector(f'#cache-figure [data-run="100"][data-kind="read"][data-last="{read - 1}"]')
    page.screenshot(path=SHOTS / "long.png")

  def test_5_hostile_text_is_text(self):
    page = browser.open(url)
    browsers.wait_state(page, "finished")
    for mode in ("Text", "Chat"):
      page.click(f'.modes >> text="{mode}"')
      page.fill("#prompt" if mode == "Text" else ".turn textarea", HOSTILE)
      page.fill("#maxTokens", "4")
      browsers.press_run(page)
      browsers.wait_state(page, "finished")
      self.assertIn(HOSTILE.replace("\r", ""), page.text_content("#stream .prompt"))
    page.click("#share")
    browsers.until(page, "location.hash.startsWith('#r=')")
    browsers.wait_state(browser.open(page.url + "x"), "finished", "failed")  # no request: the example
    self.assertEqual(page.locator("#page img, #page script, #page style").count(), 0)
    page.click('.modes >> text="Text"')
    for text, message in ((" a" * 100_000, "context"), ("x" * 1_200_000, "")):
      page.fill("#prompt", text)
      browsers.press_run(page)
      browsers.wait_state(page, "failed")
      self.assertIn(message, page.inner_text("#failure"))

  def test_6_accessible_in_both_themes_and_narrow(self):
    axe = Axe()
    for scheme, width in (("light", 1280), ("dark", 380)):
      page = browser.open(url, color_scheme=scheme, viewport={"width": width, "height": 900}, reduced_motion="reduce")
      browsers.wait_state(page, "finished")
      page.hover("#stream .token >> nth=0")
      for tab in ("cache", "compare", "journey", "fleet"):
        page.click(f"#tab-{tab}")
        if tab == "compare":
          page.click("#compare")
          page.wait_for_selector('#verdict[data-identical]:has-text("3 exec")')
          page.wait_for_selector("#run")
        if tab == "fleet":
          page.wait_for_selector('[data-worker="decode-2"][data-ready="true"]')
          label = browsers.answer(page, 0)[0]["started"]["request_id"]
          page.wait_for_selector(f'#requests [data-request="{label}"][data-running="false"] button')
        found = axe.run(page).response["violations"]
        serious = [(rule["id"], [node["target"] for node in rule["nodes"]][:3]) for rule in found
                   if rule["impact"] in ("serious", "critical")]
        self.assertEqual(serious, [], f"{tab}, {scheme}")
        self.assertLessEqual(page.evaluate("document.documentElement.scrollWidth"), width)
        page.screenshot(path=SHOTS / f"{tab}-{scheme}.png", full_page=True)

  def test_7_tour_by_keyboard(self):
    page = browser.open(url)
    browsers.wait_state(page, "finished")
    page.focus('nav >> text="둘러보기"')
    page.keyboard.press("Enter")
    page.wait_for_selector('.tour[lang="ko"] h2:focus')
    for title in ("캐시가 없으면", "캐시가 있으면", "다시 계산하지", "선택된 것과", "두 종류의"):
      page.click('.tour >> text="다음"')
      page.wait_for_selector(f'.tour h2:has-text("{title}")')
      page.wait_for_selector("#run")
    page.wait_for_selector('#journey-figure [data-lane="link"]')
    page.click('.tour >> text="English"')
    page.wait_for_selector('.tour[lang="en"]')
    page.screenshot(path=SHOTS / "tour.png")
    page.keyboard.press("Escape")
    page.wait_for_selector(".tour", state="detached")

  def test_8_a_service_that_asks_for_a_token(self):
    tokens = service.directory / "tokens"
    tokens.write_text(f"page {TOKEN}\n")
    tokens.chmod(0o600)
    closed = service.start_router("closed", "--client-tokens", tokens)
    page = browser.open(closed)
    browsers.wait_state(page, "failed")
    page.fill("#bearer", TOKEN)
    page.click("text=Use it")
    browsers.wait_state(page, "finished")
    self.assertNotIn(TOKEN, page.evaluate("JSON.stringify([localStorage, sessionStorage, document.cookie, location.href])"))
    self.assertEqual(service.terminate("closed"), 0)

  # Last: a worker is gone after it.
  def test_9_a_decode_worker_dies(self):
    page = browser.open(url)
    browsers.wait_state(page, "finished")
    page.click("summary")
    page.check("text=Go on past the end")
    page.fill("#prompt", "A long walk")
    page.select_option("#execution", "EXECUTION_SPLIT")
    page.fill("#maxTokens", "160")
    browsers.press_run(page)
    browsers.until(page, "document.querySelectorAll('#stream .token').length > 20")
    victim = page.inner_text("#run-text .mono >> nth=0")
    self.assertIn(victim, service.decodes)
    service.kill(victim)
    browsers.wait_state(page, "finished", "failed")
    events = browsers.answer(page, 1)
    self.assertEqual(events[-1]["finished"]["replans"], 1)
    self.assertEqual(page.locator("#stream .token").count(), 160)
    page.click("#tab-journey")
    self.assertIn(f"after {victim}", page.inner_text("#incidents"))
    self.assertIn("computed again", page.inner_text("#incidents"))
    self.assertEqual(page.locator("#journey-figure [data-incident]").count(), 1)
    page.screenshot(path=SHOTS / "death.png", full_page=True)
    text = text_of_tokens(page)
    browsers.press_run(page)
    browsers.wait_state(page, "finished")
    self.assertEqual(text_of_tokens(page), text, "as an undisturbed run")


if __name__ == "__main__":
  unittest.main()
