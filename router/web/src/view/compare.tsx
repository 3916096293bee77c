// With and without a cache: the same request three times, side by side.
import {useState} from "preact/hooks";
import {app, compareTyped, isRunning, show} from "../state/app";
import {useStore} from "../state/store";
import {type Costs, costsOf, curve, type Quantity, sameTokens} from "../trace/compare";
import type {TraceRecord} from "../trace/record";
import {useWidth} from "./cache";
import {Curve, type Line} from "./curve";
import {ExportButtons} from "./export";
import {bytes, count, flops, ms} from "./format";
import {Grid, GRID_MARGIN} from "./grid";
import {Legend} from "./legend";

const LINES = ["again", "read", "shipped"]; // colours of the three, in order

function Panel({record, columns, rows}: {record: TraceRecord; columns: number; rows: number}) {
  const [box, width] = useWidth();
  const costs = costsOf(record);
  const size = {
    cell: Math.max(0.2, Math.min(26, (width - 2 - GRID_MARGIN) / columns)),
    row: Math.max(2, Math.min(18, 180 / rows)),
  };
  return (
    <section class="card compared" aria-label={record.title} data-execution={record.request.execution}>
      <h3>
        {record.title}
        <span class="dim">
          {" "}
          {record.state === "running" ? "runs now" : record.state === "finished" ? "" : record.state}
        </span>
      </h3>
      <div ref={box} />
      <p class="big">
        <span class="number" data-cost="computed">
          {count(costs.computed)}
        </span>{" "}
        positions computed
      </p>
      <p>
        <span class="number" data-cost="flops" data-value={costs.flops}>
          {flops(costs.flops)}
        </span>
        ,{" "}
        <span class="number" data-cost="read" data-value={costs.readBytes}>
          {bytes(costs.readBytes)}
        </span>{" "}
        of K and V read
      </p>
      <p class="dim">
        {costs.recomputed > 0 ? (
          <>
            <span class="ink-again number">{count(costs.recomputed)}</span> of them again
          </>
        ) : (
          "none of them twice"
        )}
      </p>
      {record.error ? <p class="notice error">{record.error}</p> : null}
      {record.runs.length > 0 ? (
        <Grid
          record={record}
          step={record.runs.length - 1}
          size={size}
          onStep={() => show(record)}
          heightMax={230}
          label={`Cells of ${record.title}`}
        />
      ) : null}
      <button type="button" class="quiet" onClick={() => show(record)}>
        Step through it
      </button>
    </section>
  );
}

function Table({records}: {records: TraceRecord[]}) {
  const all = records.map(costsOf);
  const rows: [string, (costs: Costs) => string][] = [
    ["runs", (c) => count(c.runs)],
    ["positions computed", (c) => count(c.computed)],
    ["of them again", (c) => count(c.recomputed)],
    ["query-key pairs, per layer and head", (c) => count(c.pairs)],
    ["floating point operations", (c) => flops(c.flops)],
    ["positions read from a cache", (c) => count(c.read)],
    ["K, V bytes read from a cache", (c) => bytes(c.readBytes)],
    ["K, V bytes shipped", (c) => bytes(c.shippedBytes)],
    ["time", (c) => (c.totalMs > 0 ? ms(c.totalMs) : "…")],
  ];
  return (
    <div class="scroll" tabIndex={0} role="region" aria-label="Table of costs">
      <table>
        <thead>
          <tr>
            <th scope="col">whole request</th>
            {records.map((r) => (
              <th scope="col" key={r.id}>
                {r.title}
              </th>
            ))}
          </tr>
        </thead>
        <tbody>
          {rows.map(([name, value]) => (
            <tr key={name}>
              <th scope="row">{name}</th>
              {all.map((costs, i) => (
                <td key={i}>{value(costs)}</td>
              ))}
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}

const QUANTITIES: {id: Quantity; name: string}[] = [
  {id: "computed", name: "positions computed"},
  {id: "flops", name: "floating point operations"},
  {id: "time", name: "milliseconds"},
];

export function CompareView() {
  const {comparison} = useStore(app);
  const [box, width] = useWidth();
  const [quantity, setQuantity] = useState<Quantity>("computed");
  const columns = Math.max(1, ...comparison.map((record) => record.columns));
  const rows = Math.max(1, ...comparison.map((record) => record.runs.length));
  const verdict = sameTokens(comparison);
  const lines: Line[] = comparison.map((record, i) => ({
    name: record.title,
    kind: LINES[i],
    points: curve(record, quantity),
  }));
  return (
    <div ref={box}>
      {comparison.length === 0 ? (
        <div class="card">
          <p>
            The request on the left runs three times, one after the other: without a cache, with one on a single worker,
            and split over two workers. The tokens must be the same; the work is not.
          </p>
          <button type="button" class="primary" disabled={isRunning()} onClick={() => void compareTyped()}>
            Compare
          </button>
        </div>
      ) : (
        <>
          <p
            class="verdict"
            id="verdict"
            role="status"
            data-identical={verdict.compared > 1 ? verdict.identical : undefined}
          >
            {verdict.compared < 2
              ? "Tokens: waiting for a second answer."
              : verdict.identical
                ? `Tokens: identical in ${verdict.compared} executions, with the same probabilities.`
                : `Tokens differ: ${verdict.difference}.`}
          </p>
          <div class="three">
            {comparison.map((record) => (
              <Panel key={record.id} record={record} columns={columns} rows={rows} />
            ))}
          </div>
          <figure class="card">
            <div class="controls" role="group" aria-label="Quantity">
              {QUANTITIES.map(({id, name}) => (
                <button key={id} type="button" aria-pressed={quantity === id} onClick={() => setQuantity(id)}>
                  {name}
                </button>
              ))}
            </div>
            <Curve
              lines={lines}
              width={Math.max(320, width - 34)}
              yName={QUANTITIES.find((q) => q.id === quantity)!.name}
            />
            <ExportButtons figure="curve-figure" name={`kvrelay-${quantity}`} />
          </figure>
          <div class="card">
            <Table records={comparison} />
          </div>
          <figure class="card">
            <Legend />
          </figure>
        </>
      )}
    </div>
  );
}
