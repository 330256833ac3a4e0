"""PyTorch on one GPU, training on command: what tests/gpu/peer_torch.py compares `trainer bench step` with.

Reads numbers of steps from standard input, a line each, runs them and writes their seconds as a line of JSON. A step is
zero_grad, forward, backward and a fused SGD with momentum, on a batch that stays on the device; convolutions in
channels_last; with bf16, autocast. Variants: `eager`; `compile`, torch.compile with its defaults; `max-autotune`,
with its search for kernels and with CUDA graphs. Needs torch.
"""

import argparse
import contextlib
import json
import os
import sys
import time

import torch
from torch.nn import functional

from cases import CASES
from gpu_models import NETWORKS, parameters_of


def make_step(arguments, batch):
    case, device = NETWORKS[arguments.model], torch.device(arguments.device)
    network = case.make().to(device, memory_format=torch.channels_last)
    images = torch.rand(batch, *case.shape, device=device).to(memory_format=torch.channels_last)
    labels = torch.arange(batch, device=device) % case.classes
    optimizer = torch.optim.SGD(network.parameters(), lr=0.001, momentum=0.9, fused=True)
    parameters = parameters_of(network)
    if arguments.variant != "eager":
        network = torch.compile(network, mode=None if arguments.variant == "compile" else "max-autotune")
    precision = torch.autocast(device.type, torch.bfloat16) if arguments.precision == "bf16" else contextlib.nullcontext()

    def step():
        if arguments.variant == "max-autotune":
            torch.compiler.cudagraph_mark_step_begin()
        optimizer.zero_grad()
        with precision:
            loss = functional.cross_entropy(network(images), labels)
        loss.backward()
        optimizer.step()
    return step, parameters


def timed_on_gpu(step, count):
    """Seconds of each step by the GPU's clock, without waiting for it in between."""
    events = [torch.cuda.Event(enable_timing=True) for _ in range(count + 1)]
    events[0].record()
    for event in events[1:]:
        step()
        event.record()
    events[-1].synchronize()
    return [begin.elapsed_time(end) / 1e3 for begin, end in zip(events, events[1:])]


def timed_on_cpu(step, count):
    seconds = []
    for _ in range(count):
        begin = time.perf_counter()
        step()
        seconds.append(time.perf_counter() - begin)
    return seconds


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--model", choices=CASES, required=True)
    parser.add_argument("--variant", choices=("eager", "compile", "max-autotune"), required=True)
    parser.add_argument("--precision", choices=("fp32", "bf16"), required=True)
    parser.add_argument("--batch", type=int, help="samples per step; default: the model's")
    parser.add_argument("--device", choices=("cuda", "cpu"), default="cuda", help="cpu: to try the script")
    arguments = parser.parse_args()
    # What libraries print must not come between the lines of JSON.
    answers = os.fdopen(os.dup(1), "w", buffering=1, encoding="utf-8")
    os.dup2(2, 1)
    torch.manual_seed(0)
    torch.backends.cudnn.benchmark = True
    torch.set_float32_matmul_precision("high")  # TF32, as `train.precision: tf32`
    step, parameters = make_step(arguments, arguments.batch or CASES[arguments.model].batch)
    name = torch.cuda.get_device_name() if arguments.device == "cuda" else "cpu"
    print(json.dumps({"torch": torch.__version__, "device": name, "parameters": parameters}), file=answers)
    timed = timed_on_gpu if arguments.device == "cuda" else timed_on_cpu
    for line in sys.stdin:
        print(json.dumps(timed(step, int(line))), file=answers)


if __name__ == "__main__":
    main()
