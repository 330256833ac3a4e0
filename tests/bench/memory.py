#!/usr/bin/env python3
"""How much memory a run takes, against what `trainer inspect -c` states before it. A measurement, not a test.

    python3 tests/bench/memory.py [--trainer build/trainer] [--steps 20] [--ranks 1,2]

Trains the models of the quick start (mlp; lenet with batch 64 and 256; fp32 and fp64) for some steps under mpirun and
prints, for each, the stated total, the largest peak of a rank's resident set (VmHWM, which the trainer writes into the
`memory` row of metrics.jsonl), their ratio and whether the peak is within 10 % + 100 MB of the statement. Exits 1 when
one is not."""

import argparse
import json
import os
import pathlib
import random
import re
import struct
import subprocess
import sys
import tempfile

CONFIGS = [(model, batch, precision) for precision in ("fp32", "fp64")
           for model, batch in (("mlp", 64), ("lenet", 64), ("lenet", 256))]


def environment():
    return {**os.environ, "OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
            "OMPI_MCA_rmaps_base_oversubscribe": "1", "OMPI_MCA_mpi_yield_when_idle": "1"}


def run(command, folder):
    result = subprocess.run([str(part) for part in command], cwd=folder, env=environment(), text=True,
                            capture_output=True, check=False)
    if result.returncode != 0:
        sys.exit(f"{' '.join(map(str, command))}\nended with {result.returncode}\n{result.stderr}")
    return result.stdout


def make_data(trainer, folder, count):
    """Noise in the shape of MNIST, packed: the values do not change the memory."""
    numbers = random.Random(0)
    (folder / "images").write_bytes(struct.pack(">IIII", 0x803, count, 28, 28) + numbers.randbytes(count * 784))
    (folder / "labels").write_bytes(struct.pack(">II", 0x801, count) + bytes(i % 10 for i in range(count)))
    run([trainer, "pack", "idx", "--images", "images", "--labels", "labels", "-o", "data.h5"], folder)


def measure(trainer, folder, ranks, steps, model, batch, precision):
    """(stated, measured) bytes: of a rank, and of the rank that took most."""
    (folder / "config.yaml").write_text(
        "data: {train: data.h5, val: data.h5}\n"
        f"model: {{name: {model}}}\n"
        "optim: {name: sgd, lr: 0.01, momentum: 0.9}\n"
        f"train: {{batch_size: {batch}, precision: {precision}, max_steps: {steps}, epochs: 1000}}\n"
        "run: {dir: run, resume: never}\n")
    text = run([trainer, "inspect", "-c", "config.yaml", "--world", ranks], folder)
    stated = int(re.search(r"resident set, (\d+) bytes", text)[1])
    run(["mpirun", "-np", ranks, "--bind-to", "none", trainer, "-c", "config.yaml"], folder)
    rows = [json.loads(line) for line in (folder / "run/metrics.jsonl").read_text(encoding="utf-8").splitlines()]
    return stated, max(next(row for row in rows if row["type"] == "memory")["peak_rss_bytes"])


def main():
    root = pathlib.Path(__file__).resolve().parents[2]
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--trainer", type=pathlib.Path, default=root / "build" / "trainer")
    parser.add_argument("--steps", type=int, default=20)
    parser.add_argument("--ranks", default="1,2", help="worlds to measure (default: 1,2)")
    arguments = parser.parse_args()
    trainer, within = arguments.trainer.resolve(), True
    with tempfile.TemporaryDirectory(prefix="tutti-", dir="/tmp") as name:
        folder = pathlib.Path(name)
        make_data(trainer, folder, 2048)
        print(f"{'model':<7}{'batch':>6}{'type':>6}{'ranks':>6}{'stated MB':>11}{'measured MB':>13}{'ratio':>7}")
        for ranks in map(int, arguments.ranks.split(",")):
            for model, batch, precision in CONFIGS:
                stated, peak = measure(trainer, folder, ranks, arguments.steps, model, batch, precision)
                good = abs(peak - stated) <= 0.1 * stated + 100e6
                within = within and good
                print(f"{model:<7}{batch:>6}{precision:>6}{ranks:>6}{stated / 1e6:>11.1f}{peak / 1e6:>13.1f}"
                      f"{peak / stated:>7.2f}  {'within' if good else 'outside'} 10 % + 100 MB", flush=True)
    sys.exit(0 if within else 1)


if __name__ == "__main__":
    main()
