#!/usr/bin/env python3
"""The openai package against a running service: its users' code must work unchanged.

The package is the one that `./dev test` fetches, or else that of the Python which runs this.
"""

import concurrent.futures
import json
import unittest
import urllib.request

import service as services  # first: it knows where the packages are
import openai

PROMPT = "The capital of France is"
CHAT = [{"role": "system", "content": "Answer in one short sentence."},
        {"role": "user", "content": "What is the capital of France?"}]
TOKEN = "0123456789abcdef0123456789abcdef"

service = None
url = None


def setUpModule():
  global service, url
  service = services.Service()
  url = service.start_router("router")
  service.wait_ready("router")


def tearDownModule():
  complaints = service.stop()
  assert not complaints, "\n".join(complaints)


def client(base=None, key="none"):
  return openai.OpenAI(base_url=f"{base or url}/v1", api_key=key, max_retries=0, timeout=services.PATIENCE_S)


def complete(**options):
  return client().completions.create(**({"model": "", "prompt": PROMPT, "temperature": 0, "max_tokens": 8} | options))


def chat(**options):
  return client().chat.completions.create(
      **({"model": "", "messages": CHAT, "temperature": 0, "max_tokens": 24} | options))


def post(path, body, base=None):
  request = urllib.request.Request((base or url) + path, json.dumps(body).encode(),
                                   {"Content-Type": "application/json"})
  with urllib.request.urlopen(request, timeout=services.PATIENCE_S) as response:
    return json.load(response)


class Models(unittest.TestCase):

  def test_models(self):
    models = list(client().models.list())
    self.assertEqual(len(models), 1)
    self.assertEqual(client().models.retrieve(models[0].id), models[0])
    with self.assertRaises(openai.NotFoundError) as caught:
      client().models.retrieve("gpt-5")
    self.assertEqual(caught.exception.code, "model_not_found")

  def test_health(self):
    with urllib.request.urlopen(f"{url}/health") as response:
      self.assertEqual(response.status, 200)


