"""The stages of jobs/gpu_check.sh; see gpu_check.py."""

import datetime
import itertools
import json
import os
import re
import shutil
import sys

import gpu_libraries
from cases import batch_for, bench_command
from gpu_narrowing import Narrowing
from gpu_process import Failed, Skipped, judged_by, notices
from gpu_suites import Suites

HERE = os.path.dirname(os.path.realpath(__file__))
NETWORKS = {
    "mlp": ["model.name=mlp", "model.hidden=[64]"],
    "lenet": ["model.name=lenet"],
    "resnet18": ["model.name=resnet18", "model.stem=cifar", "model.channels=1"],
    "vit": ["model.name=vit", "model.dim=32", "model.depth=2", "model.heads=2", "model.patch=7"],
    # ViT-B/16's heads and number of tokens, 197, whose attention in bf16 is by kernels of our own; GELU in the products around it.
    "vit_tanh": ["model.name=vit", "model.dim=64", "model.depth=2", "model.heads=1", "model.patch=2", "model.gelu=tanh"],
}
# Of stepwise parity, beside these.
OTHER_TRAINING = {
    "resnet18, autotuned": [*NETWORKS["resnet18"], "run.autotune=true"],
    "vit_tanh, autotuned": [*NETWORKS["vit_tanh"], "run.autotune=true"],
    "resnet18, frozen": [*NETWORKS["resnet18"], "model.freeze=[conv1,bn1,layer1]", "model.freeze_statistics=true"],
}
TRAINING = ["optim.name=sgd", "optim.lr=0.01", "optim.momentum=0.9", "train.batch_size=8"]
# Ranks may share a GPU, in NCCLs that know it.
SHARED_GPU = {"NCCL_MULTI_RANK_GPU_ENABLE": "1"}
# What a run says when a recording takes over, and when there will be none.
GRAPH, NO_GRAPH = "computed by a CUDA graph from now on", "no CUDA graph"
# Of the losses of ranks that share a GPU, against one rank on the CPU: fp32, ten steps.
LOSS_TOLERANCE = 1e-3
# What the first runs on hardware most need to say comes first: a machine may be there for minutes only.
PARTS = {
    "unit": ("unit_tests",),
    "parity": ("stepwise_parity",),
    "nccl": ("nccl_one_rank", "nccl_two_ranks_on_one_gpu"),
    "ranks": ("host_staged_ranks", "same_bits"),
    "times": ("step_times",),
    "graph": ("cuda_graph",),
    "bench": ("kernel_bench", "step_bench"),
    "sanitizer": ("memcheck", "racecheck"),
    "narrow": ("sanitizer_narrowed",),
}
STAGES = ("facts", *(stage for stages in PARTS.values() for stage in stages))
# Where they are asked for; a report is complete without.
OPTIONAL = PARTS["narrow"]


def require_no_failure(results):
    """Of {name: {"failure": why}}, or of what else a name has."""
    if failed := {name: result["failure"] for name, result in results.items() if "failure" in result}:
        raise Failed(json.dumps(failed))


