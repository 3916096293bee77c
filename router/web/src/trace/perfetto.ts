// A journey as Chrome trace events, which ui.perfetto.dev opens. Times there are microseconds.
import type {Journey} from "./lanes";

export function perfettoJson(journey: Journey): string {
  const events: unknown[] = [];
  journey.lanes.forEach((lane, i) => {
    const at = {pid: 1, tid: i + 1};
    events.push({ph: "M", name: "thread_name", ...at, args: {name: lane.title}});
    events.push({ph: "M", name: "thread_sort_index", ...at, args: {sort_index: i}});
    for (const span of lane.spans) {
      const event = {name: span.name, cat: span.kind, ts: span.startMs * 1000, args: span.details, ...at};
      events.push(span.durationMs > 0 ? {...event, ph: "X", dur: span.durationMs * 1000} : {...event, ph: "i", s: "t"});
    }
  });
  for (const incident of journey.incidents) {
    events.push({ph: "i", s: "p", name: incident.text, cat: "incident", ts: incident.atMs * 1000, pid: 1, tid: 0});
  }
  return JSON.stringify({displayTimeUnit: "ms", traceEvents: events});
}
