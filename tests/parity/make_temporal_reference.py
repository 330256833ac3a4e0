"""Makes temporal_reference.json with PyTorch in fp64: losses and gradients of the temporal transformer.

Needs torch and numpy. Run it only to renew the reference:
    python3 tests/parity/make_temporal_reference.py
tests/train/temporal_parity_test.cpp reads the file and needs neither. Numbers are drawn and tensors recorded as
make_resnet_reference.py says, but that weights of layer norms are as those of its batch norms. Each step draws its batch:
for each sample for each of SECONDS seconds 2u − 1 for each feature, then an inside second where u is above 1/2 with the
offsets 8·u and 8·u behind it. Of sample n the first SECONDS − 5·n seconds exist; features of the others are 0.
"""

import json
import math
import os

import make_resnet_reference as resnet
import torch
from torch import nn

SECONDS, FEATURES, BATCH, STEPS = 24, (5, 7, 4), 3, 3
DIM, HEADS, HIDDEN = 16, 4, 32
DEPTHS = {"early": {"depth": 2}, "cross": {"depth": 1, "text_depth": 2, "cross_depth": 1}}
ALPHA, GAMMA, CLASS_WEIGHT, OFFSET_WEIGHT = 0.7, 2, 0.2, 0.8


def positions(count, width):
    place = torch.arange(count, dtype=torch.float64)[:, None]
    angle = place / 10000 ** (torch.arange(0, width, 2, dtype=torch.float64) / width)
    return torch.stack([angle.sin(), angle.cos()], 2).view(count, width)


def attend(query, key, value, exists):
    def heads(x):
        return x.view(x.shape[0], x.shape[1], HEADS, -1).transpose(1, 2)
    mask = exists[:, None, None, :].expand(-1, 1, exists.shape[1], -1)
    out = nn.functional.scaled_dot_product_attention(heads(query), heads(key), heads(value), attn_mask=mask)
    return out.transpose(1, 2).reshape(query.shape) * exists[:, :, None]


class Attention(nn.Module):
    """Of a sequence to itself, or (queries of its own) to another one."""

    def __init__(self, other):
        super().__init__()
        if other:
            self.q_proj, self.kv_proj = nn.Linear(DIM, DIM), nn.Linear(DIM, 2 * DIM)
        else:
            # As torch.nn.MultiheadAttention names them.
            self.in_proj_weight, self.in_proj_bias = nn.Parameter(torch.empty(3 * DIM, DIM)), nn.Parameter(torch.empty(3 * DIM))
        self.out_proj = nn.Linear(DIM, DIM)

    def forward(self, x, other, exists):
        if other is None:
            query, key, value = nn.functional.linear(x, self.in_proj_weight, self.in_proj_bias).chunk(3, 2)
        else:
            query, (key, value) = self.q_proj(x), self.kv_proj(other).chunk(2, 2)
        return self.out_proj(attend(query, key, value, exists))


class Layer(nn.Module):
    def __init__(self, other):
        super().__init__()
        self.norm1 = nn.LayerNorm(DIM)
        if other:
            self.norm_kv = nn.LayerNorm(DIM)
            self.cross_attn = Attention(True)
        else:
            self.self_attn = Attention(False)
        self.norm2 = nn.LayerNorm(DIM)
        self.linear1, self.linear2 = nn.Linear(DIM, HIDDEN), nn.Linear(HIDDEN, DIM)
        self.other = other

    def forward(self, x, other, exists):
        if self.other:
            # Queries first: so the parameters' order is that in which the layers run.
            x = x + self.cross_attn(self.norm1(x), self.norm_kv(other), exists)
        else:
            x = x + self.self_attn(self.norm1(x), None, exists)
        return x + self.linear2(torch.relu(self.linear1(self.norm2(x))))


class Stack(nn.Module):
    def __init__(self, depth, other=False):
        super().__init__()
        self.layers = nn.ModuleList(Layer(other) for _ in range(depth))

    def forward(self, x, other, exists):
        for layer in self.layers:
            x = layer(x, other, exists)
        return x


class Feature(nn.Module):
    def __init__(self, width, depth):
        super().__init__()
        self.embed = nn.ModuleList([nn.Linear(width, HIDDEN), nn.Linear(HIDDEN, DIM)])
        self.encoder = Stack(depth)

    def forward(self, x, exists):
        x = self.embed[1](torch.relu(self.embed[0](x)))
        return self.encoder(x + positions(x.shape[1], DIM), None, exists)


class Early(nn.Module):
    def __init__(self, depth):
        super().__init__()
        self.embed, self.embed_norm = nn.Linear(sum(FEATURES), DIM), nn.LayerNorm(DIM)
        self.encoder = Stack(depth)
        self.norm = nn.LayerNorm(DIM)
        self.classification, self.offsets = nn.Linear(DIM, 1), nn.Linear(DIM, 2)

    def forward(self, x, exists):
        x = self.embed_norm(self.embed(x)) + positions(x.shape[1], DIM)
        x = self.norm(self.encoder(x, None, exists))
        return self.classification(x)[:, :, 0], torch.relu(self.offsets(x))


