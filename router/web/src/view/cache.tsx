// The cache, step by step: the whole request as a grid, the run looked at in words, and inside of one of its layers.
import {useEffect, useRef, useState} from "preact/hooks";
import {app} from "../state/app";
import {useStore} from "../state/store";
import {rowOf} from "../trace/cells";
import {rangeNames, tokenAt} from "../trace/names";
import type {TraceRecord} from "../trace/record";
import {ExportButtons} from "./export";
import {bytes, count, ms} from "./format";
import {Grid, GRID_MARGIN, type GridSize} from "./grid";
import {Layer} from "./layer";
import {Legend} from "./legend";

const HEIGHT_MAX = 340;
const STEP_MS = 900; // of the play button, for short requests
const PLAY_MS = 12_000; // for long ones, in all

export function useWidth(): [preact.RefObject<HTMLDivElement | null>, number] {
  const box = useRef<HTMLDivElement | null>(null);
  const [width, setWidth] = useState(720);
  useEffect(() => {
    const observer = new ResizeObserver(() => setWidth(box.current?.clientWidth ?? 720));
    observer.observe(box.current!);
    return () => observer.disconnect();
  }, []);
  return [box, width];
}

export function shownStep(record: TraceRecord, step: number): number {
  return step < 0 ? record.runs.length - 1 : Math.min(step, record.runs.length - 1);
}

// Cells that are easy to read, unless the user wants to see all of them.
function sizeOf(record: TraceRecord, width: number, zoom: number | "fit"): GridSize {
  const fit = (width - GRID_MARGIN) / Math.max(1, record.columns);
  const wanted = record.columns <= 12 ? Math.min(72, fit) : Math.max(28, Math.min(72, fit));
  if (zoom === "fit")
    return {cell: Math.min(fit, 72), row: Math.max(2, Math.min(24, (HEIGHT_MAX - 60) / record.runs.length))};
  return {cell: Math.max(1, wanted * 1.5 ** -zoom), row: Math.max(4, 24 * 1.25 ** -zoom)};
}

// What the run did, in words: for reading, and for those who cannot see the drawing.
export function RunText({record, step}: {record: TraceRecord; step: number}) {
  const run = record.runs[step];
  const row = rowOf(
    run,
    record.positionsAfter[step - 1] ?? null,
    record.positionsAfter[step],
    step === 0 ? 0 : record.runs[step - 1].end,
    record.started?.execution !== "EXECUTION_NO_CACHE",
  );
  const names = (first: number, end: number) => rangeNames(first, end, record.prompt);
  const fresh = run.first + run.recomputed;
  return (
    <div class="run-text" id="run-text">
      <p>
        <b>Run {run.run}</b>
        {row.prefill ? " (prefill)" : row.guessed ? " (decode, guessed)" : " (decode)"} on{" "}
        <span class="mono">{run.instance}</span> takes {names(run.first, run.end)}:{" "}
        <span class="ink-first">computes {names(fresh, run.end)} for the first time</span>
        {run.recomputed > 0 ? (
          <>
            , <span class="ink-again">{names(run.first, fresh)} again</span>
          </>
        ) : null}
        {run.first > 0 ? (
          <>
            , <span class="ink-read">reads K and V of {names(0, run.first)}</span>
          </>
        ) : null}
        .{run.rejected > 0 ? ` Wrong guesses of what follows, computed and dropped: ${run.rejected}.` : null}
        {run.bytesShipped > 0 ? <span class="ink-shipped"> Ships {bytes(run.bytesShipped)} of K and V.</span> : null}
      </p>
      <p class="boundary-text">
        It selects <span class="mono">{tokenAt(record, run.history - 1)}</span>: <b>history {count(run.history)}</b>,{" "}
        <b>KV ready {count(run.kvReady)}</b>
        {run.kvReady > 0
          ? ". The token just selected has no K and V yet: the next run makes them."
          : ". Nothing is kept: the next run computes all of it again."}
      </p>
      <dl class="facts">
        <div>
          <dt>K/V appended</dt>
          <dd>{count(run.appended)}</dd>
        </div>
        <div>
          <dt>K/V read</dt>
          <dd>{count(run.positionsRead)}</dd>
        </div>
        <div>
          <dt>query-key pairs</dt>
          <dd>{count(run.pairs)}</dd>
        </div>
        <div>
          <dt>time</dt>
          <dd>{row.guessed ? "with the run before" : ms(run.durationMs)}</dd>
        </div>
      </dl>
      {row.problem ? <p class="notice error">The trace does not add up: {row.problem}</p> : null}
    </div>
  );
}

