#!/usr/bin/env python3
"""Makes data/families.tar.xz: a tiny model of each family, as transformers saves it and as llama.cpp converts it, with
the logits that transformers computes and the ids that its tokenizer gives.

    python tests/golden/make_family_goldens.py LLAMA_CPP_FOLDER

Needs: torch, transformers, tokenizers, sentencepiece (versions used are in provenance.json), and the source of llama.cpp
for its converter. The archive holds for each family NAME:

    NAME/hf/           config.json, tokenizer.json, ..., model*.safetensors
    NAME/model.gguf    what the converter makes of it, with the same element type
    NAME/goldens.json  ids: a sequence; top: the best id after each; logits: [4][vocabulary], after the positions in
                       `positions`; texts: text and ids

Weights are multiples of 1/16 drawn from the tensor's name and shape: exact in every element type, and the same in all
families, so that the archive stays small. Logits are computed in f32 on the CPU.
"""

import argparse
import hashlib
import io
import json
import pathlib
import shutil
import subprocess
import sys
import tarfile
import tempfile

import numpy as np
import sentencepiece
import tokenizers
import torch
import transformers
from tokenizers import AddedToken, Regex, decoders, models, normalizers, pre_tokenizers, processors, trainers

import prompts

DATA = pathlib.Path(__file__).parent / "data"
SEQUENCE = 48
POSITIONS = [0, 15, 31, 47]
BOS, EOS = "<|begin|>", "<|end|>"

SHAPE = dict(hidden_size=64, intermediate_size=96, num_hidden_layers=2, num_attention_heads=4, num_key_value_heads=2,
             max_position_embeddings=256, tie_word_embeddings=True, bos_token_id=1, eos_token_id=2)
LLAMA3 = dict(rope_type="llama3", rope_theta=500000.0, factor=8.0, low_freq_factor=1.0, high_freq_factor=4.0,
              original_max_position_embeddings=32)
YARN = dict(rope_type="yarn", rope_theta=1000000.0, factor=4.0, original_max_position_embeddings=64)
LINEAR = dict(rope_type="linear", rope_theta=10000.0, factor=2.5)

LLAMA3_PATTERN = (r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*"
                  r"|\s*[\r\n]+|\s+(?!\S)|\s+")
QWEN2_PATTERN = LLAMA3_PATTERN.replace(r"\p{N}{1,3}", r"\p{N}")
CHAT_TEMPLATE = ("{% for message in messages %}{{ '<|begin|>' + message['role'] + '\\n' + message['content'] + "
                 "'<|end|>\\n' }}{% endfor %}{% if add_generation_prompt %}{{ '<|begin|>assistant\\n' }}{% endif %}")

# name: (transformers' prefix, what differs from SHAPE, element type, pre-tokenizer by llama.cpp's name or "spm", options)
# old_config: as transformers 4 writes it; shard: largest file.
FAMILIES = {
    "llama2": ("Llama", dict(num_key_value_heads=4, tie_word_embeddings=False), "float32", "spm", dict()),
    "llama3": ("Llama", dict(rope_parameters=LLAMA3), "bfloat16", "llama-bpe", dict(old_config=True)),
    "llama_linear": ("Llama", dict(rope_parameters=LINEAR), "float16", "smollm", dict()),
    "mistral": ("Mistral", dict(head_dim=32, sliding_window=None), "float16", "spm", dict(metaspace=True)),
    "phi3": ("Phi3", dict(sliding_window=128, pad_token_id=0, tie_word_embeddings=False), "bfloat16", "spm", dict()),
    "smollm2": ("Llama", dict(), "bfloat16", "smollm", dict()),
    "smollm3": ("SmolLM3", dict(num_hidden_layers=4, pad_token_id=0), "float16", "llama-bpe", dict(shard="50KB")),
    "qwen2": ("Qwen2", dict(vocab_size=400), "float32", "qwen2", dict(old_config=True)),
    "qwen25_yarn": ("Qwen2", dict(rope_parameters=YARN, tie_word_embeddings=False), "float16", "qwen2", dict()),
    "qwen3": ("Qwen3", dict(head_dim=32), "bfloat16", "qwen2", dict(shard="60KB")),
}

TEXTS = [
    "The keeper measured the western pump.", " two  spaces,   three", "line\nbreak\r\n\n\nand\ttab", "1987 and 42 crowns",
    "It's we'll THEY'RE", "Größe naïve Привет 你好 🙂👍🏽", "", " ", "a", "\u0000\u0001 control", "e\u0301 combining", "x = {1: [2.5]};",
    BOS + "user\nHi there" + EOS + "\n", "   leading and trailing   ",
]


