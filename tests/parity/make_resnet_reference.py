"""Makes resnet_reference.json with PyTorch in fp64: losses, gradients and running statistics of residual networks.

Needs torch and numpy. Run it only to renew the reference:
    python3 tests/parity/make_resnet_reference.py
tests/train/resnet_parity_test.cpp reads the file and needs neither. The networks are those of torchvision 0.20
(models/resnet.py), written in plain torch.nn with the same names.

All numbers come from standard mt19937 generators: u = (lower 24 bits of an output)·2⁻²⁴. Generator `WEIGHTS_SEED`
gives the parameters in the order of state_dict(): of two and more dimensions (2u − 1)/√fan_in, weights of
batch-norms 0.5 + u, everything else u − 0.5. Generator `DATA_SEED` gives the batches: step by step the pixels
2u − 1 of [N, H, W, C], then the labels, output mod 10. A tensor t is recorded as its norm and its dot products with
DOTS vectors of u − 0.5 from generators 101, 102, ….
"""

import json
import math
import os

import numpy
import torch
from torch import nn

CLASSES, DOTS = 10, 3
WEIGHTS_SEED, DATA_SEED = 1, 2


class Generator:
    def __init__(self, seed):
        self.source = numpy.random.MT19937()
        self.source._legacy_seeding(seed)  # init_genrand, as std::mt19937

    def outputs(self, count):
        return self.source.random_raw(count)

    def uniform(self, count):
        return (self.outputs(count) & 0xFFFFFF).astype(numpy.float64) * 2.0**-24


class BasicBlock(nn.Module):
    expansion = 1

    def __init__(self, channels, width, stride, downsample):
        super().__init__()
        self.conv1 = nn.Conv2d(channels, width, 3, stride, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(width)
        self.relu = nn.ReLU()
        self.conv2 = nn.Conv2d(width, width, 3, 1, 1, bias=False)
        self.bn2 = nn.BatchNorm2d(width)
        self.downsample = downsample

    def forward(self, x):
        y = self.bn2(self.conv2(self.relu(self.bn1(self.conv1(x)))))
        return self.relu(y + (x if self.downsample is None else self.downsample(x)))


class Bottleneck(nn.Module):
    expansion = 4

    def __init__(self, channels, width, stride, downsample):
        super().__init__()
        self.conv1 = nn.Conv2d(channels, width, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(width)
        self.conv2 = nn.Conv2d(width, width, 3, stride, 1, bias=False)
        self.bn2 = nn.BatchNorm2d(width)
        self.conv3 = nn.Conv2d(width, 4 * width, 1, bias=False)
        self.bn3 = nn.BatchNorm2d(4 * width)
        self.relu = nn.ReLU()
        self.downsample = downsample

    def forward(self, x):
        y = self.relu(self.bn1(self.conv1(x)))
        y = self.bn3(self.conv3(self.relu(self.bn2(self.conv2(y)))))
        return self.relu(y + (x if self.downsample is None else self.downsample(x)))


class ResNet(nn.Module):
    def __init__(self, block, blocks, stem, channels):
        super().__init__()
        self.width = 64
        kernel, stride = (3, 1) if stem == "cifar" else (7, 2)
        self.conv1 = nn.Conv2d(channels, 64, kernel, stride, kernel // 2, bias=False)
        self.bn1 = nn.BatchNorm2d(64)
        self.relu = nn.ReLU()
        self.maxpool = nn.Identity() if stem == "cifar" else nn.MaxPool2d(3, 2, 1)
        for stage, count in enumerate(blocks):
            layer = self.layer(block, 64 << stage, count, 1 if stage == 0 else 2)
            setattr(self, f"layer{stage + 1}", layer)
        self.avgpool = nn.AdaptiveAvgPool2d((1, 1))
        self.fc = nn.Linear(512 * block.expansion, CLASSES)

    def layer(self, block, width, count, stride):
        downsample = None
        out = width * block.expansion
        if stride != 1 or self.width != out:
            downsample = nn.Sequential(nn.Conv2d(self.width, out, 1, stride, bias=False), nn.BatchNorm2d(out))
        layers = [block(self.width, width, stride, downsample)]
        self.width = out
        return nn.Sequential(*layers, *(block(out, width, 1, None) for _ in range(count - 1)))

    def forward(self, x):
        x = self.maxpool(self.relu(self.bn1(self.conv1(x))))
        x = self.layer4(self.layer3(self.layer2(self.layer1(x))))
        return self.fc(torch.flatten(self.avgpool(x), 1))


MODELS = {"resnet18": (BasicBlock, [2, 2, 2, 2]), "resnet50": (Bottleneck, [3, 4, 6, 3])}


def set_weights(model):
    source = Generator(WEIGHTS_SEED)
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            values = source.uniform(parameter.numel())
            if parameter.dim() > 1:
                values = (2 * values - 1) * (1 / math.sqrt(math.prod(parameter.shape[1:])))
            else:
                values = values + (0.5 if name.endswith("weight") else -0.5)
            parameter.copy_(torch.from_numpy(values).view(parameter.shape))


def describe(tensor):
    values = tensor.detach().numpy().astype(numpy.float64).ravel()
    dots = [float(values @ (Generator(101 + d).uniform(values.size) - 0.5)) for d in range(DOTS)]
    return [float(numpy.linalg.norm(values)), *dots]


def train(model, recipe, losses_of_batches):
    """Steps of SGD, each on the loss that is made next: what references have of them."""
    optimizer = torch.optim.SGD(model.parameters(), **recipe)
    losses, gradients = [], {}
    for loss in losses_of_batches:
        optimizer.zero_grad()
        loss.backward()
        gradients = gradients or {name: describe(p.grad) for name, p in model.named_parameters()}
        optimizer.step()
        losses.append(loss.item())
    return {"sgd": recipe, "losses": losses, "names": list(model.state_dict()), "gradients": gradients}


def reference(name, stem, side, channels, batch, steps):
    block, blocks = MODELS[name]
    model = ResNet(block, blocks, stem, channels).double()
    set_weights(model)
    data = Generator(DATA_SEED)

    def batch_of():
        pixels = 2 * data.uniform(batch * side * side * channels) - 1
        x = torch.from_numpy(pixels).view(batch, side, side, channels).permute(0, 3, 1, 2).contiguous()
        return x, torch.from_numpy((data.outputs(batch) % CLASSES).astype(numpy.int64))

    # The evaluation below is of the last one.
    batches = [batch_of() for _ in range(steps)]
    recipe = {"lr": 0.005, "momentum": 0.9, "weight_decay": 1e-4}
    trained = train(model, recipe, (nn.functional.cross_entropy(model(x), labels) for x, labels in batches))
    buffers = {name: describe(b) for name, b in model.named_buffers() if "running" in name}
    model.eval()
    evaluation = nn.functional.cross_entropy(model(batches[-1][0]), batches[-1][1]).item()
    return {"model": name, "stem": stem, "side": side, "channels": channels, "batch": batch, **trained,
            "evaluation": evaluation, "buffers": buffers}


def main():
    torch.set_num_threads(1)
    # Three steps: the third loss is the first that shows momentum and weight decay (without them it differs by 8e-3
    # and 2e-4).
    result = {"torch": torch.__version__, "classes": CLASSES,
              "runs": [reference("resnet18", "cifar", 16, 1, 8, 3), reference("resnet50", "imagenet", 32, 3, 4, 1)]}
    path = os.path.join(os.path.dirname(os.path.abspath(__file__)), "resnet_reference.json")
    with open(path, "w") as file:
        json.dump(result, file)
        file.write("\n")


if __name__ == "__main__":
    main()
