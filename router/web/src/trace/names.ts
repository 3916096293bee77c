// What positions and tokens are called: p0 p1 p2 for the prompt, x0 x1 for what was selected, as in the article.
import type {TraceRecord} from "./record";

export function positionName(position: number, prompt: number): string {
  return position < prompt ? `p${position}` : `x${position - prompt}`;
}

// "p0", "p0..p2", "p0..p2 x0": positions [first, end). "none" for an empty range.
export function rangeNames(first: number, end: number, prompt: number): string {
  const part = (from: number, to: number) => {
    if (from >= to) return "";
    const name = positionName(from, prompt);
    return to - from === 1 ? name : `${name}..${positionName(to - 1, prompt)}`;
  };
  const names = [part(first, Math.min(end, prompt)), part(Math.max(first, prompt), end)].filter((name) => name !== "");
  return names.join(" ") || "none";
}

// The text of the token at a position, with what cannot be seen made visible; its id where its text is not known.
export function tokenAt(record: TraceRecord, position: number): string {
  if (position < record.prompt) {
    const piece = record.promptPieces[position];
    return piece !== undefined ? visible(piece) : `#${record.started?.promptTokenIds[position] ?? "?"}`;
  }
  const token = record.tokens[position - record.prompt];
  return token ? visible(token.piece || token.text || `#${token.id}`) : "";
}

const NAMED: {[character: string]: string} = {"\n": "⏎", "\t": "⇥", "\r": "␍", "\u007f": "␡"};

// Blanks as dots, control characters as their pictures, marks that turn or hide text as their numbers.
export function visible(text: string): string {
  return text
    .replace(/ /g, "·")
    .replace(/[\u0000-\u001f\u007f]/g, (c) => NAMED[c] ?? String.fromCharCode(0x2400 + c.charCodeAt(0)))
    .replace(
      /[\u0080-\u009f\u061c\u200b-\u200f\u2028-\u202e\u2060-\u2069\ufeff]/g,
      (c) => `⟨${c.charCodeAt(0).toString(16).padStart(4, "0")}⟩`,
    );
}