def train_byte_level(pre):
    pattern = {"llama-bpe": LLAMA3_PATTERN, "qwen2": QWEN2_PATTERN}.get(pre)
    tokenizer = tokenizers.Tokenizer(models.BPE())
    if pattern:
        tokenizer.pre_tokenizer = pre_tokenizers.Sequence([
            pre_tokenizers.Split(Regex(pattern), "isolated", invert=False),
            pre_tokenizers.ByteLevel(add_prefix_space=False, trim_offsets=True, use_regex=False)])
    else:
        tokenizer.pre_tokenizer = pre_tokenizers.Sequence([
            pre_tokenizers.Digits(individual_digits=True),
            pre_tokenizers.ByteLevel(add_prefix_space=False, trim_offsets=True, use_regex=True)])
    if pre == "qwen2":
        tokenizer.normalizer = normalizers.NFC()
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(vocab_size=320, special_tokens=["<|endoftext|>", BOS, EOS], show_progress=False,
                                  initial_alphabet=pre_tokenizers.ByteLevel.alphabet())
    tokenizer.train_from_iterator([prompts.report(60, 5)], trainer)
    if pre == "llama-bpe":
        tokenizer.model.ignore_merges = True
        tokenizer.post_processor = processors.TemplateProcessing(single=f"{BOS} $A", special_tokens=[(BOS, 1)])
    return tokenizer


def train_sentencepiece(folder, metaspace):
    """Writes tokenizer.model; returns the tokenizer that Hugging Face derives from it (Llama 2's, or Mistral's with
    `metaspace`)."""
    prefix = folder / "tokenizer"
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(prompts.report(60, 5).split("\n\n")), model_prefix=str(prefix), vocab_size=320,
        model_type="bpe", byte_fallback=True, character_coverage=1.0, normalization_rule_name="identity",
        remove_extra_whitespaces=False, minloglevel=2)
    (folder / "tokenizer.vocab").unlink()
    pieces = sentencepiece.SentencePieceProcessor(model_file=str(prefix) + ".model")
    vocabulary = {pieces.id_to_piece(i): i for i in range(pieces.get_piece_size())}
    merges = []
    for piece, token in vocabulary.items():
        splits = [(piece[:at], piece[at:]) for at in range(1, len(piece))]
        merges += [(pieces.get_score(token), left, right) for left, right in splits
                   if left in vocabulary and right in vocabulary]
    merges.sort(key=lambda merge: (merge[0], len(merge[1]), len(merge[2])), reverse=True)
    tokenizer = tokenizers.Tokenizer(models.BPE(vocabulary, [(left, right) for _, left, right in merges],
                                                unk_token="<unk>", fuse_unk=True, byte_fallback=True))
    if metaspace:
        tokenizer.pre_tokenizer = pre_tokenizers.Metaspace(replacement="▁", prepend_scheme="first", split=False)
    else:
        tokenizer.normalizer = normalizers.Sequence([normalizers.Prepend("▁"), normalizers.Replace(" ", "▁")])
    tokenizer.decoder = decoders.Sequence([decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse(),
                                           decoders.Strip(" ", 1, 0)])
    tokenizer.add_special_tokens([AddedToken(t, normalized=False, special=True) for t in ("<unk>", "<s>", "</s>")])
    tokenizer.post_processor = processors.TemplateProcessing(single="<s> $A", special_tokens=[("<s>", 1)])
    return tokenizer


def save_tokenizer(folder, tokenizer, bos, eos):
    transformers.PreTrainedTokenizerFast(
        tokenizer_object=tokenizer, bos_token=bos, eos_token=eos, clean_up_tokenization_spaces=False,
        chat_template=CHAT_TEMPLATE.replace(BOS, bos).replace(EOS, eos)).save_pretrained(folder)
    # The converter knows tokenizers by their class.
    config = json.loads((folder / "tokenizer_config.json").read_text())
    config["tokenizer_class"] = "PreTrainedTokenizerFast"
    (folder / "tokenizer_config.json").write_text(json.dumps(config, indent=1))


def weights(name, shape):
    """Multiples of 1/16: norms around 1, others around 0."""
    seed = int.from_bytes(hashlib.sha256(f"{name} {tuple(shape)}".encode()).digest()[:8], "little")
    steps = np.random.default_rng(seed).integers(-3, 4, size=tuple(shape))
    return torch.tensor((16 if "norm" in name else 0) + steps, dtype=torch.float32) / 16


