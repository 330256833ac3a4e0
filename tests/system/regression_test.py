"""Models that are trained to give numbers: train.loss, what evaluations say, and what predictions hold."""

import csv
import json
import math
import random
import struct

import system_test
from recipes import TrainingTest

FEATURES, NAMES = 3, ("x_pix", "y_pix")
LINEAR = ["model.name=null", "model.hidden=null", f"model.layers=[{{linear: {{out: {len(NAMES)}}}}}]"]
# name -> (loss, its derivative) of a difference.
LOSSES = {
    "mse": (lambda d: d * d, lambda d: 2 * d),
    "l1": (abs, lambda d: (d > 0) - (d < 0)),
    "huber": (lambda d: d * d / 2 if abs(d) < 1 else abs(d) - 0.5, lambda d: max(-1.0, min(1.0, d))),
}


class Regression(TrainingTest):
    def setUp(self):
        super().setUp()
        numbers = random.Random(5)
        # Halves, quarters, ...: what the file holds in f32 is what this script computes with.
        self.rows = [[numbers.randrange(-64, 65) / 32 for _ in range(FEATURES)] for _ in range(48)]
        self.wanted = [[3 + 2 * a - b + noise / 64, 1 - a * b / 4 + 4 * c] for (a, b, c), noise in
                       ((row, numbers.randrange(-16, 17)) for row in self.rows)]
        self.data = self.table("data", range(48))

    def table(self, name, samples, columns=NAMES):
        with (self.dir / f"{name}.csv").open("w", encoding="utf-8", newline="") as file:
            table = csv.writer(file)
            table.writerow(["a", "b", "c", *columns])
            table.writerows(self.rows[i] + self.wanted[i] for i in samples)
        command = ["pack", "csv", "--csv", f"{name}.csv", "--target", ",".join(columns), "-o", f"{name}.h5"]
        self.assert_exit(self.run_trainer(command), 0)
        return self.dir / f"{name}.h5"

    def command(self, run, *more, ranks=1, **settings):
        given = {"train__batch_size": 12 // ranks, "train__epochs": 3, "train__log_every": 1, "data__shuffle": "false",
                 "train__precision": "fp64", "optim__lr": 0.05, "optim__momentum": 0, **settings}
        return [*self.settings(self.data, run, **given), *LINEAR, *more]

    def train(self, run, *more, ranks=1, **settings):
        command = self.command(run, *more, ranks=ranks, **settings)
        result = self.mpirun(ranks, command) if ranks > 1 else self.run_trainer(command)
        self.assert_exit(result, 0)
        return result

    def weights(self, run):
        """[outputs][features], [outputs]"""
        self.assert_exit(self.run_trainer(["export", run, "-o", f"{run}.safetensors"]), 0)
        content = (self.dir / f"{run}.safetensors").read_bytes()
        begin = 8 + struct.unpack_from("<Q", content)[0]
        header = json.loads(content[8:begin])

        def values(name):
            first, last = header[name]["data_offsets"]
            self.assertEqual(header[name]["dtype"], "F64")
            return struct.unpack_from(f"<{(last - first) // 8}d", content, begin + first)
        weight = values("0.weight")
        return [list(weight[k * FEATURES:(k + 1) * FEATURES]) for k in range(len(NAMES))], list(values("0.bias"))

    def differences(self, weight, bias, samples):
        return [[sum(w * x for w, x in zip(weight[k], self.rows[i])) + bias[k] - self.wanted[i][k]
                 for k in range(len(NAMES))] for i in samples]

    def test_losses_and_weights_are_those_of_a_script(self):
        for name, (loss, slope) in LOSSES.items():
            self.train(f"{name}-0", train__max_steps=0)
            weight, bias = self.weights(f"{name}-0")
            expected = []
            for step in range(12):
                samples = [(step * 12 + i) % 48 for i in range(12)]
                differences = self.differences(weight, bias, samples)
                share = 1 / (len(samples) * len(NAMES))
                expected.append(share * sum(loss(d) for row in differences for d in row))
                for k in range(len(NAMES)):
                    slopes = [0.05 * share * slope(row[k]) for row in differences]
                    bias[k] -= sum(slopes)
                    for feature in range(FEATURES):
                        weight[k][feature] -= sum(s * self.rows[i][feature] for s, i in zip(slopes, samples))
            self.train(name, train__loss=name)
            for mine, theirs in zip(self.losses(name), expected, strict=True):
                self.assertAlmostEqual(mine, theirs, delta=1e-12)
            final = self.weights(name)
            for mine, theirs in zip([*final[0], final[1]], [*weight, bias], strict=True):
                for one, other in zip(mine, theirs, strict=True):
                    self.assertAlmostEqual(one, other, delta=1e-12)

    def test_metrics_and_predictions_are_those_of_the_weights(self):
        val = self.table("val", range(7, 48, 2))
        trained = self.train("run", f"data.val={val}", "train.checkpoint.best=val/distance", train__epochs=20)
        weight, bias = self.weights("run")
        differences = self.differences(weight, bias, range(7, 48, 2))
        numbers = [d for row in differences for d in row]
        expected = {"loss": sum(d * d for d in numbers) / len(numbers), "mae": sum(map(abs, numbers)) / len(numbers),
                    "rmse": math.sqrt(sum(d * d for d in numbers) / len(numbers)),
                    "distance": sum(math.hypot(*row) for row in differences) / len(differences)}
        row = self.metrics("run", "eval")[-1]
        self.assertEqual(set(row), {"type", "epoch", "step", "split", "samples", *expected})
        self.assertEqual(row["samples"], len(differences))
        self.assertIn(f"test rmse {expected['rmse']:.4f} ({len(differences)} samples)\n", trained.stdout)
        self.assertNotIn("accuracy", trained.stdout + trained.stderr)
        evaluated = []
        for ranks in (1, 2, 3):
            result = self.mpirun(ranks, ["eval", "--run", "run", "--json"])
            self.assert_exit(result, 0)
            evaluated.append(json.loads(result.stdout))
        for metric, value in expected.items():
            for seen in (row, *evaluated):
                self.assertAlmostEqual(seen[metric], value, delta=1e-12)

        self.assert_exit(self.mpirun(2, ["predict", "--run", "run", "-o", "out.csv"]), 0)
        with (self.dir / "out.csv").open(encoding="utf-8", newline="") as file:
            table = list(csv.DictReader(file))
        self.assertEqual(list(table[0]), ["index", "target_x_pix", "target_y_pix", "output_x_pix", "output_y_pix"])
        self.assertEqual(len(table), len(differences))
        for i, (line, sample, difference) in enumerate(zip(table, range(7, 48, 2), differences)):
            self.assertEqual(int(line["index"]), i)
            for k, name in enumerate(NAMES):
                # The fewest digits that give the same f32 back.
                self.assertAlmostEqual(float(line[f"target_{name}"]), self.wanted[sample][k], delta=1e-6)
                self.assertAlmostEqual(float(line[f"output_{name}"]), self.wanted[sample][k] + difference[k], delta=1e-12)
        self.assert_exit(self.mpirun(2, ["predict", "--run", "run", "-o", "out.h5"]), 0)
        seen = self.run_trainer(["inspect", "out.h5"])
        self.assert_exit(seen, 0)
        self.assertRegex(seen.stdout, r"outputs +f64 +\[21, 2\]")
        self.assertRegex(seen.stdout, r"targets +f32 +\[21, 2\]")
        hashes = set()
        for ranks in (1, 3):
            self.assert_exit(self.mpirun(ranks, ["predict", "--run", "run", "-o", f"{ranks}.h5"]), 0)
            hashes.add(self.sha256(f"{ranks}.h5"))
        self.assertEqual(len(hashes), 1)

    def test_the_best_checkpoint_has_the_least_error(self):
        self.train("run", f"data.val={self.data}", "train.checkpoint.best=val/rmse", "train.checkpoint.keep=1",
                   train__epochs=6, optim__lr=0.6)
        errors = {row["step"]: row["rmse"] for row in self.metrics("run", "eval")}
        best = min(errors, key=errors.get)
        self.assertNotEqual(best, max(errors))
        kept = sorted(path.name for path in (self.dir / "run/checkpoints").glob("step-*.h5"))
        self.assertEqual(kept, [f"step-{step:08}.h5" for step in sorted({best, max(errors)})])

    def test_ranks_shards_and_resumes_change_nothing(self):
        self.train("on-1")
        for ranks in (2, 3, 4):
            self.train(f"on-{ranks}", ranks=ranks)
            for mine, theirs in zip(self.losses("on-1"), self.losses(f"on-{ranks}"), strict=True):
                self.assertAlmostEqual(mine, theirs, delta=1e-12)
        self.train("parts", train__max_steps=5)
        self.train("parts")
        exact = {"run__deterministic": "true", "run__virtual_shards": 4, "train__precision": "fp32"}
        for ranks in (1, 2, 4):
            self.train(f"exact-{ranks}", f"data.val={self.data}", ranks=ranks, **exact)
        for runs in (("on-1", "parts"), ("exact-1", "exact-2", "exact-4")):
            hashes = {self.sha256(self.latest(run)) for run in runs}
            self.assertEqual(len(hashes), 1, runs)
        evaluations = [self.metrics(f"exact-{ranks}", "eval") for ranks in (1, 2, 4)]
        self.assertEqual(evaluations[0], evaluations[1])
        self.assertEqual(evaluations[0], evaluations[2])

    def test_a_failed_step_is_found_again(self):
        result = self.run_trainer(self.command("run", train__epochs=40, train__precision="fp32", optim__lr=1e6))
        self.assert_exit(result, 1)
        failed = sorted((self.dir / "run").glob("failed-step-*.h5"))
        self.assertEqual(len(failed), 1)
        replayed = self.run_trainer(["replay", failed[0]])
        self.assert_exit(replayed, 1)
        self.assertIn("not finite", replayed.stdout + replayed.stderr)

    def test_data_that_are_only_predicted_need_neither(self):
        self.train("run")
        with (self.dir / "bare.csv").open("w", encoding="utf-8", newline="") as file:
            csv.writer(file).writerows([["a", "b", "c"], *self.rows[:5]])
        self.assert_exit(self.run_trainer(["pack", "csv", "--csv", "bare.csv", "--no-labels", "-o", "bare.h5"]), 0)
        self.assert_exit(self.run_trainer(["predict", "--run", "run", "--data", "bare.h5", "-o", "out.csv"]), 0)
        lines = (self.dir / "out.csv").read_text(encoding="utf-8").splitlines()
        self.assertEqual(lines[0], "index,output_x_pix,output_y_pix")
        weight, bias = self.weights("run")
        for i, line in enumerate(lines[1:]):
            expected = [d + t for d, t in zip(self.differences(weight, bias, [i])[0], self.wanted[i])]
            for mine, theirs in zip(map(float, line.split(",")[1:]), expected, strict=True):
                self.assertAlmostEqual(mine, theirs, delta=1e-12)
        result = self.run_trainer(["eval", "--run", "run", "--data", "bare.h5"])
        self.assert_exit(result, 4)

    def test_what_a_model_gives_is_known_without_its_data_too(self):
        mlp = ["model.layers=null", "model.name=mlp", "model.hidden=[4]"]
        self.train("run", *mlp)
        whole = self.run_trainer(["predict", "--run", "run", "--data", self.data, "-o", "whole.csv"])
        self.assert_exit(whole, 0)
        # Neither says train.loss or model.classes: the checkpoint does.
        (self.dir / "c.yaml").write_text("model: {name: mlp, hidden: [4]}\ntrain: {batch_size: 12, precision: fp64}\n")
        given = ["-c", "c.yaml", "--checkpoint", self.latest("run"), "--data", self.data]
        for ranks in (1, 2):
            self.assert_exit(self.mpirun(ranks, ["eval", *given]), 0)
        bare = self.dir / "bare.csv"
        with bare.open("w", encoding="utf-8", newline="") as file:
            csv.writer(file).writerows([["a", "b", "c"], *self.rows])
        self.assert_exit(self.run_trainer(["pack", "csv", "--csv", bare, "--no-labels", "-o", "bare.h5"]), 0)
        outputs = [",".join(line.split(",")[3:]) for line in (self.dir / "whole.csv").read_text().splitlines()]
        # The weights have the names of the training data, which may be gone.
        for gone in (False, True):
            if gone:
                self.data.unlink()
            for command in (["--run", "run", "--data", "bare.h5"], [*given[:4], "--data", "bare.h5"]):
                self.assert_exit(self.mpirun(2, ["predict", *command, "-o", "out.csv"]), 0)
                lines = (self.dir / "out.csv").read_text().splitlines()
                self.assertEqual(lines[0], "index,output_x_pix,output_y_pix")
                self.assertEqual([line.partition(",")[2] for line in lines[1:]], outputs[1:])

    def test_labelled_data_may_be_predicted_and_logits_are_not_left_out(self):
        self.train("run")
        with (self.dir / "named.csv").open("w", encoding="utf-8", newline="") as file:
            csv.writer(file).writerows([["a", "b", "c", "kind"], *([*row, "cat"] for row in self.rows[:5])])
        self.assert_exit(self.run_trainer(["pack", "csv", "--csv", "named.csv", "--label", "kind", "-o", "named.h5"]), 0)
        given = ["predict", "--run", "run", "--data", "named.h5", "-o", "out.csv"]
        self.assert_exit(self.mpirun(2, given), 0)
        self.assertEqual((self.dir / "out.csv").read_text().splitlines()[0], "index,output_x_pix,output_y_pix")
        result = self.mpirun(2, [*given, "--no-logits"])
        self.assert_exit(result, 2)
        self.assertEqual(result.stderr.count("--no-logits: the outputs"), 1, result.stderr)

    def test_targets_of_other_names_are_not_compared(self):
        self.train("run")
        swapped = self.table("swapped", range(24), NAMES[::-1])
        result = self.run_trainer(self.command("other", f"data.val={swapped}"))
        self.assert_exit(result, 4)
        self.assertIn("has the targets y_pix, x_pix, data.train", result.stderr)
        for command in ("eval", "predict"):
            more = ["-o", "out.csv"] if command == "predict" else []
            result = self.mpirun(2, [command, "--run", "run", "--data", swapped, *more])
            self.assert_exit(result, 4)
            self.assertIn("has the targets y_pix, x_pix, but the model gives x_pix, y_pix", result.stderr)

    def test_a_resume_tells_of_another_loss_and_refuses_classes(self):
        common = [f"data.val={self.data}", "train.checkpoint.best=val/loss", "train.early_stopping={metric: val/loss, patience: 2}"]
        self.train("run", *common, "train.loss=huber")
        went_on = self.train("run", *common, "train.loss=mse", train__epochs=8)
        self.assertIn("train.loss: huber -> mse", went_on.stderr)
        # The mean of squares is greater than Huber's loss was: no reason to stop.
        self.assertEqual(self.metrics("run", "eval")[-1]["epoch"], 8)
        labels = [row[:FEATURES] + [i % 2] for i, row in enumerate(self.rows)]
        with (self.dir / "labels.csv").open("w", encoding="utf-8", newline="") as file:
            csv.writer(file).writerows([["a", "b", "c", "label"], *labels])
        packed = self.run_trainer(["pack", "csv", "--csv", "labels.csv", "--label", "label", "-o", "labels.h5"])
        self.assert_exit(packed, 0)
        result = self.run_trainer(self.command("run", f"data.train={self.dir}/labels.h5", train__epochs=9))
        self.assert_exit(result, 2)
        self.assertIn("train.loss: mse -> auto", result.stderr)

    def test_what_cannot_be_meant_is_refused_on_every_rank(self):
        labelled = self.small_data(24, "labelled.h5")
        one = self.table("one", range(24))
        for settings, words in (
                (["train.loss=cross_entropy"], "train.loss is for classes, but"),
                (["train.label_smoothing=0.1"], "train.label_smoothing is for classes, but"),
                (["train.class_weights=balanced"], "train.class_weights is for classes, but"),
                (["train.topk=2"], "train.topk is for classes, but"),
                (["train.confusion=true"], "train.confusion is for classes, but"),
                (["train.checkpoint.best=val/accuracy"], "give val/loss, val/mae, val/rmse, val/distance or val/km"),
                (["train.early_stopping={patience: 2}"], "give val/loss, val/mae, val/rmse, val/distance or val/km"),
                (["model.layers=[{linear: {out: 3}}]"], "model.layers ends with shape [3], but the data have 2 targets"),
                ([f"data.train={labelled}", "train.loss=mse", "model.layers=[flatten, {linear: {out: 4}}]"],
                 "train.loss is for targets, but"),
                ([f"data.train={labelled}", "train.checkpoint.best=val/mae", "model.layers=[flatten, {linear: {out: 4}}]"],
                 "train.checkpoint.best val/mae is for targets, but")):
            for ranks in (1, 2):
                command = self.command("refused", f"data.val={one}", *settings, ranks=ranks)
                if f"data.train={labelled}" in settings:
                    command.append(f"data.val={labelled}")
                result = self.mpirun(ranks, command) if ranks > 1 else self.run_trainer(command)
                self.assert_exit(result, 2)
                self.assertIn(words, result.stderr)
        self.assertFalse((self.dir / "refused").exists())
        result = self.run_trainer(self.command("refused", f"data.val={labelled}"))
        self.assert_exit(result, 4)
        self.train("numbers")
        result = self.run_trainer(["eval", "--run", "numbers", "--data", labelled])
        self.assert_exit(result, 4)
        classes = [word for word in self.settings(labelled, "classes", train__max_steps=1)]
        self.assert_exit(self.run_trainer(classes), 0)
        result = self.run_trainer(["eval", "--run", "classes", "--data", one])
        self.assert_exit(result, 4)


if __name__ == "__main__":
    system_test.main()
