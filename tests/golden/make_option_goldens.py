#!/usr/bin/env python3
"""Makes data/option_goldens.json: what transformers' own processors, and OpenAI's formula in numpy, make of real logits.

    python tests/golden/make_option_goldens.py

Needs: numpy, torch, transformers (versions used are in the file's provenance), and data/model_goldens.* of
make_goldens.py, whose logits are the input. A case's vocabulary is small: the ids that a record has logits of (the most
likely ones and the fixed ones), ascending, numbered from 0. Processors run in vLLM's order, each in f32:

  allowed ids          PrefixConstrainedLogitsProcessor
  logit bias           SequenceBiasLogitsProcessor
  repetition penalty   RepetitionPenaltyLogitsProcessor
  frequency, presence  OpenAI's API reference: mu[j] - c[j] * alpha_frequency - float(c[j] > 0) * alpha_presence
  temperature, top_k, top_p, min_p: transformers' warpers

A case has the bits of each score that differs from its logit, the best id, and what the warpers leave.
"""

import json
import pathlib
import random

import numpy as np
import torch
import transformers
from transformers.generation import logits_process as processors

DATA = pathlib.Path(__file__).parent / "data"
TOP, FIXED = 64, 256
CASES = 32
LIKELY = 0.02  # ids of at least this probability are listed


def read_records():
    """[(logits of the small vocabulary)] of all positions; the grammar is in golden_reader.h."""
    fixed_ids = np.array(json.loads((DATA / "model_goldens.json").read_text())["fixed_ids"], np.uint32)
    record = np.dtype([("head", "<f4", 4), ("top_ids", "<u4", TOP), ("top", "<f4", TOP), ("fixed", "<f4", FIXED)])
    records = np.frombuffer((DATA / "model_goldens.bin").read_bytes(), record, offset=8)

    def small(entry):
        logits = dict(zip(entry["top_ids"].tolist(), entry["top"].tolist()))
        logits |= dict(zip(fixed_ids.tolist(), entry["fixed"].tolist()))
        return np.array([logits[i] for i in sorted(logits)], np.float32)

    return [small(entry) for entry in records]


def tokens(rng, logits, count):
    """Likely ones above all, as in text; repeats included."""
    best = np.argsort(-logits, kind="stable").tolist()
    return [best[min(int(rng.expovariate(1 / 6)), len(best) - 1)] for _ in range(count)]


def draw_case(rng, number, logits):
    """Options: each alone first, then in company."""
    alone = number if number < 6 else None

    def given(which, chance=0.6):
        return which == alone if alone is not None else rng.random() < chance

    everything = list(range(len(logits)))
    return {
        "prompt": tokens(rng, logits, rng.randint(1, 30)),
        "output": tokens(rng, logits, rng.randint(0, 20)),
        "repetition_penalty": rng.choice([0.5, 0.9, 1.1, 1.3, 2.0, 7.25]) if given(0) or given(5) else 1.0,
        "presence_penalty": rng.choice([-2.0, -0.7, 0.1, 0.6, 2.0]) if given(1) or given(5) else 0.0,
        "frequency_penalty": rng.choice([-2.0, -0.3, 0.2, 1.1, 2.0]) if given(2) or given(5) else 0.0,
        "logit_bias": [[i, rng.choice([-100.0, -3.3, 0.7, 5.1, 100.0])]
                       for i in sorted(set(tokens(rng, logits, 5)))] if given(3) or given(5) else [],
        "allowed": sorted(set(tokens(rng, logits, 4) + rng.sample(everything, 10))) if given(4, 0.3) else [],
        "temperature": rng.choice([0.5, 1.0, 2.5, 6.0]),  # real logits are steep
        "top_k": rng.choice([0, 0, 5, 40]),
        "top_p": rng.choice([1.0, 0.95, 0.8]),
        "min_p": rng.choice([0.0, 0.0, 0.01, 0.1]),
    }


def openai_penalties(case, scores):
    count = np.bincount(case["output"], minlength=scores.size).astype(np.float32)
    scores = scores - count * np.float32(case["frequency_penalty"])
    return scores - (count > 0).astype(np.float32) * np.float32(case["presence_penalty"])


def scores_of(case, logits):
    ids = torch.tensor([case["prompt"] + case["output"]])
    scores = torch.from_numpy(logits.copy())[None]
    if case["allowed"]:
        scores = processors.PrefixConstrainedLogitsProcessor(lambda _, __: case["allowed"], 1)(ids, scores)
    if case["logit_bias"]:
        bias = {(i,): b for i, b in case["logit_bias"]}
        scores = processors.SequenceBiasLogitsProcessor(bias)(ids, scores)
    scores = processors.RepetitionPenaltyLogitsProcessor(case["repetition_penalty"])(ids, scores)
    assert scores.dtype == torch.float32
    return openai_penalties(case, scores[0].numpy())


def left_by_warpers(case, scores):
    warpers = [processors.TemperatureLogitsWarper(case["temperature"])]
    if case["top_k"] > 0:
        warpers.append(processors.TopKLogitsWarper(case["top_k"]))
    if case["top_p"] < 1:
        warpers.append(processors.TopPLogitsWarper(case["top_p"]))
    if case["min_p"] > 0:
        warpers.append(processors.MinPLogitsWarper(case["min_p"]))
    left = torch.from_numpy(scores.copy())[None]
    for warp in warpers:
        left = warp(None, left)
    probabilities = torch.softmax(left[0].double(), dim=0).numpy()
    kept = np.flatnonzero(np.isfinite(left[0].numpy())).tolist()
    return kept, np.flatnonzero(probabilities >= LIKELY).tolist()


def make_case(rng, number, record, logits):
    case = draw_case(rng, number, logits)
    scores = scores_of(case, logits)
    finite = np.isfinite(scores)
    assert set(np.flatnonzero(finite)) == set(case["allowed"] or range(len(logits)))
    changed = np.flatnonzero(finite & (scores != logits)).tolist()
    kept, likely = left_by_warpers(case, scores)
    return {"record": record} | case | {
        "scores": [[i, int(scores[i : i + 1].view(np.uint32)[0])] for i in changed],
        "greedy": int(np.argmax(scores)),
        "kept": kept if len(kept) < 100 else [],  # empty: too many to list
        "likely": likely,
    }


def main():
    rng = random.Random(71)
    records = read_records()
    cases = []
    for number in range(CASES):
        record = rng.randrange(len(records))
        cases.append(make_case(rng, number, record, records[record]))
    provenance = {"command": "python tests/golden/make_option_goldens.py", "numpy": np.__version__,
                  "torch": torch.__version__, "transformers": transformers.__version__}
    lines = ",\n".join(json.dumps(case, separators=(",", ":")) for case in cases)
    (DATA / "option_goldens.json").write_text(f'{{"provenance":{json.dumps(provenance)},"cases":[\n{lines}\n]}}\n')


if __name__ == "__main__":
    main()
