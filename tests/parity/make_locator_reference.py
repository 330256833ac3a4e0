"""Makes locator_reference.json with PyTorch in fp64: losses and gradients of the locator.

Needs torch and numpy. Run it only to renew the reference:
    python3 tests/parity/make_locator_reference.py
tests/train/locator_parity_test.cpp reads the file and needs neither. Numbers are drawn and tensors recorded as
make_resnet_reference.py says; behind the pixels of a batch come for each sample three u: the thing is there where the first
is above 1/3, at x = SIDE·u₂ and y = SIDE·u₃.
"""

import json
import os

import make_resnet_reference as resnet
import torch
from torch import nn

SIDE, CHANNELS, BATCH, STEPS = 64, 3, 3, 3
STRIDE, SIGMA, HEATMAP_WEIGHT, PRESENCE_WEIGHT, ABSENT_HEAT = 4, 8, 100, 1, 0.005


class Locator(nn.Module):
    def __init__(self):
        super().__init__()
        block, blocks = resnet.MODELS["resnet18"]
        self.backbone = resnet.ResNet(block, blocks, "imagenet", CHANNELS)
        del self.backbone.fc
        layers, width = [], 512
        for _ in range(3):
            layers += [nn.ConvTranspose2d(width, 256, 4, 2, 1, bias=False), nn.BatchNorm2d(256), nn.ReLU()]
            width = 256
        self.decoder = nn.Sequential(*layers)
        self.head = nn.Conv2d(256, 2, 1)

    def forward(self, x):
        b = self.backbone
        x = b.maxpool(b.relu(b.bn1(b.conv1(x))))
        y = self.decoder(b.layer4(b.layer3(b.layer2(b.layer1(x)))))
        # Two heads: a convolution to the heat map, and a linear layer behind the mean over all cells.
        heat = nn.functional.conv2d(y, self.head.weight[:1], self.head.bias[:1])
        presence = nn.functional.linear(y.mean((2, 3)), self.head.weight[1:, :, 0, 0], self.head.bias[1:])
        return heat[:, 0], presence[:, 0]


def heat_of(there, x, y):
    cells = torch.arange(SIDE // STRIDE, dtype=torch.float64) * STRIDE
    bell = torch.exp(-((cells[None, None, :] - x[:, None, None]) ** 2 + (cells[None, :, None] - y[:, None, None]) ** 2)
                     / (2 * SIGMA ** 2))
    return torch.where(there[:, None, None], bell, torch.full_like(bell, ABSENT_HEAT))


def main():
    torch.set_num_threads(1)
    model = Locator().double()
    resnet.set_weights(model)
    data = resnet.Generator(resnet.DATA_SEED)

    def next_loss():
        pixels = 2 * data.uniform(BATCH * SIDE * SIDE * CHANNELS) - 1
        x = torch.from_numpy(pixels).view(BATCH, SIDE, SIDE, CHANNELS).permute(0, 3, 1, 2).contiguous()
        # As float32, which the program keeps targets in.
        wanted = torch.from_numpy(data.uniform(3 * BATCH)).view(BATCH, 3).float().double()
        there = wanted[:, 0] > 1 / 3
        heat, logit = model(x)
        loss = HEATMAP_WEIGHT * nn.functional.mse_loss(heat, heat_of(there, SIDE * wanted[:, 1], SIDE * wanted[:, 2]))
        return loss + PRESENCE_WEIGHT * nn.functional.binary_cross_entropy_with_logits(logit, there.double())

    recipe = {"lr": 2e-5, "momentum": 0.9, "weight_decay": 1e-4}
    result = {"torch": torch.__version__, "side": SIDE, "channels": CHANNELS, "batch": BATCH,
              **resnet.train(model, recipe, (next_loss() for _ in range(STEPS)))}
    path = os.path.join(os.path.dirname(os.path.abspath(__file__)), "locator_reference.json")
    with open(path, "w", encoding="utf-8") as file:
        json.dump(result, file)
        file.write("\n")


if __name__ == "__main__":
    main()
