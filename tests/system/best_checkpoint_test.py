"""From which epoch on the best checkpoint is looked for: train.checkpoint.best_from."""

import shutil

import system_test
from recipes import TrainingTest


class BestFrom(TrainingTest):
    def setUp(self):
        super().setUp()
        self.data = self.small_data(120)
        self.val = self.small_data_of_other_classes()

    def train(self, run, ranks=1, best_from=0, **more):
        settings = self.settings(self.data, run, data__val=self.val, train__batch_size=10, train__checkpoint__keep=1,
                                 train__checkpoint__best="val/loss", train__checkpoint__best_from=best_from, **more)
        result = self.mpirun(ranks, settings)
        self.assert_exit(result, 0)
        losses = [row["loss"] for row in self.metrics(run, "eval")]
        self.assertEqual(losses, sorted(losses), "the loss rises")
        return result.stderr

    def best_of(self, run):
        """Epoch of the best checkpoint, which is there beside the last one, if there is one."""
        best = self.best_step(run)
        rows = self.metrics(run, "eval")
        kept = sorted(path.name for path in (self.dir / run / "checkpoints").iterdir())
        steps = {rows[-1]["step"], *([] if best is None else [best])}
        self.assertEqual(kept, [f"step-{step:08}.h5" for step in sorted(steps)])
        return next((row["epoch"] for row in rows if row["step"] == best), None)

    def test_evaluations_before_it_do_not_count(self):
        for ranks in (1, 3):
            for best_from, best in ((0, 1), (1, 1), (3, 3), (4, 4), (5, None)):
                run = f"run-{ranks}-{best_from}"
                said = self.train(run, ranks, best_from, train__epochs=4)
                self.assertEqual(self.best_of(run), best, run)
                warning = "train.checkpoint.best has no effect as train.checkpoint.best_from is 5 and train.epochs 4"
                self.assertEqual(warning in said, best is None)
        none = self.run_trainer(["eval", "--run", self.dir / "run-1-5", "--best"])
        self.assert_exit(none, 4)
        self.assertIn("for at least train.checkpoint.best_from epochs", none.stderr)
        self.assertIn("best_from: 5", (self.dir / "run-1-5" / "config.yaml").read_text())

    def test_it_is_saved_where_no_other_checkpoint_is_due(self):
        self.train("run", train__epochs=3, train__checkpoint__every="never")
        self.assertEqual(self.best_of("run"), 1)

    def test_an_epoch_that_is_not_finished_does_not_count(self):
        # 12 updates an epoch: the last evaluation is one of the third epoch, of which one or no update is left.
        for steps, best in ((35, None), (36, 3)):
            self.train(f"run{steps}", best_from=3, train__epochs=9, train__max_steps=steps)
            self.assertEqual(self.best_of(f"run{steps}"), best)
        # Early stopping counts all of them.
        said = self.train("stopped", best_from=8, train__epochs=9, train__early_stopping="{metric: val/loss, patience: 2}")
        self.assertIn("early stopping after epoch 3", said)
        self.assertIn("train.early_stopping may end the run after epoch 3, before train.checkpoint.best_from, 8", said)
        self.assertIn("train.checkpoint.best: no checkpoint is kept as the best, as train.early_stopping ended the run after epoch 3, "
                      "before train.checkpoint.best_from, 8; lower that, or give more patience", said)

    def test_a_resume_may_have_another_one(self):
        self.train("larger", train__epochs=2)
        said = self.train("larger", best_from=3, train__epochs=5)
        self.assertIn("train.checkpoint.best_from: 0 -> 3", said)
        self.assertEqual(self.best_of("larger"), 3, "the first epoch is too early")
        self.train("late", best_from=1, train__epochs=3)
        self.train("late", best_from=2, train__epochs=5)
        self.assertEqual(self.best_of("late"), 4, "the first epoch is too early, and the second was not kept")
        self.train("enough", best_from=2, train__epochs=3)
        self.train("enough", ranks=3, best_from=2, train__epochs=5)
        self.assertEqual(self.best_of("enough"), 2)
        self.train("same", best_from=3, train__epochs=4)
        self.train("same", best_from=1, train__epochs=5)
        self.assertEqual(self.best_of("same"), 3, "what was evaluated before is not looked at again")

    def test_a_best_one_that_is_late_enough_stays(self):
        self.train("kept", best_from=3, train__epochs=3)
        self.assertEqual(self.best_of("kept"), 3)
        self.train("kept", best_from=2, train__epochs=4)
        self.train("kept", ranks=3, best_from=3, train__epochs=5)  # larger than the last time
        self.assertEqual(self.best_of("kept"), 3)

    def test_a_finished_run_removes_what_its_last_save_has_pushed_out(self):
        self.train("run", train__epochs=3)
        folder = self.dir / "run/checkpoints"
        # As if it had been killed behind that save.
        shutil.copy(folder / "step-00000036.h5", folder / "step-00000024.h5")
        for more in ["train.checkpoint.keep=5", "train.checkpoint.best=null"], []:  # which the run was not trained with
            result = self.mpirun(2, self.settings(self.data, "run", data__val=self.val, train__batch_size=5, train__epochs=3,
                                                  train__checkpoint__keep=2, train__checkpoint__best="val/loss") + more)
            self.assert_exit(result, 0)
            self.assertIn("is finished", result.stderr)
            self.assertEqual(self.best_of("run"), 1)


if __name__ == "__main__":
    system_test.main()