class Completions(unittest.TestCase):

  def test_is_what_grpc_gives(self):
    over_grpc = "".join(
        event.get("token", event.get("finished", {})).get("text", "")
        for event in map(json.loads, service.client("router", "generate", PROMPT, "--max-tokens", "8",
                                                    "--json").splitlines()))
    answer = complete()
    self.assertEqual(answer.choices[0].text, over_grpc)
    self.assertIn("Paris", over_grpc)
    self.assertEqual(answer.choices[0].finish_reason, "length")
    self.assertEqual((answer.usage.prompt_tokens, answer.usage.completion_tokens, answer.usage.total_tokens), (5, 8, 13))
    self.assertEqual(answer.usage.prompt_tokens_details.cached_tokens, 0)

  def test_stream_is_the_whole(self):
    chunks = list(complete(stream=True, stream_options={"include_usage": True}))
    whole = complete()
    self.assertEqual("".join(c.choices[0].text for c in chunks if c.choices), whole.choices[0].text)
    self.assertEqual([c.choices[0].finish_reason for c in chunks if c.choices][-1], "length")
    self.assertEqual(chunks[-1].usage, whole.usage)
    self.assertTrue(all(c.usage is None for c in chunks[:-1]))

  def test_stop(self):
    whole = complete(max_tokens=24).choices[0].text
    for stop in (whole[7:12], ["nowhere to be found", whole[7:12]]):
      answer = complete(max_tokens=24, stop=stop).choices[0]
      self.assertEqual(answer.text, whole[:7])
      self.assertEqual(answer.finish_reason, "stop")
      streamed = complete(max_tokens=24, stop=stop, stream=True)
      self.assertEqual("".join(chunk.choices[0].text for chunk in streamed), whole[:7])

  def test_seeds_of_choices(self):
    three = complete(n=3, seed=5, temperature=1.5)
    single = [complete(seed=seed, temperature=1.5).choices[0].text for seed in (5, 6, 7)]
    self.assertEqual([choice.text for choice in three.choices], single)
    self.assertEqual([choice.index for choice in three.choices], [0, 1, 2])
    self.assertEqual(len(set(single)), 3)
    self.assertEqual((three.usage.prompt_tokens, three.usage.completion_tokens), (5, 24))

  def test_prompts_of_all_kinds(self):
    ids = post("/tokenize", {"prompt": PROMPT})["tokens"]
    self.assertEqual(post("/detokenize", {"tokens": ids})["prompt"], PROMPT)
    text = complete().choices[0].text
    self.assertEqual(complete(prompt=ids).choices[0].text, text)
    for prompts in ([PROMPT, PROMPT], [ids, ids]):
      self.assertEqual([choice.text for choice in complete(prompt=prompts).choices], [text, text])
    self.assertEqual(complete(prompt=ids, echo=True).choices[0].text, PROMPT + text)
    streamed = complete(echo=True, stream=True)
    self.assertEqual("".join(chunk.choices[0].text for chunk in streamed), PROMPT + text)

  def test_logprobs(self):
    choice = complete(logprobs=3).choices[0]
    self.assertEqual("".join(choice.logprobs.tokens), choice.text)
    self.assertEqual(choice.logprobs.text_offset[:3],
                     [0, len(choice.logprobs.tokens[0]), len("".join(choice.logprobs.tokens[:2]))])
    for token, logprob, top in zip(choice.logprobs.tokens, choice.logprobs.token_logprobs, choice.logprobs.top_logprobs):
      self.assertLessEqual(logprob, 0)
      self.assertEqual(max(top, key=top.get), token, "the greedy choice")
      self.assertEqual(top[token], logprob)
    streamed = complete(logprobs=3, stream=True)
    self.assertEqual([token for chunk in streamed if chunk.choices[0].logprobs
                      for token in chunk.choices[0].logprobs.tokens], choice.logprobs.tokens)

  def test_options_of_others(self):
    answer = complete(max_tokens=40, extra_body={"ignore_eos": True, "min_tokens": 40, "top_k": 1, "min_p": 0.1,
                                                 "priority": 1, "no_such_option": {}})
    self.assertEqual(answer.usage.completion_tokens, 40)

  def test_penalties_and_bias(self):
    free = complete(max_tokens=60, extra_body={"ignore_eos": True})
    varied = complete(max_tokens=60, frequency_penalty=2, presence_penalty=2, extra_body={"ignore_eos": True})
    words = lambda answer: len(set(answer.choices[0].text.split()))
    self.assertGreater(words(varied), words(free))
    repeated = complete(max_tokens=60, extra_body={"ignore_eos": True, "repetition_penalty": 1.5})
    self.assertGreater(words(repeated), words(free))
    ids = post("/tokenize", {"prompt": " Paris London"})["tokens"]
    first = complete(max_tokens=1, logprobs=1).choices[0]
    self.assertEqual(first.text, " Paris")
    biased = complete(max_tokens=1, logprobs=1, logit_bias={str(ids[0]): -100}).choices[0]
    self.assertNotEqual(biased.text, " Paris")
    self.assertEqual(biased.logprobs.top_logprobs[0][" Paris"], first.logprobs.token_logprobs[0], "raw logits")
    self.assertEqual(complete(max_tokens=1, logit_bias={str(ids[1]): 100}).choices[0].text, " London")
    only = complete(max_tokens=20, temperature=1, seed=1, extra_body={"allowed_token_ids": ids, "ignore_eos": True})
    self.assertLessEqual(set(only.choices[0].text.split()), {"Paris", "London"})
    self.assertEqual(only.usage.completion_tokens, 20)

  def test_prompts_seen_before_are_counted(self):
    cold, warm = (complete(prompt="Seen before: " + "one two three " * 50) for _ in range(2))
    self.assertEqual(cold.usage.prompt_tokens_details.cached_tokens, 0)
    self.assertGreater(warm.usage.prompt_tokens_details.cached_tokens, 64)
    self.assertEqual(cold.choices[0].text, warm.choices[0].text)

  def test_request_id(self):
    answer = client().completions.with_raw_response.create(model="", prompt=PROMPT, max_tokens=1,
                                                           extra_headers={"x-request-id": "label-7"})
    self.assertEqual(answer.headers["x-request-id"], "label-7")
    self.assertEqual(answer.parse().id, "cmpl-label-7")
    self.assertIn("label-7", service.log("router"))


class Chat(unittest.TestCase):

  def test_answer(self):
    answer = chat()
    self.assertEqual(answer.choices[0].message.role, "assistant")
    self.assertIn("Paris", answer.choices[0].message.content)
    self.assertEqual(answer.choices[0].finish_reason, "stop")
    streamed = list(chat(stream=True, stream_options={"include_usage": True}))
    self.assertEqual("".join(c.choices[0].delta.content or "" for c in streamed if c.choices),
                     answer.choices[0].message.content)
    self.assertEqual(streamed[0].choices[0].delta.role, "assistant")
    self.assertEqual(streamed[-1].usage, answer.usage)

  def test_parts_roles_and_the_newer_limit(self):
    parts = [{"role": "developer", "content": CHAT[0]["content"]},
             {"role": "user", "content": [{"type": "text", "text": CHAT[1]["content"]}]}]
    self.assertEqual(chat(messages=parts).choices[0].message.content, chat().choices[0].message.content)
    short = chat(max_tokens=openai.NOT_GIVEN, max_completion_tokens=2)
    self.assertEqual((short.usage.completion_tokens, short.choices[0].finish_reason), (2, "length"))

  def test_logprobs(self):
    choice = chat(logprobs=True, top_logprobs=2, n=2).choices[1]
    entries = choice.logprobs.content
    # The last token ends the answer: it has no text there.
    self.assertTrue(b"".join(bytes(e.bytes) for e in entries).decode().startswith(choice.message.content))
    for entry in entries:
      self.assertEqual(len(entry.top_logprobs), 2)
      self.assertEqual(entry.top_logprobs[0].token, entry.token)
      self.assertEqual(entry.top_logprobs[0].logprob, entry.logprob)
    self.assertEqual(chat(logprobs=True).choices[0].logprobs.content[0].top_logprobs, [])


