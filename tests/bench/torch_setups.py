"""Networks of jobs/ in PyTorch, with the same numbers of parameters: the locator and VideoMAE's classifier. Needs torch."""

import torch
from torch import nn
from torch.nn import functional

from torch_models import MODELS, TransformerBlock, residual_stages


class Locator(nn.Module):
    """model.name=locator: a resnet18 up to stride 32, three doublings of the image, a heat map and presence."""

    def __init__(self):
        super().__init__()
        layers = [nn.Conv2d(3, 64, 7, 2, 3, bias=False), nn.BatchNorm2d(64), nn.ReLU(inplace=True), nn.MaxPool2d(3, 2, 1),
                  *residual_stages()]
        width = 512
        for _ in range(3):
            layers += [nn.ConvTranspose2d(width, 256, 4, 2, 1, bias=False), nn.BatchNorm2d(256), nn.ReLU(inplace=True)]
            width = 256
        self.layers = nn.Sequential(*layers, nn.Conv2d(256, 2, 1))

    def forward(self, x):
        return self.layers(x)


def locator_loss(outputs, targets):
    """With the recipe's weights; targets: the heat map itself."""
    heat, presence = outputs[:, 0].float(), outputs[:, 1].float().mean((1, 2))
    return (100 * functional.mse_loss(heat, targets) +
            functional.binary_cross_entropy_with_logits(presence, torch.ones_like(presence)))


class BlockWithoutKeyBias(TransformerBlock):
    """As VideoMAE has it: queries and values have a bias, keys none."""

    def __init__(self, dim, heads):
        super().__init__(dim, heads)
        self.qkv = nn.Linear(dim, 3 * dim, bias=False)
        self.bias = nn.Parameter(torch.zeros(2, dim))

    def queries_keys_values(self, x):
        bias = torch.cat([self.bias[0], torch.zeros_like(self.bias[0]), self.bias[1]])
        return functional.linear(x, self.qkv.weight, bias)


class VideoMae(nn.Module):
    """model.name=videomae with its defaults: S/16, 16 frames two by two, fixed positions, 10 classes."""

    def __init__(self):
        super().__init__()
        self.tubelets = nn.Conv3d(3, 384, (2, 16, 16), (2, 16, 16))
        self.register_buffer("positions", torch.rand(1, 1568, 384))
        self.blocks = nn.Sequential(*(BlockWithoutKeyBias(384, 6) for _ in range(12)))
        self.norm, self.head = nn.LayerNorm(384), nn.Linear(384, 10)

    def forward(self, x):
        x = self.tubelets(x).flatten(2).transpose(1, 2) + self.positions
        return self.head(self.norm(self.blocks(x).mean(1)))


def images(batch):
    return torch.rand(batch, 1, 28, 28), torch.arange(batch) % 10


# model -> how it is made, its inputs and targets for so many samples, its loss
SETUPS = {name: (build, images, functional.cross_entropy) for name, build in MODELS.items()} | {
    "locator": (Locator, lambda batch: (torch.rand(batch, 3, 384, 384), torch.rand(batch, 96, 96)), locator_loss),
    "videomae": (VideoMae, lambda batch: (torch.rand(batch, 3, 16, 224, 224), torch.arange(batch) % 10),
                 functional.cross_entropy),
}
