"""What jobs/gpu_check.sh runs: the stages, one report as JSON and as text. See there."""

import argparse
import datetime
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import time

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parents[1]
NO_GPU = 77
NETWORKS = {
    "mlp": ["model.name=mlp", "model.hidden=[64]"],
    "lenet": ["model.name=lenet"],
    "resnet18": ["model.name=resnet18", "model.stem=cifar", "model.channels=1"],
    "vit": ["model.name=vit", "model.dim=32", "model.depth=2", "model.heads=2", "model.patch=7"],
}
TRAINING = ["optim.name=sgd", "optim.lr=0.01", "optim.momentum=0.9", "train.batch_size=8"]
# Ranks may share a GPU, in NCCLs that know it.
SHARED_GPU = {"NCCL_MULTI_RANK_GPU_ENABLE": "1"}
# Of the losses of ranks that share a GPU, against one rank on the CPU: fp32, ten steps.
LOSS_TOLERANCE = 1e-3


class Skipped(Exception):
    """Why a stage says nothing here."""


class Failed(Exception):
    """What went wrong in a stage."""


def run(command, seconds=600, env=None, ok=(0,)):
    """A finished process; Failed when it ends otherwise than expected."""
    try:
        done = subprocess.run([str(word) for word in command], stdin=subprocess.DEVNULL, capture_output=True, text=True,
                              timeout=seconds, env={**os.environ, **(env or {})}, check=False)
    except subprocess.TimeoutExpired:
        raise Failed(f"{command[0]} did not end within {seconds} s") from None
    if done.returncode not in ok:
        raise Failed(f"{pathlib.Path(command[0]).name} ended with {done.returncode}: {(done.stdout + done.stderr)[-3000:]}")
    return done


