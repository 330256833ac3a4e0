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
            hashes = [self.run_trainer(["inspect", self.latest(run), "--sha256"]).stdout.split()[0]
                      for run in (whole, cut)]
            self.assertEqual(*hashes)

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
