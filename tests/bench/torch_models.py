"""The models of the zoo in PyTorch, with the same numbers of parameters, for grey 28x28 images in 10 classes. Needs torch."""

import torch
from torch import nn
from torch.nn import functional


def mlp(hidden=(512, 512)):
    layers, width = [nn.Flatten()], 784
    for out in hidden:
        layers += [nn.Linear(width, out), nn.ReLU()]
        width = out
    return nn.Sequential(*layers, nn.Linear(width, 10))


def lenet():
    return nn.Sequential(nn.Conv2d(1, 32, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2),
                         nn.Conv2d(32, 64, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(),
                         nn.Linear(3136, 128), nn.ReLU(), nn.Linear(128, 10))


class ResidualBlock(nn.Module):
    def __init__(self, channels, width, stride):
        super().__init__()
        self.main = nn.Sequential(nn.Conv2d(channels, width, 3, stride, 1, bias=False), nn.BatchNorm2d(width),
                                  nn.ReLU(inplace=True),
                                  nn.Conv2d(width, width, 3, 1, 1, bias=False), nn.BatchNorm2d(width))
        self.side = nn.Identity() if stride == 1 and channels == width else nn.Sequential(
            nn.Conv2d(channels, width, 1, stride, bias=False), nn.BatchNorm2d(width))

    def forward(self, x):
        return functional.relu(self.main(x) + self.side(x))


def residual_stages():
    """The blocks of a resnet18, from 64 channels to 512."""
    layers, channels = [], 64
    for width, stride in ((64, 1), (128, 2), (256, 2), (512, 2)):
        layers += [ResidualBlock(channels, width, stride), ResidualBlock(width, width, 1)]
        channels = width
    return layers


def resnet18():
    """model.stem=cifar: a 3x3 convolution, no max-pool."""
    return nn.Sequential(nn.Conv2d(1, 64, 3, 1, 1, bias=False), nn.BatchNorm2d(64), nn.ReLU(inplace=True), *residual_stages(),
                         nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(512, 10))


class TransformerBlock(nn.Module):
    """As in timm, with the fused attention. gelu: torch.nn.GELU's `approximate`."""

    def __init__(self, dim, heads, gelu="none"):
        super().__init__()
        self.heads, self.gelu = heads, gelu
        self.norm1, self.norm2 = nn.LayerNorm(dim), nn.LayerNorm(dim)
        self.qkv, self.proj = nn.Linear(dim, 3 * dim), nn.Linear(dim, dim)
        self.fc1, self.fc2 = nn.Linear(dim, 4 * dim), nn.Linear(4 * dim, dim)

    def queries_keys_values(self, x):
        """Queries, keys and values, side by side."""
        return self.qkv(x)

    def forward(self, x):
        samples, tokens, dim = x.shape
        q, k, v = self.queries_keys_values(self.norm1(x)).view(samples, tokens, 3, self.heads, -1).permute(2, 0, 3, 1, 4)
        mixed = functional.scaled_dot_product_attention(q, k, v)
        x = x + self.proj(mixed.transpose(1, 2).reshape(samples, tokens, dim))
        return x + self.fc2(functional.gelu(self.fc1(self.norm2(x)), approximate=self.gelu))


class Vit(nn.Module):
    """model.name=vit with its defaults: patch 4, dim 128, depth 4, heads 4, class token."""

    def __init__(self):
        super().__init__()
        self.patch = nn.Conv2d(1, 128, 4, 4)
        self.token = nn.Parameter(torch.zeros(1, 1, 128))
        self.position = nn.Parameter(torch.zeros(1, 50, 128))
        self.blocks = nn.Sequential(*(TransformerBlock(128, 4) for _ in range(4)))
        self.norm, self.head = nn.LayerNorm(128), nn.Linear(128, 10)

    def forward(self, x):
        x = self.patch(x).flatten(2).transpose(1, 2)
        x = torch.cat([self.token.expand(len(x), -1, -1), x], 1) + self.position
        return self.head(self.norm(self.blocks(x))[:, 0])


MODELS = {"mlp": mlp, "lenet": lenet, "vit": Vit, "resnet18": resnet18}


def parameters_of(network):
    return sum(parameter.numel() for parameter in network.parameters())
