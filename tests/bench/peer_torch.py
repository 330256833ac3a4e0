"""Training steps here and in PyTorch, in turn on the same cores: samples/s and their ratios, as a Markdown table.

    python3 -B tests/bench/peer_torch.py --python PY [--out FILE.json] [--models mlp,lenet,vit,resnet18]
        [--precisions fp32,bf16] [--ranks 1,2] [--variants installed,tuned,compiled] [--rounds 3] [--minutes 12] [--quick]

PY is a python that has torch. Each rank has one core to itself and 64 samples in memory; SGD with momentum. Each PyTorch
variant (torch_steps.py and torch_process.py say what they are) is started once and waits while the others run; in each round ours and each
of theirs run a block of steps, so that a drift of the machine hits all alike. Rates are medians over rounds of the
block's median step; a ratio is the median over rounds of ours / theirs in the same round. The first steps of a process
do not count. The models must have equally many parameters. A variant that fails or takes too long has its reason in the
table, and what the time (--minutes) does not allow is left out there, too: all else is measured.
"""

import argparse
import datetime
import json
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile
import time

from torch_process import Failed, TorchRanks, mkl_shim

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent.parent
BATCH = 64
# model -> settings, steps of a block, steps before, seconds that a case takes without compiling (two variants and ours)
MODELS = {
    "mlp": (["model.name=mlp"], 200, 10, 20),
    "lenet": (["model.name=lenet"], 40, 10, 22),
    "vit": (["model.name=vit"], 10, 10, 32),
    "resnet18": (["model.name=resnet18", "model.stem=cifar", "model.channels=1"], 3, 3, 60),
}
# Samples/s of a core at 250 GFLOP/s, what oneDNN's products reach on the machine of the README's table; fp32.
LIMITS = {"mlp": 62000, "lenet": 9800, "vit": 960, "resnet18": 98}
START_SECONDS, COMPILE_SECONDS, COMPILE_GUESS = 90, 240, 60
NO_TIME = "left out: no time (--minutes)"


def parse():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--python", required=True)
    parser.add_argument("--trainer", default=ROOT / "build" / "trainer", type=pathlib.Path)
    parser.add_argument("--models", default=",".join(MODELS))
    parser.add_argument("--precisions", default="fp32,bf16")
    parser.add_argument("--ranks", default="1,2")
    parser.add_argument("--variants", default="installed,tuned,compiled")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--minutes", type=float, default=12)
    parser.add_argument("--out", type=pathlib.Path)
    parser.add_argument("--quick", action="store_true", help="fp32 on one rank, installed and tuned, two rounds")
    arguments = parser.parse_args()
    if arguments.quick:
        arguments.precisions, arguments.ranks, arguments.variants, arguments.rounds = "fp32", "1", "installed,tuned", 2
    for name, known in (("models", MODELS), ("precisions", ("fp32", "bf16")),
                        ("variants", ("installed", "tuned", "compiled"))):
        words = getattr(arguments, name).split(",")
        if unknown := [word for word in words if word not in known]:
            parser.error(f"--{name}: {unknown[0]} is none of {', '.join(known)}")
        setattr(arguments, name, words)
    arguments.ranks = [int(word) for word in arguments.ranks.split(",")]
    return arguments


def run_ours(arguments, folder, case):
    """The report of `trainer bench step`."""
    settings, steps, warmup, _ = MODELS[case["model"]]
    command = [arguments.trainer, "bench", "step", "--synthetic", "--steps", steps, "--warmup", warmup, "--products",
               "1024", "--out", folder, *settings, f"train.batch_size={BATCH}", f"train.precision={case['precision']}",
               "optim.name=sgd", "optim.lr=0.001", "optim.momentum=0.9", "data.workers=0"]
    cores = " ".join(str(core) for core in sorted(os.sched_getaffinity(0)))
    pin = ["bash", "-c", f'cores=({cores}); exec taskset -c "${{cores[${{OMPI_COMM_WORLD_LOCAL_RANK:-0}} % ${{#cores[@]}}]}}" "$@"',
           "rank"]
    launch = [] if case["ranks"] == 1 else ["mpirun", "-np", case["ranks"], "--bind-to", "none"]
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("OMP_", "KMP_", "MKL_"))}
    environment |= {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
                    "OMPI_MCA_rmaps_base_oversubscribe": "1"}
    with tempfile.TemporaryFile("w+") as said:
        process = subprocess.Popen([str(word) for word in [*launch, *pin, *command]], env=environment,
                                   stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=said)
        try:
            code = process.wait(arguments.at_most(START_SECONDS))
        except subprocess.TimeoutExpired:
            process.terminate()  # mpirun ends its ranks, which SIGKILL would leave behind
            process.wait()
            raise Failed("failed: ours took too long") from None
        if code != 0:
            said.seek(0)
            raise Failed(f"failed: ours ended with {code} ({' '.join(said.read().split())[-200:]})")
    return json.loads((folder / "step.json").read_text(encoding="utf-8"))


def start_theirs(arguments, case, variant, cache, seconds):
    warmup = MODELS[case["model"]][2]
    ranks = TorchRanks(arguments.python, HERE / "torch_steps.py", case["ranks"], variant, cache,
                       ["--model", case["model"], "--precision", case["precision"], "--variant", variant, "--batch", BATCH],
                       arguments.shim)
    try:
        facts = ranks.ready(seconds)
        ranks.steps(max(warmup, 1), seconds)
        return ranks, facts
    except BaseException:
        ranks.end()
        raise


