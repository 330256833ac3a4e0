"""The optimizer's state divided among ranks: the results of ddp, checkpoints for any number of ranks, less memory."""

import os
import re
import signal

import system_test
from recipes import TrainingTest

ADAMW = {"optim__name": "adamw", "optim__lr": 0.01, "optim__momentum": 0, "optim__weight_decay": 0.1,
         "train__log_every": 1}


class Zero1(TrainingTest):
    def train(self, ranks, run, strategy, batch=8, **overrides):
        given = {**ADAMW, "train__batch_size": batch, **overrides}
        if ranks == 1 and strategy == "auto":
            return self.run_trainer(self.settings(self.data(), run, **given))
        return self.mpirun(ranks, self.settings(self.data(), run, distributed__strategy=strategy, **given))

    def data(self):
        path = self.dir / "data.h5"
        return path if path.exists() else self.small_data(100)

    def test_it_has_the_bits_of_ddp_on_two_three_and_four_ranks(self):
        for ranks in (2, 3, 4):
            said = {}
            for strategy in ("ddp", "zero1", "auto"):
                said[strategy] = self.train(ranks, f"{strategy}{ranks}", strategy, train__ema=0.9)
                self.assert_exit(said[strategy], 0)
            for strategy in ("zero1", "auto"):
                self.assertEqual(self.losses(f"{strategy}{ranks}"), self.losses(f"ddp{ranks}"), f"{ranks} ranks")
                self.assertEqual(self.sha256(f"{strategy}{ranks}"), self.sha256(f"ddp{ranks}"), f"{ranks} ranks")
                self.assertIn(f"zero1: each rank keeps 1/{ranks}", said[strategy].stdout + said[strategy].stderr)
            self.assertNotIn("zero1", said["ddp"].stdout + said["ddp"].stderr)

    def test_ranks_with_different_numbers_of_cores_issue_the_same_collectives(self):
        # Whether the update goes piece by piece through shared memory depends on the ranks' threads.
        library = self.preloadable("TUTTI_UNEVEN_CORES")
        # A sanitizer's library would have to be preloaded first; it is linked, and may come second.
        env = {"ASAN_OPTIONS": os.environ.get("ASAN_OPTIONS", "") + ":verify_asan_link_order=0"}
        for strategy in ("ddp", "zero1", "auto"):
            command = self.settings(self.data(), strategy, distributed__strategy=strategy, train__batch_size=8, **ADAMW)
            result = self.mpirun(2, command, options=("-x", f"LD_PRELOAD={library}"), env=env)
            self.assert_exit(result, 0)
            self.assertIn("2 threads", result.stdout + result.stderr)
        for strategy in ("zero1", "auto"):
            self.assertEqual(self.losses(strategy), self.losses("ddp"))
            self.assertEqual(self.sha256(strategy), self.sha256("ddp"))

    def test_a_run_goes_on_on_other_ranks_and_under_the_other_strategy(self):
        # In fp64 and with the same global batch of 12 every way must give the same losses up to rounding.
        same = {"train__precision": "fp64", "train__epochs": 2}
        self.assert_exit(self.train(1, "whole", "auto", 12, **same), 0)
        whole = self.losses("whole")
        for stop, ranks, strategy, batch in ((3, 3, "zero1", 4), (5, 2, "zero1", 6), (8, 2, "ddp", 6),
                                             (11, 4, "zero1", 3), (None, 1, "auto", 12)):
            more = {} if stop is None else {"train__max_steps": stop}
            self.assert_exit(self.train(ranks, "moved", strategy, batch, **same, **more), 0)
        moved = self.losses("moved")
        self.assertEqual(len(moved), 18)
        for one, other in zip(whole, moved, strict=True):
            self.assertAlmostEqual(one, other, delta=1e-10 * abs(one))

    def test_a_checkpoint_keeps_the_config_as_given_whatever_auto_took(self):
        for ranks, strategy in ((1, "auto"), (2, "auto"), (2, "ddp")):
            run = f"{strategy}{ranks}"
            self.assert_exit(self.train(ranks, run, strategy, train__max_steps=2), 0)
            config = (self.dir / run / "config.yaml").read_bytes()
            self.assertIn(f"strategy: {strategy}".encode(), config)
            self.assertIn(config, self.latest(run).read_bytes())  # HDF5 stores the text as it is
        # zero1 would refuse this policy; auto is what the checkpoint says.
        said = self.train(2, "auto2", "auto", distributed__bucket_policy="auto", train__max_steps=4)
        self.assert_exit(said, 0)
        self.assertIn("resuming", said.stdout + said.stderr)

    def test_an_interrupted_run_goes_on_to_the_bits_of_an_uninterrupted_one(self):
        self.assert_exit(self.train(3, "full", "zero1", 4, train__epochs=40), 0)
        given = {**ADAMW, "train__batch_size": 4, "train__epochs": 40, "distributed__strategy": "zero1"}
        command = self.settings(self.data(), "cut", **given)
        with self.start_mpirun(3, command) as job:
            job.wait_for_metrics(self.dir / "cut", 6)
            job.signal_rank(1, signal.SIGUSR1)
            self.assert_exit(job.wait(), 75)
        steps = len(self.losses("cut"))
        self.assertLess(steps, len(self.losses("full")))
        self.assert_exit(self.mpirun(3, command), 0)
        self.assertEqual(self.losses("cut"), self.losses("full"))
        self.assertEqual(self.sha256("cut"), self.sha256("full"))

    def test_inspect_shows_what_it_saves(self):
        config = self.dir / "c.yaml"
        config.write_text(f"data: {{train: {self.data()}}}\nmodel: {{name: mlp, hidden: [256, 256]}}\n"
                          "optim: {name: adamw}\ntrain: {batch_size: 8}\n")

        def rows(*settings):
            result = self.run_trainer(["inspect", "-c", config, "--world", "4", *settings])
            self.assert_exit(result, 0)
            found = re.findall(r"^  (\w+) +([\d.]+) (\w+)  ", result.stdout, re.MULTILINE)
            unit = {"B": 1, "KiB": 1 << 10, "MiB": 1 << 20}
            return {name: float(size) * unit[of] for name, size, of in found if of in unit}, result.stdout

        ddp, text = rows("distributed.strategy=ddp")
        self.assertNotIn("zero1", text)
        zero1, text = rows("distributed.strategy=zero1")
        self.assertAlmostEqual(zero1["optimizer"] / ddp["optimizer"], 1 / 4, delta=0.01)
        self.assertIn("zero1", text)
        # What all ranks on this host would train with.
        for settings, same, words in (((), zero1, "auto is zero1"),
                                      (("optim.clip_norm=1",), ddp, "auto is ddp"),
                                      (("distributed.backend=gloo",), ddp, "auto is ddp")):
            auto, text = rows(*settings)
            self.assertEqual(auto["optimizer"], same["optimizer"])
            self.assertIn(f"distributed.strategy {words}", text)

    def test_what_it_cannot_do_is_refused_with_the_remedy(self):
        for overrides, words in (({"optim__name": "lamb"}, ("norm of each whole parameter", "adamw")),
                                 ({"distributed__bucket_policy": "auto"}, ("bucket_policy is auto", "per_layer"))):
            given = {"optim__lr": 0.01, "optim__momentum": 0, **overrides}
            result = self.mpirun(2, self.settings(self.data(), distributed__strategy="zero1", **given))
            self.assert_exit(result, 2)
            for word in words:
                self.assertIn(word, result.stderr)


if __name__ == "__main__":
    system_test.main()