class Ends(unittest.TestCase):

  def test_every_end_token_of_the_vocabulary_ends(self):
    for name in ("<|im_end|>", "<|endoftext|>"):
      end = json.load(urllib.request.urlopen(urllib.request.Request(
          f"{url}/tokenize", json.dumps({"prompt": name}).encode(), {"Content-Type": "application/json"})))["tokens"]
      self.assertEqual(len(end), 1)
      answer = complete(max_tokens=5, extra_body={"allowed_token_ids": end})
      self.assertEqual((answer.choices[0].finish_reason, answer.choices[0].text), ("stop", ""))
      self.assertEqual(answer.usage.completion_tokens, 1)


class Errors(unittest.TestCase):

  def test_bad_requests_name_the_field(self):
    for options, param in (({"temperature": -1}, "temperature"), ({"top_p": 0}, "top_p"),
                           ({"max_tokens": 100000}, "max_tokens"), ({"stop": [""]}, "stop"),
                           ({"prompt": [999999]}, "prompt"), ({"prompt": ""}, "prompt"),
                           ({"n": 1000}, "n"), ({"logprobs": 50}, "logprobs"), ({"presence_penalty": 3}, "presence_penalty"),
                           ({"frequency_penalty": -2.5}, "frequency_penalty"),
                           ({"logit_bias": {"5": 101}}, "logit_bias"), ({"logit_bias": {"99999": 1}}, "logit_bias"),
                           ({"logit_bias": {"Paris": 1}}, "logit_bias"), ({"best_of": 2}, "best_of"),
                           ({"extra_body": {"repetition_penalty": 0}}, "repetition_penalty"),
                           ({"extra_body": {"allowed_token_ids": []}}, "allowed_token_ids"),
                           ({"extra_body": {"allowed_token_ids": [2], "min_tokens": 1}}, "allowed_token_ids"),
                           ({"extra_body": {"min_tokens": 9}}, "min_tokens"), ({"suffix": "x"}, "suffix")):
      with self.subTest(param=param):
        for stream in (False, True):
          with self.assertRaises(openai.BadRequestError) as caught:
            complete(stream=stream, **options)
          self.assertEqual(caught.exception.param, param)
          self.assertEqual(caught.exception.type, "invalid_request_error")
    for options, param in (({"tools": [{"type": "function", "function": {"name": "f"}}]}, "tools"),
                           ({"response_format": {"type": "json_object"}, "extra_body": {"ignore_eos": True}},
                            "response_format"),
                           ({"response_format": {"type": "json_schema", "json_schema": {
                               "name": "x", "schema": {"type": "strin"}}}}, "response_format"),
                           ({"extra_body": {"structured_outputs": {"regex": "("}}}, "structured_outputs"),
                           ({"messages": [{"role": "user", "content": [{"type": "image_url"}]}]},
                            "messages[0].content[0]")):
      with self.assertRaises(openai.BadRequestError) as caught:
        chat(**options)
      self.assertEqual(caught.exception.param, param)

  def test_too_long(self):
    with self.assertRaises(openai.BadRequestError) as caught:
      complete(prompt="word " * 20000)
    self.assertEqual(caught.exception.code, "context_length_exceeded")
    with self.assertRaises(openai.APIStatusError) as caught:
      complete(prompt="x" * (5 << 20))
    self.assertEqual(caught.exception.status_code, 413)

  def test_unknown_model(self):
    with self.assertRaises(openai.NotFoundError):
      complete(model="gpt-5")


