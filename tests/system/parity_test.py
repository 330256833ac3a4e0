"""Against PyTorch: the losses of 50 steps in fp64 from PyTorch's initial weights and batches.

The expected losses were made by tests/parity/make_reference.py with torch; see there.
"""

import json
import pathlib
import sys

import system_test
from recipes import TrainingTest

PARITY = pathlib.Path(__file__).resolve().parents[1] / "parity"
sys.path.insert(0, str(PARITY))
import torch_weights  # noqa: E402


class Parity(TrainingTest):
    def check(self, name, *optimizer):
        reference = json.loads((PARITY / "lenet_reference.json").read_text())
        weights = torch_weights.layers_to_weights(torch_weights.LENET, 0)
        self.assertEqual(torch_weights.sha256(weights), reference["weights_sha256"])
        torch_weights.write_safetensors(self.dir / "torch.safetensors", weights)
        data = self.pack(*self.fashion_mnist(60000))
        result = self.run_trainer([f"data.train={data}", f"run.dir={self.dir}/run", "model.name=lenet",
                                   f"model.init_from={self.dir}/torch.safetensors", "train.precision=fp64",
                                   f"train.batch_size={reference['batch_size']}", "train.max_steps=50",
                                   "train.log_every=1", *optimizer], timeout=500)
        self.assert_exit(result, 0)
        losses = self.metrics("run", "step")
        self.assertEqual(len(losses), 50)
        for row, expected in zip(losses, reference[name], strict=True):
            self.assertAlmostEqual(row["loss"], expected, delta=1e-9 * expected, msg=f"step {row['step']}")

    def test_lenet_with_sgd(self):
        self.check("sgd", "optim.lr=0.05", "optim.momentum=0.9", "optim.weight_decay=1e-4")

    def test_lenet_with_nesterov(self):
        self.check("nesterov", "optim.lr=0.02", "optim.momentum=0.9", "optim.weight_decay=1e-4", "optim.nesterov=true")

    def test_lenet_with_adamw(self):
        self.check("adamw", "optim.name=adamw", "optim.momentum=0", "optim.lr=1e-3", "optim.weight_decay=0.05")


if __name__ == "__main__":
    system_test.main()
