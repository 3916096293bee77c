import assert from "node:assert/strict";
import test from "node:test";
import {attentionOf, pairsBetween} from "../src/trace/attention";
import {count, type Kind, rowsOf} from "../src/trace/cells";
import {costsOf, curve, sameTokens} from "../src/trace/compare";
import {journeyOf} from "../src/trace/lanes";
import {rangeNames, visible} from "../src/trace/names";
import {perfettoJson} from "../src/trace/perfetto";
import {events, type Options, record} from "./records";
import {readEvent} from "../src/api/events";
import {TraceRecord} from "../src/trace/record";

const ALL: Options[] = [
  {execution: "LOCAL", prompt: 3, tokens: 3},
  {execution: "SPLIT", prompt: 3, tokens: 3},
  {execution: "NO_CACHE", prompt: 3, tokens: 3},
  {execution: "LOCAL", prompt: 130, tokens: 5, reused: 128},
];

test("the article's example", () => {
  const cells = (execution: Options["execution"]) =>
    rowsOf(record({execution, prompt: 3, tokens: 3})).map(
      (row) => row.ranges.map(({kind, first, end}) => `${kind} ${first}-${end - 1}`).join(", ") + ` | ${row.kvReady}`,
    );
  assert.deepEqual(cells("LOCAL"), [
    "first 0-2, selected 3-3 | 3",
    "read 0-2, first 3-3, selected 4-4 | 4",
    "read 0-3, first 4-4, selected 5-5 | 5",
  ]);
  assert.deepEqual(cells("NO_CACHE"), [
    "first 0-2, selected 3-3 | 0",
    "again 0-2, first 3-3, selected 4-4 | 0",
    "again 0-3, first 4-4, selected 5-5 | 0",
  ]);
  assert.deepEqual(cells("SPLIT")[0], "first 0-2, shipped 0-2, selected 3-3 | 3");
});

test("cells are as many as the events say", () => {
  for (const options of ALL) {
    const made = record(options);
    for (const {run, ranges, problem} of rowsOf(made)) {
      const sum = (...kinds: Kind[]) => kinds.reduce((n, kind) => n + count(ranges, kind), 0);
      assert.equal(problem, "");
      assert.equal(sum("first"), run.computed);
      assert.equal(sum("again"), run.recomputed);
      assert.equal(sum("first", "again", "read", "reused"), run.positionsRead);
      assert.equal(sum("selected"), 1);
    }
  }
});

test("a prefix found in the cache is told from what the request computed", () => {
  const [first, second] = rowsOf(record(ALL[3]));
  assert.equal(count(first.ranges, "reused"), 128);
  assert.equal(count(second.ranges, "reused"), 0);
  assert.equal(count(second.ranges, "read"), 130);
});

test("a trace that does not add up is told", () => {
  const made = record(ALL[0]);
  made.runs[1] = {...made.runs[1], computed: 2};
  assert.equal(rowsOf(made)[1].problem, "run 2 took 1 positions and computed 2");
  made.runs[2] = {...made.runs[2], kvReady: 6};
  assert.ok(rowsOf(made)[2].problem.includes("KV is ready for 6"));
});

test("wrong guesses stand behind the run", () => {
  const made = record(ALL[0]);
  made.runs[1] = {...made.runs[1], rejected: 4};
  assert.deepEqual(
    rowsOf(made)[1].ranges.find((range) => range.kind === "rejected"),
    {kind: "rejected", first: 4, end: 8},
  );
});

test("attention has all pairs of the run, however it is cut", () => {
  for (const options of ALL) {
    for (const run of record(options).runs) {
      for (const [columns, rows] of [
        [5, 4],
        [24, 8],
        [300, 300],
      ]) {
        const attention = attentionOf(run, columns, rows);
        assert.equal(attention.pairs, run.pairs);
        assert.ok(attention.columns.length <= columns && attention.rows.length <= rows);
      }
    }
  }
  for (const [q0, q1, k0, k1] of [
    [0, 5, 0, 5],
    [3, 9, 2, 7],
    [4, 5, 0, 9],
    [0, 2, 3, 6],
    [6, 9, 1, 2],
  ]) {
    let pairs = 0;
    for (let q = q0; q < q1; ++q) for (let k = k0; k < k1; ++k) pairs += k <= q ? 1 : 0;
    assert.equal(pairsBetween({first: q0, end: q1}, {first: k0, end: k1}), pairs);
  }
});

