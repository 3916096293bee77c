// What the colours mean: the article's.
const ENTRIES: [string, string][] = [
  ["first", "computed for the first time"],
  ["again", "computed again"],
  ["read", "K, V read from the cache"],
  ["reused", "of these, found in the prefix cache"],
  ["shipped", "shipped to another worker"],
  ["rejected", "wrong guess, dropped"],
  ["selected", "selected, no K, V yet"],
];

export function Legend() {
  return (
    <figcaption class="legend" id="legend">
      {ENTRIES.map(([kind, text]) => (
        <span key={kind}>
          <svg width="16" height="14" aria-hidden="true">
            {kind === "shipped" || kind === "rejected" ? (
              <rect class={`cell ${kind}`} x="1" y="8" width="14" height="4" />
            ) : (
              <rect class={`cell ${kind}`} x="1" y="1" width="14" height="12" />
            )}
          </svg>
          {text}
        </span>
      ))}
      <span>
        <svg width="16" height="14" aria-hidden="true">
          <rect class="boundary" x="7" y="0" width="2" height="14" />
        </svg>
        left of it, K and V are ready
      </span>
    </figcaption>
  );
}
