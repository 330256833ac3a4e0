"""Whole recipes against PyTorch: losses, learning rates and gradient norms of 48 updates in fp64, and the evaluation at
the end. The expected numbers were made by tests/parity/make_recipe_reference.py with torch; see there.
"""

import json
import pathlib
import sys

import system_test
from recipes import TrainingTest

PARITY = pathlib.Path(__file__).resolve().parents[1] / "parity"
sys.path.insert(0, str(PARITY))
import torch_weights  # noqa: E402


class RecipeParity(TrainingTest):
    def check(self, name, ranks, batch, *recipe):
        document = json.loads((PARITY / "recipe_reference.json").read_text())
        reference = document[name]
        weights = torch_weights.layers_to_weights(torch_weights.RECIPE_MLP, 0)
        self.assertEqual(torch_weights.sha256(weights), document["weights_sha256"])
        torch_weights.write_safetensors(self.dir / "torch.safetensors", weights)
        data = self.pack(*self.fashion_mnist(1000))
        result = self.mpirun(ranks, [f"data.train={data}", f"data.val={data}", f"run.dir={self.dir}/run",
                                     "model.name=mlp", "model.hidden=[32]",
                                     f"model.init_from={self.dir}/torch.safetensors", "train.precision=fp64",
                                     f"train.batch_size={batch}", "train.epochs=3", "train.log_every=1",
                                     "optim.momentum=0", *recipe])
        self.assert_exit(result, 0)
        rows = self.metrics("run", "step")
        for row, expected in zip(rows, reference["steps"], strict=True):
            for key, value in expected.items():
                self.assertAlmostEqual(row[key], value, delta=1e-9 * abs(value), msg=f"{key} of step {row['step']}")
        last = self.metrics("run", "eval")[-1]
        self.assertAlmostEqual(last["loss"], reference["eval_loss"], delta=1e-9 * reference["eval_loss"])
        self.assertAlmostEqual(last["top5"], reference["top5"], delta=1e-12)

    def test_adamw_with_accumulation_clipping_warm_up_cosine_layer_decay_and_average(self):
        self.check("adamw", 1, 32, "optim.name=adamw", "optim.lr=0.01", "optim.weight_decay=0.1",
                   "optim.decay_1d=false", "optim.layer_decay=0.5", "optim.clip_norm=0.5", "train.accumulate=2",
                   "schedule.name=cosine", "schedule.warmup_epochs=0.5", "schedule.warmup_lr=0.001",
                   "train.ema={decay: 0.9}")

    def test_adam_with_coupled_decay_and_steps(self):
        self.check("adam", 2, 32, "optim.name=adam", "optim.lr=0.005", "optim.weight_decay=0.01",
                   "schedule.name=step", "schedule.step_size=1", "schedule.gamma=0.5")

    def test_adadelta_with_defaults(self):
        self.check("adadelta", 1, 64, "optim.name=adadelta", "optim.lr=1")

    def test_sgd_with_momentum_clipping_and_accumulation_on_two_ranks(self):
        self.check("sgd", 2, 8, "optim.lr=0.1", "optim.momentum=0.9", "optim.clip_norm=1", "train.accumulate=4",
                   "schedule.name=step", "schedule.step_size=1", "schedule.gamma=0.5")

    def test_classes_that_are_left_out(self):
        self.check("left_out", 2, 32, "optim.lr=0.1", "optim.momentum=0.9", "optim.dampening=0.5",
                   "train.label_smoothing=0.1", "train.class_weights=[1,0,2,1,1,0,1,3,1,1]")

    def test_a_smoothing_and_a_dampening_of_one(self):
        self.check("limits", 1, 64, "optim.lr=0.1", "optim.momentum=0.9", "optim.dampening=1",
                   "train.label_smoothing=1")


if __name__ == "__main__":
    system_test.main()