test("costs and comparison", () => {
  const [local, split, none] = ALL.slice(0, 3).map(record);
  assert.deepEqual(costsOf(none), {
    runs: 3,
    computed: 12,
    recomputed: 7,
    pairs: 31,
    flops: 12310,
    read: 0,
    readBytes: 0,
    shippedBytes: 0,
    totalMs: 260,
  });
  assert.equal(costsOf(local).computed, 5);
  assert.equal(costsOf(local).read, 7);
  assert.equal(costsOf(local).readBytes, 70);
  assert.equal(costsOf(local).flops, 5150);
  assert.deepEqual(
    curve(local, "flops").map((point) => point.y),
    [3060, 4100, 5150],
  );
  assert.deepEqual(curve(none, "computed"), [
    {x: 4, y: 3},
    {x: 5, y: 7},
    {x: 6, y: 12},
  ]);
  assert.deepEqual(sameTokens([local, split, none]), {compared: 3, identical: true, difference: ""});
  none.tokens[1] = {...none.tokens[1], logprob: -0.5000001};
  assert.ok(sameTokens([local, none]).difference.endsWith("differ at x1"));
  none.tokens.pop();
  assert.equal(sameTokens([local, none]).identical, false);
});

test("lanes, incidents and Perfetto", () => {
  const split = journeyOf(record(ALL[1]));
  assert.deepEqual(
    split.lanes.map((lane) => lane.id),
    ["browser", "router", "a", "link", "b"],
  );
  assert.deepEqual(split.incidents, []);
  assert.deepEqual(
    split.lanes[3].spans.map((span) => [span.name, span.kind, Math.round(span.startMs), Math.round(span.durationMs)]),
    [
      ["layer 0", "hidden", 20, 20],
      ["layer 1", "transfer", 50, 5],
      ["commit and receipt", "transfer", 55, 5],
    ],
  );
  const long = record(ALL[0]);
  const chunk = {first: 0, end: 2, startMs: 1, durationMs: 20};
  long.runs[0] = {...long.runs[0], chunks: [chunk, {...chunk, first: 2, end: 3, startMs: 30}]};
  const lane = journeyOf(long).lanes.find((l) => l.id === "b")!;
  assert.deepEqual(
    lane.spans.slice(0, 3).map((span) => [span.name, span.startMs]),
    [
      ["run 1, chunk 1 of 2", 1],
      ["run 1, chunk 2 of 2", 30],
      ["run 2", 100],
    ],
  );
  const again = record(ALL[0]);
  again.runs[2] = {...again.runs[2], instance: "c", first: 0, recomputed: 4};
  assert.ok(journeyOf(again).incidents[0].text.includes("4 positions computed again on c"));
  const trace = JSON.parse(perfettoJson(split)) as {traceEvents: {ph: string; dur?: number}[]};
  assert.ok(trace.traceEvents.some((event) => event.ph === "X" && event.dur === 50_000));
});

test("streams that stop, break or end early", () => {
  const lines = events(ALL[0]).map(readEvent);
  const cut = new TraceRecord(1, {}, "");
  lines.slice(0, -1).forEach((event) => cut.add(event, 0));
  cut.close();
  assert.equal(cut.state, "failed");
  const broken = new TraceRecord(1, {}, "");
  broken.add(readEvent({error: {message: "lost"}}), 0);
  broken.close();
  assert.equal(broken.state + broken.error, "failedlost");
  const stopped = new TraceRecord(1, {}, "");
  stopped.stop();
  stopped.close();
  assert.equal(stopped.state, "stopped");
});

test("names", () => {
  assert.equal(rangeNames(0, 5, 3), "p0..p2 x0..x1");
  assert.equal(rangeNames(3, 4, 3), "x0");
  assert.equal(rangeNames(2, 2, 3), "none");
  assert.equal(visible("a b\n\u0000\u202e"), "a·b⏎␀⟨202e⟩");
});
