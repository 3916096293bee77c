// One layer's attention in one run, as a grid: a row for each new query, a column for each position whose K and V are
// read. Causal: the query of position q reads positions 0 to q. Long runs are drawn with the middle left out, so a row or
// a column (a slot) may stand for many positions; each cell says how many pairs it stands for.
import type {Run} from "../api/events";

export interface Slot {
  first: number;
  end: number;
}
export interface AttentionCell {
  row: number;
  column: number;
  pairs: number; // of (query, key), read
  share: number; // of all pairs that the cell stands for
}
export interface Attention {
  rows: Slot[];
  columns: Slot[];
  cells: AttentionCell[]; // those with pairs
  pairs: number;
}

// [first, end) in slots: `head` single positions, one slot for the middle, `tail` single positions.
export function slots(first: number, end: number, head: number, tail: number): Slot[] {
  const single = (from: number, to: number) =>
    Array.from({length: to - from}, (_, i) => ({first: from + i, end: from + i + 1}));
  if (end - first <= head + tail + 1) return single(first, end);
  return [...single(first, first + head), {first: first + head, end: end - tail}, ...single(end - tail, end)];
}

// Pairs of queries [q.first, q.end) and keys [k.first, k.end) with key <= query.
export function pairsBetween(q: Slot, k: Slot): number {
  let pairs = 0;
  const full = Math.max(q.first, k.end - 1); // from here on a query reads all keys of the slot
  if (full < q.end) pairs += (q.end - full) * (k.end - k.first);
  const from = Math.max(q.first, k.first);
  const to = Math.min(q.end, full);
  if (from < to) pairs += ((from - k.first + 1 + (to - 1 - k.first + 1)) * (to - from)) / 2;
  return pairs;
}

export function attentionOf(run: Run, columnsMax: number, rowsMax: number): Attention {
  const tail = Math.ceil((columnsMax - 1) * 0.6);
  const columns = slots(0, run.end, columnsMax - 1 - tail, tail);
  const rowTail = Math.ceil((rowsMax - 1) * 0.6);
  const rows = slots(run.first, run.end, rowsMax - 1 - rowTail, rowTail);
  const cells: AttentionCell[] = [];
  let total = 0;
  rows.forEach((q, row) => {
    columns.forEach((k, column) => {
      const pairs = pairsBetween(q, k);
      if (pairs === 0) return;
      total += pairs;
      cells.push({row, column, pairs, share: pairs / ((q.end - q.first) * (k.end - k.first))});
    });
  });
  return {rows, columns, cells, pairs: total};
}
