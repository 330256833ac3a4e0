"""Training steps here and in PyTorch, in turn on the same cores: samples/s and their ratios, as a Markdown table.

    python3 -B tests/bench/peer_torch.py --python PY [--out FILE.json] [--models mlp,lenet,vit,resnet18,locator,videomae] [--quick]
        [--precisions fp32,bf16] [--ranks 1,1x2,2] [--variants installed,tuned,compiled] [--rounds 3] [--minutes 12]

PY is a python that has torch. Each rank has one core to itself (RxT: T cores and as many threads) and 64 samples in
memory (locator 4, videomae 1: the networks of jobs/ at full size, which are left out unless named); SGD with momentum. Where several cores work, each round also runs ours on one core, for the ratio to that, and as
many unrelated processes of ours side by side, each on its core: their summed rate is what this machine's memory, caches
and clock leave to ranks that never wait for each other. Each PyTorch variant (torch_steps.py and torch_process.py say what
they are) is started once and waits while the others run; in each round ours and each of theirs run a block of steps, so that a drift of the machine hits all alike. Rates are medians over rounds of the
block's median step; a ratio is the median over rounds of ours / theirs in the same round. The first steps of a process
do not count. With two cores, core_distance.py says before and after each block of steps how far they are from each other
(ninja -C build tests/bench/bench_core_distance); where they were near and far, ratios of each kind are below the table.
The models must have equally many parameters. A variant that fails or takes too long has its reason in the
table, and what the time (--minutes) does not allow is left out there, too: all else is measured. On a machine that is
slower than that of the README blocks have fewer steps, and cases fewer rounds, so that --minutes suffice.
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

import core_distance
from torch_process import Failed, TorchRanks, mkl_shim

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent.parent
# model -> settings, steps of a block, steps before, seconds that a case takes without compiling (two variants and ours)
MODELS = {
    "mlp": (["model.name=mlp"], 200, 10, 20),
    "lenet": (["model.name=lenet"], 40, 10, 22),
    "vit": (["model.name=vit"], 10, 10, 32),
    "resnet18": (["model.name=resnet18", "model.stem=cifar", "model.channels=1"], 3, 3, 60),
    # Networks of jobs/, at full size.
    "locator": (["--shape", "384x384x3", "model.name=locator"], 3, 2, 80),
    "videomae": (["model.name=videomae"], 2, 1, 120),
}
USUAL = ("mlp", "lenet", "vit", "resnet18")
BATCH, BATCHES = 64, {"locator": 4, "videomae": 1}  # samples of a rank; BATCHES: of these models
# Samples/s of a core at 250 GFLOP/s, what oneDNN's products reach with AVX-512 on the machine of the README's table; fp32.
# Of what Tutti computes: a ViT's last block for the class token alone; with all tokens, as PyTorch does, 960. But of
# lenet's second convolution all products: its gradients are computed from the pooling's winners, a quarter of them. And of
# mlp the gradient of the images, too, which is not computed: a fifth of the count (77900 without it).
LIMITS = {"mlp": 62000, "lenet": 9800, "vit": 1190, "resnet18": 98}  # of the others none is stated
# Samples/s of a core of the machine of the README's table, ours in fp32: on one that is nearly as fast blocks have all steps.
RATES = {"mlp": 59000, "lenet": 11000, "vit": 850, "resnet18": 100, "locator": 4.5, "videomae": 0.4}
START_SECONDS, COMPILE_SECONDS, COMPILE_GUESS = 90, 240, 60
LEAST_STEPS = 2
NO_TIME = "left out: no time (--minutes)"


def parse():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--python", required=True)
    parser.add_argument("--trainer", default=ROOT / "build" / "trainer", type=pathlib.Path)
    parser.add_argument("--models", default=",".join(USUAL))
    parser.add_argument("--precisions", default="fp32,bf16")
    parser.add_argument("--ranks", default="1,1x2,2")
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
    arguments.ranks = [tuple(int(part) for part in (word + "x1").split("x")[:2]) for word in arguments.ranks.split(",")]
    return arguments


def batch_of(case):
    return BATCHES.get(case["model"], BATCH)


def start_ours(folder, trainer, case, core, errors):
    """`trainer bench step` of this case, its cores from the one of this number on."""
    settings, _, warmup, _ = MODELS[case["model"]]
    steps, warmup = case["steps"], min(warmup, case["steps"])
    folder.mkdir(exist_ok=True)
    command = [trainer, "bench", "step", "--synthetic", "--steps", steps, "--warmup", warmup, "--products",
               "1024", "--out", folder, *settings, f"train.batch_size={batch_of(case)}", f"train.precision={case['precision']}",
               "optim.name=sgd", "optim.lr=0.001", "optim.momentum=0.9", "data.workers=0"]
    cores = " ".join(str(core) for core in sorted(os.sched_getaffinity(0)))
    pin = ["bash", "-c", f'cores=({cores} {cores}); at=$(((${{OMPI_COMM_WORLD_LOCAL_RANK:-{core}}} * {case["threads"]}) % '
           f'(${{#cores[@]}} / 2))); mine="${{cores[*]:$at:{case["threads"]}}}"; exec taskset -c "${{mine// /,}}" "$@"', "rank"]
    launch = [] if case["ranks"] == 1 else ["mpirun", "-np", case["ranks"], "--bind-to", "none"]
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("OMP_", "KMP_", "MKL_"))}
    environment |= {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
                    "OMPI_MCA_rmaps_base_oversubscribe": "1", "OMP_NUM_THREADS": str(case["threads"])}
    return subprocess.Popen([str(word) for word in [*launch, *pin, *command]], env=environment,
                            stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=errors)


def with_distance(arguments, case, result, measure):
    """What `measure` returns; on two cores, their distance before and after goes into result["core_to_core_ns"]."""
    timed = case["ranks"] * case["threads"] == 2
    program = arguments.trainer.parent / "tests" / "bench" / "bench_core_distance"
    before = core_distance.now(program) if timed else None
    measured = measure()
    result["core_to_core_ns"].append((before, core_distance.now(program) if timed else None))
    return measured


def run_ours(arguments, folder, case, copies=1):
    """The reports of so many unrelated runs at the same time, each on cores of its own."""
    folders = [folder / f"ours-{copy}" for copy in range(copies)]
    processes = []
    with tempfile.TemporaryFile("w+") as said:
        try:
            for copy, own in enumerate(folders):
                processes.append(start_ours(own, arguments.trainer, case, copy, said))
            deadline = time.monotonic() + arguments.at_most(START_SECONDS)
            codes = [process.wait(max(deadline - time.monotonic(), 0)) for process in processes]
        except subprocess.TimeoutExpired:
            raise Failed(late(arguments)) from None
        finally:
            for process in processes:
                if process.poll() is None:
                    process.terminate()  # mpirun ends its ranks, which SIGKILL would leave behind
                    process.wait()
        if any(codes):
            said.seek(0)
            raise Failed(f"failed: ours ended with {codes} ({' '.join(said.read().split())[-200:]})")
    return [json.loads((own / "step.json").read_text(encoding="utf-8")) for own in folders]


def late(arguments):
    """What to say of ours that was not ready: --minutes are over, or it hangs."""
    return NO_TIME if arguments.is_over() else f"failed: ours took more than {START_SECONDS} s"


def steps_of_block(most, step_seconds, blocks, seconds):
    """As many steps, at most `most`, as let so many blocks, each with as many steps before it, end within `seconds`."""
    return max(min(most, int(seconds / blocks / 2 / step_seconds)), LEAST_STEPS)


def fit(arguments, case, folder, seconds):
    """Sets case["steps"] by a first short run; on a slow machine so that it suffices for a case that has so many seconds."""
    case["steps"] = LEAST_STEPS
    report, = run_ours(arguments, folder, case)
    most = MODELS[case["model"]][1]
    if report["samples_per_second"] >= 0.7 * RATES[case["model"]] * case["ranks"] * case["threads"]:
        case["steps"] = most
        return
    # Theirs are taken to be half as fast, and the machine at times, too.
    step_seconds = 2 * batch_of(case) * case["ranks"] / report["samples_per_second"]
    ours = 3 if case["ranks"] * case["threads"] > 1 else 1
    case["steps"] = steps_of_block(most, step_seconds, arguments.rounds * (ours + len(arguments.variants)), seconds)


def measure_ours(arguments, folder, case):
    """One round: the rate, and where several cores work, that of one and the sum of unrelated processes'."""
    ours = case["ours"]
    report, = with_distance(arguments, case, ours, lambda: run_ours(arguments, folder, case))
    ours["rates"].append(report["samples_per_second"])
    ours["report"] = report
    cores = case["ranks"] * case["threads"]
    if cores > 1:
        alone = case | {"ranks": 1, "threads": 1}
        ours["one_core"].append(run_ours(arguments, folder, alone)[0]["samples_per_second"])
        ours["unrelated"].append(sum(one["samples_per_second"] for one in run_ours(arguments, folder, alone, cores)))


