"""Polling between layers, polling within them, and a progress thread, on two hosts with shaped links.

    ninja -C build tests/bench/bench_progress_modes tests/bench/bench_poll_interval
    sudo python3 -B tests/bench/progress_modes.py [--build build] [--model lenet] [--intervals]

Prints the median time of backward with its all-reduces under each mode, and its ratio to polling within layers. A core
for each rank, which the progress thread shares ("compute"); backward as waits, as if the thread had a second core
("wait"; waits have no layers to poll within). --intervals: instead, how fast a transfer is when it is polled every so
many ms. Runs in a private machine (tests/support) and leaves nothing behind.
"""

import argparse
import json
import os
import pathlib
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
SUPPORT = HERE.parent / "support"
MODELS = {
    "lenet, batch 128": ["model.name=lenet", "model.channels=3", "model.image=32", "train.batch_size=128"],
    "resnet18 (CIFAR stem), batch 8": ["model.name=resnet18", "model.stem=cifar", "train.batch_size=8"],
    "mlp 3072-2048-2048-10, batch 256": ["model.name=mlp", "model.hidden=[2048, 2048]", "train.batch_size=256"],
}


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--build", default=HERE.parent.parent / "build", type=pathlib.Path)
    parser.add_argument("--rate", default="1gbit")
    parser.add_argument("--delay", default="0.2ms")
    parser.add_argument("--model", default="", help="only models whose name holds this")
    parser.add_argument("--intervals", action="store_true")
    arguments = parser.parse_args()
    if "TUTTI_PRIVATE_MACHINE" not in os.environ:
        os.execv(SUPPORT / "private_machine", ["private_machine", sys.executable, "-B", *sys.argv])
    with tempfile.TemporaryDirectory(prefix="tutti-") as name:
        lab = pathlib.Path(name) / "lab"
        subprocess.run([SUPPORT / "netlab", "up", lab, "2", "--rate", arguments.rate, "--delay", arguments.delay],
                       check=True)
        if arguments.intervals:
            print(on_ranks(lab, arguments.build, "bench_poll_interval", []), end="")
            return
        for model, settings in MODELS.items():
            if arguments.model in model:
                report(model, json.loads(on_ranks(lab, arguments.build, "bench_progress_modes", settings).splitlines()[-1]))


def on_ranks(lab, build, bench, settings):
    """What rank 0 prints."""
    return subprocess.run([SUPPORT / "netlab", "run", lab, "-x", "OMP_WAIT_POLICY=passive", "bash", "-c",
                           'exec taskset -c $((OMPI_COMM_WORLD_RANK % $(nproc))) "$@"', "rank",
                           build / "tests" / "bench" / bench, *settings], check=True, stdin=subprocess.DEVNULL,
                          stdout=subprocess.PIPE, text=True).stdout


def report(model, result):
    print(f"{model}: {result['buckets']} buckets, {result['polls_per_step']:.0f} polls a step, "
          f"{100 * result['poll_share']:.2f} % of it")
    for kind in ("compute", "wait"):
        polled = result[f"{kind} poll"]["step"]
        for mode in ("none", "layers", "poll", "thread"):
            one = result[f"{kind} {mode}"]
            print(f"  {kind:8} {mode:7} step {1e3 * one['step']:8.1f} ms  backward {1e3 * one['backward']:8.1f} ms  "
                  f"step / poll {one['step'] / polled:.3f}", flush=True)


if __name__ == "__main__":
    main()
