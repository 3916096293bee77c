// What the same request cost in different executions, and whether it gave the same tokens.
import type {TraceRecord} from "./record";

export interface Costs {
  runs: number;
  computed: number; // positions, first time or again
  recomputed: number;
  pairs: number; // of attention, per layer and head
  flops: number;
  read: number; // positions whose K and V were read from a cache, over all runs
  readBytes: number; // their K and V
  shippedBytes: number;
  totalMs: number; // 0: not finished
}

export function costsOf(record: TraceRecord): Costs {
  const costs: Costs = {
    runs: record.runs.length,
    computed: 0,
    recomputed: 0,
    pairs: 0,
    flops: 0,
    read: 0,
    readBytes: 0,
    shippedBytes: 0,
    totalMs: record.totalMs,
  };
  for (const run of record.runs) {
    costs.computed += run.computed + run.recomputed;
    costs.recomputed += run.recomputed;
    costs.pairs += run.pairs;
    costs.flops += run.flops;
    costs.read += run.positionsRead - (run.end - run.first);
    costs.readBytes += run.kvBytesRead;
    costs.shippedBytes += run.bytesShipped;
  }
  return costs;
}

export type Quantity = "computed" | "flops" | "time";

// The sum of a quantity up to each run, against the history after it.
export function curve(record: TraceRecord, quantity: Quantity): {x: number; y: number}[] {
  let sum = 0;
  const origin = record.runs[0]?.startMs ?? 0;
  return record.runs.map((run) => {
    sum += quantity === "computed" ? run.computed + run.recomputed : run.flops;
    return {x: run.history, y: quantity === "time" ? run.startMs + run.durationMs - origin : sum};
  });
}

export interface Verdict {
  compared: number;
  identical: boolean;
  difference: string;
}

// Whether all records selected the same tokens, with the same log-probabilities to the bit.
export function sameTokens(records: TraceRecord[]): Verdict {
  const done = records.filter((record) => record.state === "finished");
  const [base, ...others] = done;
  for (const other of others) {
    const length = Math.max(base.tokens.length, other.tokens.length);
    for (let i = 0; i < length; ++i) {
      const a = base.tokens[i];
      const b = other.tokens[i];
      if (a?.id !== b?.id || !Object.is(a.logprob, b.logprob)) {
        return {
          compared: done.length,
          identical: false,
          difference: `${base.title} and ${other.title} differ at x${i}`,
        };
      }
    }
  }
  return {compared: done.length, identical: true, difference: ""};
}
