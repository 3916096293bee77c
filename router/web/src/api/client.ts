// Calls of the router that served this page.
import {type Event, type GenerateRequest, readEvent} from "./events";
import {Lines} from "./lines";

// What went wrong, in the router's words. `status` is HTTP's; 0: it could not be reached, or the stream broke.
export class CallError extends Error {
  constructor(
    readonly status: number,
    message: string,
  ) {
    super(message);
  }
}

// The token for services that ask for one. Kept here alone: it is gone when the page is closed or loaded again.
let bearer = "";
export function setBearer(token: string): void {
  bearer = token.trim();
}

async function call(path: string, init: RequestInit): Promise<Response> {
  const headers = new Headers(init.headers);
  if (bearer) headers.set("Authorization", `Bearer ${bearer}`);
  let response: Response;
  try {
    response = await fetch(path, {
      ...init,
      headers,
      cache: "no-store",
      credentials: "omit",
      referrerPolicy: "no-referrer",
    });
  } catch (error) {
    if ((error as Error).name === "AbortError") throw error;
    throw new CallError(0, "the router cannot be reached");
  }
  if (response.ok) return response;
  let message = `the router answered with status ${response.status}`;
  try {
    message = readEvent(await response.json()).error ?? message;
  } catch {
    // not JSON: something between us and the router answered
  }
  throw new CallError(response.status, message);
}

function post(path: string, body: unknown, signal?: AbortSignal): Promise<Response> {
  return call(path, {
    method: "POST",
    body: JSON.stringify(body),
    headers: {"Content-Type": "application/json"},
    signal,
  });
}

export async function get(path: "/kvrelay/v1/model" | "/kvrelay/v1/status"): Promise<unknown> {
  return (await call(path, {})).json();
}

// Streams one generation. Returns when its last line has come; throws CallError, or AbortError when stopped by `signal`.
export async function generate(request: GenerateRequest, onEvent: (event: Event) => void, signal: AbortSignal) {
  const response = await post("/kvrelay/v1/generate", request, signal);
  const reader = response.body!.getReader();
  const lines = new Lines();
  for (;;) {
    let read;
    try {
      read = await reader.read();
    } catch (error) {
      if ((error as Error).name === "AbortError") throw error;
      throw new CallError(0, "the connection to the router was lost");
    }
    if (read.done) return;
    for (const line of lines.push(read.value)) onEvent(readEvent(JSON.parse(line)));
  }
}

// The text of each token of a prompt.
export async function promptPieces(request: GenerateRequest): Promise<string[]> {
  const prompt = request.chat ? {messages: request.chat.messages} : {prompt: request.text ?? ""};
  const answer = (await (await post("/tokenize", {...prompt, return_token_strs: true})).json()) as {
    token_strs?: string[];
  };
  return answer.token_strs ?? [];
}
