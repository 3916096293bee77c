// What the user has typed, and the request it becomes.
import type {Execution, GenerateRequest} from "../api/events";

export interface Turn {
  role: "system" | "user" | "assistant";
  content: string;
}
export interface Form {
  mode: "text" | "chat";
  text: string;
  turns: Turn[];
  execution: Execution;
  // Numbers as typed; empty: the service's default.
  maxTokens: string;
  temperature: string;
  seed: string;
  topK: string;
  topP: string;
  minP: string;
  repetitionPenalty: string;
  stop: string; // one a line
  ignoreEos: boolean;
}

// The article's example: three tokens in, three tokens out.
export const EXAMPLE: GenerateRequest = {
  text: "Once upon a",
  max_tokens: 3,
  execution: "EXECUTION_LOCAL",
  sampling: {temperature: 0},
  logprobs: 5,
  trace: true,
};

export const ROLES: Turn["role"][] = ["system", "user", "assistant"];
export const EXECUTIONS: {value: Execution; name: string}[] = [
  {value: "EXECUTION_UNSPECIFIED", name: "router chooses"},
  {value: "EXECUTION_SPLIT", name: "split"},
  {value: "EXECUTION_LOCAL", name: "local"},
  {value: "EXECUTION_NO_CACHE", name: "no cache"},
];
export function executionName(execution: Execution): string {
  return EXECUTIONS.find((entry) => entry.value === execution)?.name ?? "";
}

const SAMPLING: [keyof Form, string][] = [
  ["temperature", "temperature"],
  ["topK", "top_k"],
  ["topP", "top_p"],
  ["minP", "min_p"],
  ["repetitionPenalty", "repetition_penalty"],
];

// The service checks ranges; here only what is no number at all is found.
export function requestOf(form: Form): GenerateRequest | {wrong: string} {
  const request: GenerateRequest = {execution: form.execution, logprobs: 5, trace: true};
  if (form.mode === "text") request.text = form.text;
  else request.chat = {messages: form.turns.map(({role, content}) => ({role, content}))};
  const sampling: Record<string, number | string> = {};
  for (const [field, name] of SAMPLING) {
    const typed = String(form[field]).trim();
    if (typed === "") continue;
    if (!Number.isFinite(Number(typed))) return {wrong: `${name} must be a number`};
    sampling[name] = Number(typed);
  }
  const seed = form.seed.trim();
  if (seed !== "" && !/^[0-9]{1,20}$/.test(seed)) return {wrong: "seed must be a whole number from 0"};
  if (seed !== "") sampling.seed = seed;
  request.sampling = sampling;
  const tokens = form.maxTokens.trim();
  if (tokens !== "" && !/^[0-9]{1,9}$/.test(tokens)) return {wrong: "max tokens must be a whole number from 1"};
  if (tokens !== "") request.max_tokens = Number(tokens);
  const stop = form.stop.split("\n").filter((line) => line !== "");
  if (stop.length > 0) request.stop = stop;
  if (form.ignoreEos) request.ignore_eos = true;
  return request;
}

const typed = (value: unknown): string =>
  typeof value === "number" || typeof value === "string" ? String(value).slice(0, 40) : "";
const isRecord = (value: unknown): value is Record<string, unknown> =>
  typeof value === "object" && value !== null && !Array.isArray(value);

// The form that shows a request, whoever wrote it: what is not as it must be is left out.
export function formOf(value: unknown): Form {
  const request = isRecord(value) ? value : {};
  const sampling = isRecord(request.sampling) ? request.sampling : {};
  const chat = isRecord(request.chat) && Array.isArray(request.chat.messages) ? request.chat.messages : null;
  const turns = (chat ?? []).filter(isRecord).map((turn): Turn => ({
    role: ROLES.find((role) => role === turn.role) ?? "user",
    content: typeof turn.content === "string" ? turn.content : "",
  }));
  const stop = Array.isArray(request.stop) ? request.stop.filter((line) => typeof line === "string") : [];
  return {
    mode: chat ? "chat" : "text",
    text: typeof request.text === "string" ? request.text : "",
    turns: turns.length > 0 ? turns : [{role: "user", content: ""}],
    execution: EXECUTIONS.find((entry) => entry.value === request.execution)?.value ?? "EXECUTION_UNSPECIFIED",
    maxTokens: typed(request.max_tokens),
    temperature: typed(sampling.temperature),
    seed: typed(sampling.seed),
    topK: typed(sampling.top_k),
    topP: typed(sampling.top_p),
    minP: typed(sampling.min_p),
    repetitionPenalty: typed(sampling.repetition_penalty),
    stop: stop.join("\n"),
    ignoreEos: request.ignore_eos === true,
  };
}
