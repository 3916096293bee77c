// Numbers as people read them.
export function count(n: number): string {
  return Math.round(n).toLocaleString("en-US");
}

export function bytes(n: number): string {
  if (n < 10_000) return `${count(n)} B`;
  return n < 10_000_000 ? `${(n / 1000).toFixed(1)} kB` : `${(n / 1e6).toFixed(1)} MB`;
}

// Floating point operations: 3_400_000_000 as "3.4 GFLOP".
export function flops(n: number): string {
  const units = ["FLOP", "kFLOP", "MFLOP", "GFLOP", "TFLOP", "PFLOP"];
  let unit = 0;
  for (; n >= 1000 && unit < units.length - 1; ++unit) n /= 1000;
  return `${n.toFixed(unit > 0 && n < 100 ? 1 : 0)} ${units[unit]}`;
}

export function ms(n: number): string {
  if (n >= 10_000) return `${(n / 1000).toFixed(1)} s`;
  return n >= 100 ? `${n.toFixed(0)} ms` : `${n.toFixed(1)} ms`;
}

// 0.0432 as "4.3 %".
export function percent(p: number): string {
  return p > 0 && p < 0.001 ? "< 0.1 %" : `${(p * 100).toFixed(p < 0.1 ? 1 : 0)} %`;
}

// 1 "position", 2 "positions".
export function plural(n: number, word: string): string {
  return `${count(n)} ${word}${n === 1 ? "" : "s"}`;
}
