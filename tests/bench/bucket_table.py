"""The table "which bucket size, on this network?": two ranks on two hosts of a netlab (1 Gbit/s, 0.2 ms), one core each.

    sudo python3 -B tests/bench/bucket_table.py --data train.h5 --out DIR [--models lenet,mlp] [--pieces sweep,auto,ddp]
         [--torch /path/to/python3]         python with torch, for the comparison with DDP; without it that is left out
    python3 -B tests/bench/bucket_table.py --out DIR --table      prints what DIR holds as Markdown

Pieces of a model, each a file DIR/MODEL-PIECE.json: sweep, `trainer bench buckets` over all sizes and policies; auto, a
training with bucket_policy auto, for its choice; ddp, PyTorch DDP over gloo (peer_ddp.py). With each comes the share of
one core that the switch program of the netlab took. Runs in a private machine (tests/support) and leaves nothing behind
but DIR. data: grey 28x28 images in 10 classes, for example the quick start's.
"""

import argparse
import datetime
import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import time

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent.parent
# model -> batch per rank, settings, steps per plan
MODELS = {
    "lenet": (128, ["model.name=lenet"], 20),
    "mlp": (256, ["model.name=mlp", "model.hidden=[1024,1024]"], 16),
    "resnet18": (8, ["model.name=resnet18", "model.stem=cifar", "model.channels=1"], 3),
    "vit": (32, ["model.name=vit"], 12),
}
# The plans of auto are among them.
SIZES = "0.25,0.5,1,2.5,4,5,10,25,50,100"


def parse():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--trainer", default=ROOT / "build" / "trainer", type=pathlib.Path)
    parser.add_argument("--support", default=ROOT / "tests" / "support", type=pathlib.Path)
    parser.add_argument("--data", type=pathlib.Path)
    parser.add_argument("--out", required=True, type=pathlib.Path)
    parser.add_argument("--models", default=",".join(MODELS))
    parser.add_argument("--pieces", default="sweep,auto,ddp")
    parser.add_argument("--torch")
    parser.add_argument("--rate", default="1gbit")
    parser.add_argument("--delay", default="0.2ms")
    parser.add_argument("--table", action="store_true")
    return parser.parse_args()


class Lab:
    """Two hosts; one core for each rank."""

    def __init__(self, arguments, folder):
        self.netlab, self.folder = arguments.support / "netlab", folder
        subprocess.run([self.netlab, "up", folder, "2", "--rate", arguments.rate, "--delay", arguments.delay], check=True)

    def switch_seconds(self):
        for process in pathlib.Path("/proc").iterdir():
            try:
                if process.name.isdigit() and os.readlink(process / "exe") == str(self.folder / "switch"):
                    fields = (process / "stat").read_text().rpartition(")")[2].split()
                    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
            except OSError:
                continue
        return 0.0

    def run(self, command, environment=()):
        """The output, and the switch's share of one core meanwhile."""
        variables = [word for name in ("OMP_WAIT_POLICY=passive", *environment) for word in ("-x", name)]
        before, began = self.switch_seconds(), time.monotonic()
        done = subprocess.run([self.netlab, "run", self.folder, *variables, "bash", "-c",
                               'exec taskset -c $((OMPI_COMM_WORLD_RANK % $(nproc))) "$@"', "rank", *map(str, command)],
                              stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                              check=False)
        share = (self.switch_seconds() - before) / (time.monotonic() - began)
        if done.returncode != 0:
            sys.exit(f"{' '.join(map(str, command))}\n{done.stdout}")
        return done.stdout, share


def sweep(lab, arguments, model, folder):
    batch, settings, steps = MODELS[model]
    _, share = lab.run([arguments.trainer, "bench", "buckets", "--bucket-mb", SIZES, "--steps", steps, "--warmup", 1,
                        "--out", folder, f"data.train={arguments.data}", f"train.batch_size={batch}", "optim.lr=0.001",
                        *settings])
    (arguments.out / f"{model}.html").write_text((folder / "buckets.html").read_text())
    return {"report": json.loads((folder / "buckets.json").read_text()), "switch": share}


def auto(lab, arguments, model, folder):
    batch, settings, _ = MODELS[model]
    output, share = lab.run([arguments.trainer, f"data.train={arguments.data}", f"train.batch_size={batch}",
                             "optim.lr=0.001", "train.max_steps=28", f"run.dir={folder}/run",
                             "distributed.bucket_policy=auto", *settings], [f"XDG_CACHE_HOME={folder}"])
    line = next(line for line in output.splitlines() if "buckets: " in line)
    return {"said": line[line.index("buckets: "):], "switch": share}


