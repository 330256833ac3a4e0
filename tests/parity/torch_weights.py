"""PyTorch's default initial weights without PyTorch.

torch.manual_seed(s) seeds a standard mt19937 (init_genrand) on the CPU; Tensor.uniform_(a, b) on float32 takes the
lower 24 bits of one output per element: x·2⁻²⁴·(b − a) + a, a fused multiply-add, rounded once to float32. nn.Linear and nn.Conv2d draw weight, then bias,
from U(±1/√fan_in). make_reference.py checks all this against torch and records the hash that the tests demand.
"""

import hashlib
import json
import math
import random
import struct


def generator(seed):
    """A random.Random whose getrandbits(32) gives mt19937's outputs after init_genrand(seed)."""
    state = [seed & 0xFFFFFFFF]
    for i in range(1, 624):
        state.append((1812433253 * (state[-1] ^ (state[-1] >> 30)) + i) & 0xFFFFFFFF)
    result = random.Random()
    result.setstate((3, tuple(state + [624]), None))
    return result


def float32(values):
    """Rounds doubles to float32."""
    return struct.unpack(f"{len(values)}f", struct.pack(f"{len(values)}f", *values))


def uniform(source, count, bound):
    low, high = float32([-bound, bound])
    (width,) = float32([high - low])
    return float32([(source.getrandbits(32) & 0xFFFFFF) * 2.0**-24 * width + low for _ in range(count)])


def layers_to_weights(layers, seed):
    """layers: [(name, weight shape)] in the order of construction -> {name: (shape, values)}."""
    source = generator(seed)
    weights = {}
    for name, shape in layers:
        bound = 1.0 / math.sqrt(math.prod(shape[1:]))
        weights[name + ".weight"] = (shape, uniform(source, math.prod(shape), bound))
        weights[name + ".bias"] = ([shape[0]], uniform(source, shape[0], bound))
    return weights


LENET = [("conv1", [32, 1, 3, 3]), ("conv2", [64, 32, 3, 3]), ("fc1", [128, 3136]), ("fc2", [10, 128])]
RECIPE_MLP = [("fc1", [32, 784]), ("fc2", [10, 32])]


def sha256(weights):
    digest = hashlib.sha256()
    for name in sorted(weights):
        digest.update(struct.pack(f"<{len(weights[name][1])}f", *weights[name][1]))
    return digest.hexdigest()


def write_safetensors(path, weights):
    """https://github.com/huggingface/safetensors, section "Format"."""
    header, offset = {}, 0
    for name, (shape, values) in weights.items():
        end = offset + 4 * len(values)
        header[name] = {"dtype": "F32", "shape": shape, "data_offsets": [offset, end]}
        offset = end
    text = json.dumps(header).encode()
    with open(path, "wb") as file:
        file.write(struct.pack("<Q", len(text)) + text)
        for _, values in weights.values():
            file.write(struct.pack(f"<{len(values)}f", *values))
