// The messages of kvrelay.v1 as this page uses them, read from protobuf's JSON: 64-bit numbers come as strings,
// durations as "1.5s". Names and meanings are those of proto/kvrelay/v1/generation.proto; times are in milliseconds.

export type Execution = "EXECUTION_UNSPECIFIED" | "EXECUTION_SPLIT" | "EXECUTION_LOCAL" | "EXECUTION_NO_CACHE";

export interface GenerateRequest {
  text?: string;
  chat?: {messages: {role: string; content: string}[]};
  sampling?: Record<string, number | string>;
  max_tokens?: number;
  stop?: string[];
  ignore_eos?: boolean;
  execution?: Execution;
  logprobs?: number;
  trace?: boolean;
  cache_salt?: string;
}

export interface Positions {
  prompt: number;
  computed: number;
  reused: number;
  received: number;
  shipped: number;
  recomputed: number;
  discarded: number;
  kvReady: number;
  selected: number;
}

export interface Started {
  requestId: string;
  seed: string; // 64 bits: no number of JavaScript holds them all
  execution: Execution;
  prefillInstance: string;
  decodeInstance: string;
  reason: string;
  promptTokens: number;
  promptTokenIds: number[];
}

export interface TokenChoice {
  id: number;
  text: string;
  logprob: number;
}

export interface Token {
  index: number;
  id: number;
  text: string; // what became final with it
  piece: string; // its own text; empty without log-probabilities
  logprob: number | null;
  top: TokenChoice[];
}

export interface Run {
  run: number;
  instance: string;
  first: number;
  end: number;
  computed: number;
  recomputed: number;
  appended: number;
  positionsRead: number;
  pairs: number;
  tokenId: number;
  kvReady: number;
  history: number;
  startMs: number;
  durationMs: number;
  bytesShipped: number;
  rejected: number;
  flops: number;
  kvBytesRead: number;
  shipments: Shipment[];
  chunks: Chunk[];
}

// Steps of a run of several.
export interface Chunk {
  first: number;
  end: number;
  startMs: number;
  durationMs: number;
}

export interface Shipment {
  layer: number;
  first: number;
  end: number;
  startMs: number;
  durationMs: number;
  bytes: number;
}

export interface Timings {
  routerQueueMs: number;
  prefillQueueMs: number;
  prefillMs: number;
  transferMs: number;
  transferHiddenMs: number;
  firstTokenMs: number;
  decodeMs: number;
  meanGapMs: number;
}

export interface Usage {
  prompt: number;
  completion: number;
  cached: number;
  dropped: number;
  drafted: number;
  accepted: number;
}

export interface Finished {
  reason: string;
  usage: Usage;
  timings: Timings;
  attempts: number;
  replans: number;
  moves: number;
  text: string;
  kvBytesShipped: number;
}

// One line of a generation's answer.
export interface Event {
  started?: Started;
  token?: Token;
  run?: Run;
  finished?: Finished;
  positions?: Positions;
  error?: string; // the stream ended with it
}

type Json = Record<string, unknown>;

const object = (value: unknown): Json => (typeof value === "object" && value !== null ? (value as Json) : {});
const list = (value: unknown): unknown[] => (Array.isArray(value) ? value : []);
const text = (value: unknown): string => (typeof value === "string" ? value : "");

// A number as protobuf writes it: also "12", "-Infinity" and "NaN". What is none is 0.
export function number(value: unknown): number {
  if (typeof value === "number") return value;
  return typeof value === "string" && value !== "" ? Number(value) : 0;
}

// "0.25s" in milliseconds.
export function milliseconds(value: unknown): number {
  const seconds = /^(-?[0-9.]+)s$/.exec(text(value));
  return seconds ? Number(seconds[1]) * 1000 : 0;
}

