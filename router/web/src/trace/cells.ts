// From trace events to the cells of the drawing: for each run, ranges of positions by what happened to them.
//
//   first      computed for the first time in this request        again     computed again
//   read       K and V read from the cache, not computed          reused    the same, found in the prefix cache
//   shipped    K and V sent to another worker (drawn under the cell)
//   rejected   wrong guesses, computed with the run and dropped (drawn under the cell)
//   selected   the token that the run selected: it has no K and V yet
//
// Each kind's cells are as many as the event says; `problem` tells when they cannot be.
import type {Positions, Run} from "../api/events";
import type {TraceRecord} from "./record";

export type Kind = "first" | "again" | "read" | "reused" | "shipped" | "rejected" | "selected";

export interface Range {
  kind: Kind;
  first: number;
  end: number; // one past the last
}

export interface Row {
  run: Run;
  ranges: Range[];
  kvReady: number; // the boundary: positions before it have K and V
  prefill: boolean; // the run that took the prompt, or took it again on another worker
  guessed: boolean; // its token had been guessed: it shared the step of the run before
  problem: string;
}

function checked(run: Run, cached: boolean): string {
  if (run.computed + run.recomputed !== run.end - run.first) {
    return `run ${run.run} took ${run.end - run.first} positions and computed ${run.computed + run.recomputed}`;
  }
  if (run.positionsRead !== run.end) return `run ${run.run} ends at ${run.end} and read ${run.positionsRead} positions`;
  if (cached && run.history - run.kvReady !== 1) {
    return `after run ${run.run} the history is ${run.history} and KV is ready for ${run.kvReady}`;
  }
  return "";
}

// `before`, `after`: accounting around the run. `held`: positions that earlier runs left on any worker.
export function rowOf(run: Run, before: Positions | null, after: Positions, held: number, cached: boolean): Row {
  const fresh = run.first + run.recomputed;
  const reused = held < run.first ? run.first : 0; // nobody in this request computed them
  const shipped = after.shipped - (before?.shipped ?? 0);
  const ranges: Range[] = [
    {kind: "reused", first: 0, end: reused},
    {kind: "read", first: reused, end: run.first},
    {kind: "again", first: run.first, end: fresh},
    {kind: "first", first: fresh, end: run.end},
    {kind: "shipped", first: Math.max(0, run.end - shipped), end: run.end},
    {kind: "rejected", first: run.end, end: run.end + run.rejected},
    {kind: "selected", first: run.history - 1, end: run.history},
  ];
  return {
    run,
    ranges: ranges.filter((range) => range.first < range.end),
    kvReady: run.kvReady,
    prefill: run.run === 1 || (cached && run.end - run.first > 1),
    guessed: run.run > 1 && run.durationMs === 0,
    problem: checked(run, cached),
  };
}

// Rows [first, end) of a record: what a window of the drawing needs.
export function rowsOf(record: TraceRecord, first = 0, end = record.runs.length): Row[] {
  const cached = record.started?.execution !== "EXECUTION_NO_CACHE";
  const rows: Row[] = [];
  for (let i = Math.max(0, first); i < Math.min(end, record.runs.length); ++i) {
    const held = i === 0 ? 0 : record.runs[i - 1].end;
    rows.push(rowOf(record.runs[i], record.positionsAfter[i - 1] ?? null, record.positionsAfter[i], held, cached));
  }
  return rows;
}

export function count(ranges: Range[], kind: Kind): number {
  return ranges.reduce((sum, range) => sum + (range.kind === kind ? range.end - range.first : 0), 0);
}
