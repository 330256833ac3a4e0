"""Small data and settings that the system tests share."""

import csv
import json
import os
import pathlib
import random
import re
import struct
import zlib

import system_test

# Steps of a few milliseconds; one thread, so that ranks do not fight for two cores.
MLP = ["model.name=mlp", "model.hidden=[16]", "optim.lr=0.1", "train.epochs=1", "train.batch_size=8"]


def has_avx512():
    """Without it bf16 is refused, and in fp32 a row's last bits depend on its place in the batch: behind the last full
    block of its product oneDNN (2.6, on Zen 3) adds in another order.
    """
    return " avx512f" in pathlib.Path("/proc/cpuinfo").read_text(encoding="utf-8")


def read_safetensors(path):
    raw = path.read_bytes()
    (length,) = struct.unpack_from("<Q", raw)
    header = json.loads(raw[8:8 + length])
    begin = 8 + length
    return {name: (entry["shape"], raw[begin + entry["data_offsets"][0]:begin + entry["data_offsets"][1]])
            for name, entry in header.items() if name != "__metadata__"}


def write_safetensors(path, tensors):
    """As read_safetensors gives them, in fp32."""
    header, offset = {}, 0
    for name, (shape, raw) in tensors.items():
        header[name] = {"dtype": "F32", "shape": shape, "data_offsets": [offset, offset + len(raw)]}
        offset += len(raw)
    text = json.dumps(header).encode()
    path.write_bytes(struct.pack("<Q", len(text)) + text + b"".join(raw for _, raw in tensors.values()))


def png(height, width, rows, colour=0):
    """A PNG of 8 bits; colour 0: grey, 2: RGB; rows: bytes of each row."""
    def chunk(kind, data):
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
    header = struct.pack(">IIBBBBB", width, height, 8, colour, 0, 0, 0)
    return (b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) +
            chunk(b"IDAT", zlib.compress(b"".join(b"\0" + row for row in rows))) + chunk(b"IEND", b""))


class OwnCache:
    """For a test in front of its class: programs keep what they measure for later runs in the test's folder."""

    def environment(self, extra=None):
        return super().environment({"TUTTI_CACHE": str(self.dir / "cache"), **(extra or {})})


