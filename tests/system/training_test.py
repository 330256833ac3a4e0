"""Training from the command line: results, world sizes, formats."""

import json
import re

import system_test
from recipes import TrainingTest


class Training(TrainingTest):
    def test_two_ranks_learn_real_images_from_one_command(self):
        train = self.pack(*self.fashion_mnist(2000), name="train.h5")
        test = self.pack(*self.fashion_mnist(500, "test"), name="test.h5")
        result = self.mpirun(2, [f"data.train={train}", f"data.val={test}", "model.name=lenet", "optim.lr=0.05",
                                 "optim.momentum=0.9", "train.batch_size=16", "train.epochs=2",
                                 f"run.dir={self.dir}/run"])
        self.assert_exit(result, 0)
        last = result.stdout.strip().splitlines()[-1]
        found = re.fullmatch(r"test accuracy (0\.\d{4}) \((\d+) of 500\)", last)
        self.assertTrue(found, last)
        self.assertGreater(int(found[2]), 300, "two epochs on 2000 images reach 60 % with any seed")
        self.assertEqual(f"{int(found[2]) / 500:.4f}", found[1])

    def same_losses(self, ranks, batch, **overrides):
        data = self.dir / "data.h5"
        if not data.exists():
            self.small_data(250)
        run = f"run{ranks}"
        result = self.mpirun(ranks, self.settings(data, run, train__precision="fp64", train__batch_size=batch,
                                                  train__log_every=1, optim__momentum=0.9, **overrides))
        self.assert_exit(result, 0)
        return self.losses(run)

    def test_the_losses_do_not_depend_on_the_number_of_ranks(self):
        # 250 samples in batches of 12: the last one has 10, which 3 and 4 ranks share unevenly.
        reference = self.same_losses(1, 12)
        self.assertEqual(len(reference), 21)
        self.assertLess(reference[-1], reference[0])
        for ranks, batch in ((2, 6), (3, 4), (4, 3)):
            for one, many in zip(reference, self.same_losses(ranks, batch), strict=True):
                self.assertAlmostEqual(one, many, delta=1e-12 * abs(one), msg=f"{ranks} ranks")

    def test_ranks_without_samples_in_the_tail_join_with_nothing(self):
        # 49 samples, batches of 4 x 3 ranks: the last step has one sample, for rank 0 alone.
        self.small_data(49)
        reference = self.same_losses(1, 12)
        many = self.same_losses(3, 4)
        self.assertEqual(len(many), 5)
        for one, three in zip(reference, many, strict=True):
            self.assertAlmostEqual(one, three, delta=1e-12 * abs(one))

    def test_bucket_policies_give_the_same_losses(self):
        data = self.small_data(96)
        runs = {}
        for policy, megabytes in (("ddp", 25), ("ddp", 0.001), ("single", 25), ("per_layer", 25)):
            name = f"{policy}-{megabytes}"
            result = self.mpirun(2, self.settings(data, name, train__batch_size=8, train__log_every=1,
                                                  distributed__bucket_policy=policy, distributed__bucket_mb=megabytes,
                                                  distributed__first_bucket_mb=megabytes))
            self.assert_exit(result, 0)
            runs[name] = self.losses(name)
        for name, losses in runs.items():
            self.assertEqual(losses, runs["ddp-25"], name)

    def test_step_rows_have_the_documented_fields(self):
        data = self.small_data(100)
        self.assert_exit(self.run_trainer(self.settings(data, train__batch_size=16, train__log_every=2)), 0)
        rows = self.metrics("run", "step")
        self.assertEqual([row["step"] for row in rows], [2, 4, 6])
        self.assertEqual([row["samples"] for row in rows], [32, 64, 96])
        for row in rows:
            self.assertEqual(row["epoch"], 0)
            self.assertEqual(row["lr"], 0.1)
            self.assertGreater(row["loss"], 0)
            self.assertEqual(set(row["account"]), {"data", "forward", "backward", "communication", "optimizer",
                                                   "checkpoint", "evaluation"})
            self.assertTrue(all(seconds >= 0 for seconds in row["account"].values()))

    def test_a_step_row_has_the_seconds_since_the_row_before(self):
        data = self.small_data(100)
        self.assert_exit(self.run_trainer(self.settings(data, train__batch_size=16, train__log_every=1,
                                                        train__checkpoint__every="2 steps")), 0)
        saving = [row["account"]["checkpoint"] > 0 for row in self.metrics("run", "step")]
        self.assertEqual(saving, [False, False, True, False, True, False, True], "the first row behind a checkpoint")

    def test_recomputation_changes_no_bit(self):
        data, val = self.small_data(100), self.small_data(50, "val.h5")
        layers = "[" + ",".join(["{conv2d: {out: 4, kernel: 3, padding: 1}}", "relu"] * 8) + ",flatten,{linear: {out: 4}}]"
        for precision in ("fp32", "fp64"):
            runs = []
            for recompute in ("false", "true"):
                run = f"{precision}-{recompute}"
                settings = [value for value in self.settings(data, run, data__val=val, train__log_every=1,
                                                             train__precision=precision, train__recompute=recompute)
                            if not value.startswith("model.h")]
                self.assert_exit(self.mpirun(2, [*settings, "model.name=null", f"model.layers={layers}"]), 0)
                runs.append((self.losses(run), self.metrics(run, "eval")[-1]["loss"], self.sha256(run)))
            self.assertEqual(*runs)

    def test_losses_have_17_digits(self):
        data = self.small_data(100)
        self.assert_exit(self.run_trainer(self.settings(data, train__precision="fp64", train__log_every=1)), 0)
        for line in (self.dir / "run/metrics.jsonl").read_text().splitlines():
            found = re.search(r'"loss": ([0-9.e+-]+)', line)
            if '"memory"' not in line:
                self.assertEqual(f"{float(found[1]):.17g}", found[1])

    def test_eval_rows_count_every_sample_once(self):
        data, val = self.small_data(120), self.small_data(101, "val.h5")
        for ranks in (1, 2, 3, 4):
            run = f"run{ranks}"
            self.assert_exit(self.mpirun(ranks, self.settings(data, run, data__val=val, train__batch_size=12 // ranks,
                                                              train__epochs=2, train__precision="fp64")), 0)
            rows = self.metrics(run, "eval")
            self.assertEqual([row["epoch"] for row in rows], [1, 2])
            for row in rows:
                self.assertEqual((row["samples"], row["split"]), (101, "val"))
                self.assertAlmostEqual(row["accuracy"] * 101, round(row["accuracy"] * 101), places=9)
            first = self.metrics("run1", "eval")
            for row, one in zip(rows, first, strict=True):
                self.assertEqual(row["accuracy"], one["accuracy"])
                self.assertAlmostEqual(row["loss"], one["loss"], delta=1e-12 * one["loss"])

    def test_rows_of_epochs_are_the_means_of_their_steps_on_more_ranks_and_after_a_resume_too(self):
        data = self.small_data(100)  # 7 updates an epoch, the last one of 4 samples
        accuracies = []
        for ranks in (1, 2):
            run = f"run{ranks}"
            given = {"train__batch_size": 16 // ranks, "train__epochs": 3, "train__log_every": 1,
                     "train__precision": "fp64", "optim__lr": 0.02}
            for stop in ([{"train__max_steps": 10}] if ranks == 2 else []) + [{}]:
                self.assert_exit(self.mpirun(ranks, self.settings(data, run, **given, **stop)), 0)
            steps, epochs, before = self.metrics(run, "step"), self.epochs(run), 0
            self.assertEqual([row["step"] for row in epochs], [7, 14, 21])
            for number, row in enumerate(epochs):
                total = 0
                for step in steps[7 * number:7 * number + 7]:
                    total += step["loss"] * (step["samples"] - before)
                    before = step["samples"]
                self.assertAlmostEqual(row["train_loss"], total / 100, delta=1e-12)
                right = round(row["train_accuracy"] * 100)
                self.assertEqual(row["train_accuracy"], right / 100)
                self.assertLessEqual(right, 100)
                self.assertIn(f"epoch {number + 1}: training loss {row['train_loss']:.4f}, accuracy {right / 100:.4f} "
                              f"({right} of 100)", (self.dir / run / "log.txt").read_text())
            accuracies.append([row["train_accuracy"] for row in epochs])
        self.assertEqual(*accuracies)
        self.assertLess(accuracies[0][0], accuracies[0][2])

    def test_lines_for_people_are_short_and_count_one_thing_as_one(self):
        data = self.numbers_with_targets(16)
        for run, rate in ("usual", 0), ("diverged", 1e30):
            result = self.run_trainer(self.settings(data, run, data__val=data, train__loss="mse", train__batch_size=16,
                                                    train__precision="fp64", optim__lr=rate, optim__momentum=0))
            self.assert_exit(result, 0)
            (row,) = self.metrics(run, "eval")
            self.assertEqual(row["loss"] > 1e6, run == "diverged")
            form = {"usual": ".4f", "diverged": ".4g"}[run]
            loss, rmse, mae = (format(row[name], form) for name in ("loss", "rmse", "mae"))
            self.assertIn(f"epoch 1: validation loss {loss}, rmse {rmse}, mae {mae}", result.stderr)
            self.assertEqual(f"test rmse {rmse} (16 samples)\n", result.stdout)
            self.assertIn("finished after 1 step, 16 samples\n", result.stderr)
            result = self.run_trainer(["eval", "--run", self.dir / run])
            self.assertIn(f"rmse {rmse}, mae {mae}", result.stdout)
            self.assertIn(f", loss {loss}\ntest rmse {rmse} (16 samples)\n", result.stdout)

    def test_max_steps_ends_the_run_and_evaluates(self):
        data, val = self.small_data(240), self.small_data(50, "val.h5")
        result = self.run_trainer(self.settings(data, data__val=val, train__batch_size=16, train__epochs=9,
                                                train__max_steps=7))
        self.assert_exit(result, 0)
        self.assertEqual(self.metrics("run", "eval")[-1]["step"], 7)
        self.assertTrue((self.dir / "run/checkpoints/step-00000007.h5").exists())

    def test_tail_pad_counts_padding_as_pytorch_does(self):
        data = self.small_data(50)
        # 50 samples on 3 ranks: DistributedSampler's list has 51 entries.
        for tail, samples in (("exact", 50), ("pad", 51)):
            self.assert_exit(self.mpirun(3, self.settings(data, tail, data__tail=tail, train__batch_size=16,
                                                          train__log_every=1)), 0)
            self.assertEqual(self.metrics(tail, "step")[-1]["samples"], samples)

    def test_drop_last_leaves_out_the_partial_batch(self):
        data = self.small_data(50)
        self.assert_exit(self.run_trainer(self.settings(data, data__drop_last="true", train__batch_size=16,
                                                        train__log_every=1)), 0)
        self.assertEqual([row["samples"] for row in self.metrics("run", "step")], [16, 32, 48])

    def test_several_files_are_one_data_set(self):
        first = self.small_data(60, "a.h5")
        images, labels = self.synthetic_idx(40, classes=4, side=8, seed=1)
        second = self.pack(images, labels, name="b.h5")
        self.assert_exit(self.run_trainer(self.settings(f"[{first},{second}]", train__batch_size=20,
                                                        train__log_every=1)), 0)
        self.assertEqual(self.metrics("run", "step")[-1]["samples"], 100)

    def test_the_number_of_workers_changes_nothing(self):
        data = self.small_data(100)
        for workers in (0, 1, 3):
            self.assert_exit(self.run_trainer(self.settings(data, f"w{workers}", data__workers=workers,
                                                            train__log_every=1, train__batch_size=8)), 0)
            self.assertEqual(self.losses(f"w{workers}"), self.losses("w0"))

    def test_each_epoch_and_each_seed_draws_anew(self):
        data = self.small_data(64)
        plain = "model.layers=[flatten, {linear: {out: 4}}]"
        dropout = "model.layers=[flatten, {dropout: {p: 0.5}}, {linear: {out: 4}}]"
        vit = ["model.name=vit", "model.dim=8", "model.depth=2", "model.heads=2", "model.drop_path=0.5"]
        shards = {"run__deterministic": "true"}
        for case, model, more in (
                ("nothing is drawn", ["model.name=null", plain], {}), ("dropout", ["model.name=null", dropout], {}),
                ("dropout of shards", ["model.name=null", dropout], shards), ("drop path", vit, {}),
                ("augmentation", ["model.name=null", plain], {"data__transforms": "[horizontal_flip]"}),
                ("order", ["model.name=null", plain], {"data__shuffle": "true", "train__batch_size": 8})):
            # Nothing is learned from the weights of one seed; but for "order" an epoch is one batch, in file order.
            given = {"optim__lr": 0, "train__epochs": 2, "train__log_every": 1, "train__batch_size": 64,
                     "data__shuffle": "false", **more}
            model = ["model.hidden=null", *model]
            self.assert_exit(self.begin(data, f"{case}, begun", model=model, run__seed=3), 0)
            losses = []
            for seed in (1, 5):  # the order is that of seed + epoch, as PyTorch's sampler has it
                run = f"{case}, seed {seed}"
                weights = self.latest(f"{case}, begun")
                self.assert_exit(self.run_trainer([*self.settings(data, run, **given), *model, f"run.seed={seed}",
                                                   f"model.init_from={weights}"]), 0)
                rows = self.metrics(run, "step")
                losses += [tuple(row["loss"] for row in rows if row["epoch"] == epoch) for epoch in (0, 1)]
            self.assertEqual(len(set(losses)), 1 if case == "nothing is drawn" else 4, f"{case}: {losses}")

    def test_sequential_stacks_train(self):
        data = self.small_data(64)
        layers = "[{conv2d: {out: 4, kernel: 3, padding: 1}}, relu, {max_pool2d: {kernel: 2}}, flatten, " \
                 "{linear: {out: 4}}]"
        settings = [s for s in self.settings(data, train__batch_size=16) if not s.startswith("model.")]
        self.assert_exit(self.run_trainer([*settings, "model.name=null", f"model.layers={layers}"]), 0)
        result = self.run_trainer(["inspect", self.dir / "run"])
        self.assertIn("0.weight", result.stdout)
        self.assertIn("4.weight", result.stdout)

    def test_provenance_names_versions_hosts_and_threads(self):
        data = self.small_data(64)
        self.assert_exit(self.mpirun(2, self.settings(data, train__batch_size=8)), 0)
        document = json.loads((self.dir / "run/provenance.json").read_text())
        self.assertEqual(document["world_size"], 2)
        self.assertEqual(document["launcher"], "mpirun")
        self.assertEqual([row["rank"] for row in document["ranks"]], [0, 1])
        self.assertTrue(all(row["threads"] >= 1 and row["host"] for row in document["ranks"]))
        for key in ("version", "commit", "time", "libraries", "device"):
            self.assertTrue(document[key], key)
        self.assertRegex(document["commit"], r"^([0-9a-f]{7,40}\+?|unknown)$")


if __name__ == "__main__":
    system_test.main()
