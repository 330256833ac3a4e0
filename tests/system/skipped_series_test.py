"""A run that skips one update after the other (train.nan_policy: skip) ends, and says how to go on."""

import json
import re
import shlex

import system_test
from recipes import TrainingTest

SKIPPED = r"epoch \d+, samples \d+ to \d+: .*; the update is skipped"


class SkippedSeries(TrainingTest):
    # The first update throws the weights so far that every later loss is not finite.
    WILD = {"train__nan_policy": "skip", "optim__lr": 1e30, "train__epochs": 1000}
    # So does the first of the second epoch: of 64 samples the fifth on two ranks.
    LATER = {"train__nan_policy": "skip", "optim__lr": 0.01, "train__epochs": 1000, "schedule__name": "step",
             "schedule__step_size": 1, "schedule__gamma": 1e30}

    def train(self, ranks, expect, data, run="run", **settings):
        result = self.mpirun(ranks, self.settings(data, run, **settings))
        self.assert_exit(result, expect)
        if expect == 1:
            self.assertEqual(len(re.findall(SKIPPED, result.stderr)), 100, result.stderr)
            self.assertEqual(result.stderr.count("error: "), 1, result.stderr)
        return result

    def end_of(self, result):
        """The error, and the command in it."""
        error, command = result.stderr.split("error: ")[1].split("; where it comes from: trainer replay ")
        return error, shlex.split(command)[0]

    def test_the_run_ends_after_100_and_names_them(self):
        data = self.small_data(64)
        for ranks, to in (1, "epoch 13, samples 32 to 39"), (2, "epoch 26, samples 0 to 15"):
            run = f"run{ranks}"
            error, file = self.end_of(self.train(ranks, 1, data, run, **self.WILD))
            checkpoint = self.dir / run / "checkpoints/step-00000001.h5"
            self.assertEqual(error, f"step 2: 100 updates one after the other were skipped (train.nan_policy: skip), from epoch 1, "
                             f"samples {8 * ranks} to {16 * ranks - 1}, to {to}, where the loss is nan; the weights have not changed "
                             f"since step 1 and are in the last checkpoint, {checkpoint}; start anew (run.resume=never) with "
                             "a lower optim.lr or with optim.clip_norm, or check the data")
            self.assertEqual(file, str(self.dir / run / "failed-step-00000002.h5"))
            replayed = self.run_trainer(["replay", file, "--json"])
            self.assert_exit(replayed, 1)
            report = json.loads(replayed.stdout)
            self.assertEqual(f"epoch {report['epoch'] + 1}, samples {report['begin']} to {report['end'] - 1}", to)
            self.assertTrue(report["reproduced"])

    def test_ranks_agree_on_it_however_they_share_the_work(self):
        data = self.small_data(64)
        for run, more in {"zero1": {"distributed__strategy": "zero1"}, "accumulate": {"train__accumulate": 2},
                          "clip": {"optim__clip_norm": 1e20}, "ema": {"train__ema": 0.9},
                          "deterministic": {"run__deterministic": "true", "run__virtual_shards": 4}}.items():
            with self.subTest(run):
                error, _ = self.end_of(self.train(2, 1, data, run, train__checkpoint__every="never", **self.WILD, **more))
                clip = "" if run == "clip" else " with"
                self.assertIn("the weights have not changed since step 1; there is no checkpoint; start anew (run.resume=never) "
                              f"with a lower optim.lr or{clip} optim.clip_norm, or check the data", error)

    def test_a_resume_counts_anew_and_a_new_run_begins_with_an_earlier_checkpoint(self):
        data = self.small_data(64)
        error, _ = self.end_of(self.train(2, 1, data, train__checkpoint__keep=1, **self.LATER))
        folder = self.dir / "run/checkpoints"
        # What was saved while updates were skipped has pushed nothing out.
        earlier = f"model.init_from={folder / 'step-00000004.h5'}"
        self.assertIn(f"the weights have not changed since step 5 and are in the last checkpoint, {folder / 'step-00000005.h5'}; begin "
                      f"a new run, in a run.dir of its own, with {earlier} and with a lower optim.lr or with optim.clip_norm", error)
        # 99 of the first hundred were before the last checkpoint.
        self.assertIn("(199 until now)", self.train(2, 1, data, **self.LATER).stderr)
        settings = self.settings(data, "new", optim__lr=0.001, optim__clip_norm=1, train__epochs=3, train__nan_policy="skip")
        result = self.mpirun(2, [*settings, earlier])
        self.assert_exit(result, 0)
        self.assertNotIn("skipped", result.stderr)
        # The culprits of a run elsewhere are named, too.
        error, _ = self.end_of(self.train(2, 1, data, "else", train__checkpoint__every="never",
                                          run__resume=folder / "step-00000005.h5", **self.LATER))
        self.assertIn(f"have not changed since step 5 and are those of {folder / 'step-00000005.h5'}; start anew", error)

    def test_a_run_that_finished_with_skipped_updates_keeps_the_earlier_checkpoint(self):
        data = self.small_data(64)
        for said in "finished after 5 steps", "is finished: 5 steps":
            result = self.train(2, 0, data, train__checkpoint__keep=1, **{**self.LATER, "train__epochs": 3})
            self.assertIn(said, result.stderr)
            self.assertEqual(sorted(path.name for path in (self.dir / "run/checkpoints").iterdir()),
                             ["step-00000004.h5", "step-00000005.h5"])

    def test_a_gradient_whose_square_is_infinite_is_left_out(self):
        data = self.small_data(64)
        far = {"data__normalize": "{mean: [0], std: [1e-25]}", "train__nan_policy": "skip", "optim__lr": 1e-30,
               "optim__momentum": 0}
        for ranks in 1, 2:
            for name in "adam", "adamw", "adadelta", "lamb":
                left_out = self.train(ranks, 0, data, f"{name}{ranks}", optim__name=name, **far)
                said = rf"the norm of the gradient is \S+e\+\d+, and {name} squares gradients in fp32; the update is skipped"
                self.assertEqual(len(re.findall(said, left_out.stderr)), 8 // ranks, left_out.stderr)
                self.assertIn("finished after 0 steps", left_out.stderr)
        _, file = self.end_of(self.train(1, 1, data, "ended", optim__name="adam", train__epochs=1000, **far))
        replayed = self.run_trainer(["replay", file]).stdout
        self.assertIn("all is finite, as in the run; the square of the gradient's norm (", replayed)
        for run, more in {"sgd": {}, "clip": {"optim__name": "adam", "optim__clip_norm": 1},
                          "fp64": {"optim__name": "adam", "train__precision": "fp64"}}.items():
            self.assertNotIn("skipped", self.train(1, 0, data, run, **{**far, **more}).stderr)

    def test_the_last_checkpoint_is_named_where_it_has_other_weights(self):
        error, _ = self.end_of(self.train(2, 1, self.small_data(64), train__checkpoint__every="4 steps", **self.LATER))
        last = self.dir / "run/checkpoints/step-00000004.h5"
        self.assertIn(f"the weights have not changed since step 5 and are in no checkpoint: the last one, {last}, is of step 4; begin a "
                      f"new run, in a run.dir of its own, with model.init_from={last} and", error)

    def test_a_run_that_ends_with_the_hundredth_ends_as_it_would(self):
        result = self.train(1, 0, self.small_data(808), **{**self.WILD, "train__epochs": 1})
        self.assertEqual(len(re.findall(SKIPPED, result.stderr)), 100, result.stderr[-2000:])
        self.assert_exit(self.run_trainer(self.settings(self.dir / "data.h5", **{**self.WILD, "train__epochs": 1})), 0)

    def test_a_checkpoint_that_is_due_with_the_last_of_them_is_written(self):
        # 101 updates per epoch: the epoch ends with the hundredth that is skipped.
        self.train(1, 1, self.small_data(808), **self.WILD)
        shown = self.run_trainer(["inspect", self.latest("run")]).stdout
        self.assertRegex(shown, r"step +1\n +epoch +1 \(position 0\)\n +samples +808\n")
        self.assertRegex(shown, r"skipped +100 updates\n")

    def test_updates_between_them_let_the_run_go_on(self):
        # Four updates per epoch, of which one has a sample that is infinite on its scale.
        rows = [",".join(["3.3e38"] * 4 if i == 5 else [str((i + k) % 3) for k in range(4)]) + f",{i % 2}" for i in range(32)]
        (self.dir / "table.csv").write_text("\n".join(["a,b,c,d,label", *rows]) + "\n")
        data = self.dir / "table.h5"
        self.assert_exit(self.run_trainer(["pack", "csv", "--csv", self.dir / "table.csv", "--label", "label", "-o", data]), 0)
        result = self.train(1, 0, data, train__nan_policy="skip", train__epochs=110, optim__lr=1e-6,
                            train__checkpoint__every="never", data__normalize="{mean: [0], std: [0.001]}")
        self.assertEqual(len(re.findall(SKIPPED, result.stderr)), 110, result.stderr[-2000:])
        self.assertIn("; 110 updates were skipped (log.txt says why)", result.stderr)
        self.assertEqual([row["skipped"] for row in self.epochs("run")], list(range(1, 111)))


if __name__ == "__main__":
    system_test.main()
