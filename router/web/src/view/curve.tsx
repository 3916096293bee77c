// Sums against length, as lines.
import {count} from "./format";

export interface Line {
  name: string;
  kind: string; // a colour of the legend
  points: {x: number; y: number}[];
}
const HEIGHT = 220;
const LEFT = 64;
const RIGHT = 92;
const BOTTOM = 34;
const TOP = 12;

// A step of 1, 2 or 5 times a power of ten that divides the range into about `parts`.
export function tickStep(range: number, parts: number): number {
  const raw = Math.max(range / parts, 1e-9);
  const power = 10 ** Math.floor(Math.log10(raw));
  return [1, 2, 5, 10].map((factor) => factor * power).find((step) => step >= raw)!;
}

export function Curve({lines, width, yName}: {lines: Line[]; width: number; yName: string}) {
  const points = lines.flatMap((line) => line.points);
  if (points.length === 0) return <p class="dim">Nothing to draw yet.</p>;
  const xMin = Math.min(...lines.map((line) => line.points[0]?.x ?? Infinity));
  const xMax = Math.max(xMin + 1, ...lines.map((line) => line.points[line.points.length - 1]?.x ?? 0));
  const yMax = Math.max(1, ...lines.map((line) => line.points[line.points.length - 1]?.y ?? 0));
  const x = (v: number) => LEFT + ((v - xMin) / (xMax - xMin)) * (width - LEFT - RIGHT);
  const y = (v: number) => TOP + (1 - v / yMax) * (HEIGHT - TOP - BOTTOM);
  const yStep = tickStep(yMax, 4);
  const xStep = Math.max(1, tickStep(xMax - xMin, 8));
  const yTicks = Array.from({length: Math.floor(yMax / yStep) + 1}, (_, i) => i * yStep);
  const xTicks = Array.from({length: Math.floor(xMax / xStep) + 1}, (_, i) => i * xStep).filter((v) => v >= xMin);
  let free = -Infinity; // names do not overlap
  const names = lines
    .map((line) => ({line, at: y(line.points[line.points.length - 1]?.y ?? 0)}))
    .sort((a, b) => a.at - b.at)
    .map(({line, at}) => ({line, at: (free = Math.max(at, free + 14))}));
  return (
    <svg
      class="figure"
      id="curve-figure"
      width={width}
      height={HEIGHT}
      role="img"
      aria-label={`${yName} against history: ${lines
        .map((line) => `${line.name} ${count(line.points[line.points.length - 1]?.y ?? 0)}`)
        .join(", ")}`}
    >
      {yTicks.map((v) => (
        <g key={v}>
          <path class="rule" d={`M${LEFT} ${y(v)} H${width - RIGHT}`} />
          <text class="name" x={LEFT - 8} y={y(v) + 4} text-anchor="end">
            {count(v)}
          </text>
        </g>
      ))}
      {xTicks.map((v) => (
        <text key={v} class="name" x={x(v)} y={HEIGHT - 18} text-anchor="middle">
          {count(v)}
        </text>
      ))}
      <text class="dim" x={(LEFT + width - RIGHT) / 2} y={HEIGHT - 3} text-anchor="middle">
        tokens of prompt and answer
      </text>
      {lines.map((line) => (
        <path
          key={line.name}
          class={`line ${line.kind}`}
          data-line={line.name}
          d={line.points.map((p, i) => `${i === 0 ? "M" : "L"}${x(p.x).toFixed(1)} ${y(p.y).toFixed(1)}`).join("")}
        />
      ))}
      {names.map(({line, at}) => (
        <text key={line.name} class={`ink-${line.kind}`} x={width - RIGHT + 8} y={at + 4}>
          {line.name}
        </text>
      ))}
    </svg>
  );
}