function usePlay(record: TraceRecord | null, step: number, playing: boolean): void {
  useEffect(() => {
    if (!playing || !record) return;
    const runs = record.runs.length;
    const wait = Math.min(STEP_MS, PLAY_MS / runs);
    const stride = Math.max(1, Math.round(16 / wait));
    const timer = setTimeout(
      () => {
        if (step >= runs - 1) app.set({playing: false});
        else app.set({step: Math.min(runs - 1, step + stride)});
      },
      Math.max(16, wait),
    );
    return () => clearTimeout(timer);
  }, [record?.id, step, playing]);
}

export function CacheView() {
  const {shown, step: asked, playing} = useStore(app);
  const [box, width] = useWidth();
  const [zoom, setZoom] = useState<number | "fit">(0); // steps of narrower cells
  const step = shown ? shownStep(shown, asked) : -1;
  usePlay(shown, step, playing);
  if (!shown || shown.runs.length === 0) {
    return (
      <div ref={box} class="card">
        <p class="dim">{shown?.state === "failed" ? "No run was made." : "Waiting for the first run."}</p>
      </div>
    );
  }
  const set = (to: number) => app.set({step: to, playing: false});
  const zoomBy = (by: number) => setZoom(Math.max(-3, Math.min(9, (zoom === "fit" ? 0 : zoom) + by)));
  const last = shown.runs.length - 1;
  const play = () => app.set({playing: !playing, step: step >= last ? 0 : step});
  return (
    <div ref={box}>
      <div class="controls">
        <button type="button" id="play" aria-pressed={playing} onClick={play}>
          {playing ? "Pause" : "Play"}
        </button>
        <button type="button" aria-label="Run before" disabled={step <= 0} onClick={() => set(step - 1)}>
          ◀
        </button>
        <input
          type="range"
          id="step"
          aria-label="Run"
          min={0}
          max={last}
          value={step}
          aria-valuetext={`run ${step + 1} of ${last + 1}`}
          onInput={(event) => set(Number(event.currentTarget.value))}
        />
        <button type="button" aria-label="Run after" disabled={step >= last} onClick={() => set(step + 1)}>
          ▶
        </button>
        <span class="number" id="step-text">
          run {step + 1} of {last + 1}
        </span>
        <span class="spring" />
        <button type="button" aria-label="Wider cells" onClick={() => zoomBy(-1)}>
          +
        </button>
        <button type="button" aria-label="Narrower cells" onClick={() => zoomBy(1)}>
          −
        </button>
        <button
          type="button"
          id="fit"
          aria-pressed={zoom === "fit"}
          onClick={() => setZoom(zoom === "fit" ? 0 : "fit")}
        >
          Fit all
        </button>
      </div>
      <figure class="card" id="cache-figure" aria-labelledby="legend">
        <Grid
          record={shown}
          step={step}
          size={sizeOf(shown, width - 34, zoom)}
          onStep={set}
          heightMax={HEIGHT_MAX}
          label="Runs and positions: up and down arrows choose a run"
        />
        <Legend />
      </figure>
      <div class="card">
        <RunText record={shown} step={step} />
        <h3>Inside one layer of this run</h3>
        <p class="formula mono">
          attention = Attention(<span class="ink-first">new Q</span>, [<span class="ink-read">past K</span>,{" "}
          <span class="ink-first">new K</span>], [<span class="ink-read">past V</span>,{" "}
          <span class="ink-first">new V</span>])
        </p>
        <div class="scroll" tabIndex={0} role="region" aria-label="Attention of one layer">
          <Layer record={shown} step={step} width={Math.max(420, width - 34)} />
        </div>
        <ExportButtons figure="layer-figure" name={`kvrelay-run-${step + 1}`} />
      </div>
    </div>
  );
}
