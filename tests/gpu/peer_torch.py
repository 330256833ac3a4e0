"""Training steps here and in PyTorch on one GPU, in turn: milliseconds and their ratios, as a Markdown table.

    python3 -B tests/gpu/peer_torch.py --python PY [--out FILE.json] [--models lenet,resnet18,resnet50,vit_b16,vit_b16_tanh]
        [--variants eager,compile,max-autotune] [--precision bf16] [--rounds 3]

PY is a python that has torch for this GPU. Each PyTorch variant (gpu_steps.py says what they are) is started once and
waits while the others run (on a GPU whose memory cannot hold all: for itself, beside ours); in each round ours and each of theirs run a block of steps, so that a drift of the clocks
hits all alike. Times are medians over rounds of the block's median step; a ratio is the median over rounds of
theirs / ours in the same round: above 1 ours is faster. Theirs has its batch on the device; ours reads its batches from
host memory. Aims are for one H200: beside a figure of another GPU, or of a batch that is smaller because
the memory is, that is said. The models must have equally many parameters. A variant that fails has its reason in the table. Exit code
77: no GPU here.
"""

import argparse
import json
import os
import pathlib
import selectors
import statistics
import subprocess
import sys
import tempfile
import time

from cases import STEPS, VARIANTS, aim_text, batch_for, bench_command, fit_together

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parents[1]
NO_GPU = 77


class Failed(Exception):
    """What ended a run; short enough for a table."""


def samples(arguments, model):
    return arguments.batch or batch_for(model, arguments.memory)


class Peer:
    """A PyTorch process that waits for commands."""

    def __init__(self, arguments, model, variant):
        self.errors = tempfile.TemporaryFile()
        self.process = subprocess.Popen(
            [arguments.python, "-B", str(HERE / "gpu_steps.py"), "--model", model, "--variant", variant, "--precision",
             arguments.precision, "--device", arguments.device, "--batch", str(samples(arguments, model))],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self.errors, cwd=HERE)

    def answer(self, seconds):
        """The next line of JSON."""
        deadline, line = time.monotonic() + seconds, b""
        with selectors.DefaultSelector() as selector:
            selector.register(self.process.stdout, selectors.EVENT_READ)
            while not line.endswith(b"\n"):
                if not selector.select(max(deadline - time.monotonic(), 0)):
                    raise Failed(f"no answer within {seconds:.0f} s")
                part = self.process.stdout.read1(1 << 16)
                if not part:
                    raise Failed(f"ended: {self.last_words()}")
                line += part
        return json.loads(line)

    def steps(self, count, seconds):
        try:
            self.process.stdin.write(f"{count}\n".encode())
            self.process.stdin.flush()
        except BrokenPipeError:
            raise Failed(f"ended: {self.last_words()}") from None
        return self.answer(seconds)

    def last_words(self):
        self.errors.seek(0)
        said = [line.strip() for line in self.errors.read().decode(errors="replace").splitlines() if line.strip()]
        return said[-1][:120].replace("|", "/") if said else "without a word"

    def end(self):
        self.process.kill()
        self.process.wait()
        self.process.stdin.close()
        self.process.stdout.close()
        self.errors.close()


def run_ours(arguments, model, steps, warmup, folder):
    """Median milliseconds of a step, and the number of parameters."""
    batch = samples(arguments, model)
    # As PyTorch's have cudnn.benchmark.
    tuned = [] if arguments.first_choice else ["run.autotune=true"]
    command = bench_command(arguments.trainer, model, folder, arguments.device, arguments.precision, batch, (steps, warmup), tuned)
    # Not that of PyTorch's processes, whose libraries may be others.
    libraries = {"LD_LIBRARY_PATH": arguments.libraries} if arguments.libraries else {}
    try:
        done = subprocess.run([str(word) for word in command], stdin=subprocess.DEVNULL, capture_output=True, text=True,
                              timeout=arguments.seconds, check=False, env={**os.environ, **libraries})
    except subprocess.TimeoutExpired:
        raise Failed("ours took too long") from None
    if done.returncode != 0:
        raise Failed(f"ours ended with {done.returncode}: {' '.join(done.stderr.split())[-160:]}".replace("|", "/"))
    report = json.loads((folder / "step.json").read_text(encoding="utf-8"))
    return 1e3 * batch / report["samples_per_second"], sum(layer["parameters"] for layer in report["layers"])


def measure(arguments, model, folder, result, keep):
    """Into result: {"batch": samples, "ours": [ms by round], variant: [ms by round] or the reason, "beside": {variant:
    [ours, ms by round]}}, and "failure" where ours beside some variants has one. keep() after each round."""
    result.update({"batch": samples(arguments, model), "ours": [], "beside": {}})
    # A variant keeps its memory while the others run.
    all_at_once = fit_together(model, result["batch"], len(arguments.variants) + 1, arguments.memory)
    for variants in [arguments.variants] if all_at_once else [[variant] for variant in arguments.variants]:
        try:
            measure_beside(arguments, model, folder, variants, result, keep)
        except Failed as failure:
            # Of ours beside these: what has times keeps them, and the next ones have their turn.
            result["failure"] = str(failure)
            for variant in variants:
                if not result.get(variant):
                    result[variant] = str(failure)


