"""One rank of PyTorch DDP (gloo) on the CPU: what bucket_table.py compares `trainer bench buckets` with.

    mpirun -np 2 python3 -B tests/bench/peer_ddp.py --model lenet --batch 128 --store 10.77.0.1:29555 --out ddp.json

Needs torch. The batch stays in memory, so that no time goes into loading. A step is zero_grad, forward, backward with
the all-reduces, SGD; its time is that of the slower rank. Exposed communication is what DDP's own timers say: from the
first bucket's begin to the last one's end, less the part during backward's computation.
"""

import argparse
import contextlib
import json
import os
import statistics
import sys
import time
from datetime import timedelta

import torch
from torch.nn import functional
from torch.nn.parallel import DistributedDataParallel

from torch_models import MODELS, mlp, parameters_of

# bucket_table.py trains a wider mlp than the zoo's default.
NETWORKS = {**MODELS, "mlp": lambda: mlp((1024, 1024))}


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
            "threads": torch.get_num_threads(), "parameters": parameters_of(network),
            "step": spread(steps), "communication": spread(communication), "exposed": spread(exposed)}


def leave(store, rank, size):
    """Ends this process; rank 0, which the others' connections lead to, last. Without Python's end, in which threads of
    the process group that still run abort the process ("terminate called without an active exception")."""
    torch.distributed.barrier()
    torch.distributed.destroy_process_group()
    if rank > 0:
        store.set(f"gone {rank}", "")
    elif size > 1:
        with contextlib.suppress(RuntimeError):  # they have not come within the time
            store.wait([f"gone {peer}" for peer in range(1, size)], timedelta(seconds=10))
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(0)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--model", choices=NETWORKS, required=True)
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
    host, _, port = arguments.store.rpartition(":")
    store = torch.distributed.TCPStore(host, int(port), size, is_master=rank == 0, timeout=timedelta(seconds=300))
    torch.distributed.init_process_group("gloo", store=store, rank=rank, world_size=size)
    result = measure(NETWORKS[arguments.model](), arguments, size)
    if rank == 0:
        with open(arguments.out, "w", encoding="utf-8") as file:
            json.dump(result, file, indent=1)
    leave(store, rank, size)


if __name__ == "__main__":
    main()
