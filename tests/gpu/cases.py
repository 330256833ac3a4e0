"""The networks of the GPU benchmark, as settings of `trainer bench step --synthetic`: ours and PyTorch's (gpu_models.py).

Each entry: samples per step, settings, the shape of a sample, and the aim on one H200 in bf16: milliseconds a step, or
None where it is a ratio to PyTorch.
"""

from collections import namedtuple

Case = namedtuple("Case", "batch settings sample aim")

CASES = {
    "lenet": Case(64, ["model.name=lenet"], "28x28x1", None),
    "resnet18": Case(256, ["model.name=resnet18", "model.stem=cifar", "model.channels=1"], "28x28x1", 2.2),
    "resnet50": Case(256, ["model.name=resnet50", "model.classes=1000"], "224x224x3", 32),
    "vit_b16": Case(256, ["model.name=vit", "model.image=224", "model.channels=3", "model.patch=16", "model.dim=768",
                          "model.depth=12", "model.heads=12", "model.classes=1000"], "224x224x3", 50),
}
# Of a block that is measured, and before it.
STEPS = {"lenet": (200, 50), "resnet18": (100, 20), "resnet50": (15, 5), "vit_b16": (15, 5)}


def bench_command(trainer, name, folder, device="cuda", precision="bf16", batch=None, steps=None, more=()):
    """The command line of one case; its report is folder/step.json."""
    case = CASES[name]
    measured, warmup = steps or STEPS[name]
    return [trainer, "bench", "step", "--synthetic", "--shape", case.sample, "--steps", measured, "--warmup", warmup,
            "--out", folder, *case.settings, f"device={device}", f"train.batch_size={batch or case.batch}",
            f"train.precision={precision}", "optim.name=sgd", "optim.lr=0.001", "optim.momentum=0.9", *more]
