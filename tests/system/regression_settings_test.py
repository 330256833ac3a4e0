"""Models for regression with what else a config may say: accumulation, zero1, recompute, averages, several files, samples
that cannot be read, resumes.
"""

import json
import math
import re
import struct

import system_test
from recipes import OwnCache, TrainingTest


class RegressionSettings(OwnCache, TrainingTest):
    def train(self, data, run, *more, ranks=1, code=0, **settings):
        given = {"train__epochs": 2, "train__log_every": 1, "train__precision": "fp64", "optim__lr": 0.05,
                 "optim__momentum": 0.9, **settings}
        command = [*self.settings(data, run, **given), *more]
        result = self.mpirun(ranks, command) if ranks > 1 else self.run_trainer(command)
        self.assert_exit(result, code)
        return result

    def assert_near(self, mine, theirs, message):
        for one, other in zip(mine, theirs, strict=True):
            self.assertAlmostEqual(one, other, delta=1e-12, msg=message)

    def test_a_global_batch_may_be_cut_up_in_any_way(self):
        # 60 samples: the last batch has 4, so that with 2 x 2 x 2 it has one micro-batch alone.
        data = self.numbers_with_targets(60)
        variants = {"accumulated": (1, {"train__batch_size": 4, "train__accumulate": 2}),
                    "zero1": (2, {"train__batch_size": 2, "train__accumulate": 2, "train__recompute": "true",
                                  "distributed__strategy": "zero1"}),
                    "ddp": (2, {"train__batch_size": 2, "train__accumulate": 2, "distributed__strategy": "ddp"})}
        for loss in ("mse", "huber"):
            self.train(data, loss, f"train.loss={loss}", f"data.val={data}")
            expected = self.losses(loss)
            self.assertEqual(len(expected), 16)
            self.assertLess(expected[-1], expected[0])
            score = self.metrics(loss, "eval")[-1]
            for name, (ranks, settings) in variants.items():
                run = f"{loss}-{name}"
                self.train(data, run, f"train.loss={loss}", f"data.val={data}", ranks=ranks, **settings)
                self.assert_near(self.losses(run), expected, run)
                seen = self.metrics(run, "eval")[-1]
                self.assertEqual(seen["samples"], 60)
                for metric in ("loss", "mae", "rmse", "distance"):
                    self.assertAlmostEqual(seen[metric], score[metric], delta=1e-12, msg=f"{run}: {metric}")

    def test_evaluations_are_of_the_averaged_weights(self):
        data, val = self.numbers_with_targets(64), self.numbers_with_targets(21, "val.h5")
        averaged = ("train.ema=0.9", f"data.val={val}")
        self.train(data, "plain", f"data.val={val}")
        self.train(data, "averaged", *averaged)
        self.train(data, "on-2", *averaged, ranks=2, train__batch_size=4)
        self.train(data, "kept", *averaged, "train.max_steps=5")
        self.train(data, "kept", *averaged)
        plain, row, two = (self.metrics(run, "eval") for run in ("plain", "averaged", "on-2"))
        self.assertEqual(self.losses("averaged"), self.losses("plain"))
        self.assertEqual(len(row), 2)
        for epoch in range(2):
            for metric in ("loss", "mae", "rmse", "distance"):
                self.assertNotAlmostEqual(row[epoch][metric], plain[epoch][metric], delta=1e-6)
                self.assertAlmostEqual(row[epoch][metric], two[epoch][metric], delta=1e-12)
        self.assertEqual(self.metrics("kept", "eval")[-1]["rmse"], row[-1]["rmse"])
        # eval and predict take the average, too.
        result = self.run_trainer(["eval", "--run", "averaged", "--json"])
        self.assert_exit(result, 0)
        self.assertAlmostEqual(json.loads(result.stdout)["rmse"], row[-1]["rmse"], delta=1e-12)
        self.assert_exit(self.run_trainer(["predict", "--run", "averaged", "-o", "out.csv"]), 0)
        lines = (self.dir / "out.csv").read_text(encoding="utf-8").splitlines()
        self.assertEqual(lines[0], "index,target_x,target_y,output_x,output_y")
        squares = [(a - c) ** 2 + (b - d) ** 2 for a, b, c, d in ([float(word) for word in line.split(",")[1:]]
                                                                  for line in lines[1:])]
        # Targets in the table have the fewest digits that give their f32 back: half a unit in the last place of it.
        self.assertAlmostEqual(math.sqrt(sum(squares) / (2 * len(squares))), row[-1]["rmse"], delta=1e-6)

    def rows_of(self, name, rows):
        table = self.dir / f"{name}.csv"
        table.write_text("\n".join([self.header, *rows]) + "\n", encoding="utf-8")
        result = self.run_trainer(["pack", "csv", "--csv", table, "--target", "x,y", "-o", self.dir / f"{name}.h5"])
        self.assert_exit(result, 0)
        return self.dir / f"{name}.h5"

    def three_files(self):
        """One file, and the same rows in two."""
        whole = self.numbers_with_targets(60, "whole.h5")
        self.header, *rows = (self.dir / "whole.h5.csv").read_text(encoding="utf-8").splitlines()
        return whole, self.rows_of("first", rows[:23]), self.rows_of("second", rows[23:])

    def test_two_files_are_one_of_both(self):
        whole, first, second = self.three_files()
        both = f"[{first}, {second}]"
        for ranks, workers in ((1, 0), (2, 2)):
            for name, data in (("one", whole), ("two", both)):
                self.train(data, f"{name}-{ranks}", f"data.val={data}", f"data.workers={workers}", ranks=ranks,
                           train__batch_size=8 // ranks)
            one, two = f"one-{ranks}", f"two-{ranks}"
            self.assertEqual(self.losses(two), self.losses(one))
            self.assertEqual(self.sha256(self.latest(two)), self.sha256(self.latest(one)))
            fields = ("samples", "loss", "mae", "rmse", "distance")
            self.assertEqual([[row[field] for field in fields] for row in self.metrics(two, "eval")],
                             [[row[field] for field in fields] for row in self.metrics(one, "eval")])
        # The order of the files is the order of the samples.
        self.train(f"[{second}, {first}]", "turned")
        self.assertNotEqual(self.losses("turned"), self.losses("one-1"))
        for name in ("one", "two"):
            self.assert_exit(self.mpirun(2, ["predict", "--run", f"{name}-2", "-o", f"{name}.csv"]), 0)
        self.assertEqual((self.dir / "two.csv").read_bytes(), (self.dir / "one.csv").read_bytes())

    def damaged(self, whole, name, samples):
        """The file with a feature of these samples that is not a number, as no packer writes it."""
        content = bytearray(whole.read_bytes())
        header, *rows = (self.dir / f"{whole.name}.csv").read_text(encoding="utf-8").splitlines()
        features = header.split(",").index("x")
        for sample in samples:
            row = struct.pack(f"<{features}f", *map(float, rows[sample].split(",")[:features]))
            self.assertEqual(content.count(row), 1, "the features of a sample are not in the file as they are")
            place = content.index(row) + 4 * (features - 2)
            content[place:place + 4] = struct.pack("<f", math.nan)
        (self.dir / name).write_bytes(content)
        return self.dir / name

    def test_samples_that_cannot_be_read_are_skipped_with_their_targets(self):
        whole = self.numbers_with_targets(64, "whole.h5")
        bad = (9, 10, 30, 39)
        damaged = self.damaged(whole, "damaged.h5", bad)
        for ranks in (1, 2):
            result = self.train(damaged, f"stop-{ranks}", ranks=ranks, code=4)
            self.assertIn("sample", result.stderr)
            self.assertIn(str(damaged), result.stderr)
        # The same rows without the bad ones, in file order and in batches that have the same samples.
        self.header, *rows = (self.dir / "whole.h5.csv").read_text(encoding="utf-8").splitlines()
        good = self.rows_of("good", [row for i, row in enumerate(rows[:32]) if i not in bad])
        steps = {"data__shuffle": "false", "train__max_steps": 1, "data__val": good}
        self.train(good, "good", **steps, train__batch_size=29)
        for ranks, accumulate, workers in ((1, 1, 0), (1, 4, 2), (2, 2, 2)):
            run = f"skip-{ranks}-{accumulate}"
            self.train(damaged, run, "data.on_error=skip", f"data.workers={workers}", ranks=ranks, **steps,
                       train__batch_size=32 // (ranks * accumulate), train__accumulate=accumulate)
            self.assert_near(self.losses(run), self.losses("good"), run)
            scores = [[self.metrics(name, "eval")[-1][metric] for metric in ("loss", "mae", "rmse", "distance")]
                      for name in (run, "good")]
            self.assert_near(*scores, f"{run} after the update")
        # Evaluations count what is there.
        val = self.rows_of("val", [row for i, row in enumerate(rows) if i not in bad])
        self.train(whole, "run", f"data.val={val}")
        expected = self.metrics("run", "eval")[-1]
        self.assertEqual(expected["samples"], 60)
        for ranks in (1, 2, 3):
            result = self.mpirun(ranks, ["eval", "--run", "run", "--data", damaged, "--json", "data.on_error=skip"])
            self.assert_exit(result, 0)
            row = json.loads(result.stdout)
            self.assertEqual((row["samples"], row["unreadable"]), (60, 4))
            self.assertEqual(set(map(int, re.findall(r"sample (\d+)\b", result.stderr))), set(bad))
            for metric in ("loss", "mae", "rmse", "distance"):
                self.assertAlmostEqual(row[metric], expected[metric], delta=1e-12, msg=metric)

    def test_a_run_that_stops_after_any_update_goes_on_exactly(self):
        data, val = self.numbers_with_targets(44), self.numbers_with_targets(15, "val.h5")
        for name, ranks, settings in (("one", 1, {}), ("two", 2, {"train__batch_size": 4, "train__precision": "fp32"})):
            given = (f"data.val={val}", "train.checkpoint.best=val/rmse", "train.checkpoint.keep=1", "optim.lr=0.8",
                     "train.checkpoint.every=never")
            self.train(data, f"{name}-full", *given, ranks=ranks, **settings)
            for stop in range(1, 7):
                self.train(data, f"{name}-parts", *given, f"train.max_steps={stop}", ranks=ranks, **settings)
            self.train(data, f"{name}-parts", *given, ranks=ranks, **settings)
            runs = f"{name}-full", f"{name}-parts"
            steps = [[(row["step"], row["epoch"], row["samples"], row["loss"]) for row in self.metrics(run, "step")]
                     for run in runs]
            self.assertEqual(len(steps[0]), 12)
            self.assertEqual(steps[1], steps[0])
            evals = [{row["step"]: [row[field] for field in ("loss", "mae", "rmse", "distance")]
                      for row in self.metrics(run, "eval")} for run in runs]
            self.assertEqual(set(evals[0]), {6, 12})
            for step, row in evals[0].items():
                self.assertEqual(evals[1][step], row)
            self.assertEqual(self.sha256(self.latest(runs[1])), self.sha256(self.latest(runs[0])))
            # The stopped run evaluated at each stop, too; of all its evaluations the best is kept.
            best = min(evals[1], key=lambda step: evals[1][step][2])
            self.assertLess(best, 6, "a best one before the last is what is kept beside it")
            kept = sorted(path.name for path in (self.dir / runs[1] / "checkpoints").glob("step-*.h5"))
            self.assertEqual(kept, [f"step-{step:08}.h5" for step in (best, 12)])


if __name__ == "__main__":
    system_test.main()
