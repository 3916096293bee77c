// The frame of the page: what is asked on the left, what happened on the right.
import {useEffect, useRef, useState} from "preact/hooks";
import {setBearer} from "../api/client";
import {app, loadModel, runExample, type Tab} from "../state/app";
import {useStore} from "../state/store";
import type {Language} from "../words/tour";
import {Answer} from "./answer";
import {CacheView} from "./cache";
import {CompareView} from "./compare";
import {FleetView} from "./fleet";
import {JourneyView} from "./journey";
import {Playground} from "./playground";
import {Tour} from "./tour";

const TABS: {id: Tab; name: string}[] = [
  {id: "cache", name: "The cache, step by step"},
  {id: "compare", name: "With and without"},
  {id: "journey", name: "The journey"},
  {id: "fleet", name: "The fleet"},
];

function Tabs() {
  const {tab} = useStore(app, (state) => [state.tab]);
  const onKey = (event: KeyboardEvent) => {
    const by = event.key === "ArrowRight" ? 1 : event.key === "ArrowLeft" ? -1 : 0;
    if (by === 0) return;
    event.preventDefault();
    const next = TABS[(TABS.findIndex((entry) => entry.id === tab) + by + TABS.length) % TABS.length];
    app.set({tab: next.id});
    document.getElementById(`tab-${next.id}`)?.focus();
  };
  return (
    <div role="tablist" aria-label="Views" class="tabs" onKeyDown={onKey}>
      {TABS.map(({id, name}) => (
        <button
          key={id}
          id={`tab-${id}`}
          role="tab"
          type="button"
          aria-selected={tab === id}
          aria-controls="panel"
          tabIndex={tab === id ? 0 : -1}
          onClick={() => app.set({tab: id})}
        >
          {name}
        </button>
      ))}
    </div>
  );
}

function TokenForm() {
  const input = useRef<HTMLInputElement>(null);
  const submit = (event: Event) => {
    event.preventDefault();
    setBearer(input.current?.value ?? "");
    app.set({needsToken: false});
    void loadModel();
    if (app.state.records.length <= 1) void runExample();
  };
  return (
    <form class="token-form" onSubmit={submit}>
      <label for="bearer">This service asks for a token</label>
      <input id="bearer" ref={input} type="password" autocomplete="off" required />
      <button type="submit" class="primary">
        Use it
      </button>
      <small>It stays in this page and is gone when the page is closed.</small>
    </form>
  );
}

type Theme = "auto" | "light" | "dark";
const NEXT: {[theme in Theme]: Theme} = {auto: "dark", dark: "light", light: "auto"};

export function Page() {
  const {tab, model, needsToken} = useStore(app, (state) => [state.tab, state.model, state.needsToken]);
  const [theme, setTheme] = useState<Theme>("auto");
  const [tour, setTour] = useState<Language | null>(null);
  useEffect(() => {
    document.documentElement.dataset.theme = theme;
  }, [theme]);
  return (
    <>
      <a
        class="skip"
        href="#panel"
        onClick={(event) => {
          event.preventDefault(); // the fragment belongs to shared requests
          document.getElementById("panel")?.focus();
        }}
      >
        Skip to the drawing
      </a>
      <header class="top">
        <h1>kvrelay</h1>
        <p class="sub">
          See the KV cache
          {model ? (
            <>
              {" "}
              · <span class="mono">{model.name}</span>
            </>
          ) : null}
        </p>
        <nav aria-label="Page">
          <button type="button" onClick={() => setTour("en")}>
            Tour
          </button>
          <button type="button" lang="ko" onClick={() => setTour("ko")}>
            둘러보기
          </button>
          <button type="button" aria-label={`Colours: ${theme}`} onClick={() => setTheme(NEXT[theme])}>
            {theme === "auto" ? "◐ auto" : theme === "dark" ? "● dark" : "○ light"}
          </button>
        </nav>
      </header>
      {needsToken ? <TokenForm /> : null}
      <div class="columns">
        <Playground />
        <main>
          <Answer />
          <Tabs />
          <section id="panel" role="tabpanel" aria-labelledby={`tab-${tab}`} tabIndex={-1}>
            {tab === "cache" ? <CacheView /> : null}
            {tab === "compare" ? <CompareView /> : null}
            {tab === "journey" ? <JourneyView /> : null}
            {tab === "fleet" ? <FleetView /> : null}
          </section>
        </main>
      </div>
      {tour ? <Tour language={tour} onClose={() => setTour(null)} onLanguage={setTour} /> : null}
    </>
  );
}
