"""One rank of PyTorch on the CPU that trains on command: what peer_torch.py compares `trainer bench step` with.

Reads numbers of steps from standard input, a line each, runs them and writes their seconds as a line of JSON. The batch
stays in memory: no time goes into loading. A step is zero_grad, forward, backward, SGD with momentum; with WORLD_SIZE
above 1, DDP over gloo. Needs torch. Variants: `installed`, as a first script would have it; `tuned`, with the memory
format that suits convolutions and a fused optimizer (its environment is in
torch_process.py); `compiled`, that with
torch.compile as well.
"""

import argparse
import contextlib
import datetime
import json
import os
import sys
import time

import torch
from torch.nn.parallel import DistributedDataParallel

from torch_models import parameters_of
from torch_setups import SETUPS

CONVOLUTIONAL = ("lenet", "resnet18", "locator")


def make_step(arguments, world):
    """The step as a function without arguments, and the number of parameters."""
    tuned = arguments.variant != "installed"
    build, make_batch, loss_of = SETUPS[arguments.model]
    network = build()
    parameters = parameters_of(network)
    inputs, targets = make_batch(arguments.batch)
    if tuned and arguments.model in CONVOLUTIONAL:
        network = network.to(memory_format=torch.channels_last)
        inputs = inputs.to(memory_format=torch.channels_last)
    optimizer = torch.optim.SGD(network.parameters(), lr=0.001, momentum=0.9, **({"fused": True} if tuned else {}))
    if world > 1:
        network = DistributedDataParallel(network)
    if arguments.variant == "compiled":
        network = torch.compile(network)
    precision = (torch.autocast("cpu", torch.bfloat16) if arguments.precision == "bf16" else contextlib.nullcontext())

    def step():
        optimizer.zero_grad()
        with precision:
            loss = loss_of(network(inputs), targets)
        loss.backward()
        optimizer.step()
    return step, parameters


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--model", choices=SETUPS, required=True)
    parser.add_argument("--precision", choices=("fp32", "bf16"), required=True)
    parser.add_argument("--variant", choices=("installed", "tuned", "compiled"), required=True)
    parser.add_argument("--batch", type=int, required=True)
    arguments = parser.parse_args()
    # What libraries print must not come between the lines of JSON.
    answers = os.fdopen(os.dup(1), "w", buffering=1, encoding="utf-8")
    os.dup2(2, 1)
    torch.manual_seed(0)
    world = int(os.environ.get("WORLD_SIZE", 1))
    if world > 1:
        torch.distributed.init_process_group("gloo", timeout=datetime.timedelta(seconds=300))
    step, parameters = make_step(arguments, world)
    print(json.dumps({"torch": torch.__version__, "threads": torch.get_num_threads(), "parameters": parameters}),
          file=answers)
    for line in sys.stdin:
        seconds = []
        for _ in range(int(line)):
            begin = time.perf_counter()
            step()
            seconds.append(time.perf_counter() - begin)
        print(json.dumps(seconds), file=answers)
    if world > 1:
        torch.distributed.destroy_process_group()


if __name__ == "__main__":
    main()
