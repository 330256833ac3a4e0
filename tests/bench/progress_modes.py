"""Polling against a progress thread on two hosts with shaped links.

    python3 tests/bench/progress_modes.py --netlab PATH [--bench build/tests/bench/bench_progress_modes]

netlab (a script that makes network namespaces with links of a given rate and delay) needs root. Prints the median
time of backward with its all-reduces under each mode, and its ratio to polling.
"""

import argparse
import json
import signal
import subprocess
import sys

MODELS = {
    "resnet18 (CIFAR stem), batch 8": ["model.name=resnet18", "model.stem=cifar", "train.batch_size=8"],
    "mlp 3072-2048-2048-10, batch 256": ["model.name=mlp", "model.hidden=[2048, 2048]", "train.batch_size=256"],
}


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--netlab", required=True)
    parser.add_argument("--bench", default="build/tests/bench/bench_progress_modes")
    parser.add_argument("--rate", default="1gbit")
    parser.add_argument("--delay", default="0.2ms")
    parser.add_argument("--model", default="", help="only models whose name holds this")
    arguments = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # the namespaces go, too
    subprocess.run([arguments.netlab, "up", "2", "--rate", arguments.rate, "--delay", arguments.delay], check=True)
    try:
        for name, settings in MODELS.items():
            if arguments.model not in name:
                continue
            # A core for each rank: what the script's name of the host says decides.
            command = 'exec taskset -c "${OMPI_COMM_WORLD_RANK}" "$0" "$@"'
            done = subprocess.run([arguments.netlab, "run", "bash", "-c", command, arguments.bench, *settings],
                                  check=True, capture_output=True, text=True)
            result = json.loads(done.stdout.splitlines()[-1])
            print(f"{name}: {result['buckets']} buckets, {result['polls_per_step']:.0f} polls a step, "
                  f"{100 * result['poll_share']:.2f} % of it")
            for kind in ("compute", "wait"):
                polled = result[f"{kind} poll"]["step"]
                for mode in ("none", "poll", "thread"):
                    one = result[f"{kind} {mode}"]
                    print(f"  {kind:8} {mode:7} step {1e3 * one['step']:8.1f} ms  backward "
                          f"{1e3 * one['backward']:8.1f} ms  step / polling {one['step'] / polled:.3f}")
    finally:
        subprocess.run([arguments.netlab, "down"], check=True)


if __name__ == "__main__":
    main()
