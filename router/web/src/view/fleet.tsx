// The fleet as the router sees it, asked once a second while it is looked at.
import {useEffect, useRef, useState} from "preact/hooks";
import type {Status, Summary, Worker} from "../api/fleet";
import {app, loadStatus, show} from "../state/app";
import {useStore} from "../state/store";
import {executionName} from "../state/form";
import {count, ms, percent, plural} from "./format";

const INTERVAL_MS = 1000;

// Blocks of a worker's pool: in use, kept for others with the same beginning, free.
function Pool({worker}: {worker: Worker}) {
  const share = (blocks: number) => (worker.blocksTotal > 0 ? (160 * blocks) / worker.blocksTotal : 0);
  const used = share(worker.blocksReferenced);
  return (
    <svg
      class="figure pool"
      width={160}
      height={12}
      role="img"
      aria-label={`${worker.blocksReferenced} blocks in use, ${worker.blocksCached} kept, of ${worker.blocksTotal}`}
    >
      <rect class="free" width={160} height={12} rx={2} />
      <rect class="cell first" width={used} height={12} />
      <rect class="cell read" x={used} width={share(worker.blocksCached)} height={12} />
    </svg>
  );
}

function WorkerRow({worker, rate}: {worker: Worker; rate: number | null}) {
  return (
    <tr data-worker={worker.instance} data-ready={worker.ready}>
      <th scope="row">
        <span class="mono">{worker.instance || worker.address}</span>
        <br />
        <span class="dim">{worker.role}</span>
      </th>
      <td>
        {worker.ready ? (
          <span class="ink-read">● ready</span>
        ) : (
          <span class="ink-bad">○ {worker.problem || "not ready"}</span>
        )}
      </td>
      <td>
        {count(worker.active)}
        {worker.queued > 0 ? ` + ${count(worker.queued)} waiting` : ""}
      </td>
      <td>{rate === null ? "…" : rate.toFixed(0)}</td>
      <td>
        <Pool worker={worker} />
        <br />
        <span class="dim">
          {count(worker.blocksReferenced)} in use, {count(worker.blocksCached)} kept, of {count(worker.blocksTotal)}
        </span>
      </td>
      <td data-prefix-hits={worker.prefixHits}>
        {worker.prefixQueries > 0 ? percent(worker.prefixHits / worker.prefixQueries) : "…"}
        <br />
        <span class="dim">
          {count(worker.prefixHits)} of {count(worker.prefixQueries)}
        </span>
      </td>
      <td>{ms(worker.heartbeatMs)}</td>
      <td class="dim">
        {worker.numerics}
        <br />
        {worker.kernel}
      </td>
    </tr>
  );
}

// Names of gRPC's status codes, by number.
const CODES = [
  ...["OK", "CANCELLED", "UNKNOWN", "INVALID_ARGUMENT", "DEADLINE_EXCEEDED", "NOT_FOUND", "ALREADY_EXISTS"],
  ...["PERMISSION_DENIED", "RESOURCE_EXHAUSTED", "FAILED_PRECONDITION", "ABORTED", "OUT_OF_RANGE", "UNIMPLEMENTED"],
  ...["INTERNAL", "UNAVAILABLE", "DATA_LOSS", "UNAUTHENTICATED"],
];

// What became of a request, in a word.
function outcome(request: Summary): string {
  if (request.running) return "runs now";
  return request.code === 0
    ? plural(request.completionTokens, "token")
    : (CODES[request.code] ?? `code ${request.code}`);
}

// A row keeps its key when newer ones come, and labels may repeat.
function keysOf(requests: Summary[]): string[] {
  const seen = new Map<string, number>();
  const fromOldest = [...requests].reverse().map(({requestId}) => {
    seen.set(requestId, (seen.get(requestId) ?? 0) + 1);
    return `${requestId}#${seen.get(requestId)}`;
  });
  return fromOldest.reverse();
}

