"""Runs that are stopped, or end, where an epoch does."""

import system_test
from recipes import SignalledRuns


class EpochEnd(SignalledRuns):
    def one_update(self, **more):
        return self.settings(self.small_data(64), train__batch_size=64, train__log_every=1, train__checkpoint__every="never", **more)

    def test_an_epoch_that_a_resume_ends_is_ended_once(self):
        settings = self.one_update(data__val=self.small_data(40, "val.h5"))
        self.said(settings, 75, stop=True)
        self.assertEqual(self.metrics("run", "eval"), [])
        self.said(settings, 0)
        self.assertEqual([row["step"] for row in self.metrics("run", "eval")], [1])
        self.assertIn("is finished: 1 step, 1 epoch.", self.said(settings, 0))
        self.assertEqual([row["step"] for row in self.metrics("run", "eval")], [1])

    def test_an_evaluation_that_no_checkpoint_holds_is_made_again_and_stands_once(self):
        settings = self.one_update(data__val=self.small_data(40, "val.h5"))
        self.said(settings, 75, stop=True)
        # As of a resume that was killed before it had saved.
        with (self.dir / "run/metrics.jsonl").open("a") as rows:
            rows.write('{"type": "eval", "epoch": 1, "step": 1, "split": "val", "loss": 7, "accuracy": 0, "samples": 40}\n')
        self.said(settings, 0)
        rows = self.metrics("run", "eval")
        self.assertEqual([row["step"] for row in rows], [1])
        self.assertNotEqual(rows[0]["loss"], 7)

    def test_a_signal_in_the_last_update_leaves_nothing_to_do(self):
        settings = self.one_update()
        self.said(settings, 0, stop=True)
        self.assertIn("is finished: 1 step, 1 epoch.", self.said(settings, 0))

    def test_an_evaluation_that_a_signal_lets_happen_is_one_of_a_finished_epoch(self):
        settings = self.one_update(data__val=self.small_data(40, "val.h5"), train__epochs=3, train__max_steps=1,
                                   train__checkpoint__best="val/loss", train__checkpoint__best_from=1)
        self.said(settings, 0, stop=True)
        self.assertEqual([row["step"] for row in self.metrics("run", "eval")], [1])
        self.assertIn("best      step 1 ", self.said(["inspect", self.dir / "run"], 0))

    def test_a_signal_in_the_update_that_ends_epoch_and_run_leaves_what_a_run_without_it_does(self):
        more = {"data__val": self.small_data(40, "val.h5"), "train__epochs": 3, "train__max_steps": 1, "optim__lr": 0,
                "train__early_stopping": "{metric: val/loss, patience: 1}"}
        for run, stop in ("whole", False), ("run", True):
            settings = [*self.one_update(**more), f"run.dir={self.dir}/{run}"]
            self.said(settings, 0, stop=stop)
            self.assertEqual([row["epoch"] for row in self.epochs(run)], [1])
            # The evaluation counts for early stopping: the next one, which is not better, ends the run.
            self.said([*settings, "train.max_steps=null"], 0)
            self.assertEqual([row["epoch"] for row in self.metrics(run, "eval")], [1, 2])
            self.assertEqual([row["epoch"] for row in self.epochs(run)], [1, 2])

    def test_an_epoch_of_which_a_partial_batch_is_dropped_is_finished(self):
        data, val = self.small_data(50), self.small_data(40, "val.h5")
        for ranks, batch in (1, 40), (2, 20), (3, 14):
            run = f"run{ranks}"
            self.said(self.settings(data, run, data__val=val, data__drop_last="true", train__batch_size=batch,
                                    train__epochs=3, train__max_steps=1, train__checkpoint__best="val/loss",
                                    train__checkpoint__best_from=1), 0, stop=True, ranks=ranks)
            self.assertEqual(self.best_step(run), 1)

    def test_other_ranks_go_on_behind_a_partial_batch_that_is_dropped(self):
        data, val = self.small_data(50), self.small_data(40, "val.h5")
        common = {"data__val": val, "data__drop_last": "true", "train__epochs": 3, "train__log_every": 1,
                  "train__precision": "fp64"}
        # Three ranks leave out 2 samples as DistributedSampler does, two ranks as a batch that is not full.
        self.said(self.settings(data, "whole", train__batch_size=16, **common), 0, ranks=3)
        self.said(self.settings(data, "run", train__batch_size=16, **common), 75, stop=True, ranks=3)
        self.assertEqual(self.metrics("run", "eval"), [])
        self.said(self.settings(data, "run", train__batch_size=24, **common), 0, ranks=2)
        self.said(self.settings(data, "parts", train__batch_size=4, **common, train__max_steps=6), 0, ranks=3)
        self.said(self.settings(data, "parts", train__batch_size=6, **common), 0, ranks=2)
        self.said(self.settings(data, "small", train__batch_size=12, **common), 0)
        for run, other, steps in ("run", "whole", 3), ("parts", "small", 12):
            for kind, count in ("step", steps), ("eval", 3):
                ours, theirs = ([row for row in self.metrics(name, kind) if row["step"] != 6 or kind == "step"]
                                for name in (run, other))
                self.assertEqual(len(theirs), count)
                for one, two in zip(ours, theirs, strict=True):
                    for field in ("epoch", "step", "samples"):
                        self.assertEqual(one[field], two[field], f"{run}, {kind}")
                    self.assertAlmostEqual(one["loss"], two["loss"], delta=1e-12 * two["loss"], msg=f"{run}, {kind}")
        # Another batch fits what is left, or is larger than that.
        for batch, samples in (7, [12, 24, 36, 50]), (8, [12, 24, 36]):
            run = f"left{batch}"
            for ranks, more in (3, {"train__batch_size": 4, "train__max_steps": 3}), (2, {"train__batch_size": batch}):
                self.said(self.settings(data, run, **{**common, "train__epochs": 1, **more}), 0, ranks=ranks)
            self.assertEqual([row["samples"] for row in self.metrics(run, "step")], samples)
            self.assertEqual([row["samples"] for row in self.epochs(run)], samples[-1:])

    def test_a_signal_in_an_update_behind_which_nothing_is_evaluated_ends_the_epoch(self):
        settings = self.one_update(data__val=self.small_data(40, "val.h5"), train__eval_every=2)
        self.said([*settings, "train.epochs=4"], 75, stop=True)
        # Of a run whose last epoch it is, the evaluation is the resume's.
        self.said([*settings, "train.epochs=1"], 0)
        self.assertEqual([row["epoch"] for row in self.metrics("run", "eval")], [1])
        self.assertIn("is finished: 1 step, 1 epoch.", self.said([*settings, "train.epochs=1"], 0))

    def test_an_evaluation_where_a_run_was_cut_off_does_not_count_for_early_stopping(self):
        # Without a learning rate no loss is less than the first.
        settings = self.settings(self.small_data(64), data__val=self.small_data(40, "val.h5"), train__batch_size=16, optim__lr=0,
                                 train__epochs=9, train__early_stopping="{metric: val/loss, patience: 1}")
        self.said([*settings, "train.max_steps=6"], 0)
        self.said(settings, 0)
        self.assertEqual([row["step"] for row in self.metrics("run", "eval")], [4, 6, 8])

    def test_a_run_that_is_made_longer_stops_where_a_long_one_would(self):
        # Without a learning rate no loss is less than the first.
        settings = self.one_update(data__val=self.small_data(40, "val.h5"), optim__lr=0, train__eval_every=2,
                                   train__early_stopping="{metric: val/loss, patience: 1}")
        self.said([*settings, "train.epochs=3"], 0)  # evaluated at its end, too
        self.said([*settings, "train.epochs=9"], 0)
        self.said([*settings, "train.epochs=9", f"run.dir={self.dir}/whole"], 0)
        self.assertEqual([row["epoch"] for row in self.metrics("whole", "eval")], [2, 4])
        self.assertEqual([row["epoch"] for row in self.metrics("run", "eval")], [2, 3, 4])


if __name__ == "__main__":
    system_test.main()
