"""Vision transformers through the real program: parity with PyTorch, stochastic depth, label smoothing.

The expected losses were made by tests/parity/make_vit_reference.py with torch; see there. The gradients of the first
step are compared in tests/train/vit_parity_test.cpp.
"""

import json
import pathlib
import sys

import system_test
from recipes import TrainingTest, has_avx512

PARITY = pathlib.Path(__file__).resolve().parents[1] / "parity"
sys.path.insert(0, str(PARITY))
import torch_weights  # noqa: E402
import vit_weights  # noqa: E402

SGD = ["optim.name=sgd", "optim.lr=0.05", "optim.momentum=0.9", "optim.weight_decay=1e-4"]
ADAMW = ["optim.name=adamw", "optim.momentum=0", "optim.lr=1e-3", "optim.weight_decay=0.05"]


class VitParity(TrainingTest):
    def check(self, name, *more):
        reference = json.loads((PARITY / "vit_reference.json").read_text())
        weights = vit_weights.weights()
        self.assertEqual(torch_weights.sha256(weights), reference["weights_sha256"])
        torch_weights.write_safetensors(self.dir / "torch.safetensors", weights)
        data = self.pack(*self.fashion_mnist(60000))
        result = self.run_trainer([f"data.train={data}", f"run.dir={self.dir}/run", "model.name=vit",
                                   f"model.patch={vit_weights.PATCH}", f"model.dim={vit_weights.DIM}",
                                   f"model.depth={vit_weights.DEPTH}", f"model.heads={vit_weights.HEADS}",
                                   f"model.init_from={self.dir}/torch.safetensors", "train.precision=fp64",
                                   f"train.batch_size={reference['batch_size']}", "train.max_steps=50",
                                   "train.log_every=1", *more], timeout=300)
        self.assert_exit(result, 0)
        losses = self.metrics("run", "step")
        self.assertEqual(len(losses), 50)
        for row, expected in zip(losses, reference[name], strict=True):
            self.assertAlmostEqual(row["loss"], expected, delta=1e-9 * expected, msg=f"step {row['step']}")

    def test_sgd(self):
        self.check("sgd", *SGD)

    def test_adamw(self):
        self.check("adamw", *ADAMW)

    def test_sgd_with_gelu_by_tanh(self):
        self.check("sgd_gelu_by_tanh", *SGD, "model.gelu=tanh")

    def test_sgd_with_label_smoothing(self):
        self.check("sgd_smoothed", *SGD, "train.label_smoothing=0.1")


class Vit(TrainingTest):
    VIT = ["model.name=vit", "model.dim=16", "model.depth=2", "model.heads=2", "optim.lr=0.1", "optim.momentum=0.9",
           "train.epochs=2", "train.log_every=1", "train.precision=fp64"]

    def losses_on(self, ranks, batch, *more):
        data = self.dir / "data.h5"
        if not data.exists():
            self.small_data(98)
        run = self.dir / f"run{ranks}"
        result = self.mpirun(ranks, [f"data.train={data}", f"run.dir={run}", f"train.batch_size={batch}", *self.VIT,
                                     *more])
        self.assert_exit(result, 0)
        return self.losses(run)

    def test_stochastic_depth_does_not_depend_on_the_number_of_ranks(self):
        # 98 samples in batches of 12: the last one has 2, which 4 ranks share unevenly.
        reference = self.losses_on(1, 12, "model.drop_path=0.5")
        self.assertEqual(len(reference), 18)
        for ranks, batch in ((2, 6), (4, 3)):
            for one, many in zip(reference, self.losses_on(ranks, batch, "model.drop_path=0.5"), strict=True):
                self.assertAlmostEqual(one, many, delta=1e-12 * abs(one), msg=f"{ranks} ranks")

    def test_recomputing_activations_gives_the_same_bits_although_it_takes_the_whole_batch_at_once(self):
        # 64 samples of the default model are more than a core's cache holds: without, forward goes by parts of the batch.
        data = self.small_data(128, side=28)
        for recompute in ("false", "true"):
            result = self.run_trainer([f"data.train={data}", f"run.dir={self.dir}/{recompute}", "model.name=vit",
                                       "train.batch_size=64", "train.max_steps=4", "train.epochs=2", "train.log_every=1",
                                       f"train.recompute={recompute}"])
            self.assert_exit(result, 0)
        losses = [[row["loss"] for row in self.metrics(name, "step")] for name in ("false", "true")]
        if has_avx512():
            self.assertEqual(*losses)
        for without, recomputed in zip(*losses, strict=True):
            self.assertAlmostEqual(without, recomputed, delta=1e-6)

    def test_evaluation_goes_without_label_smoothing(self):
        data = self.small_data(64)
        for smoothing in (0, 0.3):
            result = self.run_trainer([f"data.train={data}", f"data.val={data}", f"run.dir={self.dir}/run{smoothing}",
                                       *self.VIT, "optim.lr=0", "train.epochs=1", "train.batch_size=64",
                                       f"train.label_smoothing={smoothing}"])
            self.assert_exit(result, 0)
        plain, smoothed = (self.metrics(f"run{s}", "step")[0]["loss"] for s in (0, 0.3))
        self.assertNotAlmostEqual(plain, smoothed, places=6)
        for smoothing in (0, 0.3):
            evaluated = self.metrics(f"run{smoothing}", "eval")[-1]["loss"]
            self.assertAlmostEqual(evaluated, plain, delta=1e-12)

    def test_a_checkpoint_keeps_the_form_of_gelu(self):
        data = self.small_data(32)
        common = [f"data.train={data}", f"run.dir={self.dir}/run", *self.VIT, "train.batch_size=16"]
        self.assert_exit(self.run_trainer([*common, "model.gelu=tanh"]), 0)
        result = self.run_trainer([*common, "train.epochs=3"])
        self.assert_exit(result, 2)
        self.assertIn("model.gelu", result.stderr)
        self.assert_exit(self.run_trainer([*common, "model.gelu=tanh", "train.epochs=3"]), 0)

    def test_shapes_that_do_not_fit_are_refused(self):
        data = self.small_data(32)
        for setting, complaint in (("model.patch=3", "model.patch is 3"), ("model.heads=3", "3 heads"),
                                   ("model.gelu=fast", "model.gelu")):
            result = self.run_trainer([f"data.train={data}", f"run.dir={self.dir}/run", *self.VIT,
                                       "train.batch_size=8", setting])
            self.assert_exit(result, 2)
            self.assertIn(complaint, result.stderr)


if __name__ == "__main__":
    system_test.main()
