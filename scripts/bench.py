"""The work of ./dev bench: runs kvrelay_bench, beside it llama.cpp if asked, and prints medians and ratios.

Ratios are the figure that counts, since absolute rates move from minute to minute on shared machines: every round runs
ours and every format of the peer one after the other, and ratios are taken between the medians over the rounds.
"""

import argparse
import json
import os
import pathlib
import statistics
import subprocess
import sys

PEER_FORMATS = {"Q4_1": "SmolLM2-135M-Instruct.Q4_1", "Q4_0": "as-Q4_0", "Q8_0": "as-Q8_0", "BF16": "as-BF16"}
SAME_FILE = "Q4_1"
PREFILLS = [128, 512, 2048]
BATCHES = [1, 4, 16, 32]
DEPTHS = [2048]
LONG = 8192
DECODED = 64  # tokens per decode measurement


def say(text):
    print(text, file=sys.stderr, flush=True)


def run(command):
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, check=False)
    if done.returncode != 0:
        sys.exit(f"{command[0]} failed: {done.stderr.strip()[-500:]}")
    return done.stdout


def ours(options, matmul):
    command = [options.binary, "--model", options.model, "--json", "--matmul", matmul, "--isa", options.isa,
               "--threads", str(options.threads)] + ["--long"] * options.long
    return json.loads(run(command))


class Peer:
    """llama.cpp's own benchmark programs, on the default model in one of its formats."""

    def __init__(self, home, isa, threads):
        self.bin = home / ("bin-" + isa if isa else "bin")
        self.models = home / "model"
        self.threads = str(threads)

    def missing(self):
        needed = [self.bin / name for name in ("llama-bench", "llama-batched-bench")]
        needed += [self.models / f"{file}.gguf" for file in PEER_FORMATS.values()]
        return [str(path) for path in needed if not path.exists()]

    def bench(self, model, prompt, generated, depth):
        out = run([self.bin / "llama-bench", "-m", model, "-t", self.threads, "-p", prompt, "-n", str(generated), "-d",
                   str(depth), "-r", "1", "-o", "json"])
        return json.loads(out)

    def measure(self, file, long):
        model = self.models / f"{file}.gguf"
        rates = {}
        for row in self.bench(model, ",".join(map(str, PREFILLS + [LONG] * long)), 0, 0):
            rates[f"prefill_{row['n_prompt']}"] = row["avg_ts"]
        for depth in DEPTHS + [LONG - DECODED] * long:
            rates[f"decode_1_at_{depth}"] = self.bench(model, "0", DECODED, depth)[0]["avg_ts"]
        out = run([self.bin / "llama-batched-bench", "-m", model, "-t", self.threads, "-c", "16384", "-b", "2048", "-ub",
                   "512", "-npp", "128", "-ntg", str(DECODED), "-npl", ",".join(map(str, BATCHES)), "--output-format",
                   "jsonl"])
        for line in out.splitlines():
            if line.startswith("{"):
                row = json.loads(line)
                rates[f"decode_{row['pl']}"] = row["speed_tg"]
        return rates


def median_of(rounds):
    names = rounds[0].keys()
    return {n: statistics.median(r[n] for r in rounds) if isinstance(rounds[0][n], float) else rounds[0][n] for n in names}


def is_rate(name):
    return name.startswith(("prefill_", "decode_")) and not name.endswith("_share")


def compare(own, peer):
    ratios = {}
    for name in filter(is_rate, own):
        rates = {kind: rates[name] for kind, rates in peer.items() if name in rates}
        if rates:
            ratios[f"{name}_best"] = own[name] / max(rates.values())
            ratios[f"{name}_same_file"] = own[name] / rates[SAME_FILE]
    return ratios