class Check(Suites, Narrowing):
    """note(result, remark): keeps what a stage has found so far in the report, and what is to be said of it."""

    def __init__(self, arguments, folder, processes, note):
        self.arguments, self.folder, self.processes, self.note = arguments, folder, processes, note
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
            self.run([self.trainer, "pack", "idx", "--images", images, "--labels", labels, "-o", path])
        return path

    def run(self, command, seconds=600, env=None, ok=(0,)):
        return self.processes.check(command, seconds, env, ok)

    def side_by_side(self, names, work):
        """{name: work(name), or {"failure": why}} in the order of names, as many at a time as --jobs says. Failed when one is."""
        results = {}

        def attempt(name):
            try:
                return work(name)
            except Failed as failure:
                return {"failure": str(failure)[-2000:]}

        def in_order():
            return {name: results[name] for name in names if name in results}

        def keep(name, found):
            results[name] = found
            self.note(in_order())

        with judged_by(lambda: require_no_failure(results)):
            self.processes.each(names, attempt, keep, self.arguments.jobs)
        return in_order()

    # The stages: each returns what goes into the report.

    def facts(self):
        facts = {"date": f"{datetime.datetime.now(datetime.timezone.utc):%Y-%m-%d %H:%M UTC}",
                 "version": self.run([self.trainer, "--version"]).stdout.strip(), "rehearsal": self.arguments.rehearse}
        found, self.processes.environment = gpu_libraries.find(self.trainer, self.arguments.python)
        facts["libraries"] = found
        facts["doctor"] = json.loads(self.run([self.trainer, "doctor", "--json"], ok=(0, 1)).stdout)
        if not self.arguments.rehearse and shutil.which("nvidia-smi"):
            keys = ("name", "driver_version", "memory.total", "compute_cap", "clocks.max.sm", "power.limit")
            values = self.run(["nvidia-smi", f"--query-gpu={','.join(keys)}", "--format=csv,noheader"]).stdout.splitlines()
            facts["gpus"] = [dict(zip(keys, (word.strip() for word in line.split(",")))) for line in values]
        self.note(facts)
        if not self.arguments.rehearse:
            self.require_device(found)
        return facts

    def require_device(self, libraries):
        """The smallest run: why there is none says more than what fails later for that."""
        if gpu_libraries.module_of(self.trainer) is None:
            raise Failed(f"there is no libtutti_cuda.so with {self.trainer}")
        missing = [name for name, path in libraries.items() if path is None]
        try:
            self.train("facts", 1, "device=cuda", "train.max_steps=1")
        except Failed as failure:
            where = "; found nowhere: " + ", ".join(missing) + ", name their folders in TUTTI_CUDA_LIBRARIES"
            raise Failed(str(failure) + (where if missing else "")) from None

    def step_times(self):
        """Ours alone: milliseconds a step beside the aims, with the libraries' first choice of engines and with the fastest."""
        results = {}
        steps = (2, 1) if self.arguments.quick else None

        def measured(name, batch, autotune):
            out = self.folder / f"times-{name}"
            command = bench_command(self.trainer, name, out, self.device, "fp32" if self.arguments.rehearse else "bf16", batch,
                                    steps, [f"run.autotune={autotune}"])
            done = self.run(command, seconds=150)
            report = json.loads((out / "step.json").read_text(encoding="utf-8"))
            return 1e3 * report["step"]["median"], report["cuda_graph"], notices(done.stdout, done.stderr)
        with judged_by(lambda: require_no_failure(results)):
            for name in self.arguments.models.split(","):
                batch = 8 if self.arguments.rehearse else batch_for(name, self.arguments.memory)
                try:
                    milliseconds, graph, said = measured(name, batch, "false")
                    results[name] = {"milliseconds": milliseconds, "batch": batch, "cuda_graph": graph, "notices": said}
                    self.note(results)
                    results[name]["autotuned_milliseconds"], _, said = measured(name, batch, "true")
                    results[name]["notices"] += [line for line in said if line not in results[name]["notices"]]
                except Failed as failure:
                    results[name] = {**results.get(name, {}), "failure": str(failure)[-1500:]}
                self.note(results)
        return results

    def stepwise_parity(self):
        all_settings, steps = {**NETWORKS, **OTHER_TRAINING}, self.count
        networks = list(NETWORKS)[:2] if self.arguments.quick else list(all_settings)
        cases = list(itertools.product(networks, ("fp32",) if self.arguments.quick else ("fp32", "bf16")))
        results, data = {}, self.data()

        def verdict():
            if not all(result["passed"] for result in results.values()):
                raise Failed(json.dumps([{key: result[key] for key in ("network", "precision", "worst", "failure")
                                          if key in result} for result in results.values() if not result["passed"]]))

        def compare(case):
            network, precision = case
            command = [sys.executable, "-B", f"{HERE}/stepwise_parity.py", "--trainer", self.trainer, "--data", data,
                       "--device", self.device, "--steps", steps, "--precision", precision, *all_settings[network], *TRAINING]
            try:
                done = self.run(command, seconds=300, ok=(0, 1))
                return json.loads(done.stdout) if done.stdout else {"failure": done.stderr[-2000:]}
            except Failed as failure:
                return {"failure": str(failure)}

        def in_order():
            return [results[case] for case in cases if case in results]

        def keep(case, found):
            results[case] = {"network": case[0], "precision": case[1], "passed": False, **found}
            self.note(in_order())

        with judged_by(verdict):
            self.processes.each(cases, compare, keep, self.arguments.jobs)
        return in_order()

    def train(self, name, ranks, *settings, env=None, ok=(0,)):
        """Ten steps of lenet; samples per step are the same on any number of ranks."""
        command = [self.trainer, f"data.train={self.data()}", f"run.dir={self.folder / name}", *NETWORKS["lenet"], *TRAINING,
                   f"train.batch_size={12 // ranks}", "train.max_steps=10", "train.log_every=1", *settings]
        if ranks > 1:
            if self.mpirun is None:
                raise Skipped("mpirun is not installed")
            command = [self.mpirun, "-np", ranks, "--oversubscribe", "--bind-to", "none", *command]
        return self.run(command, seconds=300, ok=ok,
                   env={"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1", **(env or {})})

    def losses(self, name, ranks, *settings, env=None):
        self.train(name, ranks, *settings, env=env)
        return self.losses_of(name)

    def losses_of(self, name):
        text = (self.folder / name / "metrics.jsonl").read_text(encoding="utf-8")
        rows = [json.loads(line) for line in text.splitlines()]
        return [row["loss"] for row in rows if row["type"] == "step"]

    def reference(self):
        if not (self.folder / "reference").exists():
            # Not under its name before it is whole: the next stage would compare with what there is of it.
            shutil.rmtree(self.folder / "reference.new", ignore_errors=True)
            self.train("reference.new", 1, "device=cpu")
            (self.folder / "reference.new").rename(self.folder / "reference")
        return self.losses_of("reference")

    def compare(self, name, ranks, *settings, env=None):
        reference = self.reference()
        found = self.losses(name, ranks, f"device={self.device}", *settings, env=env)
        return self.require_near(name, ranks, found, reference, "one rank's on the CPU")

    @staticmethod
    def require_near(name, ranks, found, reference, whose):
        worst = max(abs(a - b) / abs(a) for a, b in zip(reference, found, strict=True))
        if not worst <= LOSS_TOLERANCE:
            raise Failed(f"{name}: the losses differ from {whose} by {worst:.2g}: {found}")
        return {"ranks": ranks, "worst": worst, "tolerance": LOSS_TOLERANCE}

    def host_staged_ranks(self):
        """Ranks that share a GPU; sums through pinned host memory."""
        strategies = ("ddp",) if self.arguments.quick else ("ddp", "zero1")
        cases = {f"{ranks} ranks, {strategy}": (ranks, strategy) for ranks in (2, 3, 4) for strategy in strategies}
        self.reference()  # before several want it

        def compare(name):
            ranks, strategy = cases[name]
            return self.compare(f"staged-{strategy}-{ranks}", ranks, "distributed.backend=mpi",
                                f"distributed.strategy={strategy}")

        return self.side_by_side(cases, compare)

    def same_bits(self):
        """run.deterministic: losses and weights of 1, 2 and 4 ranks, and of one rank again, to the last bit."""
        layers = ("model.layers=[{conv2d: {out: 8, kernel: 3}}, batch_norm2d, relu, {dropout: {p: 0.3}}, flatten, "
                  "{linear: {out: 10}}]")
        cases = {"lenet": (), "dropout, batch statistics, tf32": ("model.name=null", layers, "train.precision=tf32"),
                 "vit, bf16": (*NETWORKS["vit"], "model.heads=4", "train.precision=bf16"),
                 "vit, bf16, 197 tokens": (*NETWORKS["vit_tanh"], "train.precision=bf16")}
        ways = {"again": (1, "mpi"), "2 ranks": (2, "mpi"), "4 ranks": (4, "mpi")}
        if self.arguments.rehearse:
            cases = {"lenet": ()}
        elif self.nccl_shares_gpus():
            ways["2 ranks, NCCL"] = (2, "nccl")
        self.data()  # before several want it

        def outcome(name, ranks, *settings):
            losses = self.losses(name, ranks, f"device={self.device}", "run.deterministic=true", "run.virtual_shards=4", *settings,
                                 env=SHARED_GPU)
            return losses, self.run([self.trainer, "inspect", self.folder / name, "--sha256"]).stdout

        def compare(case):
            settings = cases[case]
            one = outcome(f"bits-{case}", 1, *settings)
            for way, (ranks, backend) in ways.items():
                found = outcome(f"bits-{case}-{way}", ranks, f"distributed.backend={backend}", *settings)
                if found != one:
                    raise Failed(f"{way}: {found}, not {one}")
            return dict.fromkeys(ways, "equal")

        return self.side_by_side(cases, compare)

    def nccl_one_rank(self):
        if self.arguments.rehearse:
            raise Skipped("a rehearsal has no NCCL")
        return self.compare("nccl-1", 1, "distributed.backend=nccl")

    def nccl_two_ranks_on_one_gpu(self):
        if self.arguments.rehearse:
            raise Skipped("a rehearsal has no NCCL")
        if not self.nccl_shares_gpus():
            raise Skipped("NCCL before 2.30 refuses two ranks on one GPU")
        results = [self.compare("nccl-2", 2, "distributed.backend=nccl", env=SHARED_GPU)]
        self.note(results)
        # Two ranks leave the sums to NCCL, more do not.
        for ranks in (2, 3):
            compressed = ("distributed.strategy=ddp", "distributed.compress=bf16")
            name = f"nccl-compressed-{ranks}"
            reference = self.losses(f"compressed-{ranks}", ranks, "device=cpu", *compressed)
            found = self.losses(name, ranks, "device=cuda", "distributed.backend=nccl", *compressed, env=SHARED_GPU)
            results.append({**self.require_near(name, ranks, found, reference, "as many ranks' on the CPU"), "compress": "bf16"})
            self.note(results)
        return results

    def nccl_shares_gpus(self):
        version = self.run([self.trainer, "doctor", "--json"], ok=(0, 1)).stdout
        found = re.search(r'"NCCL": *"(\d+)\.(\d+)', version)
        return bool(found) and (int(found[1]), int(found[2])) >= (2, 30)

    def graph_cases(self):
        """Settings of one rank."""
        layers = ("model.layers=[{conv2d: {out: 8, kernel: 3}}, batch_norm2d, relu, {dropout: {p: 0.3}}, flatten, "
                  "{linear: {out: 10}}]")
        return {"sgd": (), "nccl": ("distributed.backend=nccl",),
                "adamw, dropout, batch statistics": ("model.name=null", layers, "optim.name=adamw", "optim.momentum=0"),
                "frozen, its statistics kept": ("model.name=null", layers, "model.freeze=[0,1]", "model.freeze_statistics=true"),
                "vit, drop path": (*NETWORKS["vit"], "model.drop_path=0.3"),
                # Fused attention, and an evaluation between the recordings of the steps.
                "vit, bf16, recomputed": (*NETWORKS["vit"], "model.heads=4", "train.precision=bf16", "train.recompute=true",
                                          f"data.val={self.data()}", "train.max_steps=50"),
                "vit, bf16, GELU by tanh": (*NETWORKS["vit_tanh"], "train.precision=bf16")}

    def cuda_graph(self):
        """Steps as CUDA graphs have the bits of steps without, also with NCCL; and what they save where launches count."""
        if self.arguments.rehearse:
            raise Skipped("a rehearsal has no CUDA graphs")
        cases = self.graph_cases()
        self.data()  # before several want it

        def compare(name):
            if name == "ranks":
                return self.graphs_of_several_ranks()
            return self.with_and_without_graph(f"graph-{name}", 1, "device=cuda", "train.max_steps=20", *cases[name])

        results = self.side_by_side([*cases, "ranks"], compare)
        seconds = {"true": [], "false": []}
        for graph in ("true", "false") * (1 if self.arguments.quick else 3):
            out = self.folder / f"graph-bench-{graph}"
            self.run([self.trainer, "bench", "step", "--synthetic", *NETWORKS["lenet"], "device=cuda", "train.batch_size=64",
                 "train.precision=bf16", f"run.cuda_graph={graph}", "--warmup", 20, "--steps", 200, "--out", out])
            report = json.loads((out / "step.json").read_text(encoding="utf-8"))
            if report["cuda_graph"]["ran"] != (graph == "true"):
                raise Failed(f"bench step with run.cuda_graph={graph} says {report['cuda_graph']}")
            seconds[graph].append(report["step"]["median"])
        return {"equal_losses": results, "lenet_b64_bf16": {"graph": seconds["true"], "eager": seconds["false"],
                                                            "ratio": min(seconds["false"]) / min(seconds["true"])}}

    def with_and_without_graph(self, name, ranks, *settings, env=None):
        """Losses are equal, and the first run had a graph: one that fails while it is recorded is a line of the log, after
        which the steps are the second run's."""
        graphed = self.train(f"{name}-true", ranks, *settings, "run.cuda_graph=true", env=env)
        said = graphed.stdout + graphed.stderr
        if GRAPH not in said or NO_GRAPH in said:
            raise Failed(f"{name}: run.cuda_graph=true, and no CUDA graph ran: {notices(said) or said[-2000:]}")
        found = {"true": self.losses_of(f"{name}-true"),
                 "false": self.losses(f"{name}-false", ranks, *settings, "run.cuda_graph=false", env=env)}
        if found["true"] != found["false"]:
            raise Failed(f"{name}: the losses with a CUDA graph differ: {found}")
        return {"steps": len(found["true"]), "notices": notices(said)}

    def graphs_of_several_ranks(self):
        """With NCCL where ranks may share a GPU: all run recordings or none. Through host memory there are none."""
        if self.mpirun is None:
            return {"staged": "skipped: mpirun is not installed"}
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
        nccl = {strategy: self.with_and_without_graph(f"graph-nccl-2-{strategy}", 2, "device=cuda", "distributed.backend=nccl",
                                                      f"distributed.strategy={strategy}", env=SHARED_GPU)
                for strategy in ("ddp", "zero1")}
        return {"staged": "equal", "nccl": nccl}

    def kernel_bench(self):
        report = json.loads(self.run([self.trainer, "bench", "kernels", "--json"]).stdout)
        if "not_measured" in report and not self.arguments.rehearse:
            raise Failed(f"nothing was measured: {report['not_measured']}")
        return report

    def step_bench(self):
        """Ours against PyTorch, in turn."""
        if self.arguments.python is None:
            raise Skipped("no --python that has torch")
        small = ["--quick", "--variants", "eager", "--batch", "8", "--rounds", "1"]
        inherited, ours = os.environ.get("LD_LIBRARY_PATH", ""), self.processes.environment.get("LD_LIBRARY_PATH", "")
        found = {"results": {}}

        def compare(model):
            report = self.folder / f"peer-{model}.json"
            try:
                # PyTorch finds its own libraries; ours may be others. Code 1: a model has a "failure".
                done = self.run([sys.executable, "-B", f"{HERE}/peer_torch.py", "--python", self.arguments.python, "--trainer",
                                 self.trainer, "--out", report, "--device", self.device, "--models", model,
                                 "--variants", self.arguments.variants, "--libraries", ours,
                                 *(["--memory", self.arguments.memory] if self.arguments.memory else []),
                                 *(small if self.arguments.quick else [])],
                                seconds=3600, env={"LD_LIBRARY_PATH": inherited}, ok=(0, 1))
            finally:
                if report.exists():  # it has the rounds until now
                    of_model = json.loads(report.read_text(encoding="utf-8"))
                    found.update({**of_model, "results": {**found["results"], **of_model["results"]}})
            if done.returncode == 1 and "failure" not in found["results"].get(model, {}):
                raise Failed(f"peer_torch.py ended with 1: {(done.stdout + done.stderr)[-2000:]}")

        # Model by model: what is finished stays in the report, however this program ends.
        with judged_by(lambda: require_no_failure(found["results"])):
            for model in self.arguments.models.split(","):
                try:
                    compare(model)
                except Failed as failure:
                    found["results"].setdefault(model, {})["failure"] = str(failure)
                finally:
                    self.note(found)
        return found
