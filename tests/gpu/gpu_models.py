"""The models of the GPU benchmark in PyTorch: those of tests/bench/torch_models.py, and the ImageNet ones. Needs torch."""

import pathlib
import sys
from collections import namedtuple

import torch
from torch import nn
from torch.nn import functional

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "bench"))
from torch_models import MODELS as SMALL, TransformerBlock, parameters_of  # noqa: E402,F401

Network = namedtuple("Network", "make shape classes")


class Bottleneck(nn.Module):
    """K. He et al., "Deep Residual Learning for Image Recognition", 2015, with the stride in the 3x3 convolution."""

    def __init__(self, channels, width, stride):
        super().__init__()
        out = 4 * width
        self.main = nn.Sequential(
            nn.Conv2d(channels, width, 1, bias=False), nn.BatchNorm2d(width), nn.ReLU(inplace=True),
            nn.Conv2d(width, width, 3, stride, 1, bias=False), nn.BatchNorm2d(width), nn.ReLU(inplace=True),
            nn.Conv2d(width, out, 1, bias=False), nn.BatchNorm2d(out))
        self.side = nn.Identity() if stride == 1 and channels == out else nn.Sequential(
            nn.Conv2d(channels, out, 1, stride, bias=False), nn.BatchNorm2d(out))

    def forward(self, x):
        return functional.relu(self.main(x) + self.side(x))


def resnet50():
    layers, channels = [nn.Conv2d(3, 64, 7, 2, 3, bias=False), nn.BatchNorm2d(64), nn.ReLU(inplace=True),
                        nn.MaxPool2d(3, 2, 1)], 64
    for width, blocks, stride in ((64, 3, 1), (128, 4, 2), (256, 6, 2), (512, 3, 2)):
        for block in range(blocks):
            layers.append(Bottleneck(channels, width, stride if block == 0 else 1))
            channels = 4 * width
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(2048, 1000))


class VitB16(nn.Module):
    """A. Dosovitskiy et al., "An Image is Worth 16x16 Words", 2020: ViT-B/16 at 224."""

    def __init__(self, gelu="none"):
        super().__init__()
        self.patch = nn.Conv2d(3, 768, 16, 16)
        self.token = nn.Parameter(torch.zeros(1, 1, 768))
        self.position = nn.Parameter(torch.zeros(1, 197, 768))
        self.blocks = nn.Sequential(*(TransformerBlock(768, 12, gelu) for _ in range(12)))
        self.norm, self.head = nn.LayerNorm(768), nn.Linear(768, 1000)

    def forward(self, x):
        x = self.patch(x).flatten(2).transpose(1, 2)
        x = torch.cat([self.token.expand(len(x), -1, -1), x], 1) + self.position
        return self.head(self.norm(self.blocks(x))[:, 0])


# How to make it, its sample's shape (channels, height, width) and classes; the rest is in cases.py.
NETWORKS = {
    "lenet": Network(SMALL["lenet"], (1, 28, 28), 10),
    "resnet18": Network(SMALL["resnet18"], (1, 28, 28), 10),
    "resnet50": Network(resnet50, (3, 224, 224), 1000),
    "vit_b16": Network(VitB16, (3, 224, 224), 1000),
    "vit_b16_tanh": Network(lambda: VitB16("tanh"), (3, 224, 224), 1000),
}
