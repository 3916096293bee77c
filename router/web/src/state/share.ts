// A request in the fragment of a link: #r= and its JSON in base64url. The fragment never leaves the browser by itself.
import type {GenerateRequest} from "../api/events";

// Longer links are cut by what they pass through.
const LINK_CHARACTERS_MAX = 32_000;

// The fragment; null if it would be too long.
export function fragmentOf(request: GenerateRequest): string | null {
  const bytes = new TextEncoder().encode(JSON.stringify(request));
  if (bytes.length > LINK_CHARACTERS_MAX) return null;
  let binary = "";
  for (const byte of bytes) binary += String.fromCharCode(byte);
  const coded = btoa(binary).replace(/\+/g, "-").replace(/\//g, "_").replace(/=+$/, "");
  return coded.length <= LINK_CHARACTERS_MAX ? `#r=${coded}` : null;
}

// What a fragment holds; null if it holds no request. The content is anybody's.
export function requestIn(fragment: string): unknown {
  const coded = /^#r=([A-Za-z0-9_-]+)$/.exec(fragment)?.[1];
  if (!coded || coded.length > LINK_CHARACTERS_MAX) return null;
  try {
    const binary = atob(coded.replace(/-/g, "+").replace(/_/g, "/"));
    const bytes = Uint8Array.from(binary, (character) => character.charCodeAt(0));
    const request: unknown = JSON.parse(new TextDecoder("utf-8", {fatal: true}).decode(bytes));
    return typeof request === "object" && request !== null && !Array.isArray(request) ? request : null;
  } catch {
    return null;
  }
}
