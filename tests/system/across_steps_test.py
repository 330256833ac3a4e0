"""distributed.across_steps: the same run, to the bit, whether buckets end with their step or in the next one's forward."""

import signal

import system_test
from by_hand import RendezvousTest
from recipes import OwnCache

CONVOLUTIONS = {"model__name": "null", "model__hidden": "null",
                "model__layers": "[{conv2d: {out: 4, kernel: 3}}, batch_norm2d, relu, {max_pool2d: {kernel: 2}}, "
                                 "{dropout: {p: 0.3}}, flatten, {linear: {out: 6}}, relu, {linear: {out: 4}}]"}


class AcrossSteps(OwnCache, RendezvousTest):
    def train(self, ranks, run, **settings):
        data, val = self.dir / "data.h5", self.dir / "val.h5"
        if not data.exists():
            self.small_data(100)
            self.small_data(40, "val.h5")
        given = {"data__val": val, "train__log_every": 1, "train__epochs": 2, "train__batch_size": 4,
                 "optim__name": "adamw", "optim__lr": 0.01, "optim__momentum": 0,
                 "distributed__bucket_policy": "per_layer", **settings}
        return self.mpirun(ranks, self.settings(data, run, **given))

    def check(self, ranks, **settings):
        for across in ("true", "false"):
            self.assert_exit(self.train(ranks, across, distributed__across_steps=across, **settings), 0)
        self.assertEqual(self.outcome("true"), self.outcome("false"))

    def test_two_ranks_with_an_evaluation_after_each_epoch_and_a_checkpoint_every_third_step(self):
        self.check(2, train__checkpoint__every="3 steps")

    def test_three_ranks_with_batch_norm_dropout_and_a_moving_average(self):
        self.check(3, train__ema=0.9, **CONVOLUTIONS)

    def test_four_ranks_that_compute_activations_again(self):
        self.check(4, train__recompute="true", train__batch_size=2, **CONVOLUTIONS)

    def test_a_last_step_by_max_steps_is_complete(self):
        self.check(2, train__max_steps=5)

    def test_a_recorded_run_has_the_bits_of_one_that_is_not(self):
        self.check(2, run__trace="true", run__trace_steps=4)

    def test_a_resume_in_the_middle_goes_on_with_the_other_schedule(self):
        self.assert_exit(self.train(2, "full", distributed__across_steps="false"), 0)
        self.assert_exit(self.train(2, "run", distributed__across_steps="true", train__max_steps=7), 0)
        self.assert_exit(self.train(2, "run", distributed__across_steps="false", train__max_steps=11), 0)
        self.assert_exit(self.train(2, "run", distributed__across_steps="true"), 0)
        self.assertEqual(self.outcome("full")[1], self.outcome("run")[1])

    def test_a_signal_saves_all_of_the_last_step(self):
        data = self.small_data(100)
        settings = self.settings(data, "run", train__epochs=100000, train__log_every=1, train__batch_size=4,
                                 distributed__bucket_policy="per_layer", distributed__across_steps="true",
                                 optim__name="adamw",
                                 optim__lr=0.001, optim__momentum=0)
        with self.start_mpirun(2, settings) as job:
            job.wait_for_metrics(self.dir / "run")
            job.signal_rank(1, signal.SIGUSR1)
            result = job.wait()
        self.assert_exit(result, 75)
        step = self.metrics("run", "step")[-1]["step"]
        self.assertEqual(self.latest("run").name, f"step-{step:08d}.h5")
        again = [one for one in settings if not one.startswith(("run.dir=", "distributed.across_steps="))]
        again += [f"run.dir={self.dir / 'again'}", f"train.max_steps={step}", "distributed.across_steps=false"]
        self.assert_exit(self.mpirun(2, again), 0)
        self.assertEqual(self.sha256(self.latest("run")), self.sha256(self.latest("again")))

    def test_a_killed_peer_ends_the_others(self):
        data = self.small_data(100)
        settings = self.settings(data, "run", train__epochs=100000, train__log_every=1, train__batch_size=4,
                                 distributed__bucket_policy="per_layer", distributed__across_steps="true",
                                 train__checkpoint__every="never", distributed__timeout=2)
        with self.start_mpirun(3, settings) as job:
            job.wait_for_metrics(self.dir / "run")
            job.signal_rank(1, signal.SIGKILL)
            result = job.wait(60)
        self.assertNotEqual(result.exit_code, 0)
        self.assertRegex(result.stderr, r"error: in step \d+ \(epoch \d+\): .*waited")

    def test_measured_buckets_have_the_bits_of_others(self):
        long = {"train__epochs": 16, "train__batch_size": 4, "model__hidden": "[16, 12, 8]"}  # enough to choose
        for policy in ("auto", "cost_model", "ddp"):
            self.assert_exit(self.train(2, policy, distributed__across_steps="true",
                                        distributed__bucket_policy=policy, **long), 0)
        self.assertEqual(self.outcome("auto"), self.outcome("ddp"))
        self.assertEqual(self.outcome("cost_model"), self.outcome("ddp"))

    def test_a_loss_that_is_not_finite_ends_the_run_as_before(self):
        said = [self.train(2, across, distributed__across_steps=across, optim__name="sgd", optim__lr=1e30)
                for across in ("true", "false")]
        for result in said:
            self.assert_exit(result, 1)
            self.assertRegex(result.stderr, r"step \d+ \(epoch 1\): the loss is")

    def test_auto_leaves_one_bucket_within_its_step_and_true_does_not(self):
        self.requires_gloo()  # by shared memory auto is within steps anyway
        for across, policy, said in (("auto", "single", True), ("true", "single", False), ("auto", "per_layer", False)):
            result = self.train(2, f"{across}-{policy}", distributed__across_steps=across,
                                distributed__bucket_policy=policy, distributed__backend="gloo")
            self.assert_exit(result, 0)
            self.assertEqual("transfers end with their step: there is one bucket" in result.stderr, said, result.stderr)
        self.assertEqual(self.outcome("auto-single"), self.outcome("true-single"))

    def test_where_it_cannot_be_done_true_says_why(self):
        for reason, settings in {"train.accumulate is 2": {"train__accumulate": 2},
                                 "optim.clip_norm": {"optim__clip_norm": 1},
                                 "zero1": {"distributed__strategy": "zero1"}}.items():
            result = self.train(2, "run", run__resume="never", distributed__across_steps="true", train__max_steps=2,
                                **settings)
            self.assert_exit(result, 0)
            self.assertIn("distributed.across_steps is true, but transfers end with their step: ", result.stderr)
            self.assertIn(reason, result.stderr)


if __name__ == "__main__":
    system_test.main()
