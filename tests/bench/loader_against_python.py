#!/usr/bin/env python3
"""Batches of one HDF5 file: the loader against PyTorch's DataLoader over h5py. A measurement, not a test.

    python3 tests/bench/loader_against_python.py --python PY [--trainer build/trainer] [--data FILE.h5]
                                                 [--batch 64] [--rounds 3] [--samples 60000] [--shape 28x28x1]

PY is a Python with torch, numpy and h5py. Without --data a file of --samples noisy samples is made, contiguous: u8 images of
--shape 28x28x1 (or 224x224x3, ...), or so many float32 features (--shape 784). Both read the
shuffled epoch of the same file with it in the page cache, in turn, round by round, each in its own process; the time of
starting processes, workers and opening the file does not count. `trainer bench loader` gives ours (batches of bytes, as the
trainer takes them); PyTorch's default_collate makes theirs: torch.utils.data.DataLoader with 0, 1 and 2 workers over a map-style
data set, once reading a sample at a time (__getitem__) and once a batch at a time (__getitems__, indices sorted for
h5py and put back in order). Prints samples/s (medians) and ratios."""

import argparse
import json
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile

PEER = r'''
import json, sys, time
import h5py, numpy, torch
from torch.utils.data import DataLoader, Dataset

path, batch, most, workers = sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), int(sys.argv[4])
by_batch = sys.argv[5] == "batch"


class Samples(Dataset):
    def __init__(self):
        self.file = None
        with h5py.File(path) as file:
            self.count = file["samples"].shape[0]

    def __len__(self):
        return self.count

    def open(self):  # in the worker's process: handles do not survive a fork
        if self.file is None:
            self.file = h5py.File(path)
            self.samples, self.labels = self.file["samples"], self.file["labels"]

    def __getitem__(self, index):
        self.open()
        return self.samples[index], self.labels[index]


class Batches(Samples):
    def __getitems__(self, indices):
        self.open()
        order = numpy.argsort(indices)
        wanted = numpy.asarray(indices)[order]
        samples, labels = self.samples[wanted], self.labels[wanted]
        back = numpy.empty_like(order)
        back[order] = numpy.arange(len(order))
        return [(samples[i], labels[i]) for i in back]


torch.manual_seed(0)
loader = DataLoader((Batches if by_batch else Samples)(), batch_size=batch, shuffle=True, num_workers=workers)
iterator = iter(loader)
next(iterator)  # the workers have started, the file is open
seen, begin = 0, time.perf_counter()
for samples, labels in iterator:
    seen += len(labels)
    if seen >= most:
        break
print(json.dumps({"rate": seen / (time.perf_counter() - begin), "torch": torch.__version__, "h5py": h5py.__version__}))
'''
MAKER = r'''
import sys
import h5py, numpy

path, count, shape = sys.argv[1], int(sys.argv[2]), tuple(int(part) for part in sys.argv[3:])
numbers = numpy.random.default_rng(0)
with h5py.File(path, "w") as file:
    file.attrs.update({"tutti_schema": "samples", "tutti_schema_version": 1, "classes": 10})
    file["labels"] = numpy.arange(count) % 10
    samples = file.create_dataset("samples", (count, *shape), "f4" if len(shape) == 1 else "u1")
    for begin in range(0, count, 1000):
        piece = (min(1000, count - begin), *shape)
        samples[begin : begin + 1000] = (numbers.standard_normal(piece, "f4") if len(shape) == 1
                                         else numbers.integers(0, 256, piece, "u1"))
'''
WAYS = [(how, workers) for how in ("sample", "batch") for workers in (0, 1, 2)]


def run(command, folder):
    result = subprocess.run([str(part) for part in command], cwd=folder, text=True, capture_output=True, check=False,
                            env={**os.environ, "OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"})
    if result.returncode != 0:
        sys.exit(f"{' '.join(map(str, command[:4]))} …\nended with {result.returncode}\n{result.stderr}")
    return result.stdout


def make_data(arguments, folder):
    (folder / "make.py").write_text(MAKER, encoding="utf-8")
    run([arguments.python, "make.py", "data.h5", arguments.samples, *arguments.shape], folder)
    return folder / "data.h5"


def shape(text):
    """HxWxC or F"""
    numbers = [int(part) for part in text.split("x")]
    if len(numbers) not in (1, 3) or min(numbers) < 1:
        raise argparse.ArgumentTypeError(f"{text} is neither HEIGHTxWIDTHxCHANNELS nor a number of features")
    return numbers


def ours(arguments, folder, data):
    run([arguments.trainer, "bench", "loader", "--rounds", 1, "--cold-rounds", 0, f"data.train={data}", "model.name=mlp",
         f"train.batch_size={arguments.batch}"], folder)
    report = json.loads((folder / "loader.json").read_text(encoding="utf-8"))
    return {row["workers"]: row["samples_per_second"] for row in report["rows"] if row["order"] == "shuffled"}


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--python", required=True)
    parser.add_argument("--trainer", default="build/trainer", type=lambda text: pathlib.Path(text).resolve())
    parser.add_argument("--data", type=lambda text: pathlib.Path(text).resolve())
    parser.add_argument("--batch", type=int, default=64)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--samples", type=int, default=60000, help="of the file that is made without --data")
    parser.add_argument("--shape", type=shape, default=[28, 28, 1], help="of a sample of that file: HxWxC (u8) or F (float32)")
    parser.add_argument("--most", type=int, default=10000, help="samples that PyTorch reads in a round")
    arguments = parser.parse_args()
    rates, versions = {}, ""
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        data = arguments.data or make_data(arguments, folder)
        (folder / "peer.py").write_text(PEER, encoding="utf-8")
        for _ in range(arguments.rounds):
            for workers, rate in ours(arguments, folder, data).items():
                rates.setdefault(("Tutti", workers), []).append(rate)
            for how, workers in WAYS:
                result = json.loads(run([arguments.python, "peer.py", data, arguments.batch, arguments.most, workers, how],
                                        folder))
                rates.setdefault((f"DataLoader, by {how}", workers), []).append(result["rate"])
                versions = f"torch {result['torch']}, h5py {result['h5py']}"
    medians = {way: statistics.median(values) for way, values in rates.items()}
    what = data if arguments.data else f"{arguments.samples} samples of {'x'.join(map(str, arguments.shape))}"
    print(f"{versions}; {what}, batch {arguments.batch}, shuffled, in the page cache; medians of {arguments.rounds} rounds")
    print(f"{'loader':<22} {'workers':>7} {'samples/s':>12} {'Tutti, same workers':>20}")
    for (loader, workers), rate in medians.items():
        ratio = "" if loader == "Tutti" else f"{medians['Tutti', workers] / rate:.1f} x"
        print(f"{loader:<22} {workers:>7} {rate:>12.0f} {ratio:>20}")


if __name__ == "__main__":
    main()
