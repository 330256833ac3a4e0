"""Resumes from a file that lies elsewhere, and on other data to evaluate on."""

import json
import shutil
import signal

import system_test
from recipes import TrainingTest


class ResumeElsewhere(TrainingTest):
    def test_checkpoints_of_an_earlier_run_are_set_aside(self):
        data = self.small_data(64)
        self.assert_exit(self.run_trainer(self.settings(data, train__max_steps=5)), 0)  # the earlier run
        file = self.dir / "first.h5"
        self.assert_exit(self.run_trainer(self.settings(data, run="other", train__max_steps=2)), 0)
        shutil.copy(self.latest("other"), file)
        settings = self.settings(data, train__max_steps=7, run__resume=file)
        # Where they stayed, a job that is requeued before it has saved anything would go on from the latest of them.
        self.assert_exit(self.run_trainer(settings), 0)
        self.assertEqual([path.name for path in (self.dir / "run/checkpoints").iterdir()], ["step-00000007.h5"])
        self.assertTrue((self.dir / "run/old-1/checkpoints/step-00000005.h5").exists())

    def test_metrics_are_of_one_course(self):
        data = self.small_data(64)
        every = {"train__log_every": 1}
        self.assert_exit(self.run_trainer(self.settings(data, **every, train__max_steps=5)), 0)
        earlier = (self.dir / "run/metrics.jsonl").read_text()
        self.assert_exit(self.run_trainer(self.settings(data, run="other", **every, run__seed=3, train__max_steps=2)), 0)
        self.assert_exit(self.run_trainer(self.settings(data, **every, run__seed=3, train__max_steps=4,
                                                        run__resume=self.latest("other"))), 0)
        self.assertEqual((self.dir / "run/old-1/metrics.jsonl").read_text(), earlier)
        self.assertEqual([row["step"] for row in self.metrics("run", "step")], [3, 4])

    def test_a_run_that_was_killed_before_it_saved_begins_with_the_file_again(self):
        data = self.small_data(64)
        self.assert_exit(self.run_trainer(self.settings(data, run="other", train__max_steps=3)), 0)
        file = self.latest("other")
        endless = self.settings(data, train__epochs=1000000, train__log_every=1, train__checkpoint__every="never")
        said = f"{self.dir / 'run'} has no checkpoint, and its run was begun with run.resume={file}"
        # The second, whose command does not name the file, dies, too.
        for command in [*endless, f"run.resume={file}"], endless:
            (self.dir / "run/metrics.jsonl").unlink(missing_ok=True)
            with self.start(command) as job:
                job.wait_until(lambda: self.has_steps("run"))
                job.signal(signal.SIGKILL)
                job.wait()
            self.assertEqual(said in job.stderr(), command is endless)
        for ranks in 2, 1:
            shutil.rmtree(self.dir / "run/checkpoints")
            result = self.mpirun(ranks, self.settings(data, train__log_every=1, train__max_steps=5, train__batch_size=8 // ranks))
            self.assert_exit(result, 0)
            self.assertEqual(result.stderr.count(f"warning: {said}: it begins with that again (run.resume=never starts anew)"), 1,
                             result.stderr)
            self.assertIn(f"resuming {file} at step 3", result.stderr)
            self.assertEqual([row["step"] for row in self.metrics("run", "step")], [4, 5])
        file.rename(self.dir / "moved.h5")
        (self.dir / "run/checkpoints").rename(self.dir / "kept")
        gone = self.mpirun(2, self.settings(data, train__max_steps=6))
        self.assert_exit(gone, 4)
        self.assertIn(f"{said}, which is not there; bring it back, or give run.resume=FILE; "
                      "run.resume=never starts anew", gone.stderr)
        (self.dir / "kept").rename(self.dir / "run/checkpoints")
        self.assertNotIn("was begun with", self.run_trainer(self.settings(data, train__max_steps=6)).stderr)
        anew = self.run_trainer(self.settings(data, train__max_steps=6, run__resume="never"))
        self.assert_exit(anew, 0)
        self.assertNotIn("resuming", anew.stderr)

    def has_steps(self, run):
        file = self.dir / run / "metrics.jsonl"
        return file.exists() and '"type": "step"' in file.read_text()

    def test_a_stop_says_which_command_goes_on(self):
        data = self.small_data(64)
        self.assert_exit(self.run_trainer(self.settings(data, run="other", train__max_steps=3)), 0)
        endless = self.settings(data, train__epochs=1000000, train__log_every=1)
        named = [*endless, f"run.resume={self.latest('other')}"]
        # The last one takes up the file that the one before it named, and would take up its own checkpoint next time.
        for command, said in (named, "run.resume=auto goes on from it"), (endless, "the same command goes on"):
            with self.start(command) as job:
                job.wait_until(lambda: self.has_steps("run"))
                job.signal(signal.SIGTERM)
                job.wait()
            self.assertIn(f"the checkpoint is saved, {said}", job.stderr())
            shutil.rmtree(self.dir / "run/checkpoints")
            (self.dir / "run/metrics.jsonl").unlink()

    def test_the_best_is_one_that_the_directory_has(self):
        # The loss rises: the best of the whole course is the first one.
        data, val = self.small_data(64), self.small_data_of_other_classes()
        best = {"data__val": val, "train__checkpoint__best": "val/loss", "train__checkpoint__keep": 1}
        self.assert_exit(self.run_trainer(self.settings(data, run="first", train__epochs=2, **best)), 0)
        self.assertEqual(self.best_step("first"), 8)
        file = self.latest("first")
        for ranks in (1, 2):
            run = f"run{ranks}"
            settings = self.settings(data, run, train__epochs=4, train__batch_size=8 // ranks, run__resume=file, **best)
            self.assert_exit(self.mpirun(ranks, settings), 0)
            self.assertEqual([row["step"] for row in self.metrics(run, "eval")], [24, 32])
            self.assertEqual(self.best_step(run), 24)
            self.assertEqual(len(list((self.dir / run / "checkpoints").iterdir())), 2)
            told = self.run_trainer(["eval", "--run", self.dir / run, "--data", val, "--best"])
            self.assert_exit(told, 0)

    def test_a_finished_file_makes_a_directory_that_holds_it(self):
        data = self.small_data(64)
        self.assert_exit(self.run_trainer(self.settings(data, run="first")), 0)
        self.assert_exit(self.run_trainer(self.settings(data, run__resume=self.latest("first"))), 0)
        self.assertEqual(self.latest("run").name, self.latest("first").name)
        longer = self.run_trainer(self.settings(data, train__epochs=2))
        self.assert_exit(longer, 0)
        self.assertIn("resuming", longer.stderr)

    def test_a_finished_run_is_evaluated_on_other_data(self):
        data, val, other = self.small_data(64), self.small_data(40, "val.h5"), self.small_data(24, "other.h5")
        asked = {"train__checkpoint__best": "val/accuracy", "train__early_stopping": "{patience: 1}"}
        self.assert_exit(self.run_trainer(self.settings(data, data__val=val, **asked)), 0)
        result = self.run_trainer(self.settings(data, data__val=other, **asked))
        self.assert_exit(result, 0)
        self.assertIn("of 24)", result.stdout)
        said = json.loads(self.run_trainer(["eval", "--run", self.dir / "run", "--data", other, "--json"]).stdout)
        self.assertIn(f"{said['accuracy']:.4f}", result.stdout)

    def test_other_data_to_evaluate_on_have_a_best_and_an_end_of_their_own(self):
        # On them the loss is greater from the beginning, and rises.
        data, val, other = self.small_data(64), self.small_data(40, "val.h5"), self.small_data_of_other_classes()
        asked = {"train__checkpoint__best": "val/loss", "train__early_stopping": "{metric: val/loss, patience: 1}"}
        for ranks in (1, 2):
            run = f"run{ranks}"
            given = {"train__batch_size": 8 // ranks, **asked}
            self.assert_exit(self.mpirun(ranks, self.settings(data, run, data__val=val, **given)), 0)
            self.assertEqual(self.best_step(run), 8)
            result = self.mpirun(ranks, self.settings(data, run, **{"data__val": other, **given, "train__epochs": 9}))
            self.assert_exit(result, 0)
            # The first one sets the mark, the second is no better.
            self.assertEqual([row["step"] for row in self.metrics(run, "eval")], [8, 16, 24])
            self.assertEqual(self.best_step(run), 16)

    def test_settings_that_change_the_rate_or_the_statistics_are_named(self):
        data = self.small_data(64)
        scaled = {"train__scale_lr_by_world_size": "true"}
        self.assert_exit(self.run_trainer(self.settings(data, train__batch_size=8, **scaled)), 0)
        result = self.mpirun(2, self.settings(data, train__batch_size=4, train__epochs=2,
                                              distributed__sync_batch_norm="true", **scaled))
        self.assert_exit(result, 0)
        self.assertIn("learning rate, scaled by the number of ranks: 0.1 -> 0.2", result.stderr)
        self.assertIn("distributed.sync_batch_norm: false -> true", result.stderr)


if __name__ == "__main__":
    system_test.main()