class Lifetimes(unittest.TestCase):

  def test_closing_a_stream_cancels(self):
    stream = complete(stream=True, max_tokens=4000, extra_body={"ignore_eos": True})
    next(stream)
    stream.close()
    services.wait_until(lambda: service.idle("router"), "the generation goes on")
    self.assertIn("the client ended the call", service.log("router"))

  def test_many_at_once(self):
    text = complete().choices[0].text
    with concurrent.futures.ThreadPoolExecutor(16) as pool:
      self.assertEqual({a.choices[0].text for a in pool.map(lambda _: complete(), range(24))}, {text})

  def test_keys_quotas_and_draining(self):
    tokens = service.directory / "tokens"
    tokens.write_text(f"alice {TOKEN}\n")
    second = service.start_router("router-2", "--client-tokens", str(tokens), "--client-max-requests", "1")
    with self.assertRaises(openai.AuthenticationError):
      client(second).models.list()
    with self.assertRaises(openai.AuthenticationError):
      client(second, "wrong" * 8).completions.create(model="", prompt=PROMPT)
    alice = client(second, TOKEN)
    stream = services.wait_until(lambda: self.stream_of(alice), "router-2 has no workers")
    with self.assertRaises(openai.RateLimitError) as caught:
      alice.completions.create(model="", prompt=PROMPT)
    self.assertEqual(caught.exception.response.headers["retry-after"], "1")
    # The running stream is finished, then the process ends.
    service.processes["router-2"].terminate()
    services.wait_until(lambda: "draining" in service.log("router-2"), "router-2 does not drain")
    rest = list(stream)
    self.assertEqual(rest[-1].choices[0].finish_reason, "length")
    self.assertEqual(service.processes["router-2"].wait(services.PATIENCE_S), 0)

  def stream_of(self, alice):
    """A stream that has begun, or None if no worker is ready yet."""
    try:
      stream = alice.completions.create(model="", prompt=PROMPT, max_tokens=100, stream=True,
                                        extra_body={"ignore_eos": True})
      next(stream)
      return stream
    except openai.InternalServerError:  # 503
      return None


class Metrics(unittest.TestCase):
  """What Prometheus sees is what the requests did."""

  def test_requests_are_counted(self):
    before = service.metrics("router")
    tokens = [complete(prompt=f"{n} " * 70, max_tokens=n, extra_body={"ignore_eos": True}).usage for n in (1, 5, 9)]
    with self.assertRaises(openai.BadRequestError):
      complete(temperature=-1)
    services.wait_until(lambda: service.metrics("router")["kvrelay_requests_running"] == 0, "the router stays busy")
    after = service.metrics("router")
    grown = {name: value - before.get(name, 0) for name, value in after.items()}
    self.assertEqual(grown['kvrelay_request_success_total{finished_reason="length"}'], 3)
    self.assertEqual(grown['kvrelay_request_success_total{finished_reason="stop"}'], 0)
    self.assertEqual(grown["kvrelay_prompt_tokens_total"], sum(usage.prompt_tokens for usage in tokens))
    self.assertEqual(grown["kvrelay_generation_tokens_total"], 15)
    self.assertEqual(grown["kvrelay_time_to_first_token_seconds_count"], 3)
    self.assertEqual(grown["kvrelay_inter_token_latency_seconds_count"], 0 + 4 + 8)
    self.assertEqual(grown["kvrelay_request_queue_time_seconds_count"], 3)
    self.assertEqual(grown["kvrelay_request_prefill_time_seconds_count"], 3)
    computed, reused, received = (grown[f'kvrelay_positions_total{{kind="{kind}"}}']
                                  for kind in ("computed", "reused", "received"))
    # All but the last token of each; those that were shipped are counted where they were computed and where they arrived.
    self.assertEqual(computed + reused, sum(usage.prompt_tokens for usage in tokens) + 0 + 4 + 8)
    self.assertEqual(grown["kvrelay_kv_transfer_bytes_total"], received * 23040)
    self.assertEqual(grown["kvrelay_kv_transfer_seconds_count"] > 0, received > 0)
    self.assertEqual(grown["kvrelay_requests_waiting"], 0)

  def test_failures_are_counted_by_code(self):
    name = 'kvrelay_request_failures_total{code="NOT_FOUND"}'
    before = service.metrics("router")[name]
    with self.assertRaises(openai.NotFoundError):
      complete(model="unknown")
    self.assertEqual(service.metrics("router")[name] - before, 1)

  def test_workers_tell_of_their_engine(self):
    complete()
    services.wait_until(lambda: service.idle("router"), "a worker stays busy")
    for role in ("prefill", "decode"):
      found = service.metrics(role)
      self.assertEqual(found["kvrelay_kv_cache_usage_ratio"], 0)
      self.assertGreater(found["kvrelay_kv_blocks"], 100)
      self.assertEqual(found["kvrelay_engine_sessions_running"] + found["kvrelay_engine_sessions_waiting"], 0)
    self.assertGreater(service.metrics("decode")["kvrelay_engine_steps_total"], 0)


if __name__ == "__main__":
  unittest.main(verbosity=2)
