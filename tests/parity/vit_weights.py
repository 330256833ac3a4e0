"""The ViT of the parity tests: timm's names and shapes, and weights that need no torch.

Every tensor, in the order of its name, takes its elements from one mt19937 (torch_weights.generator): U(±0.2), around 1
for the weights of norms. Larger than timm's initial values, so that attention is far from uniform from the first step.
"""

import math

import torch_weights

PATCH, DIM, DEPTH, HEADS, CLASSES = 7, 32, 2, 4, 10


def shapes():
    """name -> shape, as timm's VisionTransformer(img_size=28, in_chans=1, patch_size=7, embed_dim=32, …) has them."""
    result = {
        "cls_token": [1, 1, DIM],
        "pos_embed": [1, (28 // PATCH) ** 2 + 1, DIM],
        "patch_embed.proj.weight": [DIM, 1, PATCH, PATCH],
        "patch_embed.proj.bias": [DIM],
    }
    for block in range(DEPTH):
        prefix = f"blocks.{block}."
        for norm in ("norm1", "norm2"):
            result[f"{prefix}{norm}.weight"] = [DIM]
            result[f"{prefix}{norm}.bias"] = [DIM]
        for name, out, width in (("attn.qkv", 3 * DIM, DIM), ("attn.proj", DIM, DIM), ("mlp.fc1", 4 * DIM, DIM),
                                 ("mlp.fc2", DIM, 4 * DIM)):
            result[f"{prefix}{name}.weight"] = [out, width]
            result[f"{prefix}{name}.bias"] = [out]
    result |= {"norm.weight": [DIM], "norm.bias": [DIM], "head.weight": [CLASSES, DIM], "head.bias": [CLASSES]}
    return result


def weights(seed=0):
    """name -> (shape, values)."""
    source = torch_weights.generator(seed)
    result = {}
    for name, shape in sorted(shapes().items()):
        values = torch_weights.uniform(source, math.prod(shape), 0.2)
        if "norm" in name and name.endswith(".weight"):
            values = torch_weights.float32([1 + value for value in values])
        result[name] = (shape, values)
    return result
