// The journey: lanes of router, workers, KV link and this browser over time.
import {useState} from "preact/hooks";
import {app} from "../state/app";
import {useStore} from "../state/store";
import {type Journey, journeyOf, type Lane, type Span} from "../trace/lanes";
import {perfettoJson} from "../trace/perfetto";
import {useWidth} from "./cache";
import {tickStep} from "./curve";
import {download, ExportButtons} from "./export";
import {ms} from "./format";

const LEFT = 104;
const LANE = 34;
const TOP = 22;

// Spans that would fall on the same pixels are drawn as one, so that a thousand runs stay a few hundred elements.
export function merged(spans: Span[], pixelsPerMs: number): Span[] {
  const drawn: Span[] = [];
  for (const span of spans) {
    const last = drawn[drawn.length - 1];
    const gap = last ? (span.startMs - last.startMs - last.durationMs) * pixelsPerMs : Infinity;
    const small = Math.max(span.durationMs, last?.durationMs ?? 0) * pixelsPerMs < 2;
    if (last && last.kind === span.kind && small && gap < 1.5 && (span.startMs - last.startMs) * pixelsPerMs < 2) {
      last.durationMs = Math.max(last.durationMs, span.startMs + span.durationMs - last.startMs);
      if (!last.name.startsWith("runs")) last.name = `${last.name} and following`;
    } else {
      drawn.push({...span});
    }
  }
  return drawn;
}

function LaneView({
  lane,
  i,
  x,
  width,
  choose,
}: {
  lane: Lane;
  i: number;
  x: (t: number) => number;
  width: number;
  choose: (span: Span) => void;
}) {
  const y = TOP + i * LANE;
  return (
    <g data-lane={lane.id}>
      <path class="rule" d={`M0 ${y + LANE - 4} H${width}`} />
      <text class="name" x={LEFT - 10} y={y + 18} text-anchor="end">
        {lane.title.slice(0, 16)}
      </text>
      {merged(lane.spans, x(1) - x(0)).map((span, k) =>
        span.durationMs > 0 ? (
          <rect
            key={k}
            class={`span ${span.kind}`}
            x={x(span.startMs)}
            y={y + 4}
            rx={1.5}
            height={20}
            width={Math.max(0.8, x(span.startMs + span.durationMs) - x(span.startMs) - 0.5)}
            onMouseOver={() => choose(span)}
          />
        ) : (
          <rect
            key={k}
            class={`span ${span.kind}`}
            x={x(span.startMs) - 0.6}
            y={y + 6}
            width={1.2}
            height={16}
            onMouseOver={() => choose(span)}
          />
        ),
      )}
    </g>
  );
}

function Drawing({journey, width, choose}: {journey: Journey; width: number; choose: (span: Span) => void}) {
  const x = (t: number) => LEFT + (t / journey.endMs) * (width - LEFT - 16);
  const step = tickStep(journey.endMs, Math.max(2, width / 130));
  const ticks = Array.from({length: Math.floor(journey.endMs / step) + 1}, (_, i) => i * step);
  const height = TOP + journey.lanes.length * LANE + 4;
  return (
    <svg
      class="figure"
      id="journey-figure"
      width={width}
      height={height}
      role="img"
      aria-label={`${journey.lanes.map((lane) => `${lane.title}: ${lane.spans.length} spans`).join(", ")}; ${ms(journey.endMs)} in all`}
    >
      {ticks.map((t) => (
        <g key={t}>
          <path class="rule" d={`M${x(t)} ${TOP - 4} V${height}`} />
          <text class="name" x={x(t)} y={12} text-anchor={t === 0 ? "start" : "middle"}>
            {t === 0 ? "0" : ms(t)}
          </text>
        </g>
      ))}
      {journey.lanes.map((lane, i) => (
        <LaneView key={lane.id} lane={lane} i={i} x={x} width={width} choose={choose} />
      ))}
      {journey.incidents
        .filter((incident) => incident.atMs > 0)
        .map((incident, i) => (
          <path
            key={i}
            class="incident"
            d={`M${x(incident.atMs)} ${TOP - 6} V${height}`}
            data-incident={incident.text}
          />
        ))}
    </svg>
  );
}

const KINDS: [string, string][] = [
  ["queue", "waits in a queue"],
  ["prefill", "computes the prompt"],
  ["decode", "a token at a time"],
  ["again", "computes again"],
  ["hidden", "ships while computing"],
  ["transfer", "ships the rest"],
];

export function JourneyView() {
  const {shown} = useStore(app);
  const [box, width] = useWidth();
  const [zoom, setZoom] = useState(1);
  const [span, setSpan] = useState<Span | null>(null);
  if (!shown || shown.runs.length === 0)
    return (
      <div ref={box} class="card">
        <p class="dim">Waiting for the first run.</p>
      </div>
    );
  const journey = journeyOf(shown);
  return (
    <div ref={box}>
      <figure class="card">
        <div class="controls">
          <button type="button" onClick={() => setZoom(Math.min(64, zoom * 2))} aria-label="Longer time axis">
            +
          </button>
          <button type="button" onClick={() => setZoom(Math.max(1, zoom / 2))} aria-label="Shorter time axis">
            −
          </button>
          <span class="dim">{shown.started?.reason}</span>
        </div>
        <div class="scroll" tabIndex={0} role="region" aria-label="Lanes over time">
          <Drawing journey={journey} width={Math.max(480, (width - 34) * zoom)} choose={setSpan} />
        </div>
        <p class="span-text dim" aria-live="off">
          {span ? (
            <>
              {span.name}: from {ms(span.startMs)}
              {span.durationMs > 0 ? `, ${ms(span.durationMs)}` : ""}
              {Object.entries(span.details).map(([name, value]) => ` · ${name.replace(/_/g, " ")} ${value}`)}
            </>
          ) : (
            "Point at a span to see what it was."
          )}
        </p>
        <figcaption class="legend">
          {KINDS.map(([kind, text]) => (
            <span key={kind}>
              <svg width="16" height="14" aria-hidden="true">
                <rect class={`span ${kind}`} x="1" y="2" width="14" height="10" />
              </svg>
              {text}
            </span>
          ))}
        </figcaption>
      </figure>
      <div class="card">
        {journey.incidents.length > 0 ? (
          <ul class="incidents" id="incidents">
            {journey.incidents.map((incident, i) => (
              <li key={i}>
                {incident.atMs > 0 ? <span class="number">{ms(incident.atMs)} </span> : null}
                {incident.text}
              </li>
            ))}
          </ul>
        ) : (
          <p class="dim" id="incidents">
            Nothing went another way than planned.
          </p>
        )}
        <p class="exports">
          <button
            type="button"
            class="quiet"
            id="perfetto"
            onClick={() =>
              download(new Blob([perfettoJson(journey)], {type: "application/json"}), "kvrelay-journey.json")
            }
          >
            Save for Perfetto
          </button>
        </p>
        <ExportButtons figure="journey-figure" name="kvrelay-journey" />
      </div>
    </div>
  );
}