def measure_case(arguments, case, folder, cache, needed):
    """Fills case["ours"] and case["theirs"]. needed: seconds of this and all later cases without compiling."""
    running, samples = {}, BATCH * case["ranks"]
    case["theirs"] = {}
    try:
        for variant in arguments.variants:
            result = case["theirs"][variant] = {"rates": []}
            seconds = arguments.at_most(START_SECONDS)
            if variant == "compiled":
                seconds = min(COMPILE_SECONDS, arguments.deadline - time.monotonic() - needed)
                if seconds < COMPILE_GUESS:
                    result["failure"] = NO_TIME
                    continue
            try:
                running[variant], result["facts"] = start_theirs(arguments, case, variant, cache, seconds)
            except Failed as failure:
                result["failure"] = str(failure)
        case["ours"] = {"rates": []}
        for _ in range(arguments.rounds):
            report = run_ours(arguments, folder, case)
            case["ours"]["rates"].append(report["samples_per_second"])
            case["ours"]["report"] = report
            for variant in list(running):
                try:
                    seconds = running[variant].steps(MODELS[case["model"]][1], arguments.at_most(START_SECONDS))
                    case["theirs"][variant]["rates"].append(samples / statistics.median(seconds))
                except Failed as failure:
                    case["theirs"][variant]["failure"] = str(failure)
                    running.pop(variant).end()
    finally:
        for ranks in running.values():
            ranks.end()
    parameters = sum(layer["parameters"] for layer in case["ours"]["report"]["layers"])
    for variant, result in case["theirs"].items():
        if "facts" in result and result["facts"]["parameters"] != parameters:
            raise Failed(f"{case['model']}: {parameters} parameters here, {result['facts']['parameters']} in PyTorch")


def cell(case, variant):
    result = case["theirs"].get(variant)
    if result is None:
        return "–"
    if "failure" in result:
        return result["failure"]
    ratio = statistics.median(ours / theirs for ours, theirs in zip(case["ours"]["rates"], result["rates"]))
    return f"{statistics.median(result['rates']):,.0f} (× {ratio:.2f})"


def table(cases, variants):
    lines = ["| model | precision | ranks | ours, samples/s | " + " | ".join(f"PyTorch {v} (ours ×)" for v in variants) +
             " | of the limit | of the product |",
             "|---" * (6 + len(variants)) + "|"]
    for case in cases:
        head = f"| {case['model']} | {case['precision']} | {case['ranks']} "
        if "failure" in case:
            lines.append(head + f"| {case['failure']} " + "| – " * (len(variants) + 2) + "|")
            continue
        rate = statistics.median(case["ours"]["rates"])
        limit = f"{rate / LIMITS[case['model']] / case['ranks']:.0%}" if case["precision"] == "fp32" else "–"
        lines.append(head + f"| {rate:,.0f} | " + " | ".join(cell(case, variant) for variant in variants) +
                     f" | {limit} | {case['ours']['report']['gemm']['share']:.0%} |")
    return "\n".join(lines)


def processor():
    for line in pathlib.Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines():
        if line.startswith("model name"):
            return line.partition(":")[2].strip()
    return "unknown processor"


def main():
    arguments = parse()
    cases = [{"precision": precision, "ranks": ranks, "model": model}
             for precision in arguments.precisions for ranks in arguments.ranks for model in arguments.models]
    plain = [MODELS[case["model"]][3] * arguments.rounds / 3 for case in cases]
    compiles = COMPILE_GUESS * len(cases) if "compiled" in arguments.variants else 0
    begin = time.monotonic()
    arguments.deadline = begin + 60 * arguments.minutes
    arguments.at_most = lambda seconds: max(min(seconds, arguments.deadline - time.monotonic()), 1)
    print(f"# {len(cases)} cases, about {min((sum(plain) + compiles) / 60, arguments.minutes):.0f} minutes; "
          f"torch.compile where {arguments.minutes:g} minutes allow", flush=True)
    with tempfile.TemporaryDirectory(prefix="tutti-") as name:
        folder = pathlib.Path(name)
        arguments.shim = mkl_shim(folder)
        for number, case in enumerate(cases):
            if time.monotonic() + 0.5 * plain[number] > arguments.deadline:
                case["failure"] = NO_TIME
                continue
            try:
                measure_case(arguments, case, folder, folder / "compiled", sum(plain[number:]))
            except Failed as failure:
                case["failure"] = str(failure)
            print(f"# {case['model']} {case['precision']} on {case['ranks']}: "
                  f"{time.monotonic() - begin:.0f} s since the start", flush=True)
    versions = {result["facts"]["torch"] for case in cases for result in case.get("theirs", {}).values() if "facts" in result}
    head = (f"{datetime.datetime.now(datetime.timezone.utc):%Y-%m-%d %H:%M UTC}, {processor()}, {os.cpu_count()} cores, "
            f"PyTorch {', '.join(sorted(versions)) or 'not measured'}, batch {BATCH} per rank, one core per rank, "
            f"{arguments.rounds} rounds")
    print(f"\n{head}\n\n{table(cases, arguments.variants)}")
    if arguments.out:
        arguments.out.write_text(json.dumps({"benchmark": "peer_torch", "about": head, "cases": cases}, indent=1),
                                 encoding="utf-8")
    return 1 if any("failure" in case and "left out" not in case["failure"] for case in cases) else 0


if __name__ == "__main__":
    sys.exit(main())
