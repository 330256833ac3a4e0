"""run.deterministic: a run has the same bits on any power-of-two number of ranks, also when it changes in between."""

import os
import re
import unittest

import system_test
from recipes import TrainingTest, has_avx512

# 100 samples in global batches of 32: the last of an epoch has 4, so half of the eight shards have none there.
GLOBAL_BATCH = 32
# Name -> settings, precision among them. Every one has something whose result otherwise depends on the ranks.
MODELS = {
    "mlp": {"optim__momentum": 0.9, "optim__clip_norm": 0.5, "train__ema": 0.9},
    "mlp_bf16": {"train__precision": "bf16"},
    "mlp_fp64": {"train__precision": "fp64", "optim__name": "adamw", "optim__lr": 0.01, "optim__momentum": 0},
    "dropout_and_batch_norm": {
        "model__name": "null", "model__hidden": "null",
        "model__layers": "[{conv2d: {out: 4, kernel: 3}}, batch_norm2d, relu, {dropout: {p: 0.3}}, flatten, "
                         "{linear: {out: 4}}]"},
    "lenet": {"model__name": "lenet", "model__hidden": "null", "optim__lr": 0.02},
    "resnet18": {"model__name": "resnet18", "model__hidden": "null", "model__stem": "cifar", "train__max_steps": 2},
    # Where values between layers may be bf16, too.
    "resnet18_bf16": {"model__name": "resnet18", "model__hidden": "null", "model__stem": "cifar", "train__max_steps": 2,
                      "train__precision": "bf16"},
    "vit": {"model__name": "vit", "model__hidden": "null", "model__dim": 8, "model__depth": 2, "model__heads": 2,
            "model__drop_path": 0.4, "optim__name": "adamw", "optim__lr": 0.003, "optim__momentum": 0,
            "train__label_smoothing": 0.1},
    # No gradients, and so no memory for them: the shards are computed nevertheless.
    "nothing_to_train": {"model__name": "null", "model__hidden": "null",
                         "model__layers": "[{max_pool2d: {kernel: 4}}, flatten]"},
}


