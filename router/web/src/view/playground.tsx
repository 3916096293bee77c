// Where a request is typed, run, stopped and shared; and the requests of this tab.
import {app, compareTyped, isRunning, runTyped, share, show, stop, titleOf} from "../state/app";
import {EXAMPLE, EXECUTIONS, executionName, type Form, formOf, ROLES, type Turn} from "../state/form";
import {useStore} from "../state/store";
import {visible} from "../trace/names";

const change = (part: Partial<Form>) => app.set({form: {...app.state.form, ...part}});

interface NumberOption {
  field: "maxTokens" | "temperature" | "seed" | "topK" | "topP" | "minP" | "repetitionPenalty";
  name: string;
  hint: string; // the default
}
const MAIN: NumberOption[] = [
  {field: "maxTokens", name: "Max tokens", hint: "256"},
  {field: "temperature", name: "Temperature", hint: "0"},
  {field: "seed", name: "Seed", hint: "drawn"},
];
const MORE: NumberOption[] = [
  {field: "topK", name: "Top k", hint: "all"},
  {field: "topP", name: "Top p", hint: "1"},
  {field: "minP", name: "Min p", hint: "0"},
  {field: "repetitionPenalty", name: "Repetition", hint: "1"},
];

function NumberField({field, name, hint}: NumberOption) {
  const {form} = useStore(app, (state) => [state.form]);
  return (
    <label class="field">
      <span>{name}</span>
      <input
        id={field}
        inputMode="decimal"
        autocomplete="off"
        placeholder={hint}
        value={form[field]}
        onInput={(event) => change({[field]: event.currentTarget.value})}
      />
    </label>
  );
}

// Ctrl+Enter runs, wherever one types.
function runOnKey(event: KeyboardEvent): void {
  if (event.key !== "Enter" || !(event.ctrlKey || event.metaKey) || isRunning()) return;
  event.preventDefault();
  void runTyped();
}

function Turns({turns}: {turns: Turn[]}) {
  const set = (i: number, part: Partial<Turn>) =>
    change({turns: turns.map((turn, k) => (k === i ? {...turn, ...part} : turn))});
  return (
    <div class="turns">
      {turns.map((turn, i) => (
        <div class="turn" key={i}>
          <div class="turn-head">
            <select
              aria-label={`Role of turn ${i + 1}`}
              value={turn.role}
              onChange={(event) => set(i, {role: event.currentTarget.value as Turn["role"]})}
            >
              {ROLES.map((role) => (
                <option key={role} value={role}>
                  {role}
                </option>
              ))}
            </select>
            {turns.length > 1 ? (
              <button
                type="button"
                class="quiet"
                aria-label={`Remove turn ${i + 1}`}
                onClick={() => change({turns: turns.filter((_, k) => k !== i)})}
              >
                Remove
              </button>
            ) : null}
          </div>
          <textarea
            rows={2}
            aria-label={`Text of turn ${i + 1}`}
            value={turn.content}
            onKeyDown={runOnKey}
            onInput={(event) => set(i, {content: event.currentTarget.value})}
          />
        </div>
      ))}
      <button type="button" class="quiet" onClick={() => change({turns: [...turns, {role: "user", content: ""}]})}>
        Add a turn
      </button>
    </div>
  );
}

// The answer becomes a turn of the conversation, and the next one is the user's.
function continueChat(): void {
  const {shown, form} = app.state;
  if (!shown?.request.chat) return;
  const turns = shown.request.chat.messages as Turn[];
  change({
    mode: "chat",
    turns: [...turns, {role: "assistant", content: shown.text}, {role: "user", content: ""}],
    execution: form.execution,
  });
}

function Recent() {
  const {records, shown} = useStore(app, (state) => [
    state.shown,
    ...state.records,
    ...state.records.map((r) => r.state),
  ]);
  if (records.length < 2) return null;
  return (
    <section class="recent" aria-label="Requests of this tab">
      <h2>Requests of this tab</h2>
      <ul>
        {records.map((record) => (
          <li key={record.id}>
            <button type="button" class="quiet" aria-current={record === shown} onClick={() => show(record)}>
              <span class="mono">{visible(titleOf(record.request)).slice(0, 28) || "…"}</span>
              <span class="dim">
                {executionName(record.started?.execution ?? "EXECUTION_UNSPECIFIED")}, {record.state}
              </span>
            </button>
          </li>
        ))}
      </ul>
    </section>
  );
}

export function Playground() {
  const {form, notice, noticeIsError, model, shown} = useStore(app, (state) => [
    state.form,
    state.notice,
    state.noticeIsError,
    state.model,
    state.shown,
    state.shown?.state,
    isRunning(),
  ]);
  const running = isRunning();
  const chats = model?.hasChatTemplate !== false;
  return (
    <aside class="playground" aria-label="Request">
      <form
        onSubmit={(event) => {
          event.preventDefault();
          void runTyped();
        }}
      >
        <div class="modes" role="group" aria-label="Kind of prompt">
          <button type="button" aria-pressed={form.mode === "text"} onClick={() => change({mode: "text"})}>
            Text
          </button>
          <button
            type="button"
            aria-pressed={form.mode === "chat"}
            disabled={!chats}
            onClick={() => change({mode: "chat"})}
          >
            Chat
          </button>
          <button type="button" class="quiet" onClick={() => change(formOf(EXAMPLE))}>
            Example
          </button>
        </div>
        {form.mode === "text" ? (
          <textarea
            id="prompt"
            aria-label="Prompt"
            rows={5}
            value={form.text}
            onKeyDown={runOnKey}
            onInput={(event) => change({text: event.currentTarget.value})}
          />
        ) : (
          <Turns turns={form.turns} />
        )}
        <label class="field wide">
          <span>Execution</span>
          <select
            id="execution"
            value={form.execution}
            onChange={(event) => change({execution: event.currentTarget.value as Form["execution"]})}
          >
            {EXECUTIONS.map(({value, name}) => (
              <option key={value} value={value}>
                {name}
              </option>
            ))}
          </select>
        </label>
        <div class="fields">
          {MAIN.map((option) => (
            <NumberField key={option.field} {...option} />
          ))}
        </div>
        <details>
          <summary>More options</summary>
          <div class="fields">
            {MORE.map((option) => (
              <NumberField key={option.field} {...option} />
            ))}
          </div>
          <label class="field wide">
            <span>Stop strings, one a line</span>
            <textarea rows={2} value={form.stop} onInput={(event) => change({stop: event.currentTarget.value})} />
          </label>
          <label class="check">
            <input
              type="checkbox"
              checked={form.ignoreEos}
              onChange={(event) => change({ignoreEos: event.currentTarget.checked})}
            />
            Go on past the end of the text
          </label>
        </details>
        <div class="actions">
          {running ? (
            <button type="button" id="stop" class="primary" onClick={stop}>
              Stop
            </button>
          ) : (
            <button type="submit" id="run" class="primary">
              Run
            </button>
          )}
          <button type="button" id="compare" disabled={running} onClick={() => void compareTyped()}>
            Compare
          </button>
          <button type="button" id="share" onClick={() => void share()}>
            Share
          </button>
          {shown?.request.chat && shown.state !== "running" ? (
            <button type="button" onClick={continueChat}>
              Reply
            </button>
          ) : null}
        </div>
        <p id="notice" class={noticeIsError ? "notice error" : "notice"} role="status">
          {notice}
        </p>
      </form>
      <Recent />
    </aside>
  );
}
