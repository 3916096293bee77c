// What the page knows and does: the requests of this tab, which one is shown, at which run.
import {CallError, generate, get, promptPieces} from "../api/client";
import type {Execution, GenerateRequest} from "../api/events";
import {readModel, readStatus, type Model, type Status} from "../api/fleet";
import {TraceRecord} from "../trace/record";
import {EXAMPLE, executionName, type Form, formOf, requestOf} from "./form";
import {fragmentOf, requestIn} from "./share";
import {Store} from "./store";

export type Tab = "cache" | "compare" | "journey" | "fleet";

// Kept for going back to; older ones are forgotten, so that memory is bounded.
const RECORDS_MAX = 12;

export interface App {
  form: Form;
  tab: Tab;
  records: TraceRecord[]; // newest first
  shown: TraceRecord | null;
  step: number; // index of the run looked at; -1: the newest
  playing: boolean;
  comparison: TraceRecord[]; // in order of Costs.ts's table
  notice: string; // for the form: what is wrong, or what was done
  noticeIsError: boolean;
  model: Model | null;
  status: Status | null;
  statusError: string;
  needsToken: boolean;
}

export const app = new Store<App>({
  form: formOf(EXAMPLE),
  tab: "cache",
  records: [],
  shown: null,
  step: -1,
  playing: false,
  comparison: [],
  notice: "",
  noticeIsError: false,
  model: null,
  status: null,
  statusError: "",
  needsToken: false,
});

let stopper: AbortController | null = null;
let numbers = 0;

export function tell(notice: string, noticeIsError = false): void {
  app.set({notice, noticeIsError});
}

export function isRunning(): boolean {
  return stopper !== null;
}

// Runs one request to its end. Never throws: what goes wrong is in the record.
async function run(request: GenerateRequest, title: string, signal: AbortSignal, show: boolean): Promise<TraceRecord> {
  const record = new TraceRecord(++numbers, request, title);
  const records = [record, ...app.state.records].slice(0, RECORDS_MAX);
  app.set(show ? {records, shown: record, step: -1, playing: false} : {records});
  promptPieces(request).then(
    (pieces) => {
      record.promptPieces = pieces;
      ++record.version;
      app.changed();
    },
    () => {},
  ); // their ids are shown instead; the generation tells what is wrong with a prompt
  const sent = performance.now();
  try {
    await generate(
      request,
      (event) => {
        record.add(event, performance.now() - sent);
        app.changed();
      },
      signal,
    );
    record.close();
  } catch (error) {
    if ((error as Error).name === "AbortError") record.stop();
    else record.fail((error as Error).message);
    if (error instanceof CallError && error.status === 401) app.set({needsToken: true});
  }
  app.changed();
  return record;
}

// One at a time: two would take each other's computing time.
async function exclusively(work: (signal: AbortSignal) => Promise<void>): Promise<void> {
  if (stopper) return;
  const mine = (stopper = new AbortController());
  try {
    await work(mine.signal);
  } finally {
    stopper = null;
    app.changed();
  }
}

export function stop(): void {
  stopper?.abort();
}

function requestTyped(): GenerateRequest | null {
  const request = requestOf(app.state.form);
  if ("wrong" in request) {
    tell(request.wrong, true);
    return null;
  }
  return request;
}

export function titleOf(request: GenerateRequest): string {
  const messages = request.chat?.messages ?? [];
  return (request.text ?? messages[messages.length - 1]?.content ?? "").slice(0, 60);
}

export function runTyped(): Promise<void> {
  const request = requestTyped();
  if (!request) return Promise.resolve();
  tell("");
  const tab = app.state.tab === "compare" || app.state.tab === "fleet" ? "cache" : app.state.tab;
  app.set({tab});
  return exclusively(async (signal) => void (await run(request, titleOf(request), signal, true)));
}

export function runExample(): Promise<void> {
  return exclusively(async (signal) => void (await run(EXAMPLE, titleOf(EXAMPLE), signal, true)));
}

// The order of the article: first all work again and again, then with a cache, then in two places.
const COMPARED: Execution[] = ["EXECUTION_NO_CACHE", "EXECUTION_LOCAL", "EXECUTION_SPLIT"];

// The request typed in all executions, one after the other, with one seed and without each other's prefixes.
export function compareTyped(): Promise<void> {
  const request = requestTyped();
  if (!request) return Promise.resolve();
  tell("");
  app.set({comparison: [], tab: "compare"});
  return exclusively(async (signal) => {
    const sampling = {seed: String(Math.floor(Math.random() * 2 ** 32)), ...request.sampling};
    for (const execution of COMPARED) {
      if (signal.aborted) return;
      const salt = `page-${crypto.getRandomValues(new Uint32Array(2)).join("-")}`;
      const going = run({...request, sampling, execution, cache_salt: salt}, executionName(execution), signal, false);
      app.set({comparison: [...app.state.comparison, app.state.records[0]]});
      await going;
    }
  });
}

export function show(record: TraceRecord, tab: Tab = "cache"): void {
  app.set({shown: record, step: -1, playing: false, tab});
}

// Puts the request that was shown, or what is typed, into the address: with the seed it ran with, so that whoever opens it
// gets the same tokens.
export async function share(): Promise<void> {
  const typed = requestTyped();
  if (!typed) return;
  const {shown} = app.state;
  const same = shown !== null && JSON.stringify(shown.request) === JSON.stringify(typed);
  const seed = same ? shown.started?.seed : undefined;
  const fragment = fragmentOf(seed ? {...typed, sampling: {...typed.sampling, seed}} : typed);
  if (fragment === null) return tell("this request is too long for a link", true);
  history.replaceState(null, "", fragment);
  if (seed) app.set({form: {...app.state.form, seed}});
  try {
    await navigator.clipboard.writeText(location.href);
    tell("link copied: it holds the whole request");
  } catch {
    tell("the link is in the address bar: it holds the whole request");
  }
}

// Shows the request of the address, which runs only when the user wants it to: a link is anybody's. False if it has none.
export function openShared(): boolean {
  const request = requestIn(location.hash);
  if (request === null) return false;
  app.set({form: formOf(request)});
  tell("this request came with the link; press Run to see it");
  return true;
}

export async function loadModel(): Promise<void> {
  try {
    app.set({model: readModel(await get("/kvrelay/v1/model"))});
  } catch (error) {
    if (error instanceof CallError && error.status === 401) app.set({needsToken: true});
  }
}

export async function loadStatus(): Promise<void> {
  try {
    app.set({status: readStatus(await get("/kvrelay/v1/status"), performance.now()), statusError: ""});
  } catch (error) {
    app.set({statusError: (error as Error).message});
    if (error instanceof CallError && error.status === 401) app.set({needsToken: true});
  }
}
