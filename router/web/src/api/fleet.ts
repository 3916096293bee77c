// The model and the workers behind the router, as GetModelResponse and GetStatusResponse tell of them.
import {milliseconds, number} from "./events";

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
  active: number;
  queued: number;
  steps: number;
  heartbeatMs: number;
}
export interface Status {
  version: string;
  instance: string;
  active: number;
  workers: Worker[];
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
    active: number(json.active_sessions),
    queued: number(json.queued_sessions),
    steps: number(json.steps),
    heartbeatMs: milliseconds(json.heartbeat_age),
  };
}

export function readStatus(value: unknown, atMs: number): Status {
  const json = value as Json;
  const workers = Array.isArray(json.workers) ? json.workers : [];
  return {
    version: text(json.version),
    instance: text(json.instance),
    active: number(json.active_requests),
    workers: workers.map((worker) => readWorker(worker as Json)),
    atMs,
  };
}
