"""The model locator through the program: whether there is one thing in an image, and where."""

import csv
import json
import math

import system_test
from recipes import TrainingTest, png

LOCATOR = ["model.name=locator", "optim.name=adamw", "optim.momentum=0", "optim.lr=1e-3", "optim.weight_decay=1e-4", "train.batch_size=8",
           "train.heatmap_sigma=4"]
RADII = (8, 16, 24, 32)


class Locator(TrainingTest):
    def train(self, data, run="run", *more, ranks=1):
        command = [f"data.train={data}", f"data.val={data}", f"run.dir={self.dir / run}", *LOCATOR, *more]
        result = self.mpirun(ranks, command) if ranks > 1 else self.run_trainer(command)
        self.assert_exit(result, 0)
        return result

    def evaluated(self, run="run", ranks=1):
        command = ["eval", "--run", self.dir / run, "--json"]
        result = self.mpirun(ranks, command) if ranks > 1 else self.run_trainer(command)
        self.assert_exit(result, 0)
        return json.loads(result.stdout.splitlines()[-1])

    def test_it_learns_to_find_a_square_and_says_so_alike_on_any_number_of_ranks(self):
        data = self.images_with_places()
        first = self.train(data, "run", "train.epochs=12", "train.batch_size=4", "train.eval_every=4",
                           "train.checkpoint.best=val/distance")
        self.assertIn("accuracy", first.stdout)
        rows = [json.loads(line) for line in (self.dir / "run" / "metrics.jsonl").read_text().splitlines()]
        evals = [row for row in rows if row["type"] == "eval"]
        self.assertEqual([row["epoch"] for row in evals], [4, 8, 12])
        self.assertLess(evals[-1]["loss"], 0.9 * evals[0]["loss"])
        self.assertLess(evals[-1]["distance"], evals[0]["distance"])
        one, two = self.evaluated(), self.evaluated(ranks=2)
        for name in ("accuracy", "correct", "balanced_accuracy", "pod", "far", "auprc", "roc_auc", "confusion", "samples", "within"):
            self.assertEqual(one[name], two[name], name)
            self.assertEqual(one[name], evals[-1][name], name)
        for name in ("loss", "heatmap_loss", "presence_loss", "distance"):
            self.assertAlmostEqual(one[name], two[name], delta=1e-5 * max(1, one[name]))
        self.assertAlmostEqual(one["loss"], 100 * one["heatmap_loss"] + one["presence_loss"], delta=1e-6)
        # Predictions, by which the same is found by hand.
        predictions = self.dir / "out.csv"
        self.assert_exit(self.mpirun(2, ["predict", "--run", self.dir / "run", "-o", predictions]), 0)
        with predictions.open(encoding="utf-8", newline="") as file:
            table = list(csv.DictReader(file))
        self.assertEqual(list(table[0]), ["index", "path", "target_presence", "target_cx", "target_cy", "output_presence_prob",
                                          "output_presence_prob_raw", "output_presence_logit", "output_heatmap_peak", "output_x",
                                          "output_y"])
        self.assertEqual(len(table), 40)
        presence = correct = 0
        distances = []
        for row in table:
            there, logit = float(row["target_presence"]) > 0.5, float(row["output_presence_logit"])
            probability = 1 / (1 + math.exp(-logit))
            self.assertAlmostEqual(float(row["output_presence_prob_raw"]), probability, delta=1e-6)
            self.assertAlmostEqual(float(row["output_presence_prob"]), (probability + float(row["output_heatmap_peak"])) / 2,
                                   delta=1e-6)
            presence -= math.log(probability if there else 1 - probability)
            correct += (logit > 0) == there
            x, y = float(row["output_x"]), float(row["output_y"])
            self.assertEqual((x % 4, y % 4), (0, 0))
            if there:
                distances.append(math.hypot(x - float(row["target_cx"]), y - float(row["target_cy"])))
        self.assertEqual(one["correct"], correct)
        self.assertAlmostEqual(one["presence_loss"], presence / 40, delta=1e-4)
        self.assertAlmostEqual(one["distance"], sum(distances) / len(distances), delta=1e-5)
        for radius in RADII:
            self.assertAlmostEqual(one["within"][str(radius)], sum(d <= radius for d in distances) / len(distances), delta=1e-9)
        self.assert_exit(self.run_trainer(["predict", "--run", self.dir / "run", "-o", self.dir / "out.h5"]), 0)
        shown = self.run_trainer(["inspect", self.dir / "out.h5"]).stdout
        self.assertRegex(shown, r"outputs +f32 +\[40, 6\]")
        self.assertRegex(shown, r"targets +f32 +\[40, 3\]")

    def test_presence_may_be_the_mean_of_probability_and_peak_above_a_threshold(self):
        data = self.images_with_places(30)
        self.train(data, "run", "train.epochs=4", "train.presence_score=mean", "train.presence_threshold=0.35",
                   "train.checkpoint.best=val/auprc")
        out = self.dir / "out.csv"
        self.assert_exit(self.run_trainer(["predict", "--run", self.dir / "run", "-o", out]), 0)
        with out.open(encoding="utf-8", newline="") as file:
            table = [(row["target_presence"] == "1", float(row["output_presence_prob"])) for row in csv.DictReader(file)]
        # A threshold in a wide gap, so that no rounding decides.
        scores = sorted(score for _, score in table)
        gap, below = max((high - low, low) for low, high in zip(scores, scores[1:]))
        threshold = below + gap / 2
        curves = self.dir / "curves"
        result = self.mpirun(2, ["eval", "--run", self.dir / "run", "--json", "--curves", curves,
                                 f"train.presence_threshold={threshold}"])
        self.assert_exit(result, 0)
        row = json.loads(result.stdout.splitlines()[-1])
        counts = [[sum(there == label and (score > threshold) == predicted for there, score in table) for predicted in (False, True)]
                  for label in (False, True)]
        self.assertEqual(row["confusion"], counts)
        (_, false), (missed, hits) = counts
        self.assertEqual(row["correct"], counts[0][0] + hits)
        self.assertAlmostEqual(row["accuracy"], row["correct"] / 30)
        self.assertAlmostEqual(row["f1"], 2 * hits / (2 * hits + false + missed) if hits else 0)
        pairs = [(a > b) + (a == b) / 2 for there, a in table if there for not_there, b in table if not not_there]
        self.assertAlmostEqual(row["roc_auc"], sum(pairs) / len(pairs), delta=1e-9)
        with (curves / "roc_curve.csv").open(encoding="utf-8", newline="") as file:
            thresholds = [float(line["threshold"]) for line in csv.DictReader(file)][1:]
        for found, score in zip(thresholds, reversed(scores), strict=True):
            self.assertAlmostEqual(found, score, delta=1e-6)

    def test_places_may_be_the_mean_of_the_heat(self):
        data = self.images_with_places(12)
        self.train(data, "run", "train.epochs=1")
        file = self.dir / "soft.csv"
        for temperature, delta in ((1e-6, 1e-4), (1e6, 0.01)):
            self.assert_exit(self.mpirun(2, ["predict", "--run", self.dir / "run", "-o", file, f"train.soft_argmax={temperature}"]), 0)
            with file.open(encoding="utf-8", newline="") as text:
                soft = list(csv.DictReader(text))
            self.assert_exit(self.run_trainer(["predict", "--run", self.dir / "run", "-o", self.dir / "hard.csv"]), 0)
            with (self.dir / "hard.csv").open(encoding="utf-8", newline="") as text:
                hard = list(csv.DictReader(text))
            for row, other in zip(soft, hard, strict=True):
                for axis in "xy":
                    # Cold it is the greatest cell, hot the middle of the map.
                    wanted = float(other[f"output_{axis}"]) if temperature < 1 else (32 / 4 - 1) / 2 * 4
                    self.assertAlmostEqual(float(row[f"output_{axis}"]), wanted, delta=delta)
            result = self.run_trainer(["eval", "--run", self.dir / "run", "--json", f"train.soft_argmax={temperature}"])
            distances = [math.hypot(float(row["output_x"]) - float(row["target_cx"]), float(row["output_y"]) - float(row["target_cy"]))
                         for row in soft if row["target_presence"] == "1"]
            self.assertAlmostEqual(json.loads(result.stdout)["distance"], sum(distances) / len(distances), delta=1e-5)
        self.assert_exit(self.run_trainer(["eval", "--run", self.dir / "run", "train.soft_argmax=0"]), 2)

    def test_a_global_batch_gives_the_same_losses_on_two_ranks(self):
        data = self.images_with_places(24)
        settings = ["train.max_steps=3", "train.precision=fp64", "train.log_every=1"]
        self.train(data, "one", *settings)
        self.train(data, "two", *settings, "train.batch_size=4", "distributed.sync_batch_norm=true", ranks=2)
        losses = {run: [json.loads(line)["loss"] for line in (self.dir / run / "metrics.jsonl").read_text().splitlines()
                        if '"step"' in line and '"eval"' not in line and '"memory"' not in line] for run in ("one", "two")}
        self.assertEqual(len(losses["one"]), 3)
        for one, two in zip(losses["one"], losses["two"], strict=True):
            self.assertAlmostEqual(one, two, delta=1e-10 * one)

    def test_a_resnet_begins_it(self):
        data = self.images_with_places(8)
        labelled = self.dir / "labelled.h5"
        self.assert_exit(self.run_trainer(["pack", "images", "--csv", self.dir / "spots.csv", "--dir", self.dir / "spots",
                                           "--label", "presence", "-o", labelled]), 0)
        self.assert_exit(self.run_trainer([f"data.train={labelled}", "model.name=resnet18", "train.epochs=0", "train.batch_size=8",
                                           f"run.dir={self.dir / 'resnet'}"]), 0)
        result = self.train(data, "run", "train.epochs=0", f"model.init_from={self.dir / 'resnet'}")
        self.assertIn("a residual network, all but fc; decoder and head begin anew", result.stdout + result.stderr)
        weights = [self.exported(run) for run in ("resnet", "run")]
        self.assertEqual(weights[1]["backbone.layer4.1.conv2.weight"], weights[0]["layer4.1.conv2.weight"])
        result = self.train(data, "anew", "train.epochs=0", f"model.init_from={self.dir / 'resnet'}", "model.init_except=[fc, conv1]",
                            "run.seed=5")
        weights.append(self.exported("anew"))
        self.assertNotEqual(weights[2]["backbone.conv1.weight"], weights[0]["conv1.weight"])
        self.assertEqual(weights[2]["backbone.bn1.weight"], weights[0]["bn1.weight"])

    def test_places_move_with_flipped_pixels(self):
        """Flipping each image, with a fresh draw of probability 1, is training on images that were flipped before."""
        side, count = 32, 24
        spots = [(3 + (5 * i) % 25, 2 + (7 * i) % 27, i % 3 != 0) for i in range(count)]
        pixels = lambda x, y, there: [bytes(200 if there and abs(u - x) < 2 and abs(v - y) < 2 else 9 + (u + 2 * v) % 30
                                            for u in range(side)) for v in range(side)]
        for name, flipped in (("plain", lambda x, y: (x, y)), ("sideways", lambda x, y: (side - 1 - x, y)),
                              ("upside", lambda x, y: (x, side - 1 - y))):
            folder = self.dir / name
            folder.mkdir()
            rows = []
            for i, (x, y, there) in enumerate(spots):
                image = pixels(x, y, there)
                if name == "sideways":
                    image = [row[::-1] for row in image]
                if name == "upside":
                    image = image[::-1]
                (folder / f"{i}.png").write_bytes(png(side, side, image))
                rows.append(f"{i}.png,{int(there)},{','.join(map(str, flipped(x, y)))}")
            (self.dir / f"{name}.csv").write_text("path,presence,cx,cy\n" + "\n".join(rows) + "\n")
            self.assert_exit(self.run_trainer(["pack", "images", "--csv", self.dir / f"{name}.csv", "--dir", folder, "--target",
                                               "presence,cx,cy", "-o", f"{name}.h5"]), 0)

        def losses(name, ranks, *settings):
            run = self.dir / f"run{len(list(self.dir.glob('run*')))}"
            result = self.mpirun(ranks, [f"data.train={self.dir / name}.h5", *LOCATOR, *settings, "train.max_steps=2",
                                         f"train.batch_size={8 // ranks}", "train.log_every=1", "train.precision=fp64",
                                         "distributed.sync_batch_norm=true", f"run.dir={run}"])
            self.assert_exit(result, 0)
            return [row["loss"] for row in self.metrics(run, "step")]

        def assert_close(a, b):
            for x, y in zip(a, b, strict=True):
                self.assertAlmostEqual(x, y, delta=1e-9 * abs(x))

        plain = losses("plain", 1)
        for kind, name in (("horizontal_flip", "sideways"), ("vertical_flip", "upside")):
            flipped = losses("plain", 1, f"data.transforms=[{{{kind}: {{p: 1}}}}]")
            assert_close(flipped, losses(name, 1))
            self.assertNotAlmostEqual(flipped[0], plain[0], delta=1e-5 * plain[0])
        half = [losses("plain", ranks, "data.transforms=[horizontal_flip, vertical_flip]") for ranks in (1, 2)]
        assert_close(*half)
        self.assertNotAlmostEqual(half[0][0], plain[0], delta=1e-5 * plain[0])

    def test_what_does_not_fit_is_refused(self):
        data = self.images_with_places(24)
        two = self.dir / "two.h5"
        self.assert_exit(self.run_trainer(["pack", "images", "--csv", self.dir / "spots.csv", "--dir", self.dir / "spots",
                                           "--target", "cx,cy", "-o", two]), 0)
        small = self.dir / "small.h5"
        self.assert_exit(self.run_trainer(["pack", "images", "--csv", self.dir / "spots.csv", "--dir", self.dir / "spots",
                                           "--target", "cx,cy", "--size", 16, "-o", small]), 0)
        flip = ["model.name=mlp", "train.batch_size=4", "train.max_steps=1", "data.transforms=[horizontal_flip]"]
        self.assert_exit(self.run_trainer([f"data.train={two}", *flip, f"run.dir={self.dir / 'flipped'}"]), 0)
        odd = self.images_with_places(16, side=20, name="odd")
        for settings, code, said in (
                ([f"data.train={two}", *LOCATOR], 2, "learns from three targets, presence, x and y, but"),
                ([f"data.train={small}", *flip], 4, "outside of its 16 pixels, so a flip (data.transforms) cannot move it"),
                ([f"data.train={odd}", *LOCATOR], 2, "sides are multiples of 32, but the data have 20 rows"),
                ([f"data.train={data}", *LOCATOR, "data.transforms=[horizontal_flip, {random_crop: {size: 16}}]"], 2,
                 "{random_crop: {size: 16, padding: 0}} moves pixels, but"),
                ([f"data.train={data}", *LOCATOR, "train.confusion=true"], 2, "presence and place"),
                ([f"data.train={data}", *LOCATOR, "model.classes=2"], 2, "model.classes"),
                ([f"data.train={data}", *LOCATOR, "train.heatmap_weight=0", "train.presence_weight=0"], 2, "nothing would be learned"),
                ([f"data.train={data}", "train.loss=location"], 2, "only the model locator says places")):
            result = self.mpirun(2, [*settings, f"run.dir={self.dir / 'refused'}"])
            self.assert_exit(result, code)
            self.assertIn(said, result.stderr)
        self.assertFalse((self.dir / "refused").exists())


if __name__ == "__main__":
    system_test.main()