class Check:
    def __init__(self, arguments, folder):
        self.arguments, self.folder = arguments, folder
        self.trainer, self.device = arguments.trainer, "cpu" if arguments.rehearse else "cuda"
        self.mpirun = shutil.which("mpirun", path=f"{self.trainer.parent}:{os.environ['PATH']}")
        self.count = 3 if arguments.quick else 8

    def data(self):
        """Grey 28x28 images of noise with labels: what matters is the arithmetic."""
        path = self.folder / "data.h5"
        if not path.exists():
            count, side = 256, 28
            noise = bytes((index * 2654435761 >> 13) & 255 for index in range(count * side * side))
            images = self.folder / "images.idx"
            images.write_bytes(bytes([0, 0, 8, 3]) + b"".join(n.to_bytes(4, "big") for n in (count, side, side)) + noise)
            labels = self.folder / "labels.idx"
            labels.write_bytes(bytes([0, 0, 8, 1]) + count.to_bytes(4, "big") + bytes(i % 10 for i in range(count)))
            run([self.trainer, "pack", "idx", "--images", images, "--labels", labels, "-o", path])
        return path

    def unit_programs(self):
        # Others of that kind run on stand-ins. A rehearsal has only the CPU's.
        names = re.compile(r"^test_kernels$" if self.arguments.rehearse else r"^test_gpu_ops$")
        found = sorted(path for path in self.arguments.tests.rglob("test_*")
                       if path.is_file() and names.match(path.name) and os.access(path, os.X_OK))
        if not found:
            raise Skipped(f"no test programs in {self.arguments.tests}")
        return found

    # The stages: each returns what goes into the report.

    def facts(self):
        facts = {"date": f"{datetime.datetime.now(datetime.timezone.utc):%Y-%m-%d %H:%M UTC}",
                 "version": run([self.trainer, "--version"]).stdout.strip(), "rehearsal": self.arguments.rehearse}
        facts["doctor"] = json.loads(run([self.trainer, "doctor", "--json"], ok=(0, 1)).stdout)
        if not self.arguments.rehearse:
            keys = ("name", "driver_version", "memory.total", "compute_cap", "clocks.max.sm", "power.limit")
            values = run(["nvidia-smi", f"--query-gpu={','.join(keys)}", "--format=csv,noheader"]).stdout.splitlines()
            facts["gpus"] = [dict(zip(keys, (word.strip() for word in line.split(",")))) for line in values]
        return facts

    def unit_tests(self):
        """The programs that compare CUDA with the CPU, layer by layer."""
        results = {}
        for program in self.unit_programs():
            done = run([program, "--gtest_brief=1"], seconds=1200, ok=(0, 1))
            total = re.search(r"(\d+) tests? from", done.stdout)
            failed = re.findall(r"^\[  FAILED  \] (\S+)", done.stdout, re.MULTILINE)
            results[program.name] = {"tests": int(total[1]) if total else 0, "failed": sorted(set(failed))}
            if done.returncode != 0 and not failed:
                raise Failed(f"{program.name}: {done.stdout[-2000:]}")
        if any(result["failed"] for result in results.values()):
            raise Failed(json.dumps(results))
        return results

    def stepwise_parity(self):
        results, networks = [], list(NETWORKS)[:2] if self.arguments.quick else list(NETWORKS)
        for network in networks:
            for precision in ("fp32",) if self.arguments.quick else ("fp32", "bf16"):
                done = run([sys.executable, "-B", HERE / "stepwise_parity.py", "--trainer", self.trainer, "--data",
                            self.data(), "--device", self.device, "--steps", self.count, "--precision", precision,
                            *NETWORKS[network], *TRAINING], seconds=1200, ok=(0, 1))
                if not done.stdout:
                    raise Failed(done.stderr[-2000:])
                results.append({"network": network, **json.loads(done.stdout)})
        if not all(result["passed"] for result in results):
            raise Failed(json.dumps([{key: result[key] for key in ("network", "precision", "worst")}
                                     for result in results if not result["passed"]]))
        return results

    def train(self, name, ranks, *settings, env=None, ok=(0,)):
        """Ten steps of lenet; samples per step are the same on any number of ranks."""
        command = [self.trainer, f"data.train={self.data()}", f"run.dir={self.folder / name}", *NETWORKS["lenet"], *TRAINING,
                   f"train.batch_size={12 // ranks}", "train.max_steps=10", "train.log_every=1", *settings]
        if ranks > 1:
            if self.mpirun is None:
                raise Skipped("mpirun is not installed")
            command = [self.mpirun, "-np", ranks, "--oversubscribe", "--bind-to", "none", *command]
        return run(command, ok=ok,
                   env={"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1", **(env or {})})

    def losses(self, name, ranks, *settings, env=None):
        self.train(name, ranks, *settings, env=env)
        text = (self.folder / name / "metrics.jsonl").read_text(encoding="utf-8")
        rows = [json.loads(line) for line in text.splitlines()]
        return [row["loss"] for row in rows if row["type"] == "step"]

    def compare(self, name, ranks, *settings, env=None):
        reference = self.losses(f"{name}-reference", 1, "device=cpu")
        found = self.losses(name, ranks, f"device={self.device}", *settings, env=env)
        worst = max(abs(a - b) / abs(a) for a, b in zip(reference, found, strict=True))
        if not worst <= LOSS_TOLERANCE:
            raise Failed(f"{name}: the losses differ from one rank's on the CPU by {worst:.2g}: {found}")
        return {"ranks": ranks, "worst": worst, "tolerance": LOSS_TOLERANCE}

    def host_staged_ranks(self):
        """Ranks that share a GPU; sums through pinned host memory."""
        return [self.compare(f"staged-{strategy}-{ranks}", ranks, "distributed.backend=mpi",
                             f"distributed.strategy={strategy}")
                for ranks in (2, 3, 4) for strategy in (("ddp",) if self.arguments.quick else ("ddp", "zero1"))]

    def nccl_one_rank(self):
        if self.arguments.rehearse:
            raise Skipped("a rehearsal has no NCCL")
        return self.compare("nccl-1", 1, "distributed.backend=nccl")

    def nccl_two_ranks_on_one_gpu(self):
        if self.arguments.rehearse:
            raise Skipped("a rehearsal has no NCCL")
        if not self.nccl_shares_gpus():
            raise Skipped("NCCL before 2.30 refuses two ranks on one GPU")
        return self.compare("nccl-2", 2, "distributed.backend=nccl", env=SHARED_GPU)

    def nccl_shares_gpus(self):
        version = run([self.trainer, "doctor", "--json"], ok=(0, 1)).stdout
        found = re.search(r'"NCCL": *"(\d+)\.(\d+)', version)
        return bool(found) and (int(found[1]), int(found[2])) >= (2, 30)

    def cuda_graph(self):
        """Steps as CUDA graphs have the bits of steps without, also with NCCL; and what they save where launches count."""
        if self.arguments.rehearse:
            raise Skipped("a rehearsal has no CUDA graphs")
        results = {}
        layers = ("model.layers=[{conv2d: {out: 8, kernel: 3}}, batch_norm2d, relu, {dropout: {p: 0.3}}, flatten, "
                  "{linear: {out: 10}}]")
        for name, settings in {"sgd": (), "nccl": ("distributed.backend=nccl",),
                               "adamw, dropout, batch statistics": ("model.name=null", layers, "optim.name=adamw"),
                               "vit, drop path": (*NETWORKS["vit"], "model.drop_path=0.3"),
                               # Fused attention, and an evaluation between the recordings of the steps.
                               "vit, bf16, recomputed": (*NETWORKS["vit"], "model.heads=4", "train.precision=bf16",
                                                         "train.recompute=true", f"data.val={self.data()}",
                                                         "train.max_steps=50")}.items():
            found = {graph: self.losses(f"graph-{name}-{graph}", 1, "device=cuda", f"run.cuda_graph={graph}",
                                        "train.max_steps=20", *settings) for graph in ("true", "false")}
            if found["true"] != found["false"]:
                raise Failed(f"{name}: the losses with a CUDA graph differ: {found}")
            results[name] = len(found["true"])
        results["ranks"] = self.graphs_of_several_ranks()
        seconds = {"true": [], "false": []}
        for graph in ("true", "false") * (1 if self.arguments.quick else 3):
            out = self.folder / f"graph-bench-{graph}"
            run([self.trainer, "bench", "step", "--synthetic", *NETWORKS["lenet"], "device=cuda", "train.batch_size=64",
                 "train.precision=bf16", f"run.cuda_graph={graph}", "--warmup", 20, "--steps", 200, "--out", out])
            report = json.loads((out / "step.json").read_text(encoding="utf-8"))
            if report["cuda_graph"]["ran"] != (graph == "true"):
                raise Failed(f"bench step with run.cuda_graph={graph} says {report['cuda_graph']}")
            seconds[graph].append(report["step"]["median"])
        return {"equal_losses": results, "lenet_b64_bf16": {"graph": seconds["true"], "eager": seconds["false"],
                                                            "ratio": min(seconds["false"]) / min(seconds["true"])}}

    def graphs_of_several_ranks(self):
        """With NCCL where ranks may share a GPU: all run recordings or none. Through host memory there are none."""
        if self.mpirun is None:
            return "skipped: mpirun is not installed"
        staged = ("device=cuda", "distributed.backend=mpi")
        refused = self.train("graph-staged-true", 2, *staged, "run.cuda_graph=true", ok=(2,))
        if "run.cuda_graph is true, but transfers of mpi" not in refused.stderr:
            raise Failed(f"a graph through host memory was refused without the reason: {refused.stderr[-2000:]}")
        found = {graph: self.losses(f"graph-staged-{graph}", 2, *staged, f"run.cuda_graph={graph}")
                 for graph in ("auto", "false")}
        if found["auto"] != found["false"]:
            raise Failed(f"two ranks through host memory: the losses differ: {found}")
        if not self.nccl_shares_gpus():
            return {"staged": "equal", "nccl": "skipped: NCCL before 2.30 refuses two ranks on one GPU"}
        for strategy in ("ddp", "zero1"):
            found = {graph: self.losses(f"graph-nccl-2-{strategy}-{graph}", 2, "device=cuda", "distributed.backend=nccl",
                                        f"distributed.strategy={strategy}", f"run.cuda_graph={graph}", env=SHARED_GPU)
                     for graph in ("true", "false")}
            if found["true"] != found["false"]:
                raise Failed(f"two ranks with NCCL, {strategy}: the losses with a CUDA graph differ: {found}")
        return {"staged": "equal", "nccl": "equal"}

    def sanitizer(self, tool):
        program = shutil.which("compute-sanitizer") or shutil.which("/usr/local/cuda/bin/compute-sanitizer")
        if self.arguments.rehearse or program is None:
            raise Skipped("a rehearsal has no GPU" if self.arguments.rehearse else "compute-sanitizer is not installed")
        results = {}
        for unit in self.unit_programs():
            if unit.name == "test_gpu_ops":
                done = run([program, "--tool", tool, "--error-exitcode", "9", unit, "--gtest_brief=1"], seconds=3000,
                           ok=(0, 1, 9))
                results[unit.name] = done.returncode
                if done.returncode == 9:
                    raise Failed(f"{tool} on {unit.name}: {done.stdout[-3000:]}")
        return results

    def memcheck(self):
        return self.sanitizer("memcheck")

    def racecheck(self):
        return self.sanitizer("racecheck")

    def kernel_bench(self):
        return json.loads(run([self.trainer, "bench", "kernels", "--json"]).stdout)

    def step_bench(self):
        """Ours against PyTorch; without --python ours alone is not measured here."""
        if self.arguments.python is None:
            raise Skipped("no --python that has torch")
        report = self.folder / "peer.json"
        small = ["--quick", "--models", "lenet", "--variants", "eager", "--batch", "8", "--rounds", "1"]
        run([sys.executable, "-B", HERE / "peer_torch.py", "--python", self.arguments.python, "--trainer", self.trainer,
             "--out", report, "--device", self.device, *(small if self.arguments.quick else [])], seconds=7200)
        return json.loads(report.read_text(encoding="utf-8"))


