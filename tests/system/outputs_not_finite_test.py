"""Outputs that are not finite predict no class, are told, and never count as right; weights that are not are not saved."""

import csv
import json
import math
import struct

import system_test
from recipes import MLP, TrainingTest, write_safetensors
from sequences import packing, write_videos


class OutputsNotFinite(TrainingTest):
    """The biases of the weights are NaN, and so are outputs of every sample."""

    def diverged(self, data, settings=MLP):
        """Arguments that name such weights."""
        run = self.dir / f"run_{data.stem}"
        self.assert_exit(self.run_trainer([f"data.train={data}", f"run.dir={run}", *settings, "train.epochs=0"]), 0)
        path = run.with_suffix(".safetensors")
        self.assert_exit(self.run_trainer(["export", run, "-o", path]), 0)
        raw = bytearray(path.read_bytes())
        (length,) = struct.unpack_from("<Q", raw)
        header = json.loads(raw[8:8 + length])
        for name in [name for name in header if name.endswith("bias")]:
            begin, end = (8 + length + offset for offset in header[name]["data_offsets"])
            raw[begin:end] = struct.pack("<f", math.nan) * ((end - begin) // 4)
        path.write_bytes(raw)
        return ["-c", run / "config.yaml", "--checkpoint", path, "--data", data]

    def evaluated(self, ranks, arguments):
        result = self.mpirun(ranks, ["eval", *arguments])
        self.assert_exit(result, 0)
        return result

    def test_no_sample_is_right_on_any_number_of_ranks(self):
        data = self.small_data(41)
        weights = self.diverged(data)
        warning = ("the outputs of 41 of 41 samples are not finite, which is never right: the weights have diverged, or the data "
                   "are at fault; train with a lower optim.lr or with optim.clip_norm, or check the data")
        for ranks in 1, 2, 3:
            with self.subTest(ranks=ranks):
                result = self.evaluated(ranks, [*weights, "--json", "train.confusion=true", "train.topk=4"])
                row = json.loads(result.stdout)
                self.assertEqual([row[key] for key in ("not_finite", "correct", "accuracy", "top4", "balanced_accuracy", "samples")],
                                 [41, 0, 0, 0, 0, 41])
                self.assertEqual(row["confusion"], [[0] * 4] * 4)
                self.assertEqual(result.stderr.count(f"warning: {data}: {warning}"), 1, result.stderr)
        self.assertIn("test accuracy 0.0000 (0 of 41)", self.evaluated(1, weights).stdout)

    def test_predictions_name_no_class(self):
        data = self.small_data(41)
        weights = self.diverged(data)
        for ranks, file in (1, "one.csv"), (2, "two.csv"), (1, "out.h5"):
            result = self.mpirun(ranks, ["predict", *weights, "-o", self.dir / file])
            self.assert_exit(result, 0)
            self.assertIn("accuracy 0.0000 (0 of 41)", result.stdout)
            self.assertIn("the outputs of 41 of 41 samples are not finite", result.stderr)
        with (self.dir / "one.csv").open(encoding="utf-8") as file:
            self.assertEqual({row["prediction"] for row in csv.DictReader(file)}, {"-1"})
        self.assertEqual((self.dir / "one.csv").read_text(), (self.dir / "two.csv").read_text())
        self.assertRegex(self.run_trainer(["inspect", self.dir / "out.h5"]).stdout, r"correct +0\n")

    def test_a_training_that_diverges_in_its_last_update_says_so(self):
        data = self.small_data(64)
        result = self.run_trainer(self.settings(data, data__val=data, train__max_steps=1, optim__lr=1e30))
        self.assert_exit(result, 0)
        (row,) = self.metrics("run", "eval")
        self.assertGreater(row["not_finite"], 0)
        self.assertIn(f"warning: epoch 1: validation: the outputs of {row['not_finite']} of 64 samples are not finite", result.stderr)
        fine = self.run_trainer(self.settings(data, "fine", data__val=data, train__max_steps=1))
        self.assertNotIn("finite,", fine.stderr)
        self.assertNotIn("not_finite", self.metrics("fine", "eval")[0])

    def test_of_numbers_and_places_the_samples_are_counted_too(self):
        numbers, places = self.numbers_with_targets(40), self.images_with_places(30)
        of_numbers, of_places = self.diverged(numbers), self.diverged(places, ["model.name=locator", "train.batch_size=8"])
        row = json.loads(self.evaluated(2, [*of_numbers, "--json"]).stdout)
        self.assertEqual((row["not_finite"], row["rmse"], row["samples"]), (40, None, 40))
        row = json.loads(self.evaluated(2, [*of_places, "--json"]).stdout)
        # Neither present nor absent: an absence that was guessed would be right for ten of them.
        self.assertEqual((row["not_finite"], row["correct"], row["confusion"], row["distance"]), (30, 0, [[0, 0], [0, 0]], None))
        for weights, count in (of_numbers, 40), (of_places, 30):
            result = self.mpirun(2, ["predict", *weights, "-o", self.dir / f"{count}.csv"])
            self.assert_exit(result, 0)
            self.assertIn(f"the outputs of {count} of {count} samples are not finite", result.stderr)

    def test_so_are_sequences_whose_seconds_say_nothing(self):
        write_videos(self.dir, 7)
        data = self.dir / "sequences.h5"
        self.assert_exit(self.run_trainer(packing(self.dir, data)), 0)
        weights = self.diverged(data, ["model.name=temporal_transformer", "model.dim=16", "model.depth=1", "model.heads=2",
                                       "train.batch_size=4"])
        row = json.loads(self.evaluated(2, [*weights, "--json"]).stdout)
        self.assertEqual((row["not_finite"], row["predicted"], row["balanced_accuracy"]), (7, 0, 0))
        self.assertEqual(row["confusion"], [[0, 0], [0, 0]])


class NotSaved(TrainingTest):
    """State that is not finite ends the run and is in no checkpoint."""

    def refused(self, ranks, data, what, expected=(), **settings):
        result = self.mpirun(ranks, self.settings(data, **settings))
        self.assert_exit(result, 1)
        self.assertRegex(result.stderr, f"{what} holds values that are not finite; no checkpoint was written; lower")
        self.assertEqual([path.name for path in (self.dir / "run/checkpoints").glob("*")], list(expected))

    def test_weights(self):
        for ranks in (1, 2):
            self.refused(ranks, self.small_data(64), r"step 1: fc\d\.\w+", optim__lr=1e300, train__max_steps=1)

    def test_state_of_the_optimizer(self):
        # The gradients fit f32, their squares do not; an infinite second moment leaves the weights as they are.
        self.refused(1, self.small_data(64), r"the optimizer's \S+", optim__name="adam", optim__momentum=0,
                     data__normalize="{mean: [0], std: [1e-25]}")

    def test_averaged_weights(self):
        # Of a column that is 0 the weights only decay. With momentum they swing to the other side, from 1.5e38 after
        # the first update to -2.2e38 after the third: further from the average than f32 reaches.
        (self.dir / "table.csv").write_text("zero,x,label\n" + "".join(f"0,{i % 4},{i % 2}\n" for i in range(24)))
        data = self.dir / "table.h5"
        self.assert_exit(self.run_trainer(["pack", "csv", "--csv", "table.csv", "--label", "label", "-o", data]), 0)
        self.assert_exit(self.begin(data, "new"), 0)
        weights = self.exported("new")
        shape, values = weights["fc1.weight"]
        large = struct.pack("<f", 3e38)
        weights["fc1.weight"] = shape, b"".join(large + values[at + 4:at + 8] for at in range(0, len(values), 8))
        write_safetensors(self.dir / "swinging.safetensors", weights)
        self.refused(1, data, r"step 3: the averaged fc1\.weight", ["step-00000002.h5"], train__ema=0.99,
                     optim__momentum=0.9, optim__weight_decay=0.5, optim__lr=1,
                     model__init_from=self.dir / "swinging.safetensors", train__checkpoint__every="2 steps",
                     data__normalize="{mean: [0], std: [1]}")


if __name__ == "__main__":
    system_test.main()