function readStarted(json: Json): Started {
  const placement = object(json.placement);
  return {
    requestId: text(json.request_id),
    seed: text(json.seed),
    execution: (text(placement.execution) || "EXECUTION_UNSPECIFIED") as Execution,
    prefillInstance: text(placement.prefill_instance),
    decodeInstance: text(placement.decode_instance),
    reason: text(placement.reason),
    promptTokens: number(json.prompt_tokens),
    promptTokenIds: list(json.prompt_token_ids).map(number),
  };
}

function readToken(json: Json): Token {
  return {
    index: number(json.index),
    id: number(json.id),
    text: text(json.text),
    piece: text(json.piece),
    logprob: json.logprob === undefined ? null : number(json.logprob),
    top: list(json.top).map((entry) => {
      const choice = object(entry);
      return {id: number(choice.id), text: text(choice.text), logprob: number(choice.logprob)};
    }),
  };
}

function readRun(json: Json): Run {
  return {
    run: number(json.run),
    instance: text(json.instance),
    first: number(json.first_position),
    end: number(json.end_position),
    computed: number(json.computed),
    recomputed: number(json.recomputed),
    appended: number(json.appended),
    positionsRead: number(json.positions_read),
    pairs: number(json.attention_pairs),
    tokenId: number(json.token_id),
    kvReady: number(json.kv_ready),
    history: number(json.history),
    startMs: milliseconds(json.start),
    durationMs: milliseconds(json.duration),
    bytesShipped: number(json.bytes_shipped),
    rejected: number(json.rejected),
    flops: number(json.flops),
    kvBytesRead: number(json.kv_bytes_read),
    chunks: list(json.chunks).map((entry) => {
      const chunk = object(entry);
      return {
        first: number(chunk.first_position),
        end: number(chunk.end_position),
        startMs: milliseconds(chunk.start),
        durationMs: milliseconds(chunk.duration),
      };
    }),
    shipments: list(json.shipments).map((entry) => {
      const shipment = object(entry);
      return {
        layer: number(shipment.layer),
        first: number(shipment.first_position),
        end: number(shipment.end_position),
        startMs: milliseconds(shipment.start),
        durationMs: milliseconds(shipment.duration),
        bytes: number(shipment.bytes),
      };
    }),
  };
}

function readFinished(json: Json): Finished {
  const usage = object(json.usage);
  const timings = object(json.timings);
  return {
    reason: text(json.reason),
    usage: {
      prompt: number(usage.prompt),
      completion: number(usage.completion),
      cached: number(usage.cached),
      dropped: number(usage.dropped),
      drafted: number(usage.drafted),
      accepted: number(usage.accepted),
    },
    timings: {
      routerQueueMs: milliseconds(timings.router_queue),
      prefillQueueMs: milliseconds(timings.prefill_queue),
      prefillMs: milliseconds(timings.prefill),
      transferMs: milliseconds(timings.transfer),
      transferHiddenMs: milliseconds(timings.transfer_hidden),
      firstTokenMs: milliseconds(timings.first_token),
      decodeMs: milliseconds(timings.decode),
      meanGapMs: milliseconds(timings.mean_gap),
    },
    attempts: number(json.attempts),
    replans: number(json.replans),
    moves: number(json.moves),
    text: text(json.text),
    kvBytesShipped: number(json.kv_bytes_shipped),
  };
}

function readPositions(json: Json): Positions {
  return {
    prompt: number(json.prompt),
    computed: number(json.computed),
    reused: number(json.reused),
    received: number(json.received),
    shipped: number(json.shipped),
    recomputed: number(json.recomputed),
    discarded: number(json.discarded),
    kvReady: number(json.kv_ready),
    selected: number(json.selected),
  };
}

export function readEvent(value: unknown): Event {
  const json = object(value);
  const event: Event = {};
  if (json.started) event.started = readStarted(object(json.started));
  if (json.token) event.token = readToken(object(json.token));
  if (json.run) event.run = readRun(object(json.run));
  if (json.finished) event.finished = readFinished(object(json.finished));
  if (json.positions) event.positions = readPositions(object(json.positions));
  if (json.error) event.error = text(object(json.error).message) || "the stream broke";
  return event;
}