def measure_beside(arguments, model, folder, variants, result, keep):
    steps, warmup = (2, 1) if arguments.quick else STEPS[model]
    peers = {}
    try:
        for variant in variants:
            peer = Peer(arguments, model, variant)
            try:
                facts = peer.answer(arguments.seconds)
                peer.steps(warmup, arguments.seconds)
            except Failed as failure:
                result[variant] = str(failure)
                peer.end()
                continue
            peers[variant], result[variant], result["beside"][variant] = peer, [], []
            result["facts"] = facts
        for _ in range(arguments.rounds):
            if not arguments.torch_only:
                milliseconds, parameters = run_ours(arguments, model, steps, warmup, folder)
                if peers and parameters != result["facts"]["parameters"]:
                    raise Failed(f"{parameters} parameters here, {result['facts']['parameters']} in PyTorch")
                result["ours"].append(milliseconds)
            for variant in list(peers):
                try:
                    seconds = peers[variant].steps(steps, arguments.seconds)
                    result[variant].append(1e3 * statistics.median(seconds))
                    result["beside"][variant] += result["ours"][-1:]
                except Failed as failure:
                    result[variant] = str(failure)
                    peers.pop(variant).end()
            keep()
    finally:
        for peer in peers.values():
            peer.end()


def cell(model, result, variant):
    times = result[variant]
    if isinstance(times, str):
        return times
    text = f"{statistics.median(times):.2f}"
    if not result["beside"][variant]:
        return text
    ratio = statistics.median(a / b for a, b in zip(times, result["beside"][variant]))
    return text + f" (× {ratio:.2f})" + aim_text(model, variant, result["facts"]["device"], result["batch"])


def table(results, variants):
    lines = ["| model, samples | ours, ms | " + " | ".join(f"PyTorch {variant}, ms (× ours)" for variant in variants) + " |",
             "|---" * (2 + len(variants)) + "|"]
    for model, result in results.items():
        if "failure" in result and not result.get("ours"):
            lines.append(f"| {model} | {result['failure']} " + "| – " * len(variants) + "|")
            continue
        gpu = result.get("facts", {}).get("device")
        ours = f"{statistics.median(result['ours']):.2f}{aim_text(model, 'ours', gpu, result['batch'])}" if result["ours"] else "–"
        lines.append(f"| {model}, {result['batch']} | {ours} | " + " | ".join(cell(model, result, variant) for variant in variants) + " |")
    return "\n".join(lines)


def write_report(arguments, results):
    """After each round, so that it stays when the time ends. Returns the line about it."""
    facts = next((result["facts"] for result in results.values() if "facts" in result), {})
    head = (f"{time.strftime('%Y-%m-%d %H:%M UTC', time.gmtime())}, {facts.get('device', '?')}, PyTorch "
            f"{facts.get('torch', 'not measured')}, {arguments.precision}, {arguments.rounds} rounds")
    if arguments.out:
        report = {"benchmark": "peer_torch_gpu", "about": head, "facts": facts, "results": results}
        beside = arguments.out.with_name(arguments.out.name + ".new")
        beside.write_text(json.dumps(report, indent=1), encoding="utf-8")
        beside.replace(arguments.out)
    return head


def parse():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--python", default=sys.executable)
    parser.add_argument("--trainer", default=ROOT / "build/trainer", type=pathlib.Path)
    parser.add_argument("--models", default=",".join(STEPS))
    parser.add_argument("--variants", default=",".join(VARIANTS))
    parser.add_argument("--precision", choices=("fp32", "bf16"), default="bf16")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=600, help="that a block, or a start with compiling, may take")
    parser.add_argument("--out", type=pathlib.Path)
    parser.add_argument("--batch", type=int, help="samples per step; default: the model's")
    parser.add_argument("--memory", type=float, help="GiB of the GPU: models that need more have smaller batches")
    parser.add_argument("--device", choices=("cuda", "cpu"), default="cuda", help="cpu: to try the script")
    parser.add_argument("--libraries", help="LD_LIBRARY_PATH of ours alone")
    parser.add_argument("--quick", action="store_true", help="two steps a block")
    parser.add_argument("--torch-only", action="store_true")
    parser.add_argument("--first-choice", action="store_true", help="ours without run.autotune")
    arguments = parser.parse_args()
    for name, known in (("models", STEPS), ("variants", VARIANTS)):
        words = getattr(arguments, name).split(",")
        if unknown := [word for word in words if word not in known]:
            parser.error(f"--{name}: {unknown[0]} is none of {', '.join(known)}")
        setattr(arguments, name, words)
    return arguments


def main():
    arguments = parse()
    if arguments.device == "cuda":
        found = subprocess.run([arguments.python, "-c", "import torch; raise SystemExit(not torch.cuda.is_available())"],
                               capture_output=True, check=False)
        if found.returncode != 0:
            print("no GPU that PyTorch can use", file=sys.stderr)
            return NO_GPU
    results = {}
    with tempfile.TemporaryDirectory(prefix="tutti-") as name:
        for model in arguments.models:
            results[model] = {}
            measure(arguments, model, pathlib.Path(name), results[model], lambda: write_report(arguments, results))
            print(f"# {model} measured", flush=True)
            head = write_report(arguments, results)
    print(f"\n{head}\n\n{table(results, arguments.variants)}")
    return 1 if any("failure" in result for result in results.values()) else 0


if __name__ == "__main__":
    sys.exit(main())
