import assert from "node:assert/strict";
import test from "node:test";
import {milliseconds, number} from "../src/api/events";
import {Lines} from "../src/api/lines";
import {EXAMPLE, formOf, requestOf} from "../src/state/form";
import {fragmentOf, requestIn} from "../src/state/share";

test("lines, however they are cut", () => {
  const bytes = new TextEncoder().encode('{"a":"é😀"}\n{"b":1}\nrest');
  for (let size = 1; size <= bytes.length; ++size) {
    const lines = new Lines();
    const got: string[] = [];
    for (let at = 0; at < bytes.length; at += size) got.push(...lines.push(bytes.subarray(at, at + size)));
    assert.deepEqual(got, ['{"a":"é😀"}', '{"b":1}']);
  }
});

test("protobuf's numbers and durations", () => {
  assert.deepEqual(["12", 3, "-Infinity", "", undefined].map(number), [12, 3, -Infinity, 0, 0]);
  assert.deepEqual(["0.25s", "1s", "-0.001s", "x", null].map(milliseconds), [250, 1000, -1, 0, 0]);
});

test("a shared request comes back as it was", () => {
  for (const request of [EXAMPLE, {text: "<b>\u0000 한국어 😀"}, {chat: {messages: [{role: "user", content: "hi"}]}}]) {
    assert.deepEqual(requestIn(fragmentOf(request)!), request);
  }
  assert.equal(fragmentOf({text: "x".repeat(40_000)}), null);
});

test("fragments that hold no request", () => {
  const bad = ["", "#", "#r=", "#r=%%", "#r=AAAA", "#r=WzFd", "#r=bnVsbA", "#x=e30", `#r=${"A".repeat(40_000)}`];
  for (const fragment of bad) assert.equal(requestIn(fragment), null, fragment);
});

test("forms and requests", () => {
  const form = formOf(EXAMPLE);
  assert.deepEqual(requestOf(form), EXAMPLE);
  assert.deepEqual(requestOf({...form, seed: "18446744073709551615", topK: "5"}), {
    ...EXAMPLE,
    sampling: {temperature: 0, top_k: 5, seed: "18446744073709551615"},
  });
  for (const part of [{temperature: "hot"}, {seed: "-1"}, {maxTokens: "1.5"}]) {
    assert.ok("wrong" in requestOf({...form, ...part}));
  }
  const hostile = formOf({
    text: 5,
    chat: {messages: [{role: "<x>", content: {}}, 7]},
    execution: "RUN",
    stop: [1, "a"],
    sampling: "none",
    max_tokens: {},
  });
  assert.deepEqual(
    [hostile.text, hostile.turns, hostile.execution, hostile.stop, hostile.maxTokens],
    ["", [{role: "user", content: ""}], "EXECUTION_UNSPECIFIED", "a", ""],
  );
  assert.equal(formOf(null).mode, "text");
});
