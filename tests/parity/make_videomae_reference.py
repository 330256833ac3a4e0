"""Makes videomae_first_step.safetensors with PyTorch: loss and every gradient of the first step of a small video
transformer in fp64, on clips of random pixels.

The network is what WORKLOADS and the paper (Tong et al. 2022, VideoMAE) describe, with VideoMAE's names: Conv3d patch
embedding, sinusoidal positions over (t, h, w), pre-norm blocks whose qkv has biases of q and v alone, mean pooling before
the norm. Weights are those of vit_weights.weights: in the order of names from one mt19937, U(±0.2), around 1 for norms.

Needs torch. Run it only to renew the reference:
    python3 -B tests/parity/make_videomae_reference.py
"""

import math
import os

import torch

import make_vit_reference
import torch_weights

FRAMES, SIDE, COLOURS = 4, 8, 3
TUBELET, PATCH, DIM, DEPTH, HEADS, CLASSES = 2, 4, 16, 2, 2, 3
BATCH = 3


class Attention(torch.nn.Module):
    def __init__(self, dim, heads):
        super().__init__()
        self.heads = heads
        self.q_bias = torch.nn.Parameter(torch.zeros(dim))
        self.v_bias = torch.nn.Parameter(torch.zeros(dim))
        self.qkv = torch.nn.Linear(dim, 3 * dim, bias=False)
        self.proj = torch.nn.Linear(dim, dim)

    def forward(self, x):
        n, t, c = x.shape
        bias = torch.cat([self.q_bias, torch.zeros_like(self.v_bias), self.v_bias])
        qkv = torch.nn.functional.linear(x, self.qkv.weight, bias)
        q, k, v = qkv.reshape(n, t, 3, self.heads, c // self.heads).permute(2, 0, 3, 1, 4)
        scores = (q @ k.transpose(-2, -1)) * (c // self.heads) ** -0.5
        return self.proj((scores.softmax(dim=-1) @ v).transpose(1, 2).reshape(n, t, c))


class Block(make_vit_reference.Block):
    def __init__(self, dim=DIM, heads=HEADS):
        super().__init__(dim, heads, "none")
        self.attn = Attention(dim, heads)


class PatchEmbed(torch.nn.Module):
    def __init__(self):
        super().__init__()
        size = (TUBELET, PATCH, PATCH)
        self.proj = torch.nn.Conv3d(COLOURS, DIM, size, stride=size)

    def forward(self, x):
        return self.proj(x).flatten(2).transpose(1, 2)


def positions(tokens, dim=DIM):
    table = [[pos / 10000 ** (2 * (i // 2) / dim) for i in range(dim)] for pos in range(tokens)]
    return torch.tensor([[math.sin(a) if i % 2 == 0 else math.cos(a) for i, a in enumerate(row)] for row in table],
                        dtype=torch.float64)


class VideoTransformer(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.patch_embed = PatchEmbed()
        self.blocks = torch.nn.Sequential(*[Block() for _ in range(DEPTH)])
        self.fc_norm = torch.nn.LayerNorm(DIM, eps=1e-6)
        self.head = torch.nn.Linear(DIM, CLASSES)

    def forward(self, clips):  # [N, C, T, H, W]
        x = self.patch_embed(clips)
        x = x + positions(x.shape[1])
        return self.head(self.fc_norm(self.blocks(x).mean(1)))


def model():
    return with_weights(VideoTransformer())


def with_weights(result):
    source = torch_weights.generator(0)
    state = result.state_dict()
    for name in sorted(state):
        values = torch_weights.uniform(source, state[name].numel(), 0.2)
        if "norm" in name and name.endswith(".weight"):
            values = torch_weights.float32([1 + value for value in values])
        state[name] = torch.tensor(values).view(state[name].shape)
    result.load_state_dict(state)
    return result.double()


def main():
    torch.set_num_threads(1)
    torch.manual_seed(0)
    clips = torch.randint(0, 256, (BATCH, COLOURS, FRAMES, SIDE, SIDE), dtype=torch.uint8)
    # A data set's pixel has the channels of the first frame, then those of the second, and so on.
    samples = clips.permute(0, 3, 4, 2, 1).reshape(BATCH, SIDE, SIDE, FRAMES * COLOURS)
    path = os.path.join(make_vit_reference.FOLDER, "videomae_first_step.safetensors")
    make_vit_reference.write_first_step(path, model(), clips, torch.tensor([2, 0, 1]), samples)


if __name__ == "__main__":
    main()