class Deterministic(TrainingTest):
    def test_without_parameters_there_is_nothing_to_send(self):
        recipe = {**MODELS["nothing_to_train"], "train__log_every": 1, "train__epochs": 2}
        data = self.small_data(100)
        for name, more in (("ddp", {"distributed__strategy": "ddp"}), ("measured", {"distributed__bucket_policy": "auto"}),
                           ("across", {"distributed__across_steps": "true"})):
            with self.subTest(name):
                self.assert_exit(self.mpirun(2, self.settings(data, name, **recipe, **more)), 0)
                self.assertEqual(len(self.losses(name)), 14)

    def command(self, ranks, run, accumulate=1, **overrides):
        data, val = self.dir / "data.h5", self.dir / "val.h5"
        if not val.exists():
            self.small_data(100)
            self.small_data(41, "val.h5")
        given = {"run__deterministic": "true", "data__val": val, "train__log_every": 1, "train__accumulate": accumulate,
                 "train__batch_size": GLOBAL_BATCH // ranks // accumulate, "train__epochs": 2, **overrides}
        return self.settings(data, run, **given)

    def run_on(self, ranks, command):
        return self.run_trainer(command) if ranks == 1 else self.mpirun(ranks, command)

    def train(self, ranks, run, accumulate=1, **overrides):
        result = self.run_on(ranks, self.command(ranks, run, accumulate, **overrides))
        self.assert_exit(result, 0)
        return result

    def outcome(self, run):
        """What must be equal: hash of the weights, rows of the metrics without what is measured."""
        rows = [{key: value for key, value in row.items() if key != "account"}
                for kind in ("step", "eval") for row in self.metrics(self.dir / run, kind)]
        return self.sha256(self.latest(run)), rows

    def check(self, model, ways):
        self.train(1, model, **MODELS[model])
        one = self.outcome(model)
        self.assertGreater(len(one[1]), 2)
        for ranks, accumulate, more in ways:
            run = f"{model}-{ranks}x{accumulate}"
            self.train(ranks, run, accumulate, **MODELS[model], **more)
            self.assertEqual(self.outcome(run), one, run)

    def test_mlp_on_1_2_4_and_8_ranks_with_accumulation_and_recomputation(self):
        self.check("mlp", [(2, 1, {}), (4, 1, {}), (8, 1, {}), (1, 4, {}), (4, 2, {"train__recompute": "true"})])

    @unittest.skipUnless(has_avx512(), "bf16 needs AVX-512")
    def test_bf16(self):
        self.check("mlp_bf16", [(2, 1, {})])
        self.check("resnet18_bf16", [(2, 1, {}), (4, 2, {"train__recompute": "true"})])

    def test_fp64(self):
        self.check("mlp_fp64", [(4, 1, {})])

    def test_dropout_and_batch_norm(self):
        self.check("dropout_and_batch_norm", [(2, 1, {}), (4, 2, {"train__recompute": "true"})])

    def test_lenet(self):
        self.check("lenet", [(2, 1, {}), (4, 1, {})])

    def test_resnet18(self):
        self.check("resnet18", [(2, 1, {}), (4, 1, {})])

    def test_a_model_without_parameters(self):
        self.check("nothing_to_train", [(2, 1, {}), (1, 4, {})])

    def test_vit(self):
        self.check("vit", [(2, 1, {}), (4, 1, {"train__recompute": "true"})])

    def test_the_number_of_threads_changes_nothing(self):
        for model in "lenet", "dropout_and_batch_norm", "vit":
            for cores in 1, 3:
                result = self.bound(cores, self.command(1, f"{model}-{cores}", **MODELS[model]))
                self.assert_exit(result, 0)
                if cores == 1:
                    self.assertIn("8 per rank, each on one thread, one after another", result.stderr)
                elif len(os.sched_getaffinity(0)) > 1:
                    self.assertRegex(result.stderr, "each on one thread, [23] at once")
            self.assertEqual(self.outcome(f"{model}-3"), self.outcome(f"{model}-1"), model)
            # Threads follow the cores, which ranks share: here two per rank need four. On fewer, several ranks of
            # several threads are covered by tests/train/deterministic_test.cpp alone, whose ranks are threads.
            if len(os.sched_getaffinity(0)) >= 4:
                result = self.train(2, f"{model}-2-ranks", **MODELS[model])
                self.assertRegex(result.stderr, "4 per rank, each on one thread, [234] at once")
                self.assertEqual(self.outcome(f"{model}-2-ranks"), self.outcome(f"{model}-1"), model)

    def test_threads_that_the_system_does_not_give_are_not_told_and_not_missed(self):
        result = self.bound(2, self.command(1, "limited", **MODELS["mlp"]), {"OMP_THREAD_LIMIT": "1"})
        self.assert_exit(result, 0)
        self.assertIn("each on one thread, one after another", result.stderr)
        self.train(1, "free", **MODELS["mlp"])
        self.assertEqual(self.outcome("limited"), self.outcome("free"))

    def test_a_loss_that_is_not_finite_ends_the_step_on_all_ranks_alike(self):
        told = []
        for ranks in 1, 2:
            result = self.run_on(ranks, self.command(ranks, f"not-finite-{ranks}", optim__lr=1e30))
            self.assert_exit(result, 1)
            self.assertIn("the loss is nan", result.stderr)
            told.append(re.search(r"step \d+ \(epoch \d+\)", result.stderr)[0])
        self.assertEqual(told[0], told[1])

    def test_a_run_goes_on_on_other_ranks_in_the_middle_of_an_epoch(self):
        self.train(1, "whole", **MODELS["mlp"])
        for ranks, stop in ((4, 3), (1, 5), (2, None)):
            more = {} if stop is None else {"train__max_steps": stop}
            self.train(ranks, "moved", **MODELS["mlp"], **more)
        whole, moved = self.outcome("whole"), self.outcome("moved")
        self.assertEqual(moved[0], whole[0])
        # Where it was stopped it was evaluated, too.
        self.assertEqual([row for row in moved[1] if row in whole[1]], whole[1])

    def test_another_number_of_shards_is_refused_at_a_resume(self):
        self.train(2, "run", train__max_steps=2)
        result = self.run_on(2, self.command(2, "run", run__virtual_shards=4))
        self.assert_exit(result, 2)
        self.assertIn("run.virtual_shards: 8 -> 4", result.stderr)

    def test_what_cannot_be_promised_is_refused_on_all_ranks(self):
        for ranks, settings, words in (
                (3, {}, ("3 ranks", "power of two", "start 2 ranks")),
                (4, {"run__virtual_shards": 2}, ("virtual_shards 2", "4 ranks")),
                (2, {"distributed__strategy": "zero1"}, ("zero1", "ddp")),
                (2, {"data__tail": "pad"}, ("data.tail", "exact"))):
            result = self.mpirun(ranks, self.command(ranks, "refused", **settings), per_rank_exit_codes=True)
            self.assertEqual(result.exit_codes, [2] * ranks, result.stderr)
            for word in ("run.deterministic", *words):
                self.assertIn(word, result.stderr)
            self.assertFalse((self.dir / "refused").exists())

    def test_inspect_counts_the_arenas_of_shards(self):
        config = self.dir / "c.yaml"
        config.write_text(f"data: {{train: {self.small_data(64)}}}\nmodel: {{name: mlp, hidden: [256]}}\n"
                          "run: {deterministic: true}\ntrain: {batch_size: 8}\n")
        # A rank's threads are the cores it is bound to: with its own one arena for each, and log2(shards).
        two = min(len(os.sched_getaffinity(0)), 2)
        for cores, world, arenas, lanes in (1, 1, 3, 0), (1, 2, 2, 0), (1, 8, 0, 0), (2, 1, 2 + two, two - 1), (2, 2, 2, 0):
            result = self.bound(cores, ["inspect", "-c", config, "--world", str(world)])
            self.assert_exit(result, 0)
            sizes = {words[0]: float(words[1]) for words in map(str.split, result.stdout.splitlines())
                     if len(words) > 2 and words[0] in ("gradients", "shards", "activations", "lanes")}
            self.assertAlmostEqual(sizes.get("shards", 0), arenas * sizes["gradients"], delta=0.2)
            self.assertAlmostEqual(sizes.get("lanes", 0), lanes * sizes["activations"], delta=0.2)


if __name__ == "__main__":
    system_test.main()
