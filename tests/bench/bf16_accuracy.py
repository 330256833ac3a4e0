#!/usr/bin/env python3
"""What train.precision bf16 costs in accuracy and gives in speed, against fp32. A measurement, not a test.

    python3 tests/bench/bf16_accuracy.py [--trainer build/trainer] [--epochs 3] [--source FOLDER] [key=value…]

Trains the model of the quick start (lenet, batch 64) on Fashion-MNIST, one rank and one thread per precision, from the
same seed, with an evaluation after each epoch. Both runs go at the same time, so that other work on the machine slows
both alike; speed is also given per second of processor time, which depends on it less. Exits 1 when the accuracies at
the end differ by more than 0.5 points. Settings at the end are passed on to both runs."""

import argparse
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import threading
import time

PRECISIONS = ("fp32", "bf16")
ENVIRONMENT = {**os.environ, "OMP_NUM_THREADS": "1", "OMPI_ALLOW_RUN_AS_ROOT": "1",
               "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}


def pack(trainer, source, part, target):
    command = [trainer, "pack", "idx", "--images", source / f"{part}-images-idx3-ubyte.gz", "--labels",
               source / f"{part}-labels-idx1-ubyte.gz", "-o", target]
    subprocess.run([str(word) for word in command], env=ENVIRONMENT, check=True, stdout=subprocess.DEVNULL)


def train(trainer, folder, precision, epochs, settings, results):
    run = folder / precision
    command = [trainer, f"data.train={folder}/train.h5", f"data.val={folder}/t10k.h5", "model.name=lenet",
               "optim.lr=0.05", "optim.momentum=0.9", f"train.epochs={epochs}", f"run.dir={run}", "run.resume=never",
               "run.log_level=warning", *settings, f"train.precision={precision}"]
    begin = time.monotonic()
    with open(folder / f"{precision}.log", "wb") as log:
        process = subprocess.Popen([str(word) for word in command], env=ENVIRONMENT, stdout=log, stderr=log)
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
    wall = time.monotonic() - begin
    if process.returncode != 0:
        results[precision] = (folder / f"{precision}.log").read_text(encoding="utf-8")
        return
    rows = [json.loads(line) for line in (run / "metrics.jsonl").read_text(encoding="utf-8").splitlines()]
    results[precision] = (rows, wall, usage.ru_utime + usage.ru_stime)


def main():
    root = pathlib.Path(__file__).resolve().parents[2]
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--trainer", type=pathlib.Path, default=root / "build" / "trainer")
    parser.add_argument("--epochs", type=int, default=3)
    parser.add_argument("--source", type=pathlib.Path, default=pathlib.Path("/usr/share/datasets/fashion-mnist"))
    parser.add_argument("settings", nargs="*")
    arguments = parser.parse_args()
    trainer, results = arguments.trainer.resolve(), {}
    with tempfile.TemporaryDirectory(prefix="tutti-", dir="/tmp") as name:
        folder = pathlib.Path(name)
        for part in ("train", "t10k"):
            pack(trainer, arguments.source, part, folder / f"{part}.h5")
        threads = [threading.Thread(target=train, args=(trainer, folder, precision, arguments.epochs,
                                                        arguments.settings, results)) for precision in PRECISIONS]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    print(f"{'type':<6}{'epoch':>6}{'val loss':>10}{'accuracy':>10}")
    last = {}
    for precision in PRECISIONS:
        if isinstance(results[precision], str):
            sys.exit(f"{precision}: the trainer failed\n{results[precision]}")
        rows, wall, processor = results[precision]
        for number, row in enumerate((row for row in rows if row["type"] == "eval"), 1):
            print(f"{precision:<6}{number:>6}{row['loss']:>10.4f}{100 * row['accuracy']:>9.2f}%")
            last[precision] = 100 * row["accuracy"]
        samples = max(row["samples"] for row in rows if row["type"] == "step")
        print(f"{precision:<6}{samples / wall:>8.0f} samples/s, {samples / processor:.0f} per second of processor time, "
              f"with start and evaluations")
    difference = last["bf16"] - last["fp32"]
    print(f"bf16 - fp32: {difference:+.2f} points")
    sys.exit(0 if abs(difference) <= 0.5 else 1)


if __name__ == "__main__":
    main()
