"""distributed.compress: gradients travel as bf16; the same weights on all ranks, a loss that falls as with fp32."""

import json
import re
import struct

import system_test
from recipes import TrainingTest, write_safetensors

STEPS = {"train__epochs": 4, "train__log_every": 1, "train__batch_size": 8}


class Compress(TrainingTest):
    def train(self, ranks, run, compress="bf16", env=None, **overrides):
        return self.mpirun(ranks, self.settings(self.data(), run, **{**STEPS, "distributed__compress": compress,
                                                                     **overrides}), env=env)

    def data(self):
        path = self.dir / "data.h5"
        return path if path.exists() else self.small_data(240)

    def test_the_loss_falls_as_with_fp32_and_all_ranks_hold_the_same_bits(self):
        for ranks in (2, 3, 4):
            for compress in ("none", "bf16"):
                result = self.train(ranks, f"{compress}{ranks}", compress, distributed__verify_every=1)
                self.assert_exit(result, 0)
            plain, rounded = self.losses(f"none{ranks}"), self.losses(f"bf16{ranks}")
            self.assertEqual(plain[0], rounded[0])  # before the first gradient
            self.assertNotEqual(plain, rounded)
            self.assertLess(rounded[-1], rounded[0] / 4)
            for one, other in zip(plain, rounded, strict=True):
                self.assertAlmostEqual(one, other, delta=0.02 * plain[0])

    def test_no_schedule_and_no_cut_changes_a_bit(self):
        for name, settings in (("within", {"distributed__across_steps": "false"}),
                               ("across", {"distributed__across_steps": "true"}),
                               ("layers", {"distributed__bucket_policy": "per_layer"}),
                               ("small", {"distributed__bucket_mb": 0.001, "distributed__first_bucket_mb": 0.001})):
            self.assert_exit(self.train(3, name, model__hidden="[40, 30]", **settings), 0)
            self.assertEqual(self.losses(name), self.losses("within"))
            self.assertEqual(self.sha256(name), self.sha256("within"))

    def test_one_rank_sends_nothing_and_rounds_nothing(self):
        for compress in ("none", "bf16"):
            self.assert_exit(self.train(1, compress, compress), 0)
        self.assertEqual(self.losses("none"), self.losses("bf16"))

    def test_a_run_goes_on_with_the_other_setting_and_says_so(self):
        self.assert_exit(self.train(2, "run", "none", train__max_steps=5), 0)
        result = self.train(2, "run", "bf16", train__max_steps=9)
        self.assert_exit(result, 0)
        self.assertIn("distributed.compress: none -> bf16", result.stdout + result.stderr)
        self.assertEqual(len(self.losses("run")), 9)

    def test_losses_that_are_not_finite_are_found(self):
        result = self.train(2, "stop", optim__lr=1e30)
        self.assert_exit(result, 1)
        self.assertIn("the loss is", result.stderr)
        result = self.train(2, "skip", optim__lr=1e30, train__nan_policy="skip")
        self.assert_exit(result, 0)
        self.assertIn("the update is skipped", result.stdout + result.stderr)

    def overflowing_weights(self):
        """Of label 0 the loss is log 4 and the gradient before the second layer 4e40, more than fp32 holds; of label 1
        it is 0. Opposite signs of the units between both cancel each other in the logits, not on the way back."""
        units, classes = (1e20, -1e20, 1e20, -1e20), (-1, 0, 0.5, 0.5)
        tensors = {"fc1.weight": ([4, 64], [0.0] * 256), "fc1.bias": ([4], [1e-37] * 4),
                   "fc2.weight": ([4, 4], [unit for unit in units for _ in range(4)]), "fc2.bias": ([4], [1.0] * 4),
                   "fc3.weight": ([4, 4], [unit * of_class for of_class in classes for unit in units]),
                   "fc3.bias": ([4], [0.0] * 4)}
        file = self.dir / "overflowing.safetensors"
        write_safetensors(file, {name: (shape, struct.pack(f"<{len(values)}f", *values))
                                 for name, (shape, values) in tensors.items()})
        return file

    def test_a_gradient_that_overflows_is_found_where_the_loss_is_finite(self):
        # No input is 0, lest the product with it is not a number.
        wild = {"model__init_from": self.overflowing_weights(), "model__hidden": "[4, 4]", "data__shuffle": "false",
                "data__train": self.small_data(16, "few.h5"), "train__batch_size": 1,
                "data__normalize": "{mean: [-1], std: [1]}"}
        result = self.train(2, "stop", optim__clip_norm=1, **wild)
        self.assert_exit(result, 1)
        self.assertIn("step 1 (epoch 1): the norm of the gradient is inf; lower optim.lr", result.stderr)
        self.assert_exit(self.train(2, "begin", **{**wild, "train__epochs": 0}), 0)
        result = self.train(2, "skip", train__nan_policy="skip", **{**wild, "train__epochs": 1})
        self.assert_exit(result, 0)
        # Of labels 2 and 3 the gradient overflows, too.
        self.assertIn("samples 14 to 15: the norm of the gradient is inf; the update is skipped (8 until now)",
                      result.stderr)
        self.assertEqual(self.sha256("skip"), self.sha256("begin"))

    def test_measured_buckets_are_kept_for_one_setting_only(self):
        cache = {"XDG_CACHE_HOME": str(self.dir / "cache")}
        for run, compress in (("first", "bf16"), ("again", "bf16"), ("plain", "none")):
            result = self.train(2, run, compress, cache, distributed__bucket_policy="auto", train__epochs=12)
            self.assert_exit(result, 0)
            said = result.stdout + result.stderr
            self.assertEqual("measured by an earlier run" in said, run == "again", said)
        profiles = [json.loads(path.read_text()) for path in (self.dir / "cache").rglob("buckets-*.json")]
        self.assertEqual(sorted(profile["key"].get("compress", "none") for profile in profiles), ["bf16", "none"])
        # A checkpoint's choice, too.
        result = self.train(2, "first", "none", cache, distributed__bucket_policy="auto", train__epochs=13)
        self.assert_exit(result, 0)
        self.assertNotIn("as when the checkpoint was saved", result.stdout + result.stderr)

    def test_bench_buckets_measures_it(self):
        result = self.mpirun(2, ["bench", "buckets", "--policies", "ddp,single", "--steps", 2, "--warmup", 1, "--out", "out",
                                 *self.settings(self.data(), train__batch_size=8, distributed__compress="bf16",
                                                distributed__strategy="ddp")])
        self.assert_exit(result, 0)
        report = json.loads((self.dir / "out" / "buckets.json").read_text())
        self.assertEqual(report["compress"], "bf16")
        self.assertTrue(any("distributed.compress is bf16" in note for note in report["notes"]), report["notes"])

    def test_inspect_counts_half_of_the_bytes_on_their_way(self):
        config = self.dir / "c.yaml"
        config.write_text(f"data: {{train: {self.data()}}}\nmodel: {{name: mlp, hidden: [256, 256]}}\n"
                          "distributed: {strategy: ddp}\ntrain: {batch_size: 8}\n")
        sizes = {}
        for compress in ("none", "bf16"):
            result = self.run_trainer(["inspect", "-c", config, "--world", "2", f"distributed.compress={compress}"])
            self.assert_exit(result, 0)
            sizes[compress] = float(re.search(r"communication +([\d.]+) KiB", result.stdout)[1])
            self.assertEqual("half of these bytes" in result.stdout, compress == "bf16")
        self.assertAlmostEqual(sizes["bf16"] / sizes["none"], 0.5, delta=0.01)

    def test_what_it_does_not_go_with_is_refused_with_the_remedy(self):
        for overrides, words in (({"train__precision": "fp64"}, ("train.precision is fp64", "compress: none")),
                                 ({"distributed__strategy": "zero1"}, ("whole gradients only", "strategy: ddp"))):
            result = self.train(2, "refused", **overrides)
            self.assert_exit(result, 2)
            for word in words:
                self.assertIn(word, result.stderr)


if __name__ == "__main__":
    system_test.main()
