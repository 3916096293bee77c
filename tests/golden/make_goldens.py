#!/usr/bin/env python3
"""Makes the goldens of this folder from an independent implementation: Hugging Face transformers and tokenizers.

    python tests/golden/make_goldens.py MODEL.gguf [--only tokenizer|model]

Needs: torch, transformers, accelerate, gguf, tokenizers, jinja2 (versions used are in the files' provenance). Writes
data/tokenizer_goldens.json, data/model_goldens.json and data/model_goldens.bin. The grammar of the .bin file is in
golden_reader.h. Weights are dequantized by transformers and computed in f32 on the CPU.
"""

import argparse
import hashlib
import json
import os
import pathlib
import struct

import jinja2
import jinja2.sandbox
import numpy as np
import tokenizers
import torch
import transformers
from tokenizers import pre_tokenizers

import prompts

MAGIC = b"KVGOLD01"
TOP = 64
# Spread over the vocabulary, the same for every position.
FIXED_IDS = [i * 192 + i * 37 % 192 for i in range(256)]
OPENING, CLOSING = "\ue123", "\ue124"  # marks around message text while a template is rendered

DATA = pathlib.Path(__file__).parent / "data"


class ReferenceTokenizer:
    """transformers' tokenizer of the GGUF file, with the pre-tokenizer that the file names.

    transformers 5 ignores `tokenizer.ggml.pre`; "smollm" is what the model's own tokenizer.json says: every digit alone,
    then the GPT-2 pattern.
    """

    def __init__(self, folder, name):
        self.hugging_face = transformers.AutoTokenizer.from_pretrained(folder, gguf_file=name)
        smollm = pre_tokenizers.Sequence([
            pre_tokenizers.Digits(individual_digits=True),
            pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=True),
        ])
        self.with_controls = self.hugging_face.backend_tokenizer
        self.with_controls.pre_tokenizer = smollm
        # The same vocabulary and merges with no added token: text that is never taken for a control token.
        self.plain = tokenizers.Tokenizer(self.with_controls.model)
        self.plain.pre_tokenizer = smollm
        self.controls = [t.content for t in self.with_controls.get_added_tokens_decoder().values()]

    def text(self, text):
        return self.with_controls.encode(text, add_special_tokens=False).ids

    def render(self, messages):
        environment = jinja2.sandbox.ImmutableSandboxedEnvironment(trim_blocks=True, lstrip_blocks=True)
        template = environment.from_string(self.hugging_face.chat_template)
        return template.render(messages=messages, add_generation_prompt=True)

    def chat(self, messages):
        """Control tokens only where the template wrote them; the text between two of them is one text."""
        # Roles stay as they are: templates compare them, and none of ours spells a control token.
        marked = self.render([m | {"content": OPENING + m["content"] + CLOSING} for m in messages])
        ids, text, inside, place = [], "", False, 0
        while place < len(marked):
            control = None if inside else next((c for c in self.controls if marked.startswith(c, place)), None)
            if control is not None:
                ids += self.plain_ids(text) + [self.with_controls.token_to_id(control)]
                text, place = "", place + len(control)
                continue
            if marked[place] in (OPENING, CLOSING):
                inside = marked[place] == OPENING
            else:
                text += marked[place]
            place += 1
        return ids + self.plain_ids(text)

    def plain_ids(self, text):
        return self.plain.encode(text, add_special_tokens=False).ids


def sha256(path):
    digest = hashlib.sha256()
    with open(path, "rb") as file:
        while chunk := file.read(1 << 20):
            digest.update(chunk)
    return digest.hexdigest()


def provenance(path):
    return {
        "command": f"python tests/golden/make_goldens.py {path.name}",
        "model_file": path.name,
        "model_sha256": sha256(path),
        "transformers": transformers.__version__,
        "tokenizers": tokenizers.__version__,
        "torch": torch.__version__,
        "jinja2": jinja2.__version__,
    }


def check_chat(reference, messages):
    """Where no message spells a control token, ours must be exactly what Hugging Face makes of the rendered text."""
    rendered = reference.render(messages)
    official = reference.hugging_face.apply_chat_template(messages, add_generation_prompt=True, tokenize=False)
    assert rendered == official, (rendered, official)
    ids = reference.chat(messages)
    spelled = any(c in v for c in reference.controls for m in messages for v in m.values())
    assert spelled or ids == reference.text(rendered), messages
    return rendered, ids


def tokenizer_goldens(path, reference):
    texts = [{"text": t, "ids": reference.text(t)} for t in prompts.tokenizer_texts()]
    chats = []
    for messages in prompts.CHATS:
        rendered, ids = check_chat(reference, messages)
        chats.append({"messages": messages, "rendered": rendered, "ids": ids})
    return {"provenance": provenance(path), "texts": texts, "chats": chats}


