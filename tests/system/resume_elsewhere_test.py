"""Resumes from a file that lies elsewhere, and on other data to evaluate on."""

import json
import shutil

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

    def test_the_best_is_one_that_the_directory_has(self):
        data, val = self.small_data(64), self.small_data(40, "val.h5")
        best = {"data__val": val, "train__checkpoint__best": "val/loss", "train__checkpoint__keep": 1}
        self.assert_exit(self.run_trainer(self.settings(data, run="first", **best)), 0)
        file = self.latest("first")
        self.assert_exit(self.run_trainer(self.settings(data, train__epochs=2, run__resume=file, **best)), 0)
        told = self.run_trainer(["eval", "--run", self.dir / "run", "--data", val, "--best"])
        self.assert_exit(told, 0)

    def test_a_finished_file_makes_a_directory_that_holds_it(self):
        data = self.small_data(64)
        self.assert_exit(self.run_trainer(self.settings(data, run="first")), 0)
        self.assert_exit(self.run_trainer(self.settings(data, run__resume=self.latest("first"))), 0)
        self.assertEqual(self.latest("run").name, self.latest("first").name)
        longer = self.run_trainer(self.settings(data, train__epochs=2))
        self.assert_exit(longer, 0)
        self.assertIn("resuming", longer.stderr)

    def test_other_data_to_evaluate_on_are_evaluated_and_begin_the_metrics_anew(self):
        data, val, other = self.small_data(64), self.small_data(40, "val.h5"), self.small_data(24, "other.h5")
        asked = {"train__checkpoint__best": "val/accuracy", "train__early_stopping": "{patience: 1}"}
        self.assert_exit(self.run_trainer(self.settings(data, data__val=val, **asked)), 0)
        result = self.run_trainer(self.settings(data, data__val=other, **asked))
        self.assert_exit(result, 0)
        self.assertIn("of 24)", result.stdout)
        said = json.loads(self.run_trainer(["eval", "--run", self.dir / "run", "--data", other, "--json"]).stdout)
        self.assertIn(f"{said['accuracy']:.4f}", result.stdout)

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
