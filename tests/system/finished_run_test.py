"""What a run that has reached its end says and does when it is started again."""

import shutil

import system_test
from recipes import TrainingTest


class FinishedRun(TrainingTest):
    def test_a_finished_run_says_so_and_shows_its_result_again(self):
        data, val = self.small_data(64), self.small_data(40, "val.h5")
        first = self.run_trainer(self.settings(data, data__val=val))
        second = self.run_trainer(self.settings(data, data__val=val))
        self.assert_exit(second, 0)
        self.assertIn("is finished", second.stderr)
        self.assertIn("to train longer: train.epochs=2", second.stderr)
        self.assertEqual(second.stdout, first.stdout)
        self.assertIn("test accuracy", second.stdout)

    def test_a_run_that_ended_by_its_steps_says_how_to_go_on(self):
        data = self.small_data(64)  # 8 steps an epoch
        self.assert_exit(self.run_trainer(self.settings(data, train__max_steps=3)), 0)
        again = self.run_trainer(self.settings(data, train__max_steps=3))
        self.assertIn("to train longer: train.max_steps=11\n", again.stderr)

    def test_an_evaluation_behind_the_last_checkpoint_is_not_made_again(self):
        data, val = self.small_data(64), self.small_data(40, "val.h5")
        settings = self.settings(data, data__val=val, train__epochs=9, train__max_steps=3,
                                 train__checkpoint__every="3 steps")
        first = self.run_trainer(settings)
        self.assert_exit(first, 0)
        again = self.run_trainer(settings)
        self.assertIn("is finished", again.stderr)
        self.assertEqual(again.stdout, first.stdout)

    def test_validation_data_given_after_the_end_are_evaluated(self):
        data, val = self.small_data(64), self.small_data(40, "val.h5")
        self.assert_exit(self.run_trainer(self.settings(data)), 0)
        result = self.run_trainer(self.settings(data, data__val=val))
        self.assert_exit(result, 0)
        self.assertIn("test accuracy", result.stdout)
        self.assertEqual(len(self.metrics("run", "eval")), 1)

    def test_where_an_evaluation_is_left_settings_that_trained_nothing_are_named(self):
        data, val = self.small_data(64), self.small_data(40, "val.h5")
        self.assert_exit(self.run_trainer(self.settings(data)), 0)
        result = self.run_trainer(self.settings(data, data__val=val, train__label_smoothing=0.1))
        self.assert_exit(result, 0)
        self.assertRegex(result.stderr, "the run is trained to its end: other settings than it was "
                                        r"trained with are in config.yaml from now on, but did not train it \(.*"
                                        r"train.label_smoothing: 0 -> 0.1\)")
        self.assertNotIn("going on with other settings", result.stderr)
        self.assertEqual(len(self.metrics("run", "eval")), 1)

    def test_a_finished_run_does_not_take_other_data_for_its_own(self):
        data, copy, other = self.small_data(64), self.dir / "copy.h5", self.small_data(80, "other.h5")
        shutil.copy(data, copy)
        self.assert_exit(self.run_trainer(self.settings(data)), 0)
        files = {path: path.read_bytes() for path in (self.dir / "run").glob("*.*") if path.name != "log.txt"}
        refused = self.run_trainer(self.settings(other))
        self.assert_exit(refused, 2)
        self.assertRegex(refused.stderr, rf"run/checkpoints/step-\d+.h5 is of a run that is finished, and was trained on other data "
                                         rf"\(data.train: \[{data}\] -> \[{other}\]\); train.epochs=2 goes on")
        other.replace(data)  # of the same name
        self.assertIn("(data.train: the samples, their number, ", self.run_trainer(self.settings(data)).stderr)
        normalised = self.run_trainer(self.settings(copy, data__normalize="{mean: [0.3], std: [0.3]}"))
        self.assert_exit(normalised, 2)
        self.assertIn("(data.normalize: ", normalised.stderr)
        # Where the same data lie elsewhere it is finished, and is described as it was trained.
        moved = self.run_trainer(self.settings(copy, train__label_smoothing=0.1))
        self.assert_exit(moved, 0)
        self.assertIn("the run is finished: settings other than it was trained with are not used (data.train: ", moved.stderr)
        self.assertIn("train.label_smoothing: 0 -> 0.1)", moved.stderr)
        self.assertEqual({path: path.read_bytes() for path in files}, files)

    def test_a_resume_under_another_normalisation_forgets_the_best(self):
        data, val = self.small_data(64), self.small_data(40, "val.h5")
        settings = {"data__val": val, "train__checkpoint__best": "val/loss"}
        self.assert_exit(self.run_trainer(self.settings(data, **settings, train__epochs=2)), 0)
        self.assert_exit(self.run_trainer(self.settings(data, **settings, train__epochs=3,
                                                        data__normalize="{mean: [0], std: [50]}")), 0)
        last = self.metrics("run", "eval")[-1]
        shown = self.run_trainer(["inspect", self.dir / "run"]).stdout
        self.assertRegex(shown, rf"best +step {last['step']} ", "the loss there was far better")

    def test_a_resume_under_another_normalisation_of_the_training_file_forgets_the_best(self):
        """Validation data that do not say theirs are normalised as the training data."""
        images, val = self.synthetic_idx(64, classes=4, side=8), self.small_data(40, "val.h5")
        settings = {"data__val": val, "train__checkpoint__best": "val/loss"}
        for epochs, std in ((2, "0.3"), (3, "50")):
            data = self.pack(*images, options=["--mean", "0.3", "--std", std])
            result = self.run_trainer(self.settings(data, **settings, train__epochs=epochs))
            self.assert_exit(result, 0)
        self.assertIn("or their normalisation are not what they were", result.stderr)
        last = self.metrics("run", "eval")[-1]
        shown = self.run_trainer(["inspect", self.dir / "run"]).stdout
        self.assertRegex(shown, rf"best +step {last['step']} ", "the loss there was far better")
        self.assertIn("trained   with mean 0.3, std 50\n", shown)


if __name__ == "__main__":
    system_test.main()
