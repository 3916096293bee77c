// One layer in one run: new queries on the left, the keys and values they read on top, a green cell for each pair. New K
// and V go into the cache along the orange path; the last query's result becomes the next token.
import {type Attention, attentionOf, type Slot} from "../trace/attention";
import {positionName, tokenAt} from "../trace/names";
import type {TraceRecord} from "../trace/record";
import {count} from "./format";

const LEFT = 92;
const TOP = 66;
const RIGHT = 128;

const nameOf = (slot: Slot, prompt: number): string =>
  slot.end - slot.first === 1 ? positionName(slot.first, prompt) : `${count(slot.end - slot.first)} more`;

interface Frame {
  record: TraceRecord;
  step: number;
  attention: Attention;
  w: number;
  h: number;
}

// K and V on top: those of the past are in the cache, those of this run are made now.
function Keys({record, step, attention, w}: Frame) {
  const run = record.runs[step];
  const past = attention.columns.filter((slot) => slot.end <= run.first).length;
  return (
    <g>
      {attention.columns.map((slot, i) => {
        const kind = slot.end <= run.first ? "read" : slot.end <= run.first + run.recomputed ? "again" : "first";
        return (
          <g key={i}>
            <rect class={`cell ${kind}`} x={LEFT + i * w} y={TOP - 26} width={w - 2} height={22} rx={3} />
            <text class="tile" x={LEFT + i * w + w / 2 - 1} y={TOP - 11} text-anchor="middle">
              {slot.end - slot.first > 1
                ? w >= 30
                  ? `+${slot.end - slot.first}`
                  : "…"
                : w >= 30
                  ? nameOf(slot, record.prompt)
                  : ""}
            </text>
          </g>
        );
      })}
      {past > 0 ? <Bracket x={LEFT} width={past * w - 2} text={past * w > 70 ? "past K, V" : "past"} /> : null}
      <Bracket x={LEFT + past * w} width={(attention.columns.length - past) * w - 2} text="new K, V" />
    </g>
  );
}

function Bracket({x, width, text}: {x: number; width: number; text: string}) {
  return (
    <g class="bracket">
      <path d={`M${x} ${TOP - 32} v-5 h${width} v5`} />
      <text x={x + width / 2} y={TOP - 42} text-anchor="middle">
        {text}
      </text>
    </g>
  );
}

// The orange path: from an input, along its row, up to its own new K and V.
function Appends({record, step, attention, w, h}: Frame) {
  const run = record.runs[step];
  return (
    <g class="append">
      {attention.rows.map((slot, i) => {
        const column = attention.columns.findIndex((k) => k.first <= slot.first && slot.first < k.end);
        if (slot.end - slot.first > 1 || attention.columns[column].end - attention.columns[column].first > 1)
          return null;
        const again = slot.first < run.first + run.recomputed;
        const x = LEFT + column * w + w / 2 - 1;
        return <path key={i} class={again ? "again" : ""} d={`M${LEFT - 6} ${TOP + i * h + 6} H${x} V${TOP - 3}`} />;
      })}
    </g>
  );
}

function Queries({record, step, attention, h}: Frame) {
  const run = record.runs[step];
  return (
    <g>
      {attention.rows.map((slot, i) => {
        const again = slot.first < run.first + run.recomputed;
        return (
          <g key={i}>
            <rect
              class={`query ${again ? "again" : "first"}`}
              x={6}
              y={TOP + i * h}
              width={LEFT - 14}
              height={h - 2}
              rx={3}
            />
            <text class="tile" x={12} y={TOP + i * h + h / 2 + 3}>
              {slot.end - slot.first > 1
                ? nameOf(slot, record.prompt)
                : `${positionName(slot.first, record.prompt)} ${tokenAt(record, slot.first)}`.slice(0, 11)}
            </text>
          </g>
        );
      })}
    </g>
  );
}

function Result({record, step, attention, w, h}: Frame) {
  const run = record.runs[step];
  const y = TOP + (attention.rows.length - 0.5) * h + 3;
  const x = LEFT + attention.columns.length * w;
  return (
    <g>
      <path class="read-path" d={`M${LEFT + 4} ${y} H${x + 10}`} />
      <path class="read-path" d={`M${x + 5} ${y - 4} l6 4 l-6 4`} />
      <text class="dim" x={x + 16} y={y - 14}>
        LM head
      </text>
      <rect class="cell selected" x={x + 16} y={y - 10} width={104} height={20} rx={3} />
      <text class="tile" x={x + 22} y={y + 4}>
        {`${positionName(run.history - 1, record.prompt)} ${tokenAt(record, run.history - 1)}`.slice(0, 14)}
      </text>
    </g>
  );
}

export function Layer({record, step, width}: {record: TraceRecord; step: number; width: number}) {
  const run = record.runs[step];
  const room = width - LEFT - RIGHT;
  const attention = attentionOf(run, Math.max(5, Math.min(24, Math.floor(room / 40))), 8);
  const w = Math.min(56, Math.max(16, room / attention.columns.length));
  const h = 24;
  const frame = {record, step, attention, w, h};
  const height = TOP + attention.rows.length * h + 10;
  return (
    <svg
      class="figure layer"
      id="layer-figure"
      width={Math.min(width, LEFT + attention.columns.length * w + RIGHT)}
      height={height}
      role="img"
      data-pairs={attention.pairs}
      aria-label={
        `Attention of one layer in run ${run.run}: ${run.end - run.first} new queries read the keys and values ` +
        `of ${run.positionsRead} positions, ${run.pairs} pairs`
      }
    >
      {attention.cells.map((cell) => (
        <rect
          key={`${cell.row}.${cell.column}`}
          class="pair"
          x={LEFT + cell.column * w}
          y={TOP + cell.row * h}
          width={w - 2}
          height={h - 2}
          rx={2}
          data-pairs={cell.pairs}
          fill-opacity={0.35 + 0.65 * cell.share}
        />
      ))}
      <Keys {...frame} />
      <Appends {...frame} />
      <Queries {...frame} />
      <Result {...frame} />
      <text class="dim" x={6} y={TOP - 11}>
        new Q
      </text>
    </svg>
  );
}
