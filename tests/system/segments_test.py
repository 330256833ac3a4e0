"""The model temporal_transformer through the program: which segments of a sequence are worth showing."""

import csv
import json
import math

import system_test
from recipes import TrainingTest
from sequences import packing, write_videos

MODEL = ["model.name=temporal_transformer", "model.dim=16", "model.depth=1", "model.heads=2", "optim.name=adam", "optim.momentum=0",
         "optim.lr=3e-3", "train.batch_size=4", "train.segments.per_minute=2",
         "train.segments.min_score=0.5"]
CROSS = ["model.fusion=cross", "model.features=[2, 2, 1]", "model.text_depth=1", "model.cross_depth=1"]
IOUS = (0.5, 0.6, 0.7, 0.8, 0.9)


def iou(a, b):
    both = min(a[1], b[1]) - max(a[0], b[0])
    return both / (a[1] - a[0] + b[1] - b[0] - both) if both > 0 else 0


def precisions(told, wanted):
    """Of one sample, for each of IOUS."""
    result = []
    for least in IOUS:
        left, right = list(wanted), 0
        for segment in told:
            best = max(left, key=lambda other: iou(segment, other), default=None)
            if best is not None and iou(segment, best) >= least:
                left.remove(best)
                right += 1
        result.append(right / len(told) if told else 0)
    return result


