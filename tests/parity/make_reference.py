"""Makes lenet_reference.json with PyTorch: the losses of 50 SGD and 50 AdamW steps in fp64 on Fashion-MNIST.

Needs torch and Debian's dataset-fashion-mnist. Run it only to renew the reference:
    python3 tests/parity/make_reference.py
The tests read the file and need neither.
"""

import gzip
import json
import os

import torch
from torch.utils.data.distributed import DistributedSampler

import torch_weights

DATA = "/usr/share/datasets/fashion-mnist/train-"
BATCH, STEPS = 64, 50


class LeNet(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.conv1 = torch.nn.Conv2d(1, 32, 3, padding=1)
        self.conv2 = torch.nn.Conv2d(32, 64, 3, padding=1)
        self.fc1 = torch.nn.Linear(3136, 128)
        self.fc2 = torch.nn.Linear(128, 10)

    def forward(self, x):
        f = torch.nn.functional
        x = f.max_pool2d(f.relu(self.conv1(x)), 2)
        x = f.max_pool2d(f.relu(self.conv2(x)), 2)
        return self.fc2(f.relu(self.fc1(torch.flatten(x, 1))))


def read_data():
    with gzip.open(DATA + "images-idx3-ubyte.gz") as file:
        images = torch.frombuffer(bytearray(file.read()), dtype=torch.uint8, offset=16).view(-1, 1, 28, 28)
    with gzip.open(DATA + "labels-idx1-ubyte.gz") as file:
        labels = torch.frombuffer(bytearray(file.read()), dtype=torch.uint8, offset=8).long()
    return images, labels


def losses(images, labels, make_optimizer):
    torch.manual_seed(0)
    model = LeNet()
    expected = torch_weights.layers_to_weights(torch_weights.LENET, 0)
    for name, parameter in model.named_parameters():
        ours = torch.tensor(expected[name][1]).view(expected[name][0])
        assert torch.equal(parameter.detach(), ours), name
    model = model.double()
    optimizer = make_optimizer(model.parameters())
    order = list(DistributedSampler(labels, num_replicas=1, rank=0, seed=0))
    result = []
    for step in range(STEPS):
        batch = order[step * BATCH : (step + 1) * BATCH]
        pixels = (images[batch].float() / 255.0).double()
        loss = torch.nn.functional.cross_entropy(model(pixels), labels[batch])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        result.append(loss.item())
    return result


def main():
    torch.set_num_threads(1)
    images, labels = read_data()
    reference = {
        "torch": torch.__version__,
        "weights_sha256": torch_weights.sha256(torch_weights.layers_to_weights(torch_weights.LENET, 0)),
        "batch_size": BATCH,
        "sgd": losses(images, labels, lambda p: torch.optim.SGD(p, lr=0.05, momentum=0.9, weight_decay=1e-4)),
        "nesterov": losses(
            images, labels, lambda p: torch.optim.SGD(p, lr=0.02, momentum=0.9, weight_decay=1e-4, nesterov=True)
        ),
        "adamw": losses(images, labels, lambda p: torch.optim.AdamW(p, lr=1e-3, weight_decay=0.05)),
    }
    path = os.path.join(os.path.dirname(os.path.abspath(__file__)), "lenet_reference.json")
    with open(path, "w") as file:
        json.dump(reference, file, indent=1)
        file.write("\n")


if __name__ == "__main__":
    main()
