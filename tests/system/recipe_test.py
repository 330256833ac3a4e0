"""Training recipes from the command line: accumulation, clipping, schedules, skipping, averaging, early stopping,
metrics, and what a resume may change."""

import csv
import json
import math
import re
import struct

import system_test
from recipes import TrainingTest


class Recipes(TrainingTest):
    def train(self, ranks, data, run, expect=0, **overrides):
        settings = self.settings(data, run, **{"train__log_every": 1, **overrides})
        result = self.mpirun(ranks, settings) if ranks > 1 else self.run_trainer(settings)
        self.assert_exit(result, expect)
        return result

    def assert_same_losses(self, run, other):
        for one, two in zip(self.losses(run), self.losses(other), strict=True):
            self.assertAlmostEqual(one, two, delta=1e-12 * abs(one), msg=f"{run} and {other}")

    def test_accumulated_micro_batches_are_one_large_batch(self):
        # 250 samples: the last update is uneven on every number of ranks, and its last micro-batches are missing.
        data = self.small_data(250)
        common = {"train__precision": "fp64", "optim__momentum": 0.9, "train__epochs": 2}
        for ranks in (1, 2, 3, 4):
            self.train(ranks, data, f"large{ranks}", train__batch_size=16, **common)
            self.train(ranks, data, f"micro{ranks}", train__batch_size=4, train__accumulate=4, **common)
            self.assertEqual(len(self.losses(f"large{ranks}")), 2 * -(-250 // (16 * ranks)))
            self.assert_same_losses(f"large{ranks}", f"micro{ranks}")

    def test_accumulation_with_drop_last_leaves_out_a_partial_batch_only(self):
        # Batches of 6 of all ranks: of 33 samples those are left that a file of the first 30 has.
        data, whole = self.small_data(33), self.small_data(30, "whole.h5")
        common = {"data__shuffle": "false", "train__accumulate": 3, "train__epochs": 2, "train__precision": "fp64",
                  "optim__lr": 0.2, "schedule__name": "cosine"}
        for ranks in (1, 2, 3):
            common["train__batch_size"] = 6 // ranks
            self.train(ranks, data, f"run{ranks}", data__drop_last="true", **common)
            self.train(ranks, whole, f"whole{ranks}", **common)
            self.assertEqual([row["samples"] for row in self.metrics(f"run{ranks}", "step")], [18, 30, 48, 60])
            self.assertEqual([row["samples"] for row in self.epochs(f"run{ranks}")], [30, 60])
            self.assert_same_losses(f"run{ranks}", f"whole{ranks}")
            for one, two in zip(*(self.metrics(f"{run}{ranks}", "step") for run in ("run", "whole")), strict=True):
                self.assertEqual(one["lr"], two["lr"])
        for steps in (1, 2):
            self.train(2, data, f"parts{steps}", data__drop_last="true", train__max_steps=steps,
                       **{**common, "train__batch_size": 3})
            self.train(3, data, f"parts{steps}", data__drop_last="true", **common)
            self.assert_same_losses("run3", f"parts{steps}")

    def test_deterministic_runs_drop_updates_that_are_not_full_and_say_so(self):
        data = self.small_data(33)
        common = {"run__deterministic": "true", "run__virtual_shards": 2, "data__drop_last": "true"}
        warning = "data.drop_last leaves out 15 of 33 samples at the end of each epoch, which are whole batches"
        self.assertIn(warning, self.train(1, data, "run", train__batch_size=6, train__accumulate=3, **common).stderr)
        said = self.train(1, data, "large", train__batch_size=18, **common).stderr
        self.assertNotIn("data.drop_last leaves out", said)
        self.assertEqual([row["samples"] for row in self.metrics("run", "step")], [18])
        self.assertEqual(self.losses("run"), self.losses("large"))

    def test_a_resume_on_other_ranks_with_the_same_global_batch_goes_on(self):
        data = self.small_data(120)
        common = {"train__precision": "fp64", "train__epochs": 2, "optim__momentum": 0, "optim__name": "adamw",
                  "optim__lr": 0.01, "optim__clip_norm": 0.5, "schedule__name": "cosine", "schedule__warmup_epochs": 0.5,
                  "train__ema": 0.9}
        self.train(1, data, "full", train__batch_size=24, **common)
        self.train(1, data, "run", train__batch_size=24, train__max_steps=3, **common)
        result = self.train(3, data, "run", train__batch_size=4, train__accumulate=2, **common)
        self.assertIn("train.accumulate: 1 -> 2", result.stderr)
        self.assertNotIn("samples per update", result.stderr)
        self.assert_same_losses("full", "run")
        for one, two in zip(self.metrics("full", "step"), self.metrics("run", "step"), strict=True):
            self.assertEqual(one["lr"], two["lr"])
            self.assertAlmostEqual(one["grad_norm"], two["grad_norm"], delta=1e-12)

    def test_a_batch_that_is_too_large_names_all_factors(self):
        result = self.train(1, self.small_data(60), "run", expect=2, train__batch_size=16, train__accumulate=4)
        self.assertIn("train.batch_size 16 × 1 rank × train.accumulate 4 = 64 is larger than the data", result.stderr)

    def test_the_learning_rate_of_a_row_is_the_one_of_its_update(self):
        self.train(1, self.small_data(64), "run", train__batch_size=16, train__epochs=3, optim__lr=0.4,
                   schedule__name="cosine", schedule__warmup_epochs=1, schedule__warmup_lr=0.1, schedule__min_lr=0.01)
        expected = [0.1 + 0.3 * k / 4 for k in range(4)]
        expected += [0.01 + 0.39 * (1 + math.cos(math.pi * k / 8)) / 2 for k in range(8)]
        for row, rate in zip(self.metrics("run", "step"), expected, strict=True):
            self.assertAlmostEqual(row["lr"], rate, places=15)

    def test_the_learning_rate_falls_behind_each_milestone_also_behind_a_resume(self):
        data = self.small_data(64)
        recipe = {"train__batch_size": 32, "optim__lr": 0.4, "schedule__name": "multi_step", "schedule__gamma": 0.5}
        result = self.train(1, data, "run", train__epochs=2, schedule__milestones="[1, 3]", **recipe)
        self.assertIn("schedule.milestones has 3, but the run ends after 2 epochs", result.stderr)
        result = self.train(1, data, "run", train__epochs=4, schedule__milestones="[1, 3]", **recipe)
        self.assertNotIn("schedule.milestones", result.stderr)
        self.assertEqual([row["lr"] for row in self.metrics("run", "step")], [0.4, 0.4, 0.2, 0.2, 0.2, 0.2, 0.1, 0.1])

    def test_a_warm_up_that_is_longer_than_the_run_is_warned_of_once(self):
        data = self.small_data(64)
        result = self.train(2, data, "short", schedule__warmup_epochs=2)
        last = self.metrics("short", "step")[-1]["lr"]
        self.assertAlmostEqual(last, 0.1 * 0.75 / 2, places=15)  # four updates per epoch
        warning = ("schedule.warmup_epochs is 2, but the run ends after 1 epoch (train.epochs): the learning rate never reaches "
                   "optim.lr, 0.1, its last update has 0.0375; set schedule.warmup_epochs to at most 1, or train longer")
        self.assertEqual(result.stderr.count(warning), 1, result.stderr)
        self.assertIn(f"warning {warning}", (self.dir / "short/log.txt").read_text())
        fits = self.train(1, data, "fits", schedule__warmup_epochs=1)
        self.assertNotIn("warmup", fits.stderr)
        finished = self.train(2, data, "short", schedule__warmup_epochs=2)
        self.assertNotIn("warmup", finished.stderr)

    def test_scale_lr_by_world_size_multiplies_the_rate(self):
        data = self.small_data(48)
        self.train(2, data, "scaled", train__batch_size=8, train__scale_lr_by_world_size="true", optim__lr=0.05)
        self.train(2, data, "plain", train__batch_size=8, optim__lr=0.1)
        self.assertEqual({row["lr"] for row in self.metrics("scaled", "step")}, {0.1})
        self.assertEqual(self.losses("scaled"), self.losses("plain"))

    def test_clipping_shortens_long_gradients_only(self):
        data = self.small_data(96)
        common = {"train__precision": "fp64", "train__batch_size": 8}
        self.train(1, data, "plain", **common)
        self.train(1, data, "loose", optim__clip_norm=1e6, **common)
        self.train(1, data, "tight", optim__clip_norm=0.01, **common)
        self.assertNotIn("grad_norm", self.metrics("plain", "step")[0])
        self.assertTrue(all(row["grad_norm"] > 0.01 for row in self.metrics("loose", "step")))
        self.assertEqual(self.losses("loose"), self.losses("plain"))
        self.assertNotEqual(self.losses("tight"), self.losses("plain"))
        # The gradient is summed before it is measured, so that ranks do not matter.
        self.train(3, data, "ranks", optim__clip_norm=0.01, train__precision="fp64", train__batch_size=2,
                   train__accumulate=1, train__max_steps=3)
        self.train(1, data, "one", optim__clip_norm=0.01, train__precision="fp64", train__batch_size=6,
                   train__max_steps=3)
        for one, three in zip(self.metrics("one", "step"), self.metrics("ranks", "step"), strict=True):
            self.assertAlmostEqual(one["grad_norm"], three["grad_norm"], delta=1e-12)

    def test_skipped_updates_are_counted_and_change_nothing(self):
        data = self.small_data(64)
        # The first update throws the weights so far that every later loss is not finite.
        wild = {"optim__lr": 1e30, "train__batch_size": 8}
        stopped = self.train(2, data, "stop", expect=1, **wild)
        self.assertIn("step 2 (epoch 1): the loss is nan; lower optim.lr", stopped.stderr)
        result = self.train(2, data, "skip", train__nan_policy="skip", **wild)
        self.assertEqual([row["step"] for row in self.metrics("skip", "step")], [1])
        self.assertEqual(len(re.findall("the update is skipped", result.stderr)), 3, result.stderr)
        self.assertIn("the update is skipped (3 until now)", result.stderr)
        shown = self.run_trainer(["inspect", self.dir / "skip"]).stdout
        self.assertRegex(shown, r"step +1\n")
        self.assertRegex(shown, r"samples +64\n")
        self.assertRegex(shown, r"skipped +3 updates\n")
        self.train(2, data, "first", train__max_steps=1, **wild)
        self.assertEqual(self.sha256("skip"), self.sha256("first"))
        again = self.train(2, data, "skip", train__nan_policy="skip", **wild)
        self.assertIn("is finished", again.stderr)

    def test_the_moving_average_is_what_is_evaluated_and_saved(self):
        data, val = self.small_data(64), self.small_data(40, "val.h5")
        common = {"data__val": val, "train__batch_size": 8, "train__precision": "fp64"}
        self.train(1, data, "plain", **common)
        self.train(1, data, "slow", train__ema=0.99, **common)
        self.train(1, data, "fast", train__ema=0, **common)
        self.assertEqual(self.losses("plain"), self.losses("slow"))
        plain, slow, fast = (self.metrics(run, "eval")[-1]["loss"] for run in ("plain", "slow", "fast"))
        self.assertEqual(plain, fast)  # decay 0 follows the weights
        self.assertNotEqual(plain, slow)
        self.assertRegex(self.run_trainer(["inspect", self.dir / "slow"]).stdout, r"ema, \d+ values\n +fc1\.weight")
        self.assertNotIn("ema,", self.run_trainer(["inspect", self.dir / "plain"]).stdout)
        for run, said in ("slow", True), ("plain", False):
            words = ["--run", self.dir / run, "--data", val]
            for command in (["eval", *words], ["predict", *words, "-o", self.dir / "p.csv"]):
                self.assertEqual("step-00000008.h5 (averaged weights), data " in self.run_trainer(command).stderr, said)
            exported = self.run_trainer(["export", self.dir / run, "-o", self.dir / "w.h5"]).stdout
            self.assertEqual(exported.endswith(" (averaged weights)\n"), said)
            idle = self.mpirun(2, ["eval", *words, "train.ema=null"])
            self.assert_exit(idle, 0)
            self.assertEqual(idle.stderr.count("warning: train.ema has no effect on trained weights"), 1)
            self.assertEqual("step-00000008.h5 holds their average, which is used" in idle.stderr, said)

    def test_a_moving_average_that_will_mostly_be_the_first_weights_is_warned_of(self):
        data = self.small_data(64)
        result = self.train(2, data, "long", train__ema=0.9999, train__batch_size=4, train__epochs=10)  # 80 updates
        warning = ("warning: train.ema with decay 0.9999: after the run's 80 updates 99 % of the averaged weights, which evaluations "
                   "use, are still those after the first one; set its decay to 0.8")
        self.assertEqual(result.stderr.count(warning), 1, result.stderr)
        for run, ema in (("short", 0.8), ("warm", "{decay: 0.9999, warmup: true}")):
            fits = self.train(1, data, run, train__ema=ema, train__batch_size=8, train__epochs=10)
            self.assertNotIn("averaged weights, which", fits.stderr)

    def test_a_moving_average_that_a_resume_begins_begins_with_the_weights_there(self):
        data = self.small_data(64)
        for ranks in (1, 2):
            for run, steps, ema in (("third", 3, "null"), ("fourth", 4, "null"), ("run", 3, "null"), ("run", 4, 0.99)):
                self.train(ranks, data, f"{run}{ranks}", train__max_steps=steps, train__ema=ema)
            third, fourth, average = (self.exported(f"{run}{ranks}") for run in ("third", "fourth", "run"))
            self.assertNotEqual(third, fourth)
            for name, (_, values) in average.items():
                numbers = (struct.unpack(f"<{len(raw) // 4}f", raw) for raw in (values, third[name][1], fourth[name][1]))
                for mean, before, now in zip(*numbers, strict=True):
                    self.assertAlmostEqual(mean, 0.99 * before + 0.01 * now, delta=1e-7, msg=name)

    def test_early_stopping_ends_the_run_and_more_patience_goes_on(self):
        data, val = self.small_data(64), self.small_data(40, "val.h5")
        common = {"data__val": val, "train__batch_size": 16, "train__epochs": 9, "optim__lr": 0}
        result = self.train(2, data, "run", train__early_stopping="{patience: 2}", **common)
        self.assertEqual(len(self.metrics("run", "eval")), 3)
        self.assertIn("early stopping after epoch 3: val/accuracy has not improved", result.stderr)
        self.assertEqual(self.latest("run").name, "step-00000006.h5")
        again = self.train(2, data, "run", train__early_stopping="{patience: 2}", **common)
        self.assertIn("is finished", again.stderr)
        self.assertIn("early stopping had ended it", again.stderr)
        self.assertIn("to train longer: train.early_stopping=null, or with patience: 3 in it", again.stderr)
        self.train(2, data, "run", train__early_stopping="{patience: 4}", **common)
        self.assertEqual(len(self.metrics("run", "eval")), 5)

    def test_early_stopping_that_was_left_out_counts_anew(self):
        data, val = self.small_data(64), self.small_data(40, "val.h5")
        common = {"data__val": val, "train__batch_size": 32, "optim__lr": 0}
        for epochs, stop in ((9, "{patience: 2}"), (4, "null")):
            self.train(1, data, "run", train__epochs=epochs, train__early_stopping=stop, **common)
        self.assertEqual(len(self.metrics("run", "eval")), 4)
        # The first evaluation sets the mark, and two that are no better end the run.
        self.train(1, data, "run", train__epochs=9, train__early_stopping="{patience: 2}", **common)
        self.assertEqual(len(self.metrics("run", "eval")), 7)

    def test_early_stopping_goes_on_while_the_metric_improves(self):
        data, val = self.small_data(64), self.small_data(40, "val.h5")
        self.train(1, data, "run", data__val=val, train__epochs=4, train__batch_size=8,
                   train__early_stopping="{metric: val/loss, patience: 1}")
        rows = self.metrics("run", "eval")
        losses = [row["loss"] for row in rows]
        improving = next((k for k in range(1, len(losses)) if losses[k] >= min(losses[:k])), 3)
        self.assertEqual(len(rows), improving + 1)

    def test_an_improvement_lets_early_stopping_count_from_the_beginning(self):
        data, val = self.small_data(64), self.small_data(40, "val.h5")
        common = {"data__val": val, "train__batch_size": 16, "train__early_stopping": "{metric: val/loss, patience: 2}"}
        # The loss stays where it is in epoch 2, falls in epoch 3, and stays again.
        first_epoch_only = "{name: step, step_size: 1, gamma: 0}"
        for epochs, schedule in (2, first_epoch_only), (3, "null"), (9, first_epoch_only):
            self.train(1, data, "run", train__epochs=epochs, schedule=schedule, **common)
        losses = [row["loss"] for row in self.metrics("run", "eval")]
        self.assertEqual(losses[0], losses[1])
        self.assertLess(losses[2], losses[1])
        self.assertEqual(losses[3:], [losses[2]] * 2)

    def test_early_stopping_takes_no_improvement_that_is_less_than_min_delta(self):
        data, val = self.small_data(64), self.small_data(40, "val.h5")
        result = self.train(2, data, "run", data__val=val, train__epochs=9, optim__lr=0.02,
                            train__early_stopping="{metric: val/loss, patience: 2, min_delta: 100}")
        losses = [row["loss"] for row in self.metrics("run", "eval")]
        self.assertEqual(len(losses), 3)
        self.assertEqual(losses, sorted(losses, reverse=True), "the loss falls")
        self.assertIn(f"early stopping after epoch 3: val/loss has not improved on {losses[0]:.6g} by more than 100 for "
                      "2 evaluations", result.stderr)

    def test_a_metric_that_is_never_a_number_ends_the_run_and_is_never_the_best(self):
        data = self.small_data(64, classes=2)
        images, labels = self.synthetic_idx(40, classes=2, side=8)
        labels.write_bytes(labels.read_bytes()[:8] + bytes(40))  # of one class nothing can be ranked
        val = self.pack(images, labels, name="val.h5")
        result = self.train(2, data, "run", data__val=val, train__epochs=9, train__checkpoint__best="val/roc_auc",
                            train__early_stopping="{metric: val/roc_auc, patience: 2}")
        self.assertIn("early stopping after epoch 2: val/roc_auc was never a number in 2 evaluations", result.stderr)
        self.assertEqual(len(self.metrics("run", "eval")), 2)
        self.assertIsNone(self.best_step("run"))
        self.assert_exit(self.run_trainer(["eval", "--run", self.dir / "run", "--best"]), 4)

    def test_evaluations_count_every_pair_of_label_and_prediction(self):
        data, val = self.small_data(120, classes=12), self.small_data(101, "val.h5", classes=12)
        rows = []
        for ranks in (1, 2, 3, 4):
            self.train(ranks, data, f"run{ranks}", data__val=val, train__batch_size=12 // ranks,
                       train__precision="fp64", train__confusion="true")
            rows.append(self.metrics(f"run{ranks}", "eval")[-1])
        row = rows[0]
        matrix = row["confusion"]
        self.assertEqual((len(matrix), {len(line) for line in matrix}), (12, {12}))
        self.assertEqual([sum(line) for line in matrix], [9] * 5 + [8] * 7)
        self.assertEqual(sum(matrix[k][k] for k in range(12)), row["correct"])
        recalls = [matrix[k][k] / sum(matrix[k]) for k in range(12)]
        self.assertAlmostEqual(row["balanced_accuracy"], sum(recalls) / 12, places=15)
        self.assertGreater(row["top5"], row["accuracy"])
        for other in rows[1:]:
            for key in ("accuracy", "top5", "balanced_accuracy", "correct", "samples", "confusion"):
                self.assertEqual(other[key], row[key], key)

    def test_of_two_classes_the_detection_of_the_second_is_measured(self):
        data, val = self.small_data(64, classes=2), self.small_data(41, "val.h5", classes=2)
        for ranks in (1, 2):
            self.train(ranks, data, f"run{ranks}", data__val=val, train__batch_size=8, train__epochs=1, train__confusion="true")
            row = self.metrics(f"run{ranks}", "eval")[-1]
            (_, false_alarms), (misses, hits) = row["confusion"]
            self.assertGreater(hits + false_alarms, 0)
            self.assertAlmostEqual(row["pod"], hits / (hits + misses), places=15)
            self.assertAlmostEqual(row["far"], false_alarms / (hits + false_alarms), places=15)
            result = self.run_trainer(["eval", "--run", f"run{ranks}"])
            self.assert_exit(result, 0)
            self.assertIn(f"POD {row['pod']:.4f}, FAR {row['far']:.4f}", result.stdout)
            result = self.run_trainer(["eval", "--run", f"run{ranks}", "--json"])
            self.assertEqual(json.loads(result.stdout)["far"], row["far"])

    def ranked(self, samples, name):
        """What trainer predict -o wrote, by counting pairs: average precision and area under the ROC curve."""
        with open(self.dir / name, newline="") as file:
            rows = [(float(row["logit_1"]) - float(row["logit_0"]), int(row["label"])) for row in csv.DictReader(file)]
        self.assertEqual(len(rows), samples)
        positives, negatives = [s for s, label in rows if label], [s for s, label in rows if not label]
        precisions = [sum(p >= s for p in positives) / sum(o >= s for o, _ in rows) for s in positives]
        pairs = sum((p > n) + 0.5 * (p == n) for p in positives for n in negatives)
        return sum(precisions) / len(positives), pairs / len(positives) / len(negatives)

    def test_of_two_classes_it_is_measured_how_well_scores_order_them(self):
        data, val = self.small_data(64, classes=2), self.small_data(41, "val.h5", classes=2)
        found = []
        for ranks in (1, 2):
            run = f"run{ranks}"
            self.train(ranks, data, run, data__val=val, train__batch_size=16 // ranks, run__deterministic="true",
                       train__checkpoint__best="val/auprc", train__early_stopping="{metric: val/roc_auc, patience: 9}")
            found.append([(row["auprc"], row["roc_auc"]) for row in self.metrics(run, "eval")])
            self.assertNotIn("confusion", self.metrics(run, "eval")[-1])
        self.assertEqual(found[0], found[1])
        self.assert_exit(self.run_trainer(["predict", "--run", "run1", "-o", "rows.csv"]), 0)
        expected = self.ranked(41, "rows.csv")
        curves = []
        for ranks in (1, 2):
            result = self.mpirun(ranks, ["eval", "--run", "run1", "--json", "--curves", f"curves{ranks}"])
            self.assert_exit(result, 0)
            row = json.loads(result.stdout)
            for name, value, last in zip(("auprc", "roc_auc"), expected, found[0][-1]):
                self.assertAlmostEqual(row[name], value, places=12)
                self.assertAlmostEqual(row[name], last, places=12)
            tables = {}
            for name in ("pr_curve.csv", "roc_curve.csv"):
                with open(self.dir / f"curves{ranks}" / name, newline="") as file:
                    tables[name] = list(csv.DictReader(file))
            curves.append(tables)
            points = [(float(row["fpr"]), float(row["tpr"])) for row in tables["roc_curve.csv"]]
            area = sum((x1 - x0) * (y0 + y1) / 2 for (x0, y0), (x1, y1) in zip(points, points[1:]))
            self.assertAlmostEqual(area, expected[1], places=12)
            self.assertEqual((points[0], points[-1]), ((0, 0), (1, 1)))
            steps = [(float(row["recall"]), float(row["precision"])) for row in tables["pr_curve.csv"]]
            self.assertAlmostEqual(sum((r1 - r0) * p for (r1, p), (r0, _) in zip(steps, steps[1:])), expected[0], places=12)
            self.assertEqual((tables["pr_curve.csv"][-1]["threshold"], steps[-1]), ("inf", (0, 1)))
            self.assertEqual({path.name for path in (self.dir / f"curves{ranks}").iterdir()}, set(tables))
        self.assertEqual(len(curves[0]["roc_curve.csv"]), len(curves[0]["pr_curve.csv"]))
        result = self.run_trainer(["eval", "--run", "run1"])
        self.assertIn(f"AUPRC {expected[0]:.4f}, ROC AUC {expected[1]:.4f}", result.stdout)

    def test_without_samples_of_both_classes_the_order_is_not_measured(self):
        data, one = self.small_data(32, classes=2), self.small_data(1, "one.h5", classes=2)
        self.train(1, data, "run", data__val=one, train__epochs=2, train__batch_size=8, train__checkpoint__best="val/roc_auc")
        self.assertEqual([(row["auprc"], row["roc_auc"]) for row in self.metrics("run", "eval")], [(None, None)] * 2)
        result = self.run_trainer(["eval", "--run", "run"])
        self.assert_exit(result, 0)
        self.assertIn("AUPRC and ROC AUC undefined", result.stdout)
        for ranks in (1, 2):
            result = self.mpirun(ranks, ["eval", "--run", "run", "--curves", "none"])
            self.assert_exit(result, 4)
            self.assertIn("samples of one class only", result.stderr)
        self.assertFalse(list((self.dir / "none").glob("*")))

    def test_the_order_is_refused_for_other_than_two_classes(self):
        data = self.small_data(40, classes=10)
        for setting in ("train.checkpoint.best=val/auprc", "train.early_stopping={metric: val/roc_auc, patience: 2}"):
            result = self.run_trainer([*self.settings(data, data__val=data), setting])
            self.assert_exit(result, 2)
            self.assertIn("which is of two classes, but the model has 10", result.stderr)
        self.train(1, data, "run", data__val=data, train__epochs=1, train__batch_size=8)
        for ranks in (1, 2):
            result = self.mpirun(ranks, ["eval", "--run", "run", "--curves", "."])
            self.assert_exit(result, 2)
            self.assertIn("--curves is for models of two classes", result.stderr)

    def test_top_k_and_confusion_are_left_out_unless_wanted(self):
        data, val = self.small_data(64), self.small_data(40, "val.h5")
        self.train(1, data, "few", data__val=val)
        self.assertFalse({"top5", "confusion"} & set(self.metrics("few", "eval")[0]))
        self.train(1, data, "k", data__val=val, train__topk=4)
        self.assertEqual(self.metrics("k", "eval")[0]["top4"], 1.0)

    def test_the_best_checkpoint_may_be_of_any_metric(self):
        data, val = self.small_data(120, classes=7), self.small_data(60, "val.h5", classes=7)
        rising = self.small_data_of_other_classes(classes=7)  # where it falls the last one is the best, and always there
        for metric, best in (("val/top5", max), ("val/balanced_accuracy", max), ("val/loss", min)):
            run, field = metric.replace("/", "-"), metric.removeprefix("val/")
            self.train(1, data, run, data__val=rising if metric == "val/loss" else val, train__epochs=5,
                       train__batch_size=20, train__checkpoint__keep=1, train__checkpoint__best=metric)
            rows = self.metrics(run, "eval")
            expected = best(rows, key=lambda row: (row[field], -row["step"] if best is max else row["step"]))
            self.assertNotEqual(expected, rows[-1], metric)
            self.assertEqual(self.best_step(run), expected["step"], metric)
            self.assertTrue((self.dir / run / f"checkpoints/step-{expected['step']:08d}.h5").exists(), metric)

    def test_a_resume_with_another_schedule_warns_and_with_another_optimizer_is_refused(self):
        data = self.small_data(64)
        self.train(1, data, "run", train__max_steps=3)
        refused = self.train(1, data, "run", expect=2, optim__clip_norm=1, optim__layer_decay=0.5)
        self.assertIn("optim.layer_decay: 1 -> 0.5", refused.stderr)
        self.assertIn("optim.clip_norm: null -> 1", refused.stderr)
        result = self.train(1, data, "run", schedule__name="cosine", train__batch_size=16, train__ema=0.9)
        self.assertIn("schedule.name: constant -> cosine", result.stderr)
        self.assertIn("train.ema: null -> {decay: 0.9, warmup: false}", result.stderr)
        self.assertIn("samples per update: 8 -> 16", result.stderr)


if __name__ == "__main__":
    system_test.main()