STAGES = ("facts", "unit_tests", "stepwise_parity", "host_staged_ranks", "nccl_one_rank", "nccl_two_ranks_on_one_gpu",
          "cuda_graph", "memcheck", "racecheck", "kernel_bench", "step_bench")


def has_gpu():
    program = shutil.which("nvidia-smi")
    if program is None:
        return "nvidia-smi is not installed"
    done = subprocess.run([program, "-L"], capture_output=True, text=True, check=False)
    return "" if done.returncode == 0 and "GPU" in done.stdout else "nvidia-smi shows no GPU"


def as_text(report):
    lines = [f"gpu_check {'REHEARSAL on the CPU ' if report['rehearsal'] else ''}{report['date']}"]
    for gpu in report["stages"][0].get("result", {}).get("gpus", []):
        lines.append("  " + ", ".join(f"{key} {value}" for key, value in gpu.items()))
    for stage in report["stages"]:
        lines.append(f"{stage['status']:<8} {stage['name']:<28} {stage['seconds']:8.1f} s  {stage.get('reason', '')[:300]}")
    for result in (stage for stage in report["stages"] if stage["name"] == "stepwise_parity" and "result" in stage):
        for one in result["result"]:
            lines.append(f"  {one['network']:<10} {one['precision']}: worst loss {one['worst']['loss']:.1e}, gradient norm "
                         f"{one['worst']['grad_norm']:.1e}")
    return "\n".join(lines) + "\n"


