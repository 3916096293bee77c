// The model and the workers behind the router, as GetModelResponse and GetStatusResponse tell of them.
import {type Execution, milliseconds, number} from "./events";

export interface Model {
  name: string;
  contextLength: number;
  hasChatTemplate: boolean;
  fingerprint: string;
}
export interface Worker {
  role: "prefill" | "decode";
  address: string;
  instance: string;
  ready: boolean;
  problem: string;
  version: string;
  numerics: string;
  kernel: string;
  blocksTotal: number;
  blocksReferenced: number;
  blocksCached: number;
  prefixQueries: number;
  prefixHits: number;
  active: number;
  queued: number;
  steps: number;
  heartbeatMs: number;
}
// One request of this router, in figures.
export interface Summary {
  requestId: string;
  ageMs: number;
  running: boolean;
  code: number; // gRPC's; 0 is OK
  execution: Execution | "";
  prefillInstance: string;
  decodeInstance: string;
  promptTokens: number;
  completionTokens: number;
  cachedTokens: number;
  firstTokenMs: number;
  durationMs: number;
  replans: number;
  moves: number;
}
export interface Status {
  version: string;
  instance: string;
  active: number;
  workers: Worker[];
  requests: Summary[]; // newest first
  atMs: number; // on this browser's clock
}

type Json = Record<string, unknown>;
const text = (value: unknown): string => (typeof value === "string" ? value : "");

export function readModel(value: unknown): Model {
  const json = value as Json;
  return {
    name: text(json.name),
    contextLength: number(json.context_length),
    hasChatTemplate: json.has_chat_template === true,
    fingerprint: text(json.fingerprint),
  };
}

function readWorker(json: Json): Worker {
  return {
    role: json.role === "WORKER_ROLE_PREFILL" ? "prefill" : "decode",
    address: text(json.address),
    instance: text(json.instance),
    ready: json.ready === true,
    problem: text(json.problem),
    version: text(json.version),
    numerics: text(json.numerics_id),
    kernel: text(json.kernel_id),
    blocksTotal: number(json.kv_blocks_total),
    blocksReferenced: number(json.kv_blocks_referenced),
    blocksCached: number(json.kv_blocks_cached),
    prefixQueries: number(json.prefix_cache_queries),
    prefixHits: number(json.prefix_cache_hits),
    active: number(json.active_sessions),
    queued: number(json.queued_sessions),
    steps: number(json.steps),
    heartbeatMs: milliseconds(json.heartbeat_age),
  };
}

function readSummary(json: Json): Summary {
  const placement = (json.placement ?? {}) as Json;
  return {
    requestId: text(json.request_id),
    ageMs: milliseconds(json.age),
    running: json.running === true,
    code: number(json.code),
    execution: text(placement.execution) as Execution | "",
    prefillInstance: text(placement.prefill_instance),
    decodeInstance: text(placement.decode_instance),
    promptTokens: number(json.prompt_tokens),
    completionTokens: number(json.completion_tokens),
    cachedTokens: number(json.cached_tokens),
    firstTokenMs: milliseconds(json.first_token),
    durationMs: milliseconds(json.duration),
    replans: number(json.replans),
    moves: number(json.moves),
  };
}

export function readStatus(value: unknown, atMs: number): Status {
  const json = value as Json;
  const list = (value: unknown) => (Array.isArray(value) ? (value as Json[]) : []);
  return {
    version: text(json.version),
    instance: text(json.instance),
    active: number(json.active_requests),
    workers: list(json.workers).map(readWorker),
    requests: list(json.requests).map(readSummary),
    atMs,
  };
}
