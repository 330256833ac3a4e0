"""model.freeze and model.freeze_except: weights that stay as they are, on any number of ranks."""

import json

import system_test
from recipes import TrainingTest

FC3 = {"model__hidden": "[16,12]", "model__freeze_except": "[fc3]"}


class Freeze(TrainingTest):
    def setUp(self):
        super().setUp()
        self.data = self.small_data(96)

    def train(self, run, ranks=1, expect=0, model=(), **overrides):
        settings = self.settings(self.data, run, **{"train__log_every": 1, "train__epochs": 2, **overrides}) + list(model)
        result = self.mpirun(ranks, settings) if ranks > 1 else self.run_trainer(settings)
        self.assert_exit(result, expect)
        return result

    def assert_same_losses(self, run, other, tolerance=1e-12):
        for one, two in zip(self.losses(run), self.losses(other), strict=True):
            self.assertAlmostEqual(one, two, delta=tolerance * abs(one), msg=f"{run} and {other}")

    def frozen_and_changed(self, first, run):
        """The names of weights that a run has kept to the bit from the beginning, and of the others."""
        before, after = self.exported(first), self.exported(run)
        self.assertEqual(before.keys(), after.keys())
        kept = {name for name in before if before[name] == after[name]}
        return kept, before.keys() - kept

    def test_what_is_frozen_keeps_every_bit_and_the_rest_trains_alike_on_any_number_of_ranks(self):
        common = {**FC3, "train__precision": "fp64", "optim__momentum": 0.9, "optim__weight_decay": 0.01}
        self.assert_exit(self.begin(self.data, "first", **common), 0)
        for ranks, strategy in ((1, "ddp"), (2, "ddp"), (2, "zero1"), (3, "ddp"), (4, "zero1")):
            run = f"{strategy}{ranks}"
            result = self.train(run, ranks, train__batch_size=12 // ranks, distributed__strategy=strategy, **common)
            self.assertIn("1296 parameters (1244 of them frozen)", result.stderr + result.stdout)
            self.assertEqual(result.stderr.count("without model.init_from what is frozen keeps the random values"), 1)
            self.assertEqual(self.frozen_and_changed("first", run)[1], {"fc3.weight", "fc3.bias"})
            self.assert_same_losses("ddp1", run)
        # layer_decay: 0 trains the last layer alone, too, another way: all gradients are computed and sent.
        self.train("decay", **{**common, "model__freeze_except": "[]"}, optim__layer_decay=0, train__batch_size=12)
        self.assert_same_losses("ddp1", "decay")

    def test_layers_between_may_be_frozen(self):
        common = {"model__hidden": "[16,12]", "train__precision": "fp64", "optim__name": "adamw", "optim__momentum": 0, "train__ema": 0.9,
                  "optim__clip_norm": 0.5, "train__accumulate": 2}
        self.assert_exit(self.begin(self.data, "first", **common), 0)
        for ranks in 1, 2:
            self.train(f"run{ranks}", ranks, model__freeze="[fc2,fc1.bias]", train__batch_size=8 // ranks, **common)
            kept, changed = self.frozen_and_changed("first", f"run{ranks}")
            self.assertEqual(kept, {"fc2.weight", "fc2.bias", "fc1.bias"})
            self.assertEqual(changed, {"fc1.weight", "fc3.weight", "fc3.bias"})
        self.assert_same_losses("run1", "run2")

    def test_a_resume_has_the_same_bits_and_the_same_frozen_weights(self):
        for settings in ({}, {"run__deterministic": "true", "run__virtual_shards": 2}, {"distributed__strategy": "zero1"}):
            with self.subTest(**settings):
                common = {**FC3, "optim__name": "adam", "optim__momentum": 0, "optim__lr": 0.01, "train__ema": 0.9, "train__batch_size": 8,
                          "distributed__verify_every": 1, **settings}
                name = "".join(str(value) for value in settings.values())
                self.train(f"whole{name}", 2, **common)
                self.train(f"parts{name}", 2, train__max_steps=7, **common)
                self.train(f"parts{name}", 2, **common)
                self.assertEqual(self.outcome(f"whole{name}"), self.outcome(f"parts{name}"))
        refused = self.train("parts", 2, 2, **{**common, "model__freeze_except": "[fc2,fc3]"})
        self.assertIn("model.freeze_except: [fc3] -> [fc2, fc3]", refused.stderr)

    def test_evaluations_and_a_second_run_begin_with_all_of_the_weights(self):
        self.train("head", model__freeze_except="[fc2]", train__ema=0.5)
        for arguments in (["eval", "--json"], ["predict", "-o", self.dir / "out.csv"]):
            result = self.run_trainer([*arguments, "--run", self.dir / "head", "--data", self.data])
            self.assert_exit(result, 0)
        result = self.begin(self.data, "all", model__init_from=self.dir / "head", model__freeze="[fc1]")
        self.assert_exit(result, 0)
        self.assertNotIn("random values", result.stderr)
        head = self.dir / "head.h5"
        self.assert_exit(self.run_trainer(["export", self.dir / "head", "-o", head]), 0)
        self.assert_exit(self.begin(self.data, "exported", model__init_from=head), 0)
        first, second = self.exported("all"), self.exported("exported")
        # One has the weights, the other their average: of what is frozen that is the same.
        self.assertEqual({name for name in first if first[name] == second[name]}, {"fc1.weight", "fc1.bias"})

    def test_a_head_that_begins_anew_and_is_frozen_is_warned_of(self):
        self.assert_exit(self.begin(self.data, "first"), 0)
        said = "warning: what begins anew and is frozen keeps the random values that it begins with, here fc2; "
        for run, settings, remedy in (("one", {"model__freeze": "[fc2]"}, "leave it out of model.freeze"),
                                      ("two", {"model__freeze_except": "[fc1]"}, "name it in model.freeze_except"),
                                      ("right", {"model__freeze_except": "[fc2]"}, None)):
            result = self.begin(self.data, run, 2, model__init_from=self.dir / "first", model__init_except="[fc2]", **settings)
            self.assert_exit(result, 0)
            self.assertEqual(result.stderr.count(said + (remedy or "")), int(remedy is not None), result.stderr)
            resumed = self.train(run, train__batch_size=16, model__init_from=self.dir / "first", model__init_except="[fc2]", **settings)
            self.assertNotIn("random values", resumed.stderr)

    def test_names_of_nothing_and_contradictions_are_refused(self):
        for settings, said in (({"model__freeze": "[fc1,fc7]"}, "model.freeze: fc7 names no weights of the model; did you mean fc1?"),
                               ({"model__freeze": "[fc1,fc2]"}, "model.freeze leaves nothing to train"),
                               ({"model__freeze": "[fc1]", "model__freeze_except": "[fc2]"}, "given together with model.freeze"),
                               ({"train__freeze": "true"}, "model.freeze")):
            with self.subTest(**settings):
                for ranks in 1, 2:
                    result = self.train("none", ranks, 2, **settings)
                    self.assertIn(said, result.stderr)
        self.assertFalse((self.dir / "none").exists())

    def test_inspect_and_benches_count_what_is_trained(self):
        config = self.dir / "c.yaml"
        config.write_text(f"data: {{train: {self.data}}}\nmodel: {{hidden: [16, 12], freeze_except: [fc3]}}\n")
        result = self.run_trainer(["inspect", "-c", config])
        self.assert_exit(result, 0)
        self.assertIn("1244 parameters are frozen", result.stdout)
        self.assertRegex(result.stdout, r"(?m)^  fc1 .* 0\.000  frozen$")
        self.assertRegex(result.stdout, r"(?m)^ +0 +\S+ (B|KiB)  fc3\.bias \.\. fc3\.weight$")
        result = self.mpirun(2, ["bench", "buckets", "-c", config, "--steps", 2, "--bucket-mb", 1, "--out", self.dir / "bench",
                                 "train.batch_size=8"])
        self.assert_exit(result, 0)
        report = json.loads((self.dir / "bench/buckets.json").read_text())
        self.assertIn("fc3", json.dumps(report))
        self.assertNotIn("fc1.weight", json.dumps(report))
        self.assert_exit(self.run_trainer(["plan", "--from", self.dir / "bench/buckets.json", "--world", "2,4"]), 0)
        result = self.run_trainer(["bench", "step", "-c", config, "--steps", 2, "--out", self.dir / "step"])
        self.assert_exit(result, 0)

    def test_running_statistics_follow_the_data(self):
        layers = ["model.hidden=null", "model.name=null",
                  "model.layers=[{conv2d: {out: 4, kernel: 3}}, {batch_norm2d: {}}, relu, flatten, {linear: {out: 4}}]"]
        self.assert_exit(self.begin(self.data, "first", model=layers), 0)
        self.train("run", 2, model=[*layers, "model.freeze=['0','1']"])
        kept, changed = self.frozen_and_changed("first", "run")
        self.assertEqual(kept, {"0.weight", "0.bias", "1.weight", "1.bias"})
        self.assertEqual(changed, {"1.running_mean", "1.running_var", "1.num_batches_tracked", "4.weight", "4.bias"})

    def test_running_statistics_stay_where_they_shall(self):
        layers = ["model.hidden=null", "model.name=null",
                  "model.layers=[{conv2d: {out: 4, kernel: 3}}, {batch_norm2d: {}}, relu, {conv2d: {out: 4, kernel: 3}}, "
                  "{batch_norm2d: {}}, relu, flatten, {linear: {out: 4}}]"]
        freeze = [*layers, "model.freeze=['0','1','4']", "model.freeze_statistics=true"]
        # A run that is begun, so that there are statistics to keep.
        self.train("first", model=layers, train__precision="fp64")
        for run, ranks, settings in (("one", 1, {}), ("two", 2, {}), ("synchronized", 2, {"distributed__sync_batch_norm": "true"}),
                                     ("zero1", 2, {"distributed__strategy": "zero1"}),
                                     ("bits", 2, {"run__deterministic": "true", "run__virtual_shards": 2})):
            self.train(run, ranks, model=freeze, model__init_from=self.dir / "first", train__precision="fp64",
                       train__batch_size=12 // ranks, **settings)
            self.assertEqual(self.frozen_and_changed("first", run)[1], {"3.weight", "3.bias", "7.weight", "7.bias"})
            self.assert_same_losses("one", run)
        # Where none follows the batch it may be of one sample of one pixel.
        pixel = ["model.hidden=null", "model.name=null",
                 "model.layers=[flatten, {linear: {out: 4}}, {batch_norm2d: {}}, {linear: {out: 4}}]"]
        refused = self.train("pixel", expect=2, model=pixel, train__batch_size=1)
        self.assertIn("batch norm of layer 2 would see one value of each channel", refused.stderr)
        self.train("pixel", model=[*pixel, "model.freeze=['2']", "model.freeze_statistics=true"], train__batch_size=1,
                   train__epochs=1)
        refused = self.train("pixels", expect=2, model=[*layers, "model.freeze_statistics=true"])
        self.assertIn("model.freeze_statistics: no weights are frozen", refused.stderr)
        refused = self.train("pixels", expect=2, model=[*layers, "model.freeze=['0']", "model.freeze_statistics=true"])
        self.assertIn("model.freeze_statistics: no batch norm of the model is frozen", refused.stderr)


if __name__ == "__main__":
    system_test.main()
