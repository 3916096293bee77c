// The cache over time: a row for each run, a column for each position. Only what is in view exists as elements: a row is
// a handful of ranges, however many positions they cover, so a request of thousands of positions costs no more than its
// window. Each range says what it is in data-run, data-kind, data-first and data-last.
import {useEffect, useLayoutEffect, useRef, useState} from "preact/hooks";
import {type Range, type Row, rowsOf} from "../trace/cells";
import {positionName, tokenAt} from "../trace/names";
import type {TraceRecord} from "../trace/record";
import {tickStep} from "./curve";

export interface GridSize {
  cell: number; // width of a position, in pixels
  row: number; // height of a run
}
const LABEL = 54; // left of the cells
export const GRID_MARGIN = LABEL + 14; // what a grid is wider than its cells
const CHARACTER = 6.6; // of the text in cells, widest

// What is scrolled to, and how much of it fits.
interface View {
  left: number;
  top: number;
  width: number;
  height: number;
}

function Cells({
  range,
  row,
  size,
  y,
  x0,
  record,
}: {
  range: Range;
  row: Row;
  size: GridSize;
  y: number;
  x0: number;
  record: TraceRecord;
}) {
  const gap = size.cell > 6 ? 1 : 0;
  const low = range.kind === "shipped" || range.kind === "rejected";
  const height = low ? Math.max(1, size.row * 0.2) : Math.max(1, size.row - (size.row > 6 ? 2 : 0));
  const x = x0 + range.first * size.cell;
  const width = Math.max(0.5, (range.end - range.first) * size.cell - gap);
  const name = range.kind === "selected" && size.cell >= 26 ? tokenAt(record, range.first) : "";
  return (
    <>
      <rect
        class={`cell ${range.kind}`}
        x={x}
        y={low ? y + size.row - height - 1 : y}
        width={width}
        height={height}
        data-run={row.run.run}
        data-kind={range.kind}
        data-first={range.first}
        data-last={range.end - 1}
      />
      {name ? (
        <text class="in-cell" x={x + 4} y={y + size.row / 2 + 3}>
          {cut(name, size.cell - 6)}
        </text>
      ) : null}
    </>
  );
}

function cut(text: string, width: number): string {
  const fits = Math.floor(width / CHARACTER);
  return text.length <= fits ? text : fits < 2 ? "" : `${text.slice(0, fits - 1)}…`;
}

function GridRow({
  row,
  size,
  y,
  x0,
  record,
  state,
}: {
  row: Row;
  size: GridSize;
  y: number;
  x0: number;
  record: TraceRecord;
  state: string;
}) {
  return (
    <g class={`row ${state}`}>
      {row.ranges.map((range) => (
        <Cells key={range.kind} range={range} row={row} size={size} y={y} x0={x0} record={record} />
      ))}
    </g>
  );
}

// Above all cells: what is left of it has K and V after the run.
function Boundary({row, size, y, x0}: {row: Row; size: GridSize; y: number; x0: number}) {
  const width = size.cell > 6 ? 3 : 1.5;
  return (
    <rect
      class="boundary"
      x={x0 + row.kvReady * size.cell - width / 2 - 0.5}
      y={y - 1}
      width={width}
      height={size.row}
      data-run={row.run.run}
      data-kv-ready={row.kvReady}
    />
  );
}

// Names of the columns in view, as many as there is room for.
function Heads({
  record,
  first,
  end,
  size,
  x0,
}: {
  record: TraceRecord;
  first: number;
  end: number;
  size: GridSize;
  x0: number;
}) {
  const every = Math.max(1, tickStep((record.columns > 1000 ? 44 : 30) / size.cell, 1));
  const heads = [];
  for (let p = Math.ceil(first / every) * every; p < end; p += every) {
    const x = x0 + p * size.cell;
    heads.push(
      <g key={p}>
        <text class="name" x={x + 2} y={12}>
          {positionName(p, record.prompt)}
        </text>
        {size.cell >= 34 ? (
          <text class="piece" x={x + 2} y={27}>
            {cut(tokenAt(record, p), size.cell - 3)}
          </text>
        ) : null}
      </g>,
    );
  }
  return <g class="heads">{heads}</g>;
}

// The marks between cells: one pattern over all of them instead of an element for each.
function Marks({size, x0, y0, width, height}: {size: GridSize; x0: number; y0: number; width: number; height: number}) {
  if (size.cell <= 6 || width <= 0 || height <= 0) return null;
  return (
    <>
      <defs>
        <pattern id="marks" patternUnits="userSpaceOnUse" x={x0} y={y0} width={size.cell} height={size.row}>
          <rect class="paper" x={size.cell - 1} y={0} width={1} height={size.row} />
        </pattern>
      </defs>
      <rect x={x0} y={y0} width={width} height={height} fill="url(#marks)" />
    </>
  );
}

function useView(): [preact.RefObject<HTMLDivElement | null>, View, () => void] {
  const box = useRef<HTMLDivElement | null>(null);
  const [view, setView] = useState<View>({left: 0, top: 0, width: 600, height: 200});
  const frame = useRef(0);
  const look = () => {
    frame.current ||= requestAnimationFrame(() => {
      frame.current = 0;
      const at = box.current;
      if (at) setView({left: at.scrollLeft, top: at.scrollTop, width: at.clientWidth, height: at.clientHeight});
    });
  };
  useEffect(() => {
    const observer = new ResizeObserver(look);
    observer.observe(box.current!);
    return () => observer.disconnect();
  }, []);
  return [box, view, look];
}