def table(own, blas, peer, ratios):
    print(f"{own['cpu']}; kernels {own['kernels']}, {own['threads']} threads")
    print(f"limits: int8 {own['int8_gop_per_s']:.0f} GOP/s, f32 {own['f32_gflop_per_s']:.0f} GFLOP/s, "
          f"memory read {own['read_gb_per_s']:.1f} GB/s")
    print(f"load {own['load_s']:.2f} s; resident {own['resident_mib']:.0f} MiB, of it weights {own['weights_mib']:.0f}, "
          f"KV pool {own['kv_pool_mib']:.0f} (touched as used)\n")
    heads = ["tokens/s", "native", "of limit", "openblas"] + [f"peer {kind}" for kind in peer]
    heads += ["/ best", "/ same file"] if peer else []
    rows = []
    for name in filter(is_rate, own):
        share = own.get(name + "_share")
        row = [name, f"{own[name]:.0f}", f"{share:.0%}" if share else "", f"{blas[name]:.0f}"]
        row += [f"{rates[name]:.0f}" if name in rates else "" for rates in peer.values()]
        if peer:
            row += [f"{ratios[name + kind]:.2f}" if name + kind in ratios else "" for kind in ("_best", "_same_file")]
        rows.append(row)
    widths = [max(len(r[i]) for r in [heads] + rows) for i in range(len(heads))]
    for row in [heads] + rows:
        print("  ".join(cell.ljust(w) if i == 0 else cell.rjust(w) for i, (cell, w) in enumerate(zip(row, widths))))


def plot(path, own, peer):
    import matplotlib  # only here: the figures need nothing
    matplotlib.use("svg")
    from matplotlib import pyplot
    names = [n for n in own if is_rate(n)]
    series = {"kvrelay": own} | {f"llama.cpp {kind}": rates for kind, rates in peer.items()}
    figure, axes = pyplot.subplots(figsize=(9, 4))
    width = 0.8 / len(series)
    for i, (label, rates) in enumerate(series.items()):
        places = [x + (i - (len(series) - 1) / 2) * width for x in range(len(names))]
        axes.bar(places, [rates.get(n, 0) for n in names], width, label=label)
    axes.set_xticks(range(len(names)), [n.replace("_", " ") for n in names], rotation=20, ha="right")
    axes.set_ylabel("tokens per second")
    axes.set_title(own["cpu"])
    axes.legend()
    figure.tight_layout()
    figure.savefig(path, metadata={"Date": None})


def main():
    parser = argparse.ArgumentParser(prog="./dev bench")
    parser.add_argument("--binary", required=True, help=argparse.SUPPRESS)
    parser.add_argument("--model", required=True, help=argparse.SUPPRESS)
    parser.add_argument("--rounds", type=int, default=3, help="rounds whose medians count (default 3)")
    parser.add_argument("--threads", type=int, default=os.cpu_count(), help="compute threads of both (default: all)")
    parser.add_argument("--isa", default="auto", help="our instruction set: auto, scalar, avx2, avx512, avx512vnni")
    parser.add_argument("--long", action="store_true", help="add 8,192 positions")
    parser.add_argument("--peer", action="store_true", help="llama.cpp in four formats beside us")
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    parser.add_argument("--plot", metavar="FILE", help="write the rates as an SVG picture (needs matplotlib)")
    options = parser.parse_args()
    peer = None
    if options.peer:
        home = pathlib.Path(os.environ.get("KVRELAY_PEER_HOME", pathlib.Path.home() / ".cache/kvrelay-peer"))
        peer = Peer(home, os.environ.get("PEER_ISA"), options.threads)
        if peer.missing():
            say("left out llama.cpp, missing: " + ", ".join(peer.missing()))
            peer = None
    own_rounds, peer_rounds = [], {kind: [] for kind in PEER_FORMATS} if peer else {}
    for number in range(options.rounds):
        say(f"round {number + 1} of {options.rounds}: kvrelay")
        own_rounds.append(ours(options, "native"))
        for kind in peer_rounds:
            say(f"round {number + 1} of {options.rounds}: llama.cpp {kind}")
            peer_rounds[kind].append(peer.measure(PEER_FORMATS[kind], options.long))
    say("OpenBLAS")
    blas = ours(options, "openblas")
    own = median_of(own_rounds)
    peer_rates = {kind: median_of(rounds) for kind, rounds in peer_rounds.items()}
    ratios = compare(own, peer_rates)
    if options.plot:
        plot(options.plot, own, peer_rates)
    if options.json:
        print(json.dumps({"native": own, "openblas": blas, "peer": peer_rates, "ratios": ratios}))
    else:
        table(own, blas, peer_rates, ratios)


main()