def ddp(lab, arguments, model, folder):
    batch, _, steps = MODELS[model]
    _, share = lab.run([arguments.torch, "-B", HERE / "peer_ddp.py", "--model", model, "--batch", batch, "--steps", steps,
                        "--store", "10.77.0.1:29555", "--out", folder / "ddp.json"], ["GLOO_SOCKET_IFNAME=eth0"])
    return {"report": json.loads((folder / "ddp.json").read_text()), "switch": share}


def measure(arguments):
    arguments.out.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="tutti-") as name:
        lab = Lab(arguments, pathlib.Path(name) / "lab")
        for model in arguments.models.split(","):
            for piece in arguments.pieces.split(","):
                if piece == "ddp" and not arguments.torch:
                    print("ddp is left out: --torch names a python3 that has torch")
                    continue
                folder = pathlib.Path(name) / f"{model}-{piece}"
                folder.mkdir()
                result = {"sweep": sweep, "auto": auto, "ddp": ddp}[piece](lab, arguments, model, folder)
                result["date"] = datetime.datetime.now(datetime.timezone.utc).strftime("%Y-%m-%d %H:%M UTC")
                (arguments.out / f"{model}-{piece}.json").write_text(json.dumps(result, indent=1))
                print(f"{model}-{piece} is written", flush=True)


def ms(seconds):
    return f"{seconds * 1e3:.1f}"


def chosen_step(report, said):
    """Name and, in the sweep, step of the plan that auto has chosen."""
    name = re.match(r"buckets: ([^,]*),", said)[1]
    wanted = name.replace("MiB", "MB")
    for plan in report["plans"]:
        if any(label["text"] == wanted for label in plan["names"]):
            return name, plan["step"]["median"]
    return name, None


def table(folder):
    print("| model | gradients | best of the sweep | cost_model | auto chose | yardstick | hidden (best) | exposed (best) "
          "| DDP step | DDP exposed | switch |")
    print("|---|---|---|---|---|---|---|---|---|---|---|")
    for model in MODELS:
        read = {piece: json.loads(path.read_text()) for piece in ("sweep", "auto", "ddp")
                if (path := folder / f"{model}-{piece}.json").exists()}
        if "sweep" not in read:
            continue
        report = read["sweep"]["report"]
        best = report["plans"][report["best"]]
        by_cost = next(plan for plan in report["plans"] if any(n["policy"] == "cost_model" for n in plan["names"]))
        aim = report["yardstick"]
        limit = 1.05 * max(aim["compute"], aim["communication"]) + aim["tail"]
        chosen = "–"
        if "auto" in read:
            name, step = chosen_step(report, read["auto"]["said"])
            chosen = name + (f", {ms(step)} ms ({step / best['step']['median'] - 1:+.1%})" if step else "")
        peer = read["ddp"]["report"] if "ddp" in read else None
        shares = ", ".join(f"{one['switch']:.0%}" for one in read.values())
        print(f"| {model}, batch {report['batch_size']} | {report['gradient_bytes'] / 2**20:.1f} MiB "
              f"| {best['names'][0]['text']}, {ms(best['step']['median'])} ms "
              f"({ms(best['step']['min'])} to {ms(best['step']['max'])}) "
              f"| {ms(by_cost['step']['median'])} ms, predicted {ms(by_cost['predicted'])} | {chosen} "
              f"| {ms(limit)} ms = 1.05 × max({ms(aim['compute'])}, {ms(aim['communication'])}) + {ms(aim['tail'])} "
              f"| {best['overlap']['median']:.0%} | {ms(best['exposed']['median'])} ms "
              f"| {ms(peer['step']['median']) + ' ms' if peer else '–'} "
              f"| {ms(peer['exposed']['median']) + ' ms' if peer else '–'} | {shares} |")


def main():
    arguments = parse()
    if arguments.table:
        return table(arguments.out)
    if not arguments.data:
        sys.exit("--data is needed: an HDF5 file of grey 28x28 images")
    if "TUTTI_PRIVATE_MACHINE" not in os.environ:
        os.execv(arguments.support / "private_machine", ["private_machine", sys.executable, "-B", *sys.argv])
    return measure(arguments)


if __name__ == "__main__":
    main()