class Cross(nn.Module):
    def __init__(self, depth, text_depth, cross_depth):
        super().__init__()
        self.picture, self.sound = Feature(FEATURES[0], depth), Feature(FEATURES[1], depth)
        self.text = Feature(FEATURES[2], text_depth)
        self.picture_text, self.sound_text = Stack(cross_depth, True), Stack(cross_depth, True)
        self.picture_sound, self.sound_picture = Stack(cross_depth, True), Stack(cross_depth, True)
        self.fusion = nn.Linear(2 * DIM, DIM)
        self.norm = nn.LayerNorm(DIM)
        self.classification, self.offsets = nn.Linear(DIM, 1), nn.Linear(DIM, 2)

    def forward(self, x, exists):
        picture, sound, text = x.split(FEATURES, 2)
        picture, sound, text = self.picture(picture, exists), self.sound(sound, exists), self.text(text, exists)
        picture, sound = self.picture_text(picture, text, exists), self.sound_text(sound, text, exists)
        both = torch.cat([self.picture_sound(picture, sound, exists), self.sound_picture(sound, picture, exists)], 2)
        x = self.norm(self.fusion(both))
        return self.classification(x)[:, :, 0], torch.relu(self.offsets(x))


def loss_of(logits, offsets, exists, wanted):
    """The mean over samples: see include/tutti/device/segment_loss.hpp, of which this is written anew."""
    inside = (wanted[:, :, 0] >= 0) & exists
    # As torchvision.ops.sigmoid_focal_loss, with weights of both classes.
    bce = nn.functional.binary_cross_entropy_with_logits(logits, inside.double(), reduction="none")
    right = torch.exp(-bce)
    focal = (ALPHA * inside.double() + (1 - ALPHA) * (~inside).double()) * (1 - right) ** GAMMA * bce
    left, after, a, b = offsets[:, :, 0], offsets[:, :, 1], wanted[:, :, 0], wanted[:, :, 1]
    both = torch.minimum(left, a) + torch.minimum(after, b)
    hull = torch.maximum(left, a) + torch.maximum(after, b)
    centres = 0.5 * (after - left - b + a)
    diou = 1 - both / (left + after + a + b - both).clamp(min=1e-6) + (centres / hull.clamp(min=1e-6)) ** 2

    def mean(values, which):
        return torch.where(which, values, 0).sum(1) / which.sum(1).clamp(min=1)
    return (CLASS_WEIGHT * mean(focal, exists) + OFFSET_WEIGHT * mean(diou, inside)).mean()


def set_weights(model):
    source = resnet.Generator(resnet.WEIGHTS_SEED)
    with torch.no_grad():
        for name, tensor in model.state_dict().items():
            u = torch.from_numpy(source.uniform(tensor.numel())).view(tensor.shape)
            if tensor.dim() > 1:
                tensor.copy_((2 * u - 1) / math.sqrt(tensor[0].numel()))
            else:
                tensor.copy_(u + (0.5 if name.endswith("weight") else -0.5))


def reference(model, depths):
    set_weights(model)
    data = resnet.Generator(resnet.DATA_SEED)
    width = sum(FEATURES)
    exists = torch.arange(SECONDS)[None, :] < SECONDS - 5 * torch.arange(BATCH)[:, None]

    def next_loss():
        x = torch.from_numpy(2 * data.uniform(BATCH * SECONDS * width) - 1).view(BATCH, SECONDS, width)
        x = torch.where(exists[:, :, None], x, 0)
        # As float32, which the program keeps targets in.
        drawn = torch.from_numpy(data.uniform(3 * BATCH * SECONDS)).view(BATCH, SECONDS, 3).float().double()
        wanted = torch.where(drawn[:, :, :1] > 0.5, 8 * drawn[:, :, 1:], -1)
        return loss_of(*model(x, exists), exists, wanted)

    recipe = {"lr": 0.01, "momentum": 0.9, "weight_decay": 1e-4}
    return {**depths, **resnet.train(model, recipe, (next_loss() for _ in range(STEPS)))}


def main():
    torch.set_num_threads(1)
    result = {"torch": torch.__version__, "seconds": SECONDS, "features": FEATURES, "batch": BATCH, "dim": DIM,
              "heads": HEADS, "mlp_ratio": HIDDEN / DIM,
              "early": reference(Early(**DEPTHS["early"]).double(), DEPTHS["early"]),
              "cross": reference(Cross(**DEPTHS["cross"]).double(), DEPTHS["cross"])}
    path = os.path.join(os.path.dirname(os.path.abspath(__file__)), "temporal_reference.json")
    with open(path, "w", encoding="utf-8") as file:
        json.dump(result, file)
        file.write("\n")


if __name__ == "__main__":
    main()