export interface GridProps {
  record: TraceRecord;
  step: number; // index of the run looked at; later ones are faint
  size: GridSize;
  onStep: (step: number) => void;
  heightMax: number;
  label: string; // for those who do not see it
}

export function Grid({record, step, size, onStep, heightMax, label}: GridProps) {
  const [box, view, look] = useView();
  const head = size.cell >= 34 ? 36 : 20;
  const columns = record.columns;
  const width = LABEL + columns * size.cell + GRID_MARGIN - LABEL;
  const height = head + record.runs.length * size.row + 6;
  const firstRow = Math.max(0, Math.floor((view.top - head) / size.row));
  const endRow = Math.min(record.runs.length, Math.ceil((view.top + view.height - head) / size.row) + 1);
  const firstColumn = Math.max(0, Math.floor((view.left - LABEL) / size.cell));
  const endColumn = Math.min(columns, Math.ceil((view.left + view.width - LABEL) / size.cell) + 1);
  useLayoutEffect(() => {
    // the run looked at stays in view
    const at = box.current;
    if (!at || step < 0) return;
    const y = head + step * size.row;
    if (y - head < at.scrollTop) at.scrollTop = y - head;
    else if (y + size.row > at.scrollTop + at.clientHeight) at.scrollTop = y + size.row - at.clientHeight + 8;
    const x = LABEL + (record.runs[step]?.history ?? 0) * size.cell;
    if (x > at.scrollLeft + at.clientWidth) at.scrollLeft = x - at.clientWidth + 24;
    else if (x - LABEL < at.scrollLeft) at.scrollLeft = Math.max(0, x - at.clientWidth / 2);
  }, [step, size.row, size.cell, record.id]);
  const rows = rowsOf(record, firstRow, endRow);
  const x0 = LABEL - view.left;
  const y0 = head - view.top;
  const pick = (event: MouseEvent) => {
    const y = event.clientY - box.current!.getBoundingClientRect().top;
    const row = Math.floor((y + view.top - head) / size.row);
    if (row >= 0 && row < record.runs.length) onStep(row);
  };
  const onKey = (event: KeyboardEvent) => {
    const to = {ArrowDown: step + 1, ArrowUp: step - 1, Home: 0, End: record.runs.length - 1}[event.key];
    if (to === undefined) return;
    event.preventDefault();
    onStep(Math.min(record.runs.length - 1, Math.max(0, to)));
  };
  return (
    <div
      class="grid"
      ref={box}
      tabIndex={0}
      role="region"
      aria-label={label}
      onScroll={look}
      onClick={pick}
      onKeyDown={onKey}
      style={{height: `${Math.min(heightMax, height + 14)}px`}}
    >
      <div style={{width: `${width}px`, height: `${height}px`}}>
        <svg class="figure" width={view.width} height={Math.min(view.height, Math.max(height, 1))} aria-hidden="true">
          <rect class="now" x={0} y={y0 + step * size.row - 1} width={view.width} height={size.row} />
          <svg
            class="cells"
            x={LABEL - 2}
            y={0}
            width={Math.max(1, view.width - LABEL + 2)}
            height={view.height}
            viewBox={`${LABEL - 2} 0 ${Math.max(1, view.width - LABEL + 2)} ${view.height}`}
          >
            {rows.map((row, i) => (
              <GridRow
                key={row.run.run}
                row={row}
                size={size}
                x0={x0}
                y={y0 + (firstRow + i) * size.row}
                record={record}
                state={firstRow + i === step ? "on" : firstRow + i > step ? "later" : ""}
              />
            ))}
            <Marks size={size} x0={x0} y0={y0} width={columns * size.cell} height={record.runs.length * size.row - 1} />
            {rows.map((row, i) => (
              <Boundary key={row.run.run} row={row} size={size} x0={x0} y={y0 + (firstRow + i) * size.row} />
            ))}
            <rect class="paper" x={0} y={0} width={view.width + LABEL} height={head - 2} />
            <Heads record={record} first={firstColumn} end={endColumn} size={size} x0={x0} />
          </svg>
          <Labels first={firstRow} end={endRow} size={size} y0={y0} head={head} step={step} />
        </svg>
      </div>
    </div>
  );
}

function Labels({
  first,
  end,
  size,
  y0,
  head,
  step,
}: {
  first: number;
  end: number;
  size: GridSize;
  y0: number;
  head: number;
  step: number;
}) {
  const every = Math.max(1, Math.ceil(13 / size.row));
  const labels = [];
  for (let i = first; i < end; ++i) {
    const y = y0 + i * size.row;
    if (y < head - 2 || (i % every !== 0 && i !== step)) continue;
    if (i !== step && every > 1 && Math.abs(i - step) * size.row < 12) continue;
    labels.push(
      <text key={i} class={i === step ? "name on" : "name"} x={LABEL - 10} y={y + size.row / 2 + 3} text-anchor="end">
        {size.row >= 13 ? `run ${i + 1}` : i + 1}
      </text>,
    );
  }
  return <g>{labels}</g>;
}