def load_model(path):
    """A fresh f32 LlamaForCausalLM with the file's dequantized weights, its shape checked against what the file says."""
    source = transformers.AutoModelForCausalLM.from_pretrained(path.parent, gguf_file=path.name, dtype=torch.float32)
    read = source.config
    config = transformers.LlamaConfig(
        vocab_size=49152, hidden_size=576, intermediate_size=1536, num_hidden_layers=30, num_attention_heads=9,
        num_key_value_heads=3, head_dim=64, max_position_embeddings=8192, rms_norm_eps=float(np.float32(1e-5)),
        rope_parameters={"rope_type": "default", "rope_theta": 100000.0}, tie_word_embeddings=True, bos_token_id=1,
        eos_token_id=2)
    for key in ["vocab_size", "hidden_size", "intermediate_size", "num_hidden_layers", "num_attention_heads",
                "num_key_value_heads", "head_dim", "rms_norm_eps", "tie_word_embeddings", "rope_parameters"]:
        assert getattr(read, key) == getattr(config, key), (key, getattr(read, key), getattr(config, key))
    model = transformers.LlamaForCausalLM(config).to(torch.float32).eval()
    model.load_state_dict(source.state_dict(), strict=True)
    check_weights(path, model)
    return model


def check_weights(path, model):
    """Against the gguf package: same values, Q and K back from adjacent-pair to half-split order."""
    import gguf
    tensors = {t.name: t for t in gguf.GGUFReader(path).tensors}

    def values(name):
        return torch.from_numpy(gguf.quants.dequantize(tensors[name].data, tensors[name].tensor_type).astype(np.float32))

    def half_split(matrix, heads):
        return matrix.reshape(heads, 32, 2, 576).transpose(1, 2).reshape(heads * 64, 576)

    layer = model.model.layers[17]
    assert torch.equal(model.model.embed_tokens.weight, values("token_embd.weight"))
    assert torch.equal(model.lm_head.weight, values("token_embd.weight"))
    assert torch.equal(layer.mlp.down_proj.weight, values("blk.17.ffn_down.weight"))
    assert torch.equal(layer.self_attn.v_proj.weight, values("blk.17.attn_v.weight"))
    assert torch.equal(layer.self_attn.q_proj.weight, half_split(values("blk.17.attn_q.weight"), 9))
    assert torch.equal(layer.self_attn.k_proj.weight, half_split(values("blk.17.attn_k.weight"), 3))
    assert torch.equal(model.model.norm.weight, values("output_norm.weight"))


def greedy(model, ids, count):
    """`count` tokens, end tokens included like any other."""
    out, cache, inputs = [], None, torch.tensor([ids])
    for _ in range(count):
        result = model(inputs, past_key_values=cache, use_cache=True, logits_to_keep=1)
        cache = result.past_key_values
        out.append(int(result.logits[0, -1].argmax()))
        inputs = torch.tensor([[out[-1]]])
    return out


def checked_positions(prompt_length, total):
    """The last of the prompt, every one of the continuation, and some across the prompt, block edges among them."""
    chosen = {0, 1, prompt_length // 3, 2 * prompt_length // 3, prompt_length - 1}
    chosen |= {p for p in (63, 64, 511, 512, 1023, 1024, 1535, 1536) if p < prompt_length}
    chosen |= set(range(prompt_length, total))
    return sorted(p for p in chosen if p < total)


def record(logits):
    """One position; the grammar is in golden_reader.h."""
    order = np.lexsort((np.arange(logits.size), -logits))[:TOP]
    exact = logits.astype(np.float64)
    log_sum_exp = exact.max() + np.log(np.exp(exact - exact.max()).sum())
    head = struct.pack("<ffff", logits.min(), logits.max(), logits[order[0]] - logits[order[1]], log_sum_exp)
    return (head + order.astype("<u4").tobytes() + logits[order].astype("<f4").tobytes()
            + logits[FIXED_IDS].astype("<f4").tobytes())


@torch.no_grad()
def model_goldens(path, reference):
    model = load_model(path)
    entries, floats = [], [MAGIC]
    for name, prompt, count in prompts.PROMPTS:
        is_chat = not isinstance(prompt, str)
        ids = check_chat(reference, prompt)[1] if is_chat else reference.text(prompt)
        follow = greedy(model, ids, count)
        sequence = ids + follow[:-1]
        positions = checked_positions(len(ids), len(sequence))
        hidden = model.model(torch.tensor([sequence])).last_hidden_state[0, positions]
        floats += [record(row) for row in model.lm_head(hidden).numpy()]
        entry = {"name": name, "messages" if is_chat else "text": prompt, "ids": ids, "positions": positions}
        entries.append(entry | ({"greedy": follow} if follow else {}))
        print(f"{name}: {len(ids)} tokens, {len(positions)} positions", flush=True)
    return {"provenance": provenance(path), "top": TOP, "fixed_ids": FIXED_IDS, "prompts": entries}, b"".join(floats)


def write_json(name, content):
    text = json.dumps(content, ensure_ascii=True, separators=(",", ":"))
    # One entry a line, so that a change shows as the lines that changed.
    text = text.replace('},{"text"', '},\n{"text"').replace('},{"name"', '},\n{"name"').replace('},{"messages"', '},\n{"messages"')
    (DATA / name).write_text(text + "\n")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", type=pathlib.Path)
    parser.add_argument("--only", choices=["tokenizer", "model"])
    arguments = parser.parse_args()
    os.makedirs(DATA, exist_ok=True)
    reference = ReferenceTokenizer(arguments.model.parent, arguments.model.name)
    if arguments.only != "model":
        write_json("tokenizer_goldens.json", tokenizer_goldens(arguments.model, reference))
    if arguments.only != "tokenizer":
        description, floats = model_goldens(arguments.model, reference)
        (DATA / "model_goldens.bin").write_bytes(floats)
        write_json("model_goldens.json", description)


if __name__ == "__main__":
    main()
