"""Makes vit_reference.json and vit_first_step.safetensors with PyTorch: the losses of 50 SGD and 50 AdamW steps of a
ViT in fp64 on Fashion-MNIST, and every gradient of the first step.

Needs torch and Debian's dataset-fashion-mnist. Run it only to renew the reference:
    python3 -B tests/parity/make_vit_reference.py
The tests read the files and need neither.
"""

import json
import os
import struct

import torch
from torch.utils.data.distributed import DistributedSampler

import make_reference
import torch_weights
import vit_weights

BATCH, STEPS = 16, 50
FOLDER = os.path.dirname(os.path.abspath(__file__))


class Attention(torch.nn.Module):
    def __init__(self, dim, heads):
        super().__init__()
        self.heads = heads
        self.qkv = torch.nn.Linear(dim, 3 * dim)
        self.proj = torch.nn.Linear(dim, dim)

    def forward(self, x):
        n, t, c = x.shape
        q, k, v = self.qkv(x).reshape(n, t, 3, self.heads, c // self.heads).permute(2, 0, 3, 1, 4)
        scores = (q @ k.transpose(-2, -1)) * (c // self.heads) ** -0.5
        return self.proj((scores.softmax(dim=-1) @ v).transpose(1, 2).reshape(n, t, c))


class Mlp(torch.nn.Module):
    def __init__(self, dim, gelu):
        super().__init__()
        self.gelu = gelu
        self.fc1 = torch.nn.Linear(dim, 4 * dim)
        self.fc2 = torch.nn.Linear(4 * dim, dim)

    def forward(self, x):
        return self.fc2(torch.nn.functional.gelu(self.fc1(x), approximate=self.gelu))


class Block(torch.nn.Module):
    def __init__(self, dim, heads, gelu):
        super().__init__()
        self.norm1 = torch.nn.LayerNorm(dim, eps=1e-6)
        self.attn = Attention(dim, heads)
        self.norm2 = torch.nn.LayerNorm(dim, eps=1e-6)
        self.mlp = Mlp(dim, gelu)

    def forward(self, x):
        x = x + self.attn(self.norm1(x))
        return x + self.mlp(self.norm2(x))


class PatchEmbed(torch.nn.Module):
    def __init__(self, patch, dim):
        super().__init__()
        self.proj = torch.nn.Conv2d(1, dim, patch, stride=patch)

    def forward(self, x):
        return self.proj(x).flatten(2).transpose(1, 2)


class Vit(torch.nn.Module):
    """timm's VisionTransformer with its defaults: class token, learned positions, pre-norm, qkv bias."""

    def __init__(self, gelu):
        super().__init__()
        dim = vit_weights.DIM
        self.cls_token = torch.nn.Parameter(torch.zeros(1, 1, dim))
        self.pos_embed = torch.nn.Parameter(torch.zeros(1, (28 // vit_weights.PATCH) ** 2 + 1, dim))
        self.patch_embed = PatchEmbed(vit_weights.PATCH, dim)
        self.blocks = torch.nn.Sequential(*[Block(dim, vit_weights.HEADS, gelu) for _ in range(vit_weights.DEPTH)])
        self.norm = torch.nn.LayerNorm(dim, eps=1e-6)
        self.head = torch.nn.Linear(dim, vit_weights.CLASSES)

    def forward(self, x):
        x = self.patch_embed(x)
        x = torch.cat([self.cls_token.expand(len(x), -1, -1), x], dim=1) + self.pos_embed
        return self.head(self.norm(self.blocks(x))[:, 0])


def model(gelu="none"):
    result = Vit(gelu)
    weights = vit_weights.weights()
    result.load_state_dict({name: torch.tensor(values).view(shape) for name, (shape, values) in weights.items()})
    return result.double()


def batches(images, labels):
    order = list(DistributedSampler(labels, num_replicas=1, rank=0, seed=0))
    for step in range(STEPS):
        batch = order[step * BATCH : (step + 1) * BATCH]
        yield images[batch], labels[batch]


def loss_of(network, images, labels, smoothing=0.0):
    pixels = (images.float() / 255.0).double()
    return torch.nn.functional.cross_entropy(network(pixels), labels, label_smoothing=smoothing)


def losses(images, labels, make_optimizer, smoothing=0.0, gelu="none"):
    network = model(gelu)
    optimizer = make_optimizer(network.parameters())
    result = []
    for batch in batches(images, labels):
        loss = loss_of(network, *batch, smoothing)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        result.append(loss.item())
    return result


def write_first_step(path, network, pixels, targets, samples):
    """pixels: as the network takes them; samples: as a data set has them."""
    write_gradients(path, network, loss_of(network, pixels, targets),
                    {"pixels": ("U8", samples.contiguous()), "labels": ("I64", targets)})


def write_gradients(path, network, loss, tensors):
    """tensors: name -> (type, values), which are written, too."""
    loss.backward()
    tensors = tensors | {"loss": ("F64", loss.detach().view(1))}
    for name, parameter in network.named_parameters():
        tensors["gradient." + name] = ("F64", parameter.grad)
    header, data = {}, b""
    for name, (kind, tensor) in tensors.items():
        content = tensor.contiguous().numpy().tobytes()
        header[name] = {"dtype": kind, "shape": list(tensor.shape), "data_offsets": [len(data), len(data) + len(content)]}
        data += content
    text = json.dumps(header).encode()
    with open(path, "wb") as file:
        file.write(struct.pack("<Q", len(text)) + text + data)


def main():
    torch.set_num_threads(1)
    images, labels = make_reference.read_data()
    sgd = lambda p: torch.optim.SGD(p, lr=0.05, momentum=0.9, weight_decay=1e-4)  # noqa: E731
    adamw = lambda p: torch.optim.AdamW(p, lr=1e-3, weight_decay=0.05)  # noqa: E731
    reference = {
        "torch": torch.__version__,
        "weights_sha256": torch_weights.sha256(vit_weights.weights()),
        "batch_size": BATCH,
        "sgd": losses(images, labels, sgd),
        "adamw": losses(images, labels, adamw),
        "sgd_smoothed": losses(images, labels, sgd, smoothing=0.1),
        "sgd_gelu_by_tanh": losses(images, labels, sgd, gelu="tanh"),
    }
    with open(os.path.join(FOLDER, "vit_reference.json"), "w") as file:
        json.dump(reference, file, indent=1)
        file.write("\n")
    pixels, targets = next(batches(images, labels))
    write_first_step(os.path.join(FOLDER, "vit_first_step.safetensors"), model(), pixels, targets,
                     pixels.permute(0, 2, 3, 1))


if __name__ == "__main__":
    main()
