"""One rank of PyTorch DDP (gloo) on the CPU: what bucket_table.py compares `trainer bench buckets` with.

    mpirun -np 2 python3 -B tests/bench/peer_ddp.py --model lenet --batch 128 --store 10.77.0.1:29555 --out ddp.json

Needs torch. The batch stays in memory, so that no time goes into loading. A step is zero_grad, forward, backward with
the all-reduces, SGD; its time is that of the slower rank. Exposed communication is what DDP's own timers say: from the
first bucket's begin to the last one's end, less the part during backward's computation.
"""

import argparse
import json
import os
import statistics
import time

import torch
from torch import nn
from torch.nn import functional
from torch.nn.parallel import DistributedDataParallel


def lenet():
    return nn.Sequential(nn.Conv2d(1, 32, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2),
                         nn.Conv2d(32, 64, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(),
                         nn.Linear(3136, 128), nn.ReLU(), nn.Linear(128, 10))


def mlp():
    return nn.Sequential(nn.Flatten(), nn.Linear(784, 1024), nn.ReLU(), nn.Linear(1024, 1024), nn.ReLU(),
                         nn.Linear(1024, 10))


class Block(nn.Module):
    def __init__(self, channels, width, stride):
        super().__init__()
        self.main = nn.Sequential(nn.Conv2d(channels, width, 3, stride, 1, bias=False), nn.BatchNorm2d(width), nn.ReLU(),
                                  nn.Conv2d(width, width, 3, 1, 1, bias=False), nn.BatchNorm2d(width))
        self.side = nn.Identity() if stride == 1 and channels == width else nn.Sequential(
            nn.Conv2d(channels, width, 1, stride, bias=False), nn.BatchNorm2d(width))

    def forward(self, x):
        return functional.relu(self.main(x) + self.side(x))


def resnet18():
    layers, channels = [nn.Conv2d(1, 64, 3, 1, 1, bias=False), nn.BatchNorm2d(64), nn.ReLU()], 64
    for width, stride in ((64, 1), (128, 2), (256, 2), (512, 2)):
        layers += [Block(channels, width, stride), Block(width, width, 1)]
        channels = width
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(512, 10))


class Vit(nn.Module):
    """model.name=vit with its defaults: patch 4, dim 128, depth 4, heads 4, class token."""

    def __init__(self):
        super().__init__()
        self.patch = nn.Conv2d(1, 128, 4, 4)
        self.token = nn.Parameter(torch.zeros(1, 1, 128))
        self.position = nn.Parameter(torch.zeros(1, 50, 128))
        self.blocks = nn.Sequential(*(nn.TransformerEncoderLayer(128, 4, 512, 0.0, "gelu", batch_first=True,
                                                                 norm_first=True) for _ in range(4)))
        self.norm, self.head = nn.LayerNorm(128), nn.Linear(128, 10)

    def forward(self, x):
        x = self.patch(x).flatten(2).transpose(1, 2)
        x = torch.cat([self.token.expand(len(x), -1, -1), x], 1) + self.position
        return self.head(self.norm(self.blocks(x))[:, 0])


MODELS = {"lenet": lenet, "mlp": mlp, "resnet18": resnet18, "vit": Vit}


def measure(network, arguments, size):
    ddp = DistributedDataParallel(network, bucket_cap_mb=arguments.bucket_mb)
    ddp._set_ddp_runtime_logging_sample_rate(1)  # its timers run in every step
    optimizer = torch.optim.SGD(ddp.parameters(), lr=0.001)
    images, labels = torch.rand(arguments.batch, 1, 28, 28), torch.arange(arguments.batch) % 10
    steps, exposed, communication = [], [], []
    for step in range(arguments.warmup + arguments.steps):
        begin = time.perf_counter()
        optimizer.zero_grad()
        functional.cross_entropy(ddp(images), labels).backward()
        optimizer.step()
        seconds = torch.tensor([time.perf_counter() - begin], dtype=torch.float64)
        torch.distributed.all_reduce(seconds, op=torch.distributed.ReduceOp.MAX)
        facts = ddp._get_ddp_logging_data()
        if step >= arguments.warmup:
            steps.append(seconds.item())
            communication.append(facts.get("backward_comm_time", 0) * 1e-9)
            exposed.append((facts.get("backward_comm_time", 0) -
                            facts.get("backward_compute_comm_overlap_time", 0)) * 1e-9)

    def spread(values):
        return {"min": min(values), "median": statistics.median(values), "max": max(values),
                "values": values}
    return {"torch": torch.__version__, "model": arguments.model, "world_size": size, "bucket_mb": arguments.bucket_mb,
            "threads": torch.get_num_threads(), "parameters": sum(p.numel() for p in network.parameters()),
            "step": spread(steps), "communication": spread(communication), "exposed": spread(exposed)}


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--model", choices=MODELS, required=True)
    parser.add_argument("--batch", type=int, required=True)
    parser.add_argument("--steps", type=int, default=20)
    parser.add_argument("--warmup", type=int, default=4)
    parser.add_argument("--bucket-mb", type=float, default=25)
    parser.add_argument("--store", required=True, metavar="HOST:PORT")
    parser.add_argument("--out", required=True)
    arguments = parser.parse_args()
    rank, size = int(os.environ["OMPI_COMM_WORLD_RANK"]), int(os.environ["OMPI_COMM_WORLD_SIZE"])
    torch.manual_seed(0)
    torch.set_num_threads(len(os.sched_getaffinity(0)))
    torch.distributed.init_process_group("gloo", init_method=f"tcp://{arguments.store}", rank=rank, world_size=size)
    result = measure(MODELS[arguments.model](), arguments, size)
    if rank == 0:
        with open(arguments.out, "w", encoding="utf-8") as file:
            json.dump(result, file, indent=1)
    torch.distributed.destroy_process_group()


if __name__ == "__main__":
    main()