// The requests that came last. Those of this tab can be looked at again: the page has their events, the router has not.
function Requests({requests}: {requests: Summary[]}) {
  const {records} = useStore(app);
  const keys = keysOf(requests);
  const rows = requests.map((request, i) => {
    const record = records.find((r) => r.started !== null && r.started.requestId === request.requestId);
    const places = [...new Set([request.prefillInstance, request.decodeInstance])].filter(Boolean).join(" → ");
    return (
      <tr key={keys[i]} data-request={request.requestId} data-running={request.running}>
        <th scope="row">
          {record ? (
            <button type="button" class="quiet mono" onClick={() => show(record)}>
              {request.requestId}
            </button>
          ) : (
            <span class="mono">{request.requestId || "refused"}</span>
          )}
        </th>
        <td>{ms(request.ageMs)} ago</td>
        <td>{outcome(request)}</td>
        <td>
          {request.execution ? executionName(request.execution) : ""} <span class="dim">{places}</span>
          {request.replans > 0 ? <span class="ink-bad"> planned again {request.replans} ×</span> : null}
          {request.moves > 0 ? <span class="ink-read"> moved {request.moves} ×</span> : null}
        </td>
        <td>
          {count(request.promptTokens)}
          {request.cachedTokens > 0 ? <span class="dim"> ({count(request.cachedTokens)} reused)</span> : null}
        </td>
        <td>{request.running || request.firstTokenMs === 0 ? "" : ms(request.firstTokenMs)}</td>
        <td>{request.running ? "" : ms(request.durationMs)}</td>
      </tr>
    );
  });
  return (
    <div class="card" id="requests">
      <h3>Requests that came last to this router</h3>
      {rows.length === 0 ? <p class="dim">None yet.</p> : null}
      <div class="scroll" tabIndex={0} role="region" aria-label="Requests">
        <table>
          <thead>
            <tr>
              {["request", "came", "outcome", "where", "prompt tokens", "first token", "time"].map((name) => (
                <th scope="col" key={name}>
                  {name}
                </th>
              ))}
            </tr>
          </thead>
          <tbody>{rows}</tbody>
        </table>
      </div>
    </div>
  );
}

function rateOf(worker: Worker, now: Status, before: Status | null): number | null {
  const then = before?.workers.find((w) => w.instance === worker.instance && w.steps <= worker.steps);
  return then && before ? ((worker.steps - then.steps) * 1000) / Math.max(1, now.atMs - before.atMs) : null;
}

export function FleetView() {
  const {status, statusError, model} = useStore(app);
  const [before, setBefore] = useState<Status | null>(null);
  const last = useRef<Status | null>(null);
  useEffect(() => {
    let timer = 0;
    let over = false;
    const ask = async () => {
      if (document.visibilityState === "visible") await loadStatus();
      if (!over) timer = window.setTimeout(() => void ask(), INTERVAL_MS);
    };
    void ask();
    return () => {
      over = true;
      clearTimeout(timer);
    };
  }, []);
  useEffect(() => {
    setBefore(last.current);
    last.current = status;
  }, [status]);
  if (!status)
    return (
      <div class="card">
        <p class={statusError ? "notice error" : "dim"}>{statusError || "Asking the router."}</p>
      </div>
    );
  return (
    <>
      <div class="card" id="fleet">
        <p>
          Router <span class="mono">{status.instance}</span> {status.version}, {count(status.active)} requests in it now
          {model ? <>; context of {count(model.contextLength)} tokens</> : null}.{" "}
          {statusError ? <span class="ink-bad">{statusError}</span> : null}
        </p>
        <div class="scroll" tabIndex={0} role="region" aria-label="Workers">
          <table>
            <thead>
              <tr>
                {[
                  "worker",
                  "state",
                  "sessions",
                  "steps per second",
                  "KV blocks of 64 positions",
                  "prompt tokens found in its prefix cache",
                  "last sign of life",
                  "numerics, kernels",
                ].map((name) => (
                  <th scope="col" key={name}>
                    {name}
                  </th>
                ))}
              </tr>
            </thead>
            <tbody>
              {status.workers.map((worker) => (
                <WorkerRow key={worker.address} worker={worker} rate={rateOf(worker, status, before)} />
              ))}
            </tbody>
          </table>
        </div>
      </div>
      <Requests requests={status.requests} />
    </>
  );
}