def start_theirs(arguments, case, variant, cache, seconds):
    warmup = min(MODELS[case["model"]][2], case["steps"])
    ranks = TorchRanks(arguments.python, HERE / "torch_steps.py", case["ranks"], variant, cache,
                       ["--model", case["model"], "--precision", case["precision"], "--variant", variant, "--batch", batch_of(case)],
                       arguments.shim, case["threads"])
    try:
        facts = ranks.ready(seconds)
        ranks.steps(max(warmup, 1), seconds)
        return ranks, facts
    except BaseException:
        ranks.end()
        raise


def measure_case(arguments, case, folder, cache, needed):
    """Fills case["ours"] and case["theirs"]. needed: seconds of this and all later cases without compiling."""
    running, samples = {}, batch_of(case) * case["ranks"]
    case["theirs"] = {}
    try:
        for variant in arguments.variants:
            result = case["theirs"][variant] = {"rates": [], "core_to_core_ns": []}
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
        case["ours"] = {"rates": [], "one_core": [], "unrelated": [], "core_to_core_ns": []}
        round_seconds = 0
        for _ in range(arguments.rounds):
            begin = time.monotonic()
            if case["ours"]["rates"] and begin + 1.2 * round_seconds > arguments.deadline:
                break
            try:
                measure_ours(arguments, folder, case)
            except Failed:
                if not (case["ours"]["rates"] and arguments.is_over()):
                    raise
                break
            for variant in list(running):
                result = case["theirs"][variant]
                try:
                    seconds = with_distance(arguments, case, result, lambda: running[variant].steps(
                        case["steps"], arguments.at_most(START_SECONDS)))
                    result["rates"].append(samples / statistics.median(seconds))
                except Failed as failure:
                    running.pop(variant).end()
                    if not arguments.is_over():
                        result["failure"] = str(failure)
                    elif not result["rates"]:
                        result["failure"] = NO_TIME
            round_seconds = time.monotonic() - begin
    finally:
        for ranks in running.values():
            ranks.end()
    parameters = sum(layer["parameters"] for layer in case["ours"]["report"]["layers"])
    for variant, result in case["theirs"].items():
        if "facts" in result and result["facts"]["parameters"] != parameters:
            raise Failed(f"{case['model']}: {parameters} parameters here, {result['facts']['parameters']} in PyTorch")


