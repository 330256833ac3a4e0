"""The networks of the GPU benchmark, as settings of `trainer bench step --synthetic`: ours and PyTorch's (gpu_models.py).

Each entry: samples per step, settings, the shape of a sample, the aims on one H200 in bf16 ({"ours": milliseconds a step at
most} or {a variant of PyTorch's: its time over ours, at least}), and GiB of GPU memory that are enough for one process of
ours or PyTorch's (estimated from the sizes of the activations; not measured).
"""

import re
from collections import namedtuple

AIMED_AT = "H200"
Case = namedtuple("Case", "batch settings sample aims memory")

VIT_B16 = ["model.name=vit", "model.image=224", "model.channels=3", "model.patch=16", "model.dim=768", "model.depth=12",
           "model.heads=12", "model.classes=1000"]
CASES = {
    "lenet": Case(64, ["model.name=lenet"], "28x28x1", {"eager": 3, "max-autotune": 1.3}, 1),
    "resnet18": Case(256, ["model.name=resnet18", "model.stem=cifar", "model.channels=1"], "28x28x1", {"ours": 2.2}, 4),
    "resnet50": Case(256, ["model.name=resnet50", "model.classes=1000"], "224x224x3", {"ours": 32}, 30),
    "vit_b16": Case(256, VIT_B16, "224x224x3", {"ours": 50}, 34),
    "vit_b16_tanh": Case(256, [*VIT_B16, "model.gelu=tanh"], "224x224x3", {}, 34),
}
# Of PyTorch (gpu_steps.py says what they are).
VARIANTS = ("eager", "compile", "max-autotune")
# Of a GPU's memory: each process has a context of CUDA's there, too, and the estimates may be short.
USABLE = 0.9
# Of a block that is measured, and before it.
STEPS = {"lenet": (200, 50), "resnet18": (100, 20), "resnet50": (15, 5), "vit_b16": (15, 5), "vit_b16_tanh": (15, 5)}


def batch_for(name, memory=None):
    """Samples per step with which ours and one of PyTorch's fit into so many GiB (None: not known): the aim's, or that
    halved as often as it takes."""
    batch, needed = CASES[name].batch, 2 * CASES[name].memory
    while memory is not None and needed > USABLE * memory and batch > 1:
        batch, needed = batch // 2, needed / 2
    return batch


def fit_together(name, batch, processes, memory=None):
    return memory is None or processes * CASES[name].memory * batch / CASES[name].batch <= USABLE * memory


def aim_text(name, key, gpu, batch):
    """What stands beside a figure of this GPU: " (aim 32 ms)", with what makes it another figure than the aim's."""
    case = CASES[name]
    if key not in case.aims:
        return ""
    aim = f"{case.aims[key]} ms" if key == "ours" else f"x {case.aims[key]}"
    other = [] if re.search(rf"\b{AIMED_AT}\b", gpu or "") else [f"on one {AIMED_AT}; this is {gpu or 'an unknown GPU'}"]
    if batch not in (None, case.batch):
        other.append(f"with {case.batch} samples; these are {batch}")
    return f" (aim {aim}" + (", " + ", ".join(other) if other else "") + ")"


def bench_command(trainer, name, folder, device="cuda", precision="bf16", batch=None, steps=None, more=()):
    """The command line of one case; its report is folder/step.json."""
    case = CASES[name]
    measured, warmup = steps or STEPS[name]
    return [trainer, "bench", "step", "--synthetic", "--shape", case.sample, "--steps", measured, "--warmup", warmup,
            "--out", folder, *case.settings, f"device={device}", f"train.batch_size={batch or case.batch}",
            f"train.precision={precision}", "optim.name=sgd", "optim.lr=0.001", "optim.momentum=0.9", *more]
