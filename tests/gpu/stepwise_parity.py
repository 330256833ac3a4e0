"""Training on a GPU against the CPU, step by step: each step of the GPU starts from the CPU's state at that step.

    stepwise_parity.py --trainer TRAINER --data FILE.h5 [--device cuda] [--steps 8] [--precision fp32] [key=value ...]

The CPU computes in fp32, whatever the other does. So a difference is that of one step, and does not grow. Compared are the loss, which shows forward, and the norm of the
gradients, which shows backward; relative differences beyond the tolerance of the precision are failures. Prints one
line of JSON. A checkpoint made on the CPU resumes on the GPU by this.
"""

import argparse
import json
import pathlib
import subprocess
import sys
import tempfile

from gpu_process import notices

# Relative. Sums of 1e3 to 1e5 products in another order: fp32 2^-24 each, bf16 inputs 2^-9 each. A ReLU whose input is
# nearly 0 passes a gradient or does not: with resnet18 and eight samples the norms of two programs on one CPU, with oneDNN
# and with Eigen, are up to 2.5e-4 apart in fp32.
TOLERANCE = {"fp32": {"loss": 1e-5, "grad_norm": 1e-3}, "tf32": {"loss": 2e-3, "grad_norm": 1e-2},
             "bf16": {"loss": 2e-2, "grad_norm": 5e-2}}


def run(arguments, device, precision, folder, max_steps, more):
    """The step rows of a run, {step: row}, and what it said of kernels that the libraries refused."""
    command = [arguments.trainer, f"data.train={arguments.data}", f"device={device}", f"run.dir={folder}",
               f"train.max_steps={max_steps}", f"train.precision={precision}", "train.log_every=1",
               "train.eval_every=0", "data.workers=0", "optim.clip_norm=1e30",  # never clips, but has the norm logged
               *arguments.settings, *more]
    done = subprocess.run([str(word) for word in command], stdin=subprocess.DEVNULL, capture_output=True, text=True,
                          timeout=300, check=False)
    if done.returncode != 0:
        raise SystemExit(f"{device}: exit code {done.returncode}: {done.stderr[-2000:]}")
    rows = [json.loads(line) for line in (folder / "metrics.jsonl").read_text(encoding="utf-8").splitlines()]
    return {row["step"]: row for row in rows if row["type"] == "step"}, notices(done.stdout, done.stderr)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--trainer", required=True, type=pathlib.Path)
    parser.add_argument("--data", required=True, type=pathlib.Path)
    parser.add_argument("--device", default="cuda", choices=("cuda", "cpu"), help="cpu: to try the script")
    parser.add_argument("--steps", type=int, default=8)
    parser.add_argument("--precision", choices=TOLERANCE, default="fp32")
    parser.add_argument("settings", nargs="*")
    arguments = parser.parse_args()
    arguments.trainer, arguments.data = arguments.trainer.resolve(), arguments.data.resolve()
    steps, noticed = [], []
    with tempfile.TemporaryDirectory(prefix="tutti-") as name:
        folder = pathlib.Path(name)
        reference, _ = run(arguments, "cpu", "fp32", folder / "cpu", arguments.steps + 1,
                           ["train.checkpoint.every=1 steps", f"train.checkpoint.keep={arguments.steps + 1}"])
        for step in range(1, arguments.steps + 1):
            start = folder / "cpu/checkpoints" / f"step-{step:08d}.h5"
            rows, said = run(arguments, arguments.device, arguments.precision, folder / f"other-{step}", step + 1,
                             [f"run.resume={start}", "train.checkpoint.every=never"])
            noticed += said
            row = rows[step + 1]
            expected = reference[step + 1]
            steps.append({"step": step + 1, **{
                key: abs(row[key] - expected[key]) / abs(expected[key]) for key in ("loss", "grad_norm")}})
    worst = {key: max(step[key] for step in steps) for key in ("loss", "grad_norm")}
    tolerance = TOLERANCE[arguments.precision]
    good = all(worst[key] <= tolerance[key] for key in worst)
    print(json.dumps({"precision": arguments.precision, "settings": arguments.settings, "worst": worst,
                      "tolerance": tolerance, "passed": good, "steps": steps,
                      "notices": notices(*noticed)}))
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