def shown(rate):
    return f"{rate:,.0f}" if rate >= 100 else f"{rate:.3g}"


def cell(case, variant):
    result = case["theirs"].get(variant)
    if result is None:
        return "–"
    if "failure" in result:
        return result["failure"]
    ratio = statistics.median(ours / theirs for ours, theirs in zip(case["ours"]["rates"], result["rates"]))
    return f"{shown(statistics.median(result['rates']))} (× {ratio:.2f})"


def scaling(case):
    """Two cells: the rate, and that of unrelated processes, as multiples of one core's in the same round."""
    ours = case["ours"]
    if not ours.get("one_core"):
        return "– | –"
    return " | ".join(f"{statistics.median(rate / one for rate, one in zip(ours[key], ours['one_core'])):.2f}"
                      for key in ("rates", "unrelated"))


def sides(case):
    """Who was measured -> the pairs of round trips of its rounds, for core_distance."""
    all_sides = {"ours": case["ours"]} | {name: result for name, result in case["theirs"].items() if "failure" not in result}
    return {name: result.get("core_to_core_ns", []) for name, result in all_sides.items()}


def near_and_far(case):
    """The ratios of near and of far rounds alone, as a line; None where not both occurred."""
    ours, pairs = case["ours"], sides(case)
    if not {core_distance.kind(one) for side in pairs.values() for pair in side for one in pair} >= {"near", "far"}:
        return None
    ratios = {"× one core": ([rate / one for rate, one in zip(ours["rates"], ours["one_core"])], pairs["ours"])}
    for name in list(pairs)[1:]:
        ratios[f"ours × PyTorch {name}"] = (
            [rate / other for rate, other in zip(ours["rates"], case["theirs"][name]["rates"])],
            [our + their for our, their in zip(pairs["ours"], pairs[name])])
    return f"{case['model']} {case['precision']} on {layout(case)}: " + "; ".join(
        f"{name} {core_distance.apart(each, [core_distance.kind(*around) for around in rounds])}"
        for name, (each, rounds) in ratios.items())


