// Records as the service would make them, by the rules of generation.proto.
import {readEvent} from "../src/api/events";
import {TraceRecord} from "../src/trace/record";

export interface Options {
  execution: "SPLIT" | "LOCAL" | "NO_CACHE";
  prompt: number;
  tokens: number;
  reused?: number;
}

// The events of a request, in protobuf's JSON.
export function events({execution, prompt, tokens, reused = 0}: Options): unknown[] {
  const cached = execution !== "NO_CACHE";
  const positions = {
    prompt,
    computed: 0,
    reused,
    received: 0,
    shipped: 0,
    recomputed: 0,
    discarded: 0,
    kv_ready: 0,
    selected: 0,
  };
  const lines: unknown[] = [
    {
      started: {
        request_id: "r",
        seed: "7",
        prompt_tokens: prompt,
        prompt_token_ids: Array(prompt).fill(5),
        placement: {execution: `EXECUTION_${execution}`, prefill_instance: "a", decode_instance: "b"},
      },
      positions: {...positions},
    },
  ];
  for (let i = 0; i < tokens; ++i) {
    const end = prompt + i;
    const first = !cached ? 0 : i === 0 ? reused : end - 1;
    const again = cached || i === 0 ? 0 : end - 1;
    positions.computed += end - first;
    positions.recomputed += again;
    positions.selected = i + 1;
    positions.kv_ready = cached ? end : 0;
    if (execution === "SPLIT") positions.shipped = positions.received = prompt - reused;
    let pairs = 0;
    for (let q = first; q < end; ++q) pairs += q + 1;
    lines.push({token: {index: i, id: 100 + i, text: `t${i}`, logprob: -0.5}, positions: {...positions}});
    lines.push({
      run: {
        run: i + 1,
        instance: execution === "SPLIT" && i === 0 ? "a" : "b",
        first_position: first,
        end_position: end,
        computed: end - first - again,
        recomputed: again,
        appended: end - first,
        positions_read: end,
        attention_pairs: String(pairs),
        token_id: 100 + i,
        kv_ready: positions.kv_ready,
        history: end + 1,
        start: `${i / 10}s`,
        duration: "0.05s",
        flops: String(1000 * (end - first) + 10 * pairs),
        kv_bytes_read: String(10 * first),
        shipments:
          execution === "SPLIT" && i === 0
            ? [
                {
                  layer: 0,
                  first_position: reused,
                  end_position: prompt,
                  start: "0.02s",
                  duration: "0.02s",
                  bytes: "15",
                },
                {
                  layer: 1,
                  first_position: reused,
                  end_position: prompt,
                  start: "0.05s",
                  duration: "0.005s",
                  bytes: "15",
                },
              ]
            : [],
        bytes_shipped: execution === "SPLIT" && i === 0 ? String(10 * (prompt - reused)) : "0",
      },
      positions: {...positions},
    });
  }
  lines.push({
    finished: {
      reason: "FINISH_REASON_LENGTH",
      usage: {prompt, completion: tokens},
      attempts: 1,
      timings: {first_token: "0.06s", decode: "0.2s", transfer: "0.04s", transfer_hidden: "0.03s"},
    },
    positions: {...positions},
  });
  return lines;
}

export function record(options: Options): TraceRecord {
  const made = new TraceRecord(1, {}, options.execution);
  events(options).forEach((event, i) => made.add(readEvent(event), i));
  made.close();
  return made;
}