class Segments(TrainingTest):
    def packed(self, count=13, *more):
        parts = write_videos(self.dir, count)
        target = self.dir / "sequences.h5"
        self.assert_exit(self.run_trainer(packing(self.dir, target, *more)), 0)
        return target, parts

    def evals(self, run):
        rows = [json.loads(line) for line in (self.dir / run / "metrics.jsonl").read_text().splitlines()]
        return [row for row in rows if row["type"] == "eval"]

    def evaluated(self, run, *more, ranks=1):
        command = ["eval", "--run", self.dir / run, "--json", *more]
        result = self.mpirun(ranks, command) if ranks > 1 else self.run_trainer(command)
        self.assert_exit(result, 0)
        return json.loads(result.stdout.splitlines()[-1])

    def test_it_learns_to_find_them_and_says_so_alike_on_any_number_of_ranks(self):
        data, parts = self.packed()
        result = self.run_trainer([f"data.train={data}", f"data.val={data}", f"run.dir={self.dir / 'run'}", *MODEL,
                                   "train.epochs=60", "train.eval_every=20", "train.checkpoint={best: val/atiou, every: 60 epochs}"])
        self.assert_exit(result, 0)
        self.assertRegex(result.stdout.splitlines()[-1], r"^test AtIoU \d\.\d{4} \(13 samples\)$")
        self.assertRegex(result.stdout + result.stderr, r"AtIoU \d\.\d{4} \(12 of 13 samples have segments\)")
        evals = self.evals("run")
        self.assertEqual([row["epoch"] for row in evals], [20, 40, 60])
        self.assertLess(evals[-1]["loss"], evals[0]["loss"])
        self.assertGreater(evals[-1]["precision"]["0.5"], 0.5)
        self.assertEqual(sum(map(sum, evals[-1]["confusion"])), sum(part["timeRange"][1] for part in parts))
        one, two = self.evaluated("run"), self.evaluated("run", ranks=2)
        for name in ("with_segments", "predicted", "balanced_accuracy", "pod", "far", "confusion", "samples"):
            self.assertEqual(one[name], two[name], name)
            self.assertEqual(one[name], evals[-1][name], name)
        for name in ("loss", "atiou"):
            self.assertAlmostEqual(one[name], two[name], delta=1e-6)
            self.assertAlmostEqual(one[name], evals[-1][name], delta=1e-6)
        self.check_predictions(parts, one)
        text = self.run_trainer(["eval", "--run", self.dir / "run"])
        self.assertIn(f"test AtIoU {one['atiou']:.4f} (13 samples)", text.stdout)
        self.assertEqual(self.evaluated("run", "train.segments.threshold=1")["predicted"], 0)

    def check_predictions(self, parts, measured):
        """The same metrics from the predictions and the list."""
        table = self.dir / "out.csv"
        self.assert_exit(self.mpirun(2, ["predict", "--run", self.dir / "run", "-o", table]), 0)
        with table.open(encoding="utf-8", newline="") as file:
            rows = list(csv.DictReader(file))
        most = math.ceil(2 * max(part["timeRange"][1] for part in parts) / 60)
        self.assertEqual(list(rows[0]), ["index", "path", "output_segments"] +
                         [f"output_{what}_{k}" for k in range(most) for what in ("begin", "end", "score")])
        self.assertEqual([row["path"] for row in rows], [part["youtube_id"] for part in parts])
        sums, having, told_in_all = [0.0] * 5, 0, 0
        for row, part in zip(rows, parts, strict=True):
            count = int(float(row["output_segments"]))
            told = [tuple(float(row[f"output_{what}_{k}"]) for what in ("begin", "end")) for k in range(count)]
            scores = [float(row[f"output_score_{k}"]) for k in range(count)]
            self.assertEqual(scores, sorted(scores, reverse=True))
            self.assertTrue(all(row[f"output_begin_{k}"] == "nan" for k in range(count, most)))
            told_in_all += count
            for begin, end in told:
                self.assertTrue(0 <= begin and end <= part["timeRange"][1] and 10 <= end - begin <= 90, (begin, end))
            if part["segments"]:
                having += 1
                sums = [a + b for a, b in zip(sums, precisions(told, part["segments"]))]
        self.assertEqual((having, told_in_all), (measured["with_segments"], measured["predicted"]))
        for least, total in zip(IOUS, sums):
            self.assertAlmostEqual(measured["precision"][str(least)], total / having, delta=1e-6)
        self.assertAlmostEqual(measured["atiou"], sum(sums) / having / 5, delta=1e-6)

    def test_both_fusions_have_the_same_losses_on_two_ranks(self):
        data, _ = self.packed(8)
        for name, more in (("early", []), ("cross", CROSS)):
            settings = [f"data.train={data}", *MODEL, *more, "train.max_steps=3", "train.precision=fp64", "train.log_every=1"]
            losses = []
            for ranks in (1, 2):
                run = self.dir / f"{name}{ranks}"
                result = self.mpirun(ranks, [*settings, f"train.batch_size={8 // ranks}", f"run.dir={run}"])
                self.assert_exit(result, 0)
                losses.append(self.losses(f"{name}{ranks}"))
                self.assertEqual(len(losses[-1]), 3)
            for one, two in zip(*losses, strict=True):
                self.assertAlmostEqual(one, two, delta=1e-11 * one)

    def test_padding_changes_nothing(self):
        losses = []
        for length in ([], ["--length", 90]):
            data, _ = self.packed(4, *length)
            run = self.dir / f"run{len(losses)}"
            result = self.run_trainer([f"data.train={data}", f"data.val={data}", f"run.dir={run}", *MODEL, *CROSS, "train.epochs=3",
                                       "train.precision=fp64", "train.log_every=1", "train.segments.threshold=0.01",
                                       "train.segments.min_score=0", "train.segments.shortest=0"])
            self.assert_exit(result, 0)
            losses.append((self.losses(run.name), self.evals(run.name)[-1]))
            data.unlink()
        for one, two in zip(losses[0][0], losses[1][0], strict=True):
            self.assertAlmostEqual(one, two, delta=1e-11 * one)
        short, long = losses[0][1], losses[1][1]
        self.assertGreater(short["predicted"], 4)
        for name in ("predicted", "confusion", "with_segments"):
            self.assertEqual(short[name], long[name], name)
        self.assertAlmostEqual(short["atiou"], long["atiou"], delta=1e-9)

    def test_data_without_segments_are_predicted(self):
        data, parts = self.packed(4)
        self.assert_exit(self.run_trainer([f"data.train={data}", f"run.dir={self.dir / 'run'}", *MODEL, "train.epochs=1"]), 0)
        bare = self.dir / "bare.h5"
        self.assert_exit(self.run_trainer(packing(self.dir, bare, "--no-labels")), 0)
        for name, source in (("known", data), ("bare", bare)):
            predict = ["predict", "--run", self.dir / "run", "--data", source, "-o", self.dir / f"{name}.csv"]
            self.assert_exit(self.run_trainer(predict), 0)
        self.assertEqual((self.dir / "known.csv").read_text(), (self.dir / "bare.csv").read_text())
        result = self.run_trainer(["eval", "--run", self.dir / "run", "--data", bare])
        self.assert_exit(result, 4)
        self.assertEqual(len((self.dir / "bare.csv").read_text().splitlines()), 1 + len(parts))

    def test_other_lengths_are_evaluated_and_told_alike(self):
        data, _ = self.packed(8)
        self.assert_exit(self.run_trainer([f"data.train={data}", f"run.dir={self.dir / 'run'}", *MODEL, "train.epochs=20"]), 0)
        longer = self.dir / "longer.h5"
        self.assert_exit(self.run_trainer(packing(self.dir, longer, "--length", 100)), 0)
        one, other = (self.evaluated("run", "--data", file) for file in (data, longer))
        for name in ("confusion", "predicted", "with_segments"):
            self.assertEqual(one[name], other[name], name)
        self.assertAlmostEqual(one["atiou"], other["atiou"], delta=1e-6)
        predict = ["predict", "--run", self.dir / "run", "--data", longer, "-o", self.dir / "out.csv"]
        self.assert_exit(self.run_trainer(predict), 0)

    def test_a_finished_run_is_evaluated_again_where_segments_are_told_otherwise(self):
        data, _ = self.packed(8)
        settings = [f"data.train={data}", f"data.val={data}", f"run.dir={self.dir / 'run'}", *MODEL, "train.epochs=30",
                    "train.eval_every=30", "train.checkpoint.best=val/atiou"]
        first = self.run_trainer(settings)
        again = self.run_trainer([*settings, "train.segments.threshold=0.999999"])
        for result in (first, again):
            self.assert_exit(result, 0)
        self.assertGreater(self.evals("run")[0]["predicted"], 0)
        self.assertEqual(self.evals("run")[-1]["predicted"], 0)
        self.assertEqual(again.stdout.splitlines()[-1], "test AtIoU 0.0000 (8 samples)")
        self.assertIn("train.segments.threshold: 0.5 -> 0.999999", again.stderr)

    def test_what_does_not_fit_is_refused(self):
        data, _ = self.packed(8)
        labelled = self.small_data(24)
        for settings, code, said in (
                ([f"data.train={labelled}", *MODEL], 2, "learns from sequences and their segments, but"),
                ([f"data.train={data}", "model.name=mlp", "train.batch_size=4"], 2, "only the model temporal_transformer tells"),
                ([f"data.train={data}", *MODEL, "model.features=[2, 2]"], 2, "has 4 features of a second, but the data have 5"),
                ([f"data.train={data}", *MODEL, "model.fusion=cross"], 2, "model.fusion is cross, but model.features has 0 widths"),
                ([f"data.train={data}", *MODEL, "model.heads=3"], 2, "3 heads cannot share"),
                ([f"data.train={data}", *MODEL, "model.classes=2"], 2, "says segments, and no classes"),
                ([f"data.train={data}", *MODEL, "train.confusion=true"], 2, "says segments"),
                ([f"data.train={data}", *MODEL, "train.checkpoint.best=val/accuracy", f"data.val={data}"], 2,
                 "give val/loss, val/atiou"),
                ([f"data.train={data}", *MODEL, "train.focal_weight=0", "train.offset_weight=0"], 2, "nothing would be learned"),
                ([f"data.train={data}", *MODEL, "train.segments.shortest=100"], 2, "train.segments.shortest 100 is above longest 90"),
                ([f"data.train={labelled}", "train.loss=segments"], 2, "only the model temporal_transformer says segments"),
                ([f"data.train={labelled}", f"data.val={labelled}", "train.checkpoint.best=val/atiou", "train.batch_size=4"], 2,
                 "temporal_transformer alone")):
            with self.subTest(settings=settings):
                result = self.mpirun(2, [*settings, f"run.dir={self.dir / 'refused'}"])
                self.assert_exit(result, code)
                self.assertEqual(result.stderr.count("error:"), 1)
                self.assertIn(said, result.stderr)
        narrow, none = self.dir / "narrow.h5", self.dir / "none.h5"
        self.assert_exit(self.run_trainer(["pack", "features", "--sequences", "--labels", self.dir / "list.json", "--features",
                                           self.dir / "text", "-o", narrow]), 0)
        (self.dir / "list.json").write_text(json.dumps([{"youtube_id": "v0", "timeRange": [0, 40], "segments": []}] * 4))
        self.assert_exit(self.run_trainer(packing(self.dir, none, "--length", 70)), 0)
        for settings, said in (([f"data.val={narrow}"], "pack both with the same --features"),
                               ([f"data.val={none}", "train.checkpoint.best=val/atiou"], "no sample of data.val")):
            result = self.mpirun(2, [f"data.train={data}", *MODEL, *settings, f"run.dir={self.dir / 'refused'}"])
            self.assert_exit(result, 4)
            self.assertIn(said, result.stderr)
        self.assert_exit(self.run_trainer([f"data.train={data}", *MODEL, "train.epochs=0", f"run.dir={self.dir / 'run'}"]), 0)
        for more, said in ((["--no-logits"], "the outputs of the model temporal_transformer are its predictions"),
                           (["--embeddings"], "last linear layer is of each token")):
            result = self.run_trainer(["predict", "--run", self.dir / "run", "--data", data, "-o", self.dir / "o.csv", *more])
            self.assert_exit(result, 2)
            self.assertIn(said, result.stderr)


if __name__ == "__main__":
    system_test.main()