def layout(case):
    return f"{case['ranks']}" + (f" × {case['threads']} threads" if case["threads"] > 1 else "")


def table(cases, variants):
    lines = ["| model | precision | ranks | ours, samples/s | × one core | unrelated × one core | " +
             " | ".join(f"PyTorch {v} (ours ×)" for v in variants) + " | of the limit | of the product | core to core, ns |",
             "|---" * (9 + len(variants)) + "|"]
    for case in cases:
        head = f"| {case['model']} | {case['precision']} | {layout(case)} "
        if "failure" in case:
            lines.append(head + f"| {case['failure']} " + "| – " * (len(variants) + 5) + "|")
            continue
        rate = statistics.median(case["ours"]["rates"])
        limited = case["precision"] == "fp32" and case["model"] in LIMITS and has_avx512()
        limit = f"{rate / LIMITS[case['model']] / case['ranks'] / case['threads']:.0%}" if limited else "–"
        lines.append(head + f"| {shown(rate)} | {scaling(case)} | " + " | ".join(cell(case, variant) for variant in variants) +
                     f" | {limit} | {case['ours']['report']['gemm']['share']:.0%} | "
                     f"{core_distance.cell(sides(case))} |")
    notes = [note for case in cases if "failure" not in case and (note := near_and_far(case))]
    return "\n".join(lines + [f"\n{note}" for note in notes])


def processor():
    for line in pathlib.Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines():
        if line.startswith("model name"):
            return line.partition(":")[2].strip()
    return "unknown processor"


def has_avx512():
    return " avx512f" in pathlib.Path("/proc/cpuinfo").read_text(encoding="utf-8")


def main():
    arguments = parse()
    cases = [{"precision": precision, "ranks": ranks, "threads": threads, "model": model}
             for precision in arguments.precisions for ranks, threads in arguments.ranks for model in arguments.models]
    # With several cores three runs of ours a round in the place of one.
    plain = [MODELS[case["model"]][3] * arguments.rounds / 3 * (1.7 if case["ranks"] * case["threads"] > 1 else 1)
             for case in cases]
    compiles = COMPILE_GUESS * len(cases) if "compiled" in arguments.variants else 0
    begin = time.monotonic()
    arguments.deadline = begin + 60 * arguments.minutes
    arguments.is_over = lambda: time.monotonic() >= arguments.deadline
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
                left = arguments.deadline - time.monotonic()
                # Compiling takes what is left of the time, and nothing from the blocks.
                fit(arguments, case, folder, left * plain[number] / sum(plain[number:]))
                measure_case(arguments, case, folder, folder / "compiled", sum(plain[number:]))
            except Failed as failure:
                case["failure"] = str(failure)
            print(f"# {case['model']} {case['precision']} on {layout(case)}: "
                  f"{time.monotonic() - begin:.0f} s since the start", flush=True)
    versions = {result["facts"]["torch"] for case in cases for result in case.get("theirs", {}).values() if "facts" in result}
    batches = ", ".join([str(BATCH)] + [f"{BATCHES[name]} of {name}" for name in arguments.models if name in BATCHES])
    head = (f"{datetime.datetime.now(datetime.timezone.utc):%Y-%m-%d %H:%M UTC}, {processor()}, {os.cpu_count()} cores, "
            f"PyTorch {', '.join(sorted(versions)) or 'not measured'}, batch {batches} per rank, "
            f"one core per rank and thread, {arguments.rounds} rounds")
    print(f"\n{head}\n\n{table(cases, arguments.variants)}")
    if arguments.out:
        arguments.out.write_text(json.dumps({"benchmark": "peer_torch", "about": head, "cases": cases}, indent=1),
                                 encoding="utf-8")
    return 1 if any("failure" in case and "left out" not in case["failure"] for case in cases) else 0


if __name__ == "__main__":
    sys.exit(main())
