"""Makes recipe_reference.json with PyTorch: whole recipes on an mlp and the first 1000 images of Fashion-MNIST, fp64.

Needs torch and Debian's dataset-fashion-mnist. Run it only to renew the reference:
    python3 tests/parity/make_recipe_reference.py
tests/system/recipe_parity_test.py reads the file and needs neither torch.
"""

import json
import os

import torch
from torch.optim import lr_scheduler
from torch.optim.swa_utils import AveragedModel, get_ema_multi_avg_fn
from torch.utils.data.distributed import DistributedSampler

import torch_weights
from make_reference import read_data

SAMPLES, BATCH, EPOCHS = 1000, 64, 3
UPDATES = -(-SAMPLES // BATCH)  # per epoch; the last one has 40 samples
MLP = torch_weights.RECIPE_MLP


class Mlp(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.fc1 = torch.nn.Linear(784, 32)
        self.fc2 = torch.nn.Linear(32, 10)

    def forward(self, x):
        return self.fc2(torch.relu(self.fc1(torch.flatten(x, 1))))


def train(images, labels, make_optimizer, make_scheduler, per_epoch=False, accumulate=1, clip=None, ema=None,
          smoothing=0.0, weights=None):
    torch.manual_seed(0)
    model = Mlp()
    expected = torch_weights.layers_to_weights(MLP, 0)
    for name, parameter in model.named_parameters():
        assert torch.equal(parameter.detach(), torch.tensor(expected[name][1]).view(expected[name][0])), name
    model = model.double()
    average = AveragedModel(model, multi_avg_fn=get_ema_multi_avg_fn(ema)) if ema is not None else None
    optimizer = make_optimizer(model)
    scheduler = make_scheduler(optimizer)
    pixels = (images.float() / 255.0).double()
    rows = []
    for epoch in range(EPOCHS):
        sampler = DistributedSampler(range(SAMPLES), num_replicas=1, rank=0, seed=0)
        sampler.set_epoch(epoch)
        order = list(sampler)
        for begin in range(0, SAMPLES, BATCH):
            batch = order[begin : begin + BATCH]
            optimizer.zero_grad()
            total = 0.0
            micro = BATCH // accumulate
            for first in range(0, len(batch), micro):
                part = batch[first : first + micro]
                logits = model(pixels[part])
                loss = torch.nn.functional.cross_entropy(logits, labels[part], weights, reduction="sum",
                                                         label_smoothing=smoothing) / len(batch)
                loss.backward()
                total += loss.item()
            row = {"loss": total, "lr": optimizer.param_groups[-1]["lr"]}
            if clip is not None:
                row["grad_norm"] = torch.nn.utils.clip_grad_norm_(model.parameters(), clip).item()
            optimizer.step()
            if not per_epoch:
                scheduler.step()
            if average is not None:
                average.update_parameters(model)
            rows.append(row)
        if per_epoch:
            scheduler.step()
    judged = average if average is not None else model
    with torch.no_grad():
        logits = judged(pixels)
        final = torch.nn.functional.cross_entropy(logits, labels).item()
        top5 = (logits.topk(5).indices == labels.unsqueeze(1)).any(1).double().mean().item()
    return {"steps": rows, "eval_loss": final, "top5": top5}


def adamw(model):
    """Half the rate in the first layer, no decay of biases."""
    lr = 0.01
    groups = []
    for module, scale in ((model.fc1, 0.5), (model.fc2, 1.0)):
        for parameter in module.parameters():
            decay = 0.1 if parameter.dim() > 1 else 0.0
            groups.append({"params": [parameter], "lr": lr * scale, "weight_decay": decay})
    return torch.optim.AdamW(groups, lr=lr)


def warm_up_and_cosine(optimizer):
    warm = UPDATES // 2
    return lr_scheduler.SequentialLR(optimizer, [
        lr_scheduler.LinearLR(optimizer, 0.1, 1, warm),
        lr_scheduler.CosineAnnealingLR(optimizer, EPOCHS * UPDATES - warm)], [warm])


def of_mean_one(weights, labels):
    weights = torch.tensor(weights, dtype=torch.float64)
    return weights / weights[labels].mean()


def main():
    torch.set_num_threads(1)
    images, labels = (part[:SAMPLES] for part in read_data())
    constant = lambda o: lr_scheduler.ConstantLR(o, 1)  # noqa: E731
    step = lambda o: lr_scheduler.StepLR(o, 1, 0.5)  # noqa: E731
    reference = {
        "torch": torch.__version__,
        "weights_sha256": torch_weights.sha256(torch_weights.layers_to_weights(MLP, 0)),
        "adamw": train(images, labels, adamw, warm_up_and_cosine, accumulate=2, clip=0.5, ema=0.9),
        "adam": train(images, labels, lambda m: torch.optim.Adam(m.parameters(), lr=0.005, weight_decay=0.01), step,
                      per_epoch=True),
        "adadelta": train(images, labels, lambda m: torch.optim.Adadelta(m.parameters()), constant),
        "sgd": train(images, labels, lambda m: torch.optim.SGD(m.parameters(), lr=0.1, momentum=0.9), step,
                     per_epoch=True, accumulate=4, clip=1.0),
        "left_out": train(images, labels, lambda m: torch.optim.SGD(m.parameters(), lr=0.1, momentum=0.9, dampening=0.5),
                          constant, smoothing=0.1, weights=of_mean_one([1, 0, 2, 1, 1, 0, 1, 3, 1, 1], labels)),
        "limits": train(images, labels, lambda m: torch.optim.SGD(m.parameters(), lr=0.1, momentum=0.9, dampening=1),
                        constant, smoothing=1.0),
    }
    path = os.path.join(os.path.dirname(os.path.abspath(__file__)), "recipe_reference.json")
    with open(path, "w") as file:
        file.write("{\n" + ",\n".join(f'"{key}": {json.dumps(value)}' for key, value in reference.items()) + "\n}\n")


if __name__ == "__main__":
    main()
