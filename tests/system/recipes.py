"""Small data and settings that the system tests share."""

import csv
import pathlib
import random

import system_test

# Steps of a few milliseconds; one thread, so that ranks do not fight for two cores.
MLP = ["model.name=mlp", "model.hidden=[16]", "optim.lr=0.1", "train.epochs=1", "train.batch_size=8"]


def has_avx512():
    """Without it bf16 is refused, and in fp32 a row's last bits depend on its place in the batch: behind the last full
    block of its product oneDNN (2.6, on Zen 3) adds in another order.
    """
    return " avx512f" in pathlib.Path("/proc/cpuinfo").read_text(encoding="utf-8")


class TrainingTest(system_test.SystemTest):
    """Adds data sets and shortcuts to the harness."""

    def small_data(self, count=240, name="data.h5", classes=4, side=8):
        return self.pack(*self.synthetic_idx(count, classes=classes, side=side), name=name)

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

    def settings(self, data, run="run", **overrides):
        """key=value settings; double underscores stand for dots: train__epochs=2."""
        given = [f"data.train={data}", f"run.dir={self.dir / run}"]
        return given + MLP + [f"{key.replace('__', '.')}={value}" for key, value in overrides.items()]

    def losses(self, run):
        return [row["loss"] for row in self.metrics(run, "step")]

    def latest(self, run):
        return sorted((self.dir / run / "checkpoints").glob("step-*.h5"))[-1]
