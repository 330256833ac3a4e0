"""data.on_error: skip on a compressed file of which a chunk is damaged on the disk."""

import json
import os
import subprocess

import system_test
from recipes import OwnCache, TrainingTest


class OnError(OwnCache, TrainingTest):
    def data(self, name, samples, chunk, damaged=()):
        path = self.dir / name
        subprocess.run([os.environ["TUTTI_DAMAGED_DATA"], path, str(samples), "4", "8", str(chunk),
                        *(str(number) for number in damaged)], check=True)
        return path

    def train(self, ranks, settings, code=0):
        result = self.mpirun(ranks, settings) if ranks > 1 else self.run_trainer(settings)
        self.assert_exit(result, code)
        return result

    def test_a_broken_sample_stops_the_run_unless_told_otherwise(self):
        data = self.data("data.h5", 96, 4, [5])
        for ranks in (1, 2):
            result = self.train(ranks, self.settings(data, f"stop-{ranks}"), 4)
            self.assertIn("cannot be read", result.stderr)
            self.assertIn(str(data), result.stderr)
            self.assertIn("or go on without such samples with data.on_error=skip", result.stderr)

    def test_a_stopped_run_has_saved_before_an_evaluation_that_fails(self):
        """The signal comes in the last update: the evaluation behind it is made, in what time there is."""
        data, val = self.data("data.h5", 64, 4), self.data("val.h5", 40, 4, [2])
        self.trainer = self.signalled()
        result = self.run_trainer(self.settings(data, data__val=val, train__batch_size=64, train__max_steps=1,
                                                train__checkpoint__every="never"))
        self.assert_exit(result, 4)
        self.assertIn("val.h5", result.stderr)
        self.assertEqual(self.latest("run").name, "step-00000001.h5")

    def test_many_skipped_samples_are_counted_without_their_names(self):
        data = self.data("data.h5", 96, 4, range(10))
        for ranks in (1, 2):
            settings = self.settings(data, f"many-{ranks}", train__batch_size=16 // ranks, train__epochs=2,
                                     data__on_error="skip")
            self.train(ranks, settings)
            log = (self.dir / f"many-{ranks}" / "log.txt").read_text()
            self.assertEqual(log.count("the sample is skipped"), 20)
            self.assertEqual(log.count("20 samples that cannot be read have been named; more are only counted"), 1)
            for epoch in (1, 2):
                self.assertIn(f"epoch {epoch}: 40 of 96 samples could not be read and were skipped", log)

    def test_skipped_samples_are_named_once_and_counted(self):
        # Chunks 5 and 11: samples 20..23 and 44..47.
        data, val = self.data("data.h5", 96, 4, [5, 11]), self.data("val.h5", 40, 4, [2])
        losses, evals = {}, {}
        for name, ranks, workers in (("one", 1, 0), ("workers", 1, 2), ("two", 2, 0), ("two-workers", 2, 2)):
            settings = self.settings(data, name, train__batch_size=16 // ranks, data__workers=workers,
                                     train__epochs=2, train__log_every=1, data__val=val, data__on_error="skip")
            result = self.train(ranks, settings)
            log = (self.dir / name / "log.txt").read_text()
            for sample in (20, 21, 22, 23, 44, 45, 46, 47):
                self.assertEqual(log.count(f"{data}: sample {sample} cannot be read"), 1, f"{name}: {log}")
            for sample in (8, 9, 10, 11):
                self.assertEqual(log.count(f"{val}: sample {sample} cannot be read"), 1)
            self.assertEqual(log.count("the sample is skipped"), 12)
            for epoch in (1, 2):
                self.assertIn(f"epoch {epoch}: 8 of 96 samples could not be read and were skipped", log)
                self.assertIn(f"epoch {epoch}: 4 validation samples could not be read and do not count", log)
            self.assertIn("of 88)", log)
            self.assertIn("of 36)", result.stdout)
            steps = self.metrics(name, "step")
            self.assertEqual([row["unreadable"] for row in steps if row["samples"] in (96, 192)], [8, 8])
            losses[name] = self.losses(name)
            evals[name] = self.metrics(name, "eval")
            self.assertEqual([row["samples"] for row in evals[name]], [36, 36])
            self.assertEqual([row["unreadable"] for row in evals[name]], [4, 4])
        self.assertEqual(losses["workers"], losses["one"])
        self.assertEqual(losses["two-workers"], losses["two"])
        for one, two in zip(losses["one"], losses["two"], strict=True):
            self.assertAlmostEqual(one, two, places=5)
        self.assertEqual(evals["one"][-1]["correct"], evals["two"][-1]["correct"])

    def test_a_step_without_them_has_the_bits_of_a_step_on_the_others(self):
        # The last chunk of 24 samples is damaged; the same file of the first 20 has the same first samples.
        damaged, whole = self.data("damaged.h5", 24, 4, [5]), self.data("whole.h5", 20, 4)
        sums = set()
        for name, data, batch in (("damaged", damaged, 24), ("whole", whole, 20)):
            self.train(1, self.settings(data, name, train__batch_size=batch, train__max_steps=1, data__shuffle="false",
                                        train__log_every=1, data__on_error="skip"))
            sums.add(self.sha256(name))
        self.assertEqual(self.losses("damaged"), self.losses("whole"))
        self.assertEqual(len(sums), 1)

    def test_accumulated_and_sharded_updates_weigh_what_is_there(self):
        # In file order the four broken samples are one batch of rank 0 and 1 alike.
        data = self.data("data.h5", 96, 4, [5])
        runs = {"plain": (1, {"train.batch_size": 16}),
                "accumulated": (1, {"train.batch_size": 4, "train.accumulate": 4}),
                "zero1": (2, {"train.batch_size": 8, "distributed.strategy": "zero1"}),
                "across": (2, {"train.batch_size": 8, "distributed.strategy": "ddp",
                               "distributed.across_steps": "true", "distributed.bucket_policy": "per_layer"})}
        losses = {}
        for name, (ranks, more) in runs.items():
            self.train(ranks, self.settings(data, name, train__epochs=2, train__log_every=1, data__shuffle="false",
                                            data__on_error="skip") +
                       [f"{key}={value}" for key, value in more.items()])
            losses[name] = self.losses(name)
        for name in runs:
            self.assertEqual(len(losses[name]), 12)
            for one, other in zip(losses["plain"], losses[name]):
                self.assertAlmostEqual(one, other, places=5, msg=name)

    def test_virtual_shards_on_threads_and_ranks_go_on_or_stop_alike(self):
        data = self.data("data.h5", 96, 4, [5, 11])
        losses, sums = {}, set()
        for ranks in (1, 2, 4):  # alone it has a thread for each core
            settings = self.settings(data, f"skip-{ranks}", train__batch_size=16 // ranks, train__epochs=2,
                                     train__log_every=1, run__deterministic="true")
            result = self.train(ranks, settings, 4)
            self.assertIn("cannot be read", result.stderr)
            settings = self.settings(data, f"skip-{ranks}", train__batch_size=16 // ranks, train__epochs=2,
                                     train__log_every=1, run__deterministic="true", data__on_error="skip")
            self.train(ranks, settings)
            losses[ranks] = self.losses(f"skip-{ranks}")
            sums.add(self.sha256(f"skip-{ranks}"))
        self.assertEqual(len(losses[1]), 12)
        self.assertEqual(losses[2], losses[1])
        self.assertEqual(losses[4], losses[1])
        self.assertEqual(len(sums), 1)

    def test_one_virtual_shard_per_rank_weighs_what_is_there(self):
        data = self.data("data.h5", 96, 4, [5, 11])
        common = {"train__epochs": 2, "train__log_every": 1, "data__on_error": "skip"}
        self.train(1, self.settings(data, "plain", train__batch_size=16, **common))
        for ranks in (1, 4):
            self.train(ranks, self.settings(data, f"shards-{ranks}", train__batch_size=16 // ranks,
                                            run__deterministic="true", run__virtual_shards=4, **common))
        self.assertEqual(self.losses("shards-4"), self.losses("shards-1"))
        self.assertEqual(self.sha256("shards-4"), self.sha256("shards-1"))
        self.assertEqual(len(self.losses("plain")), 12)
        for one, other in zip(self.losses("plain"), self.losses("shards-4"), strict=True):
            self.assertAlmostEqual(one, other, places=5)

    def test_an_update_without_any_sample_is_no_step(self):
        data = self.data("data.h5", 96, 8, [3])
        settings = self.settings(data, train__batch_size=8, train__epochs=1, train__log_every=1, data__shuffle="false",
                                 data__on_error="skip")
        result = self.train(1, settings)
        self.assertIn("none of its samples could be read; the update is skipped", result.stderr)
        self.assertEqual(self.metrics("run", "step")[-1]["step"], 11)

    def test_an_update_without_any_sample_leaves_the_weights_whichever_the_schedule(self):
        data = self.data("data.h5", 96, 8, [3])
        for across in "false", "true":
            result = self.train(2, self.settings(data, across, train__batch_size=4, train__epochs=1, train__log_every=1,
                                                 data__shuffle="false", data__on_error="skip", optim__momentum=0.9,
                                                 distributed__across_steps=across))
            self.assertIn("none of its samples could be read; the update is skipped", result.stderr)
        self.assertEqual(self.losses("true"), self.losses("false"))

    def test_a_resume_goes_on_counting(self):
        data = self.data("data.h5", 96, 4, [1, 20])
        settings = self.settings(data, train__batch_size=16, train__epochs=1, train__log_every=1, data__shuffle="false",
                                 data__on_error="skip")
        self.train(1, settings + ["train.max_steps=3"])
        self.assertEqual(self.metrics("run", "step")[-1]["unreadable"], 4)
        self.train(1, settings)
        self.assertEqual(self.metrics("run", "step")[-1]["unreadable"], 8)

    def test_more_than_half_end_the_run_with_4(self):
        data, val = self.data("data.h5", 96, 8, range(7)), self.data("val.h5", 40, 4, range(6))
        for ranks in (1, 2):
            name = f"run-{ranks}"
            result = self.train(ranks, self.settings(data, name, data__on_error="skip", train__batch_size=8), 4)
            self.assertIn("could not be read, more than half", result.stderr)
        good = self.data("good.h5", 96, 8)
        result = self.train(2, self.settings(good, "val", data__val=val, data__on_error="skip", train__epochs=1), 4)
        self.assertIn("24 of 40 samples could not be read, more than half", result.stderr)

    def test_eval_skips_and_predict_does_not(self):
        data, val = self.data("data.h5", 96, 8), self.data("val.h5", 40, 4, [2])
        self.train(1, self.settings(data, train__epochs=1))
        for ranks in (1, 2):
            arguments = ["eval", "--run", self.dir / "run", "--data", val, "--json", "data.on_error=skip"]
            result = self.train(ranks, arguments)
            row = json.loads(result.stdout)
            self.assertEqual((row["samples"], row["unreadable"]), (36, 4))
            self.assertEqual(result.stderr.count("the sample is skipped"), 4)
        result = self.train(1, ["predict", "--run", self.dir / "run", "--data", val, "-o", self.dir / "out.h5",
                                "data.on_error=skip"], 4)
        self.assertIn("cannot be read", result.stderr)


if __name__ == "__main__":
    system_test.main()