class TrainingTest(system_test.SystemTest):
    """Adds data sets and shortcuts to the harness."""

    def small_data(self, count=240, name="data.h5", classes=4, side=8):
        return self.pack(*self.synthetic_idx(count, classes=classes, side=side), name=name)

    def small_data_of_other_classes(self, count=60, name="other.h5", classes=4, side=8):
        """Of every sample the class is another one than in small_data's: the longer a model is trained on those, the
        greater its loss."""
        images, labels = self.synthetic_idx(count, classes=classes, side=side)
        header, given = labels.read_bytes()[:8], labels.read_bytes()[8:]
        labels.write_bytes(header + bytes((label + 1) % classes for label in given))
        return self.pack(images, labels, name=name)

    def numbers_with_targets(self, count=240, name="targets.h5", features=6):
        """Two targets, smooth functions of the features."""
        draw = random.Random(count)
        rows = [[draw.uniform(-1, 1) for _ in range(features)] for _ in range(count)]
        table = self.dir / f"{name}.csv"
        with table.open("w", encoding="utf-8", newline="") as file:
            lines = csv.writer(file)
            lines.writerow([*(f"f{i}" for i in range(features)), "x", "y"])
            lines.writerows([*row, sum(row), row[0] * row[1] - row[-1]] for row in rows)
        self.assert_exit(self.run_trainer(["pack", "csv", "--csv", table, "--target", "x,y", "-o", self.dir / name]), 0)
        return self.dir / name

    def images_with_places(self, count=40, side=32, name="spots"):
        """Grey noise, in two of three images with a bright square around (cx, cy); three targets."""
        numbers = random.Random(count)
        folder = self.dir / name
        folder.mkdir()
        rows = []
        for index in range(count):
            present = index % 3 != 2
            cx, cy = numbers.randrange(3, side - 3), numbers.randrange(3, side - 3)
            pixels = [bytes(numbers.randrange(220, 256) if present and abs(x - cx) < 3 and abs(y - cy) < 3
                            else numbers.randrange(60) for x in range(side)) for y in range(side)]
            (folder / f"{index:03}.png").write_bytes(png(side, side, pixels, 0))
            rows.append(f"{index:03}.png,{int(present)},{f'{cx},{cy}' if present else ','}")
        table = self.dir / f"{name}.csv"
        table.write_text("\n".join(["image_path,presence,cx,cy", *rows]) + "\n")
        self.assert_exit(self.run_trainer(["pack", "images", "--csv", table, "--dir", folder, "--target", "presence,cx,cy",
                                           "--fill-targets", 0, "-o", self.dir / f"{name}.h5"]), 0)
        return self.dir / f"{name}.h5"

    def settings(self, data, run="run", **overrides):
        """key=value settings; double underscores stand for dots: train__epochs=2."""
        given = [f"data.train={data}", f"run.dir={self.dir / run}"]
        return given + MLP + [f"{key.replace('__', '.')}={value}" for key, value in overrides.items()]

    def begin(self, data, run, ranks=1, model=(), **overrides):
        """A run of no step, whose checkpoint has the weights that training begins with; a Result."""
        settings = self.settings(data, run, train__epochs=0) + list(model)
        settings += [f"{key.replace('__', '.')}={value}" for key, value in overrides.items()]
        return self.mpirun(ranks, settings) if ranks > 1 else self.run_trainer(settings)

    def exported(self, run):
        """The weights of a run: {name: (shape, bytes)}."""
        path = self.dir / f"{run}.safetensors"
        self.assert_exit(self.run_trainer(["export", self.dir / run, "-o", path]), 0)
        return read_safetensors(path)

    def sha256(self, path):
        """The hash, as a line, of all weights of a run, a checkpoint or a file of weights, or of predictions."""
        result = self.run_trainer(["inspect", self.dir / path, "--sha256"])
        self.assert_exit(result, 0)
        self.assertRegex(result.stdout, r"\A[0-9a-f]{64}\n\Z")
        return result.stdout

    def skip_where_bf16_is_not(self, result):
        """Skips the test where a run in bf16 was refused for want of oneDNN or AVX-512; a refusal elsewhere is a failure."""
        no_avx512 = not has_avx512() and "train.precision bf16: " in result.stderr
        if no_avx512 or "train.precision bf16 needs oneDNN" in result.stderr:
            self.assert_exit(result, 2)
            self.skipTest(result.stderr.strip())

    def signalled(self):
        """A program for self.trainer, as if the signal came in the first moment: the first update hears of it."""
        program = self.dir / "signalled.py"
        program.write_text("#!/usr/bin/env python3\nimport os, signal, sys\n"
                           "signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGUSR1])\n"
                           f"os.kill(os.getpid(), signal.SIGUSR1)\nos.execv({str(self.trainer)!r}, sys.argv)\n")
        program.chmod(0o755)
        return program

    def best_step(self, run):
        """That of the run's best checkpoint, by trainer inspect; None of a run without one."""
        result = self.run_trainer(["inspect", self.dir / run])
        self.assert_exit(result, 0)
        found = re.search(r"^  best      step (\d+) ", result.stdout, re.M)
        return int(found[1]) if found else None

    def losses(self, run):
        return [row["loss"] for row in self.metrics(run, "step")]

    def epochs(self, run):
        return [json.loads(line) for line in (self.dir / run / "epochs.jsonl").read_text(encoding="utf-8").splitlines()]

    def latest(self, run):
        return sorted((self.dir / run / "checkpoints").glob("step-*.h5"))[-1]

    def outcome(self, run):
        """What two runs must have in common to the bit: rows, but for times, and weights."""
        rows = [{key: value for key, value in row.items() if key != "account"}
                for row in self.metrics(run) if row["type"] in ("step", "eval")]
        return rows, self.sha256(self.latest(run))

    def bound(self, cores, args, env=None):
        """The program on so many cores at most, which are its threads."""
        some = sorted(os.sched_getaffinity(0))[:cores]
        with self._start(["taskset", "-c", ",".join(map(str, some)), self.trainer, *args], env) as job:
            return job.wait(system_test.TIMEOUT)


class SignalledRuns(TrainingTest):
    """Runs of which some starts end after one update."""

    def setUp(self):
        super().setUp()
        self.program = self.trainer
        self.stopped = self.signalled()

    def said(self, settings, code, stop=False, ranks=1):
        self.trainer = self.stopped if stop else self.program
        result = self.run_trainer(settings) if ranks == 1 else self.mpirun(ranks, settings)
        self.trainer = self.program
        self.assert_exit(result, code)
        return result.stderr + result.stdout


class PackingTest(OwnCache, TrainingTest):
    """Adds `trainer pack`, and a cache of its own."""

    def outputs(self):
        """The data set and what is beside it under a temporary name."""
        return [path for path in self.dir.iterdir() if path.name.startswith("data.h5")]

    def pack_from(self, code, *arguments):
        result = self.run_trainer(["pack", *arguments])
        self.assert_exit(result, code)
        return result
