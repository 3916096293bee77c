// A value that components follow. Changes within one frame are shown together.
import {useEffect, useReducer, useRef} from "preact/hooks";

export class Store<S extends object> {
  private readonly followers = new Set<() => void>();
  private frame = 0;

  constructor(public state: S) {}

  set(change: Partial<S>): void {
    this.state = {...this.state, ...change};
    this.changed();
  }

  // Something inside of the state has changed.
  changed(): void {
    if (this.frame !== 0) return;
    this.frame = requestAnimationFrame(() => {
      this.frame = 0;
      for (const follower of this.followers) follower();
    });
  }

  follow(follower: () => void): () => void {
    this.followers.add(follower);
    return () => this.followers.delete(follower);
  }
}

// The state; the component is drawn again when something of what it watches has changed. Without `watched`: with every
// change.
export function useStore<S extends object>(store: Store<S>, watched?: (state: S) => unknown[]): S {
  const [, again] = useReducer<number, void>((n) => n + 1, 0);
  const seen = useRef<unknown[]>([]);
  seen.current = watched ? watched(store.state) : [];
  useEffect(
    () =>
      store.follow(() => {
        const now = watched ? watched(store.state) : [];
        if (!watched || now.some((value, i) => value !== seen.current[i])) again();
      }),
    [store],
  );
  return store.state;
}
