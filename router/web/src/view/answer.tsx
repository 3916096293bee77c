// The answer as it streams: each token can be pointed at, or reached with the arrow keys, and tells its probability and
// the alternatives.
import {memo} from "./memo";
import {useEffect, useRef, useState} from "preact/hooks";
import type {Token} from "../api/events";
import {app} from "../state/app";
import {executionName} from "../state/form";
import {useStore} from "../state/store";
import {visible} from "../trace/names";
import type {TraceRecord} from "../trace/record";
import {count, ms, percent, plural} from "./format";

// Tokens are drawn in pieces of this many: only the last piece changes while they stream.
const PIECE = 64;
// Of a long prompt its end is shown, for the answer goes on from there.
const PROMPT_SHOWN = 600; // characters

const shade = (token: Token): string => {
  if (token.logprob === null) return "";
  const p = Math.exp(token.logprob);
  return p > 0.9 ? "p4" : p > 0.5 ? "p3" : p > 0.2 ? "p2" : "p1";
};

const Piece = memo(
  function Piece({tokens, from, chosen}: {tokens: Token[]; from: number; chosen: number}) {
    return (
      <span>
        {tokens.map((token, i) => {
          const shown = token.piece || token.text;
          return (
            <span key={i} class={`token ${shade(token)}${from + i === chosen ? " chosen" : ""}`} data-index={from + i}>
              {shown === "\n" ? "⏎\n" : shown}
            </span>
          );
        })}
      </span>
    );
  },
  (a, b) => a.tokens.length === b.tokens.length && a.tokens[0] === b.tokens[0] && inside(a) === inside(b),
);

// Which token of a piece is chosen, if one of its own is.
function inside({tokens, from, chosen}: {tokens: Token[]; from: number; chosen: number}): number {
  return chosen >= from && chosen < from + tokens.length ? chosen : -1;
}

function Alternatives({record, index}: {record: TraceRecord; index: number}) {
  const token = record.tokens[index];
  if (!token || token.logprob === null)
    return <p class="alternatives dim">Point at a token to see what else was likely.</p>;
  const others = token.top.some((choice) => choice.id === token.id)
    ? token.top
    : [...token.top, {id: token.id, text: token.piece, logprob: token.logprob}];
  return (
    <div class="alternatives" id="alternatives">
      <span class="dim">x{index}</span>
      <ul>
        {others.map((choice) => (
          <li key={choice.id} class={choice.id === token.id ? "taken" : ""}>
            <span class="mono">{visible(choice.text) || "∅"}</span>
            <meter
              min={0}
              max={1}
              value={Math.exp(choice.logprob)}
              aria-label={`probability of ${visible(choice.text)}`}
            />
            <span class="number">{percent(Math.exp(choice.logprob))}</span>
          </li>
        ))}
      </ul>
    </div>
  );
}

function Facts({record}: {record: TraceRecord}) {
  const done = record.finished;
  const facts: [string, string][] = [];
  if (record.started) facts.push(["execution", executionName(record.started.execution)]);
  facts.push(["prompt", plural(record.prompt, "token")], ["selected", count(record.tokens.length)]);
  if (done) {
    if (done.usage.cached > 0) facts.push(["reused", plural(done.usage.cached, "position")]);
    if (done.usage.drafted > 0) facts.push(["guesses", `${done.usage.accepted} of ${done.usage.drafted} right`]);
    facts.push(
      ["first token", ms(done.timings.firstTokenMs)],
      ["then each", ms(done.timings.meanGapMs)],
      ["total", ms(record.totalMs)],
    );
    facts.push(["ended by", done.reason === "FINISH_REASON_LENGTH" ? "max tokens" : "stop"]);
  }
  return (
    <dl class="facts">
      {facts.map(([name, value]) => (
        <div key={name}>
          <dt>{name}</dt>
          <dd>{value}</dd>
        </div>
      ))}
    </dl>
  );
}

export function Answer() {
  const {shown} = useStore(app, (state) => [state.shown, state.shown?.version]);
  const [chosen, setChosen] = useState(-1);
  useEffect(() => setChosen(-1), [shown?.id]);
  const stream = useRef<HTMLDivElement>(null);
  useEffect(() => {
    // what has come last stays in view
    if (stream.current && shown?.state === "running") stream.current.scrollTop = stream.current.scrollHeight;
  }, [shown?.version]);
  if (!shown)
    return (
      <section class="answer card" aria-label="Answer">
        <p class="dim">Nothing has run yet.</p>
      </section>
    );
  const pieces: Token[][] = [];
  for (let at = 0; at < shown.tokens.length; at += PIECE) pieces.push(shown.tokens.slice(at, at + PIECE));
  const choose = (event: Event) => {
    const index = (event.target as HTMLElement).dataset?.index;
    if (index !== undefined) setChosen(Number(index));
  };
  const onKey = (event: KeyboardEvent) => {
    const by = event.key === "ArrowRight" ? 1 : event.key === "ArrowLeft" ? -1 : 0;
    if (by === 0 || shown.tokens.length === 0) return;
    event.preventDefault();
    setChosen(Math.min(shown.tokens.length - 1, Math.max(0, chosen + by)));
  };
  const prompt =
    shown.request.text ?? shown.request.chat?.messages.map((m) => `${m.role}: ${m.content}`).join("\n") ?? "";
  return (
    <section class="answer card" aria-label="Answer" data-request={shown.id} data-state={shown.state}>
      <div
        class="stream"
        id="stream"
        ref={stream}
        tabIndex={0}
        role="group"
        aria-label="Tokens: arrow keys choose one"
        onMouseOver={choose}
        onClick={choose}
        onKeyDown={onKey}
      >
        <span class="prompt">{prompt.length > PROMPT_SHOWN ? `… ${prompt.slice(-PROMPT_SHOWN)}` : prompt}</span>
        {pieces.map((tokens, i) => (
          <Piece key={i} tokens={tokens} from={i * PIECE} chosen={chosen} />
        ))}
        {shown.state === "running" ? <span class="caret" aria-hidden="true" /> : null}
      </div>
      {shown.error ? (
        <p class="notice error" role="alert" id="failure">
          {shown.error}
        </p>
      ) : null}
      {shown.state === "stopped" ? (
        <p class="notice" id="stopped">
          Stopped: the service has freed what it held.
        </p>
      ) : null}
      <Alternatives record={shown} index={chosen} />
      <Facts record={shown} />
    </section>
  );
}
