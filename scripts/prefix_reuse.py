#!/usr/bin/env python3
"""What prefix reuse saves on a running service: the second turn of a chat, and many users with one system prompt.

usage: prefix_reuse.py CLIENT ROUTER DECODE_METRICS

Prompts are random token ids, so that nothing is reused but what is meant to be. Times are the router's.
"""

import concurrent.futures
import json
import random
import statistics
import subprocess
import sys
import threading
import time
import urllib.request

CLIENT, ROUTER, DECODE_METRICS = sys.argv[1:]
BLOCK = 64
random_ids = random.Random(20261130)


def prompt(length):
  return [random_ids.randrange(1000, 40000) for _ in range(length)]


def generate(ids, max_tokens):
  """Ids selected, and Finished."""
  lines = subprocess.run(
      [CLIENT, "generate", "--json", "--address", ROUTER, "--ignore-eos", "--max-tokens", str(max_tokens),
       "--token-ids", ",".join(map(str, ids))], check=True, capture_output=True, text=True).stdout.splitlines()
  events = [json.loads(line) for line in lines]
  return [event["token"]["id"] for event in events if "token" in event], events[-1]["finished"]


def first_token_ms(finished):
  return 1000 * float(finished["timings"]["first_token"][:-1])


def second_turns(rounds=5, first=2000, new=64, message=32):
  generate(prompt(first), 1)  # the first prompt of a service also fills its pages
  ratios = []
  for _ in range(rounds):
    ids = prompt(first)
    answer, begin = generate(ids, new)
    _, turn = generate(ids + answer + prompt(message), new)
    times = first_token_ms(begin), first_token_ms(turn)
    ratios.append(times[1] / times[0])
    print(f"  first {times[0]:7.1f} ms, second {times[1]:6.1f} ms, {turn['usage']['cached']} of "
          f"{turn['usage']['prompt']} positions cached")
  print(f"second turn: time to first token {statistics.median(ratios):.3f} x the first's (median of {rounds}; "
        f"{first} tokens, {new} new, {message} more)")


def referenced_blocks():
  with urllib.request.urlopen(f"http://{DECODE_METRICS}/metrics", timeout=10) as response:
    lines = response.read().decode().splitlines()
  value = {name: float(text) for name, text in (line.rsplit(" ", 1) for line in lines if not line.startswith("#"))}
  return round(value["kvrelay_kv_cache_usage_ratio"] * value["kvrelay_kv_blocks"])


def shared_prompt(users=64, shared=1000, own=24, new=64):
  system = prompt(shared)
  generate(system + prompt(own), new)
  prompts = [system + prompt(own) for _ in range(users)]
  done, peak = threading.Event(), 0

  def watch():
    nonlocal peak
    while not done.wait(0.05):
      peak = max(peak, referenced_blocks())

  watcher = threading.Thread(target=watch)
  watcher.start()
  began = time.monotonic()
  with concurrent.futures.ThreadPoolExecutor(users) as pool:
    ends = [finished for _, finished in pool.map(lambda ids: generate(ids, new), prompts)]
  seconds = time.monotonic() - began
  done.set()
  watcher.join()
  cached = sum(end["usage"]["cached"] for end in ends)
  alone = -(-(shared + own + new) // BLOCK)
  together = shared // BLOCK + users * (alone - shared // BLOCK)
  print(f"{users} users of one {shared}-token system prompt: {100 * cached / (users * shared):.1f} % of its positions "
        f"reused (whole blocks: {100 * (shared // BLOCK * BLOCK) / shared:.1f} %), {seconds:.1f} s in all")
  print(f"KV blocks referred to on the decode worker at a time: at most {peak}; {together} if all ran at once and the "
        f"prompt is held once, {users * alone} if each held its own")


second_turns()
shared_prompt()
