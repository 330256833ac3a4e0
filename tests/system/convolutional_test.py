"""Convolutional networks from the command line: batch statistics over ranks, dropout, exact resume."""

import system_test
from recipes import TrainingTest

LAYERS = "[{conv2d: {out: 4, kernel: 3, padding: 1, bias: false}}, batch_norm2d, relu, {avg_pool2d: {kernel: 2}}, " \
         "{conv_transpose2d: {out: 3, kernel: 2, stride: 2}}, {adaptive_avg_pool2d: {out: 3}}, flatten, " \
         "{dropout: {p: 0.3}}, {linear: {out: 8}}, batch_norm2d, relu, {linear: {out: 4}}]"


class Convolutional(TrainingTest):
    def layers(self, data, run, **overrides):
        settings = [s for s in self.settings(data, run, **overrides) if not s.startswith("model.")]
        return [*settings, "model.name=null", f"model.layers={LAYERS}", "train.precision=fp64", "train.log_every=1",
                "optim.momentum=0.9"]

    def test_synchronized_batch_norm_and_dropout_do_not_depend_on_the_number_of_ranks(self):
        # 97 samples in batches of 12: the last step has one, for rank 0 alone.
        data, val = self.small_data(97), self.small_data(30, "val.h5")
        curves = {}
        for ranks in (1, 2, 3, 4):
            run = f"run{ranks}"
            result = self.mpirun(ranks, self.layers(data, run, data__val=val, train__batch_size=12 // ranks,
                                                    distributed__sync_batch_norm="true"))
            self.assert_exit(result, 0)
            curves[ranks] = self.losses(run) + [row["loss"] for row in self.metrics(run, "eval")]
        self.assertEqual(len(curves[1]), 10)
        for ranks in (2, 3, 4):
            for one, many in zip(curves[1], curves[ranks], strict=True):
                self.assertAlmostEqual(one, many, delta=1e-10 * abs(one), msg=f"{ranks} ranks")

    def test_a_run_that_was_cut_goes_on_with_the_same_bits(self):
        data = self.small_data(100)
        for ranks in (1, 2):
            whole, cut = f"whole{ranks}", f"cut{ranks}"
            settings = {"train__batch_size": 8 // ranks, "train__epochs": 2}
            self.assert_exit(self.mpirun(ranks, self.layers(data, whole, **settings)), 0)
            for stop in (5, 17):
                self.assert_exit(self.mpirun(ranks, self.layers(data, cut, train__max_steps=stop, **settings)), 0)
            self.assert_exit(self.mpirun(ranks, self.layers(data, cut, **settings)), 0)
            self.assertEqual(self.losses(cut), self.losses(whole))
            self.assertEqual(self.sha256(self.latest(cut)), self.sha256(self.latest(whole)))

    def test_a_skipped_update_leaves_no_trace_in_running_statistics(self):
        data = self.small_data(64)
        for name, ranks, mode in (("one", 1, {}), ("two", 2, {}), ("shards", 2, {"run__deterministic": "true", "run__virtual_shards": 2})):
            # The first update throws the weights so far that every later loss is not finite.
            wild = {"optim__lr": 1e300, "train__batch_size": 16 // ranks, "train__nan_policy": "skip", "train__epochs": 1, **mode}
            result = self.mpirun(ranks, self.layers(data, f"{name}-skip", **wild))
            self.assert_exit(result, 0)
            self.assertIn("the update is skipped (3 until now)", result.stderr)
            self.assert_exit(self.mpirun(ranks, self.layers(data, f"{name}-first", train__max_steps=1, **wild)), 0)
            self.assertEqual(self.sha256(f"{name}-skip"), self.sha256(f"{name}-first"), name)

    def test_batch_norm_of_one_value_a_channel_is_refused(self):
        data = self.small_data(64)
        for settings, said, remedy in (({"train__batch_size": 1}, "train.batch_size is one sample", "set train.batch_size to 2 or more"),
                                       ({"train__batch_size": 8, "run__deterministic": "true"}, "a virtual shard has one sample",
                                        "set run.virtual_shards to less")):
            result = self.run_trainer(self.layers(data, "none", **settings))
            self.assert_exit(result, 2)
            self.assertIn(f"batch norm of layer 9 would see one value of each channel, as {said}; {remedy}", result.stderr)
        self.assertFalse((self.dir / "none").exists())
        together = self.layers(data, "run", train__batch_size=1, distributed__sync_batch_norm="true", train__max_steps=2)
        self.assert_exit(self.mpirun(2, together), 0)

    def test_checkpoints_hold_running_statistics(self):
        data = self.small_data(64)
        self.assert_exit(self.mpirun(2, self.layers(data, "run")), 0)
        shown = self.run_trainer(["inspect", self.dir / "run"]).stdout
        for name in ("1.running_mean", "1.running_var", "1.num_batches_tracked", "9.running_var"):
            self.assertIn(name, shown)

    def test_named_models_train(self):
        data = self.pack(*self.synthetic_idx(48, classes=4, side=12), name="data.h5")
        for model in (["model.name=mnist"], ["model.name=resnet18", "model.stem=cifar", "model.channels=1"]):
            name = model[0].split("=")[1]
            settings = [s for s in self.settings(data, name, train__batch_size=8, train__max_steps=2)
                        if not s.startswith("model.")]
            self.assert_exit(self.mpirun(2, [*settings, *model, "optim.lr=0.01"]), 0)
            self.assertTrue(self.latest(name).exists())


if __name__ == "__main__":
    system_test.main()
