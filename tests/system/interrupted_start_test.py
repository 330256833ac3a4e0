"""Starts that end while they move what an earlier run has left in the run directory."""

import shutil

import system_test
from recipes import TrainingTest


class InterruptedStart(TrainingTest):
    def failed_start(self, settings):
        """Moves the earlier run aside, and cannot write its config then."""
        config = self.dir / "run/config.yaml"
        config.unlink()
        config.mkdir()
        failed = self.run_trainer(settings)
        self.assert_exit(failed, 1)
        self.assertIn("cannot write ", failed.stderr)
        config.rmdir()

    def test_a_start_with_a_file_begins_with_it_again(self):
        data = self.small_data(64)
        self.assert_exit(self.run_trainer(self.settings(data, run="other", train__max_steps=3)), 0)
        self.assert_exit(self.run_trainer(self.settings(data, train__max_steps=2, run__seed=5)), 0)
        kept = self.dir / "run/old-1"
        file = self.latest("other")
        self.failed_start(self.settings(data, train__max_steps=5, run__resume=file.relative_to(self.dir)))
        self.assertEqual(sorted(path.name for path in kept.iterdir()), ["checkpoints", "metrics.jsonl"])
        # As if it had been killed when it had moved some of them.
        (kept / "checkpoints/step-00000002.h5").rename(self.dir / "run/checkpoints/step-00000002.h5")
        goes_on = self.settings(data, train__max_steps=5, train__log_every=1)
        said = f"the last start in {self.dir / 'run'}, with run.resume={file}, ended before its run began"
        file.rename(self.dir / "moved.h5")
        gone = self.mpirun(2, goes_on)
        self.assert_exit(gone, 4)
        self.assertIn(f": {said}, which is not there; bring it back, or give ", gone.stderr)
        (self.dir / "moved.h5").rename(file)
        again = self.mpirun(2, goes_on)
        self.assert_exit(again, 0)
        self.assertEqual(again.stderr.count(f"warning: {said}: it begins with that again (run.resume=never starts anew)"), 1,
                         again.stderr)
        self.assertIn(f"resuming {file} at step 3", again.stderr)
        self.assertEqual([row["step"] for row in self.metrics("run", "step")], [4, 5])
        self.assertEqual([path.name for path in (self.dir / "run/checkpoints").iterdir()], ["step-00000005.h5"])
        self.assertFalse((self.dir / "run/resume-from").exists())

    def test_never_begins_with_no_file(self):
        data = self.small_data(64)
        self.assert_exit(self.run_trainer(self.settings(data, run="other", train__max_steps=3)), 0)
        self.assert_exit(self.run_trainer(self.settings(data, train__max_steps=2)), 0)
        self.failed_start(self.settings(data, train__max_steps=5, run__resume=self.latest("other")))
        anew = self.run_trainer(self.settings(data, train__max_steps=1, run__resume="never"))
        self.assert_exit(anew, 0)
        self.assertNotIn("resuming", anew.stderr)
        self.assertFalse((self.dir / "run/resume-from").exists())

    def test_rows_that_an_interrupted_move_has_left_are_kept(self):
        data = self.small_data(64)
        self.assert_exit(self.run_trainer(self.settings(data, train__max_steps=3, train__log_every=1)), 0)
        rows = (self.dir / "run/metrics.jsonl").read_text()
        # As run.resume=never leaves it when it is killed behind the checkpoints.
        shutil.rmtree(self.dir / "run/checkpoints")
        (self.dir / "run/config.yaml").unlink()
        (self.dir / "run/old-1").mkdir()
        self.assert_exit(self.run_trainer(self.settings(data, train__max_steps=2, train__log_every=1)), 0)
        self.assertEqual((self.dir / "run/old-2/metrics.jsonl").read_text(), rows)
        self.assertEqual([row["step"] for row in self.metrics("run", "step")], [1, 2])


if __name__ == "__main__":
    system_test.main()
