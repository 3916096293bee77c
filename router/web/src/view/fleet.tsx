// The fleet as the router sees it, asked once a second while it is looked at.
import {useEffect, useRef, useState} from "preact/hooks";
import type {Status, Worker} from "../api/fleet";
import {app, loadStatus} from "../state/app";
import {useStore} from "../state/store";
import {count, ms} from "./format";

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
      <td>{ms(worker.heartbeatMs)}</td>
      <td class="dim">
        {worker.numerics}
        <br />
        {worker.kernel}
      </td>
    </tr>
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
  );
}