def main():
    parser = argparse.ArgumentParser(prog="jobs/gpu_check.sh")
    parser.add_argument("--trainer", default=ROOT / "build/trainer", type=pathlib.Path)
    parser.add_argument("--tests", type=pathlib.Path, help="folder of the test programs (default: tests beside trainer)")
    parser.add_argument("--out", default=pathlib.Path("."), type=pathlib.Path)
    parser.add_argument("--python", help="one that has torch for this GPU")
    parser.add_argument("--stages", default=",".join(STAGES))
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--rehearse", action="store_true")
    arguments = parser.parse_args()
    arguments.trainer = arguments.trainer.resolve()
    arguments.tests = arguments.tests or arguments.trainer.parent / "tests"
    wanted = arguments.stages.split(",")
    if unknown := [name for name in wanted if name not in STAGES]:
        parser.error(f"--stages: {unknown[0]} is none of {', '.join(STAGES)}")
    if not os.access(arguments.trainer, os.X_OK):
        parser.error(f"{arguments.trainer} is missing: build it, or name it with --trainer")
    if not arguments.rehearse and (reason := has_gpu()):
        print(f"gpu_check: no GPU here ({reason}); nothing was checked. --rehearse tries the stages on the CPU",
              file=sys.stderr)
        return NO_GPU

    report = {"rehearsal": arguments.rehearse, "date": f"{datetime.datetime.now(datetime.timezone.utc):%Y-%m-%d %H:%M UTC}",
              "stages": []}
    with tempfile.TemporaryDirectory(prefix="tutti-") as name:
        check = Check(arguments, pathlib.Path(name))
        for name in wanted:
            begin, stage = time.monotonic(), {"name": name}
            try:
                stage["result"], stage["status"] = getattr(check, name)(), "passed"
            except Skipped as reason:
                stage["status"], stage["reason"] = "skipped", str(reason)
            except Failed as reason:
                stage["status"], stage["reason"] = "FAILED", str(reason)
            stage["seconds"] = round(time.monotonic() - begin, 1)
            report["stages"].append(stage)
            print(f"gpu_check: {name} {stage['status']} {stage.get('reason', '')[:200]}", file=sys.stderr, flush=True)
    report["passed"] = all(stage["status"] != "FAILED" for stage in report["stages"])
    arguments.out.mkdir(parents=True, exist_ok=True)
    (arguments.out / "gpu_check.json").write_text(json.dumps(report, indent=1) + "\n", encoding="utf-8")
    (arguments.out / "gpu_check.txt").write_text(as_text(report), encoding="utf-8")
    print(as_text(report), end="")
    return 0 if report["passed"] else 1


if __name__ == "__main__":
    sys.exit(main())
