// The guided tour: a card beside the drawings, whose steps set the page to what they speak of.
import {useEffect, useRef, useState} from "preact/hooks";
import {app, compareTyped, isRunning, runExample, show} from "../state/app";
import {EXAMPLE, formOf} from "../state/form";
import {type Language, type Scene, TOUR} from "../words/tour";

// What a step wants to see. Runs the example again where it is not what is shown.
async function setScene(scene: Scene): Promise<void> {
  if (scene.tab === "compare") {
    app.set({form: formOf(EXAMPLE), tab: "compare"});
    const compared = app.state.comparison[0]?.request.text === EXAMPLE.text;
    if (!compared && !isRunning()) await compareTyped();
    return;
  }
  const split = app.state.comparison.find(
    (r) => r.request.text === EXAMPLE.text && r.request.execution === "EXECUTION_SPLIT",
  );
  if (scene.split && split?.state === "finished") return show(split, scene.tab);
  let record = app.state.records.find((r) => r.request === EXAMPLE && r.state === "finished");
  if (!record && !isRunning()) {
    await runExample();
    record = app.state.records.find((r) => r.request === EXAMPLE);
  }
  if (record) show(record, scene.tab);
  app.set({tab: scene.tab, step: scene.step ?? -1});
}

export function Tour({
  language,
  onClose,
  onLanguage,
}: {
  language: Language;
  onClose: () => void;
  onLanguage: (language: Language) => void;
}) {
  const [at, setAt] = useState(0);
  const title = useRef<HTMLHeadingElement>(null);
  const words = TOUR[language];
  const step = words.steps[at];
  useEffect(() => {
    void setScene(step.scene);
    title.current?.focus();
  }, [at]);
  const onKey = (event: KeyboardEvent) => {
    if (event.key === "Escape") onClose();
  };
  return (
    <aside class="tour" lang={language} aria-label={words.name} onKeyDown={onKey}>
      <p class="dim">
        {words.name} · {at + 1} / {words.steps.length}
      </p>
      <h2 ref={title} tabIndex={-1}>
        {step.title}
      </h2>
      {step.text.map((paragraph) => (
        <p key={paragraph}>{paragraph}</p>
      ))}
      <div class="actions">
        <button type="button" disabled={at === 0} onClick={() => setAt(at - 1)}>
          {words.back}
        </button>
        {at + 1 < words.steps.length ? (
          <button type="button" class="primary" onClick={() => setAt(at + 1)}>
            {words.next}
          </button>
        ) : (
          <button type="button" class="primary" onClick={onClose}>
            {words.end}
          </button>
        )}
        <span class="spring" />
        <button
          type="button"
          class="quiet"
          lang={language === "en" ? "ko" : "en"}
          onClick={() => onLanguage(language === "en" ? "ko" : "en")}
        >
          {language === "en" ? "한국어" : "English"}
        </button>
        <button type="button" class="quiet" aria-label={words.close} onClick={onClose}>
          ✕
        </button>
      </div>
    </aside>
  );
}
