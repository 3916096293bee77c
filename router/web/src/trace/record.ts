// One request as it happens: the request, and all events of its answer. Grows only; no DOM.
import type {Event, Finished, GenerateRequest, Positions, Run, Started, Token} from "../api/events";

export type State = "running" | "finished" | "stopped" | "failed";

export class TraceRecord {
  started: Started | null = null;
  readonly tokens: Token[] = [];
  readonly runs: Run[] = [];
  readonly positionsAfter: Positions[] = []; // of each run
  readonly arrivalMs: number[] = []; // of each token here, after the request was sent
  finished: Finished | null = null;
  positions: Positions | null = null; // as of the last event
  promptPieces: string[] = [];
  state: State = "running";
  error = "";
  version = 0; // grows with every change

  constructor(
    readonly id: number,
    readonly request: GenerateRequest,
    readonly title: string,
  ) {}

  add(event: Event, nowMs: number): void {
    ++this.version;
    if (event.positions) this.positions = event.positions;
    if (event.started) this.started = event.started;
    if (event.token) {
      this.tokens.push(event.token);
      this.arrivalMs.push(nowMs);
    }
    if (event.run) {
      this.runs.push(event.run);
      this.positionsAfter.push(event.positions ?? emptyPositions());
    }
    if (event.finished) this.finished = event.finished;
    if (event.error !== undefined) this.fail(event.error);
  }

  // The answer has ended without an error of its own.
  close(): void {
    ++this.version;
    if (this.state !== "running") return;
    if (this.finished) this.state = "finished";
    else this.fail("the stream ended without its last message");
  }

  stop(): void {
    ++this.version;
    if (this.state === "running") this.state = "stopped";
  }

  fail(error: string): void {
    ++this.version;
    this.state = "failed";
    this.error = error;
  }

  get prompt(): number {
    return this.started?.promptTokens ?? 0;
  }
  // Columns of a drawing: all positions that hold a token by now.
  get columns(): number {
    const run = this.runs[this.runs.length - 1];
    return Math.max(this.prompt, run ? run.history : 0);
  }
  get text(): string {
    return this.tokens.map((token) => token.text).join("") + (this.finished?.text ?? "");
  }
  // From arrival at the router to the last token.
  get totalMs(): number {
    const timings = this.finished?.timings;
    return timings ? timings.firstTokenMs + timings.decodeMs : 0;
  }
}

function emptyPositions(): Positions {
  return {
    prompt: 0,
    computed: 0,
    reused: 0,
    received: 0,
    shipped: 0,
    recomputed: 0,
    discarded: 0,
    kvReady: 0,
    selected: 0,
  };
}
