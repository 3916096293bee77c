"""Prints the table of ./dev quality: quality_table.py PEER_LOG OURS, OURS with one JSON object a line."""

import json
import re
import sys


def figure(text, label):
    found = re.search(re.escape(label) + r"\s*:\s*([0-9.]+)", text)
    if not found:
        sys.exit(f"no line '{label}' in the log of llama-perplexity")
    return float(found.group(1))


def main():
    peer_log = open(sys.argv[1]).read()
    ours = [json.loads(line) for line in open(sys.argv[2])]
    peer_kl = figure(peer_log, "Mean    KLD")
    reference = ours[0]["base_perplexity"]
    print(f"{ours[0]['positions']} positions; perplexity of the reference {reference:.4f}\n")
    print(f"{'':24}{'mean KL':>10}{'of llama.cpp':>14}{'perplexity':>12}{'to reference':>14}{'same top':>10}")

    def row(name, kl, perplexity, same_top):
        print(f"{name:24}{kl:10.6f}{kl / peer_kl:13.3f}x{perplexity:12.4f}{perplexity / reference - 1:+13.3%} {same_top:9.2%}")

    row("llama.cpp", peer_kl, figure(peer_log, "Mean PPL(Q)"), figure(peer_log, "Same top p") / 100)
    for run in ours:
        row(f"{run['matmul']}, {run['kv_type']} cache", run["mean_kl"], run["perplexity"], run["same_top"])


main()
