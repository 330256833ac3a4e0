"""Evaluations every so many updates, within epochs, too: train.eval_every in steps."""

import system_test
from recipes import SignalledRuns

BATCH_NORM = ("[{conv2d: {out: 4, kernel: 3}}, batch_norm2d, relu, {max_pool2d: {kernel: 2}}, {dropout: {p: 0.3}}, flatten, "
              "{linear: {out: 4}}]")


class EvalSteps(SignalledRuns):
    def given(self, run, **more):
        """13 updates an epoch."""
        settings = {"train__batch_size": 8, "train__epochs": 2, "train__log_every": 1, "optim__momentum": 0.9, **more}
        return self.settings(self.small_data(100), run, data__val=self.small_data(40, "val.h5"), **settings)

    def steps(self, run):
        return [(row["epoch"], row["step"]) for row in self.metrics(run, "eval")]

    def without_times(self, run, kind):
        return [{**row, "account": None} for row in self.metrics(run, kind)]

    def test_they_change_neither_losses_nor_weights(self):
        layers = {"model__name": "null", "model__hidden": "null", "model__layers": BATCH_NORM, "train__ema": 0.9}
        across = {"train__batch_size": 4, "distributed__bucket_policy": "per_layer", "distributed__across_steps": "true"}
        deterministic = {"train__batch_size": 4, "run__deterministic": "true", "train__ema": "null"}
        for name, ranks, more in ("one", 1, layers), ("two", 2, layers | across), ("same", 2, layers | deterministic):
            with self.subTest(name):
                for run, every in (f"{name}-epochs", 1), (f"{name}-steps", "5 steps"):
                    settings = self.given(run, train__eval_every=every, train__checkpoint__best="val/loss", **more)
                    self.assert_exit(self.mpirun(ranks, settings) if ranks > 1 else self.run_trainer(settings), 0)
                self.assertEqual(self.steps(f"{name}-epochs"), [(1, 13), (2, 26)])
                self.assertEqual(self.steps(f"{name}-steps"), [(1, 5), (1, 10), (2, 15), (2, 20), (2, 25), (2, 26)])
                self.assertEqual(self.without_times(f"{name}-steps", "step"), self.without_times(f"{name}-epochs", "step"))
                self.assertEqual(self.sha256(f"{name}-steps"), self.sha256(f"{name}-epochs"))
                self.assertEqual(self.metrics(f"{name}-steps", "eval")[-1], self.metrics(f"{name}-epochs", "eval")[-1])
                best = min(self.metrics(f"{name}-steps", "eval"), key=lambda row: row["loss"])["step"]
                self.assertTrue((self.dir / f"{name}-steps/checkpoints/step-{best:08d}.h5").exists())
                self.assertEqual(len((self.dir / f"{name}-steps/epochs.jsonl").read_text().splitlines()), 2)
        self.assertIn("eval_every: 5 steps\n", (self.dir / "one-steps/config.yaml").read_text())

    def test_one_that_a_signal_leaves_no_time_for_is_the_next_starts_first_work(self):
        """7 updates an epoch: in it, and at its end."""
        for ranks, every in (1, 4), (2, 4), (1, 7), (2, 7):
            more = {"train__eval_every": f"{every} steps", "train__batch_size": 16 // ranks, "train__checkpoint__every": "never",
                    "train__early_stopping": "{metric: val/loss, patience: 9}", "train__checkpoint__best": "val/accuracy"}
            whole, run = f"whole-{ranks}-{every}", f"run-{ranks}-{every}"
            self.said(self.given(whole, **more), 0, ranks=ranks)
            expected = {4: [(1, 4), (2, 8), (2, 12), (2, 14)], 7: [(1, 7), (2, 14)]}[every]
            self.assertEqual((len(self.metrics(whole, "step")), self.steps(whole)), (14, expected))
            for update in range(1, every + 1):
                self.said(self.given(run, **more), 75, stop=True, ranks=ranks)
                self.assertEqual(len(self.metrics(run, "step")), update)
            # Nor has a start that is stopped at once.
            self.said(self.given(run, **more), 75, stop=True, ranks=ranks)
            self.assertEqual((self.steps(run), len(self.metrics(run, "step"))), ([], every))
            self.said(self.given(run, **more), 0, ranks=ranks)
            for kind in "step", "eval":
                self.assertEqual(self.without_times(run, kind), self.without_times(whole, kind))
            self.assertEqual(self.sha256(run), self.sha256(whole))
            self.assertIn("is finished: 14 steps, 2 epochs.", self.said(self.given(run, **more), 0, ranks=ranks))

    def test_early_stopping_counts_them(self):
        settings = self.given("run", train__eval_every="3 steps", train__early_stopping="{metric: val/loss, patience: 2}", optim__lr=0)
        said = self.said(settings, 0, ranks=2)
        self.assertEqual(self.steps("run"), [(1, 3), (1, 6), (2, 9)])
        self.assertIn("epoch 1, step 6: validation loss ", said)
        self.assertRegex(said, r"early stopping after step 9: val/loss has not improved on [\d.]+ by more than 0 for 2 evaluations")
        self.assertEqual(self.latest("run").name, "step-00000009.h5")
        self.assertIn("early stopping had ended it", self.said(settings, 0))
        self.assertEqual(len(self.steps("run")), 3)

    def test_one_at_a_start_that_ends_the_run_is_kept(self):
        more = {"train__eval_every": "2 steps", "train__checkpoint__every": "never", "train__checkpoint__best": "val/loss",
                "train__early_stopping": "{metric: val/loss, patience: 1}", "optim__lr": 0}
        self.said(self.given("run", train__max_steps=3, **more), 0)
        self.said(self.given("run", **more), 75, stop=True)
        self.assertEqual(self.steps("run"), [(1, 2), (1, 3)])
        self.assertIn("early stopping after step 4", self.said(self.given("run", **more), 0))
        self.assertIn("early stopping had ended it", self.said(self.given("run", **more), 0))
        self.assertEqual((self.steps("run"), len(self.metrics("run", "step"))), ([(1, 2), (1, 3), (1, 4)], 4))

    def test_one_at_a_start_from_elsewhere_that_is_the_best_has_its_weights_here(self):
        other = self.given("other", train__max_steps=4, optim__lr=0)
        self.said([setting for setting in other if not setting.startswith("data.val=")], 0)
        start = self.dir / "other/checkpoints/step-00000004.h5"
        more = {"train__eval_every": "4 steps", "train__checkpoint__best": "val/loss", "train__checkpoint__keep": 1}
        self.said(self.given("run", run__resume=start, optim__lr=0, **more), 0)
        self.assertTrue((self.dir / "run/checkpoints/step-00000004.h5").exists())
        self.assert_exit(self.run_trainer(["eval", "--run", self.dir / "run", "--best"]), 0)

    def test_who_may_have_counted_steps_is_told_that_they_are_epochs(self):
        warning = 'train.eval_every is 500 epochs, and the run ends after 2: it is evaluated at its end alone; '
        self.assertEqual(self.said(self.given("epochs", train__eval_every=500), 0, ranks=2).count(warning), 1)
        self.assertNotIn("train.eval_every", self.said(self.given("steps", train__eval_every="500 steps"), 0))

    def test_other_values_are_refused(self):
        for value in "5 min", "often", "-1", "1.5", "0.5 steps":
            result = self.run_trainer(self.given("run", train__eval_every=value))
            self.assert_exit(result, 2)
            self.assertIn(f"train.eval_every: {value} is not a number of epochs, or of steps; write for example 1 or 2 epochs, "
                          "500 steps, or 0 for only at the end", result.stderr)


if __name__ == "__main__":
    system_test.main()
