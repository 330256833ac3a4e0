#!/usr/bin/env python3
"""From the launch to the first finished step, beside mpirun's hello world. A measurement, not a test.

    python3 -B tests/bench/startup.py [--build build] [--ranks 2,8] [--launches 7] [--model lenet] [--out FILE.json]

Needs build/trainer and build/tests/bench/bench_hello (ninja -C build tests/bench/bench_hello). Launches both in turn and
prints medians: seconds until the first step is done (its row is in metrics.jsonl; hello world: its line has come), and
until mpirun has ended, which for the trainer is with its checkpoint written. The data set is made for the purpose, of
28 x 28 grey images, and has been read once before. Aims: 0.7 s on 2 ranks, 3 s on 8 ranks that share the cores.
"""

import argparse
import datetime
import json
import os
import pathlib
import random
import statistics
import struct
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
AIMS = {2: 0.7, 8: 3.0}


def parse():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--build", default=ROOT / "build", type=pathlib.Path)
    parser.add_argument("--ranks", default="2,8")
    parser.add_argument("--launches", type=int, default=7)
    parser.add_argument("--model", default="lenet")
    parser.add_argument("--samples", type=int, default=60000)
    parser.add_argument("--out", type=pathlib.Path)
    return parser.parse_args()


def environment():
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("OMP_", "OMPI_", "PMIX_"))}
    return kept | {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
                   "OMPI_MCA_rmaps_base_oversubscribe": "1"}


def make_data(trainer, folder, samples):
    """Noise in the shape of MNIST, packed."""
    numbers = random.Random(0)
    (folder / "images").write_bytes(struct.pack(">IIII", 0x803, samples, 28, 28) + numbers.randbytes(samples * 784))
    (folder / "labels").write_bytes(struct.pack(">II", 0x801, samples) + bytes(i % 10 for i in range(samples)))
    subprocess.run([trainer, "pack", "idx", "--images", "images", "--labels", "labels", "-o", "data.h5"], cwd=folder,
                   check=True, stdout=subprocess.DEVNULL, env=environment())


def launch(ranks, command, folder, happened):
    """(seconds until happened(), seconds until the end). Looks every 2 ms."""
    with open(folder / "said", "w+b") as said:
        begin = time.perf_counter()
        with subprocess.Popen(["mpirun", "-np", str(ranks), "--bind-to", "none", *map(str, command)], cwd=folder,
                              env=environment(), stdin=subprocess.DEVNULL, stdout=said, stderr=said) as process:
            while not happened() and process.poll() is None:
                time.sleep(0.002)
            first = time.perf_counter() - begin
            process.wait()
            end = time.perf_counter() - begin
        if process.returncode != 0 or not happened():
            said.seek(0)
            sys.exit(f"{' '.join(map(str, command))} ended with {process.returncode}\n{said.read().decode()}")
    return first, end


def holds(path, words):
    return path.exists() and words in path.read_text(encoding="utf-8")


def launch_hello(arguments, folder, ranks, _):
    (folder / "said").write_bytes(b"")
    return launch(ranks, [arguments.build / "tests/bench/bench_hello"], folder,
                  lambda: holds(folder / "said", "hello from"))


def launch_training(arguments, folder, ranks, number):
    run = f"run-{ranks}-{number}"
    return launch(ranks, [arguments.build / "trainer", "data.train=data.h5", f"model.name={arguments.model}",
                          "optim.momentum=0.9", f"run.dir={run}", "train.max_steps=1", "train.log_every=1"], folder,
                  lambda: holds(folder / run / "metrics.jsonl", '"step"'))


def measure(arguments, folder, ranks):
    times = {"hello": [], "train": []}
    for number in range(arguments.launches + 1):  # the first warms up
        for name, one in (("hello", launch_hello), ("train", launch_training)):
            result = one(arguments, folder, ranks, number)
            if number > 0:
                times[name].append(result)
    medians = {name: [statistics.median(part) for part in zip(*results)] for name, results in times.items()}
    return {"ranks": ranks, "medians": medians, "launches": times}


def main():
    arguments = parse()
    arguments.build = arguments.build.resolve()
    for program in (arguments.build / "trainer", arguments.build / "tests/bench/bench_hello"):
        if not program.exists():
            sys.exit(f"{program} is missing; ninja -C {arguments.build} trainer tests/bench/bench_hello")
    results = []
    with tempfile.TemporaryDirectory(prefix="tutti-") as name:
        folder = pathlib.Path(name)
        make_data(arguments.build / "trainer", folder, arguments.samples)
        print(f"{datetime.datetime.now(datetime.timezone.utc):%Y-%m-%d %H:%M UTC}, {os.cpu_count()} cores, "
              f"{arguments.model}, medians of {arguments.launches} launches in turn\n")
        print("| ranks | hello world, s | first step, s | aim | hello world ends | training of 1 step ends |\n|" + "---|" * 6)
        for ranks in map(int, arguments.ranks.split(",")):
            result = measure(arguments, folder, ranks)
            results.append(result)
            hello, train = result["medians"]["hello"], result["medians"]["train"]
            aim = f"{AIMS[ranks]} s" if ranks in AIMS else "–"
            print(f"| {ranks} | {hello[0]:.3f} | {train[0]:.3f} | {aim} | {hello[1]:.3f} | {train[1]:.3f} |", flush=True)
    if arguments.out:
        arguments.out.write_text(json.dumps({"benchmark": "startup", "model": arguments.model, "results": results}, indent=1),
                                 encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