def old_config(folder):
    """As transformers 4 wrote it."""
    config = json.loads((folder / "config.json").read_text())
    rope = config.pop("rope_parameters")
    config["rope_theta"] = rope.pop("rope_theta")
    config["rope_scaling"] = rope if rope["rope_type"] != "default" else None
    config["torch_dtype"] = config.pop("dtype")
    config["transformers_version"] = "4.51.0"
    config.pop("layer_types", None)
    (folder / "config.json").write_text(json.dumps(config, indent=2))


def convert(llama_cpp, folder, out, element_type, pre):
    """llama.cpp's converter, which refuses tokenizers that it does not know by hash."""
    code = ("import sys; sys.path.insert(0, '.'); import conversion.base as base; import convert_hf_to_gguf\n"
            f"base.TextModel.get_vocab_base_pre = lambda self, tokenizer: {pre!r}\n"
            "convert_hf_to_gguf.main()")
    short = {"float32": "f32", "float16": "f16", "bfloat16": "bf16"}[element_type]
    done = subprocess.run([sys.executable, "-c", code, str(folder), "--outfile", str(out), "--outtype", short],
                          cwd=llama_cpp, capture_output=True, text=True)
    if done.returncode != 0:
        sys.exit(f"converting {folder}: {done.stderr}")


def make_family(name, folder, llama_cpp):
    prefix, changes, element_type, pre, options = FAMILIES[name]
    hugging_face = folder / "hf"
    hugging_face.mkdir(parents=True)
    if pre == "spm":
        tokenizer, bos, eos = train_sentencepiece(hugging_face, "metaspace" in options), "<s>", "</s>"
    else:
        tokenizer, bos, eos = train_byte_level(pre), BOS, EOS
    settings = SHAPE | dict(vocab_size=tokenizer.get_vocab_size()) | changes
    config = getattr(transformers, prefix + "Config")(**settings)
    model = getattr(transformers, prefix + "ForCausalLM")(config).eval()
    with torch.no_grad():
        for parameter_name, parameter in model.named_parameters():
            parameter.copy_(weights(parameter_name, parameter.shape))
    ids = [(7 + 31 * i + i * i) % tokenizer.get_vocab_size() for i in range(SEQUENCE)]
    with torch.no_grad():
        logits = model(torch.tensor([ids])).logits[0].numpy()
    model.to(getattr(torch, element_type)).save_pretrained(hugging_face, max_shard_size=options.get("shard", "10GB"))
    save_tokenizer(hugging_face, tokenizer, bos, eos)
    if "old_config" in options:
        old_config(hugging_face)
    convert(llama_cpp, hugging_face, folder / "model.gguf", element_type, pre)
    texts = TEXTS if pre != "spm" else [t.replace(BOS, bos).replace(EOS, eos) for t in TEXTS]
    goldens = {
        "ids": ids, "top": logits.argmax(axis=1).tolist(), "positions": POSITIONS,
        "logits": [[float(f"{value:.7g}") for value in logits[p].tolist()] for p in POSITIONS],
        "texts": [{"text": t, "ids": tokenizer.encode(t).ids} for t in texts],
    }
    (folder / "goldens.json").write_text(json.dumps(goldens))
    margin = np.sort(logits, axis=1)
    print(f"{name}: logits {logits.min():.2f} to {logits.max():.2f}, least margin {(margin[:, -1] - margin[:, -2]).min():.1e}")


def pack(root):
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w:xz", preset=9) as archive:
        for path in sorted(root.rglob("*")):
            if path.is_dir():
                continue
            info = archive.gettarinfo(path, arcname=str(path.relative_to(root)))
            info.mtime = info.uid = info.gid = 0
            info.uname = info.gname = ""
            info.mode = 0o644
            with open(path, "rb") as file:
                archive.addfile(info, file)
    (DATA / "families.tar.xz").write_bytes(buffer.getvalue())
    print(f"families.tar.xz: {len(buffer.getvalue())} bytes")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("llama_cpp", type=pathlib.Path)
    parser.add_argument("--keep", type=pathlib.Path, help="also leave the unpacked models there")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        root = pathlib.Path(temporary)
        for name in FAMILIES:
            make_family(name, root / name, arguments.llama_cpp)
        (root / "provenance.json").write_text(json.dumps({
            module.__name__: module.__version__ for module in (torch, transformers, tokenizers, sentencepiece)}))
        pack(root)
        if arguments.keep:
            shutil.copytree(root, arguments.keep, dirs_exist_ok=True)


if __name__ == "__main__":
    main()
