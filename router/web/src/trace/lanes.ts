// Where the time of a request went, as lanes: router, workers, KV link, and this browser.
//
// Spans come from Timings and from start and duration of each run; both count from the request's arrival at the router,
// across processes exact to the network delay. This browser's clock counts from when it sent the request.
import type {TraceRecord} from "./record";

export type SpanKind = "queue" | "prefill" | "decode" | "again" | "transfer" | "hidden" | "token" | "wait";
export interface Span {
  kind: SpanKind;
  startMs: number;
  durationMs: number; // 0: a moment
  name: string;
  details: {[name: string]: string | number};
}
export interface Lane {
  id: string;
  title: string;
  spans: Span[];
}
// Something that went another way than planned.
export interface Incident {
  atMs: number;
  text: string;
}
export interface Journey {
  lanes: Lane[];
  incidents: Incident[];
  endMs: number;
}

function routerLane(record: TraceRecord): Lane {
  const timings = record.finished?.timings;
  const spans: Span[] = [];
  if (timings) {
    const queue = timings.routerQueueMs;
    spans.push({kind: "queue", startMs: 0, durationMs: queue, name: "queue", details: {}});
    spans.push({
      kind: "wait",
      startMs: queue,
      durationMs: timings.firstTokenMs - queue,
      name: "first token",
      details: {},
    });
    spans.push({
      kind: "decode",
      startMs: timings.firstTokenMs,
      durationMs: timings.decodeMs,
      name: "tokens to the client",
      details: {mean_gap_ms: timings.meanGapMs},
    });
  }
  return {id: "router", title: "router", spans};
}

function workerLanes(record: TraceRecord): Lane[] {
  const lanes = new Map<string, Lane>();
  const cached = record.started?.execution !== "EXECUTION_NO_CACHE";
  for (const run of record.runs) {
    const lane = lanes.get(run.instance) ?? {id: run.instance, title: run.instance, spans: []};
    lanes.set(run.instance, lane);
    const many = cached && run.end - run.first > 1;
    const kind: SpanKind = run.recomputed > 0 ? "again" : run.run === 1 || many ? "prefill" : "decode";
    const details = {
      positions: `${run.first}..${run.end - 1}`,
      computed: run.computed,
      recomputed: run.recomputed,
      read: run.positionsRead,
      kv_ready: run.kvReady,
      bytes_shipped: run.bytesShipped,
    };
    if (run.chunks.length === 0) {
      lane.spans.push({kind, startMs: run.startMs, durationMs: run.durationMs, name: `run ${run.run}`, details});
    }
    run.chunks.forEach(({first, end, startMs, durationMs}, i) => {
      const name = `run ${run.run}, chunk ${i + 1} of ${run.chunks.length}`;
      lane.spans.push({kind, startMs, durationMs, name, details: {...details, positions: `${first}..${end - 1}`}});
    });
  }
  const first = record.runs[0];
  const queued = record.finished?.timings.prefillQueueMs ?? 0;
  if (first && queued > 0) {
    lanes.get(first.instance)!.spans.unshift({
      kind: "queue",
      startMs: Math.max(0, first.startMs - queued),
      durationMs: queued,
      name: "queue",
      details: {},
    });
  }
  return [...lanes.values()];
}

// What was written layer by layer; then the commit, until the receipt.
function linkLane(record: TraceRecord): Lane | null {
  const source = record.runs.find((run) => run.shipments.length > 0);
  if (!source) return null;
  const computedMs = source.startMs + source.durationMs;
  const spans = source.shipments.map((shipment): Span => {
    const endMs = shipment.startMs + shipment.durationMs;
    return {
      kind: endMs <= computedMs ? "hidden" : "transfer",
      startMs: shipment.startMs,
      durationMs: shipment.durationMs,
      name: `layer ${shipment.layer}`,
      details: {positions: `${shipment.first}..${shipment.end - 1}`, bytes: shipment.bytes},
    };
  });
  const last = spans[spans.length - 1];
  const writtenMs = last.startMs + last.durationMs;
  const receiptMs = spans[0].startMs + (record.finished?.timings.transferMs ?? 0);
  if (receiptMs > writtenMs) {
    spans.push({
      kind: "transfer",
      startMs: writtenMs,
      durationMs: receiptMs - writtenMs,
      name: "commit and receipt",
      details: {bytes: source.bytesShipped},
    });
  }
  return {id: "link", title: "KV link", spans};
}

function browserLane(record: TraceRecord): Lane {
  const spans = record.arrivalMs.map((startMs, i): Span => ({
    kind: "token",
    startMs,
    durationMs: 0,
    name: `x${i} arrives`,
    details: {},
  }));
  return {id: "browser", title: "this browser", spans};
}

function incidentsOf(record: TraceRecord): Incident[] {
  const incidents: Incident[] = [];
  for (let i = 1; i < record.runs.length; ++i) {
    const run = record.runs[i];
    const before = record.runs[i - 1];
    // A prompt's KV goes from where it was computed to where it is extended: that is the plan.
    const handedOver =
      run.recomputed === 0 && (before.bytesShipped > 0 || (i === 1 && run.instance === record.started?.decodeInstance));
    if (run.instance === before.instance || handedOver) continue;
    const again = run.recomputed > 0 && record.started?.execution !== "EXECUTION_NO_CACHE";
    incidents.push({
      atMs: run.startMs,
      text: again
        ? `planned again after ${before.instance}: ${run.recomputed} positions computed again on ${run.instance}`
        : `goes on at ${run.instance} after ${before.instance}; nothing computed again`,
    });
  }
  const {attempts, replans, moves} = record.finished ?? {attempts: 1, replans: 0, moves: 0};
  if (attempts > 1) incidents.push({atMs: 0, text: `${attempts} prefill attempts`});
  if (replans > 0) incidents.push({atMs: 0, text: `planned again ${replans} time${replans > 1 ? "s" : ""}`});
  if (moves > 0) incidents.push({atMs: 0, text: `moved ${moves} time${moves > 1 ? "s" : ""}`});
  return incidents;
}

export function journeyOf(record: TraceRecord): Journey {
  const workers = workerLanes(record);
  const link = linkLane(record);
  const lanes = [
    browserLane(record),
    routerLane(record),
    ...workers.slice(0, 1),
    ...(link ? [link] : []),
    ...workers.slice(1),
  ];
  const ends = lanes.flatMap((lane) => lane.spans.map((span) => span.startMs + span.durationMs));
  return {lanes, incidents: incidentsOf(record), endMs: ends.reduce((a, b) => Math.max(a, b), 1)};
}
