"""The table "which bucket size, on this network?": two ranks on two hosts of a netlab (1 Gbit/s, 0.2 ms), one core each.

    sudo python3 -B tests/bench/bucket_table.py [--out DIR] [--models lenet,mlp] [--pieces sweep,auto,ddp] [--data F.h5]
         [--batch 64]                       samples per rank and step of every model; without it each has a batch with which
                                            computation and communication take about as long, or computation half as long
         [--set KEY=VALUE]                  a setting for ours, sweep and auto
         [--congestion reno]                how TCP finds its rate on both hosts, for ours and DDP; reno is every system's and
                                            allowed to all; '': as this machine does
         [--burst BYTES]                    links without delay, shaped by the kernel's token buckets instead of a program
                                            that takes a share of the ranks' cores
         [--per-host 2]                     ranks on each host, which share the cores
         [--torch /path/to/python3]         python with torch, for the comparison with DDP; without it that is left out
    python3 -B tests/bench/bucket_table.py --out DIR --table      prints what DIR holds as Markdown

Says first how long it will take (all of it: a quarter of an hour at most), prints the table in the end. Pieces of a
model, each a file DIR/MODEL-PIECE.json: sweep, `trainer bench buckets` over all sizes and policies; auto, a training with
bucket_policy auto, for its choice; ddp, PyTorch DDP over gloo (peer_ddp.py), one half of its steps before and one after
the others, so that a drift of the machine hits both sides of the comparison. With each comes the share of one core that
the switch program of the netlab took. A piece of DDP that fails is tried once again; a piece that fails still is given as
"failed: why" in the table, the others go on, and the exit code is 1; so is one that takes ten times as long as it should.
Runs in a private machine (tests/support) and leaves nothing behind but DIR.
data: grey 28x28 images in 10 classes; without it, Debian's Fashion-MNIST (dataset-fashion-mnist).
"""

import argparse
import datetime
import importlib.util
import itertools
import json
import os
import pathlib
import re
import statistics
import subprocess
import sys
import tempfile
import time

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent.parent
# model -> batch per rank, settings, steps per plan, seconds of a step for the forecast (the slowest of ours and DDP's)
MODELS = {
    "lenet": (128, ["model.name=lenet"], 40, 0.11),
    "mlp": (256, ["model.name=mlp", "model.hidden=[1024,1024]"], 24, 0.12),
    "resnet18": (8, ["model.name=resnet18", "model.stem=cifar", "model.channels=1"], 8, 0.65),
    "vit": (32, ["model.name=vit"], 24, 0.16),
}
FASHION = pathlib.Path("/usr/share/datasets/fashion-mnist")
# 2 to warm up, 4 for the ready times, at most 15 rounds of 4 plans within steps and 4 across, these after one each that is
# not counted; and some that train with the choice.
STEPS_OF_AUTO = 188
PLANS = 16
TOO_LONG = 10  # times the forecast
# The plans of auto are among them.
SIZES = "0.25,0.5,1,2.5,4,5,10,25,50,100"


def parse():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--trainer", default=ROOT / "build" / "trainer", type=pathlib.Path)
    parser.add_argument("--support", default=ROOT / "tests" / "support", type=pathlib.Path)
    parser.add_argument("--data", type=pathlib.Path)
    parser.add_argument("--out", default=pathlib.Path("bucket-table"), type=pathlib.Path)
    parser.add_argument("--models", default=",".join(MODELS))
    parser.add_argument("--pieces", default="sweep,auto,ddp")
    parser.add_argument("--torch")
    parser.add_argument("--batch", type=int)
    parser.add_argument("--set", action="append", default=[], metavar="KEY=VALUE")
    parser.add_argument("--congestion", default="reno")
    parser.add_argument("--rate", default="1gbit")
    parser.add_argument("--delay", default="0.2ms")
    parser.add_argument("--burst", type=int)
    parser.add_argument("--per-host", type=int, default=1)
    parser.add_argument("--table", action="store_true")
    return parser.parse_args()


def reason(output):
    """The line that says most: the program's last of an error, not mpirun's about it; without the bars of a table."""
    lines = [line.strip() for line in output.splitlines() if line.strip(" -=\t")]
    of_program = list(itertools.takewhile(lambda line: not re.match(r"Primary job |mpirun ", line), lines)) or lines
    for pattern in r"^error:|terminate called|Error:", r"(?i)error|abort|terminate|killed|signal", "":
        for line in reversed(of_program):
            if re.search(pattern, line):
                return line.replace("|", "/")[:120]
    return ""


class Failed(Exception):
    """A run that ended with an error: its last lines."""


class Lab:
    """Two hosts; one core for each rank."""

    def __init__(self, arguments, folder):
        self.netlab, self.folder, self.congestion = arguments.support / "netlab", folder, arguments.congestion
        self.per_host = arguments.per_host
        links = ["--burst", str(arguments.burst)] if arguments.burst else ["--delay", arguments.delay]
        subprocess.run([self.netlab, "up", folder, "2", "--rate", arguments.rate, *links], check=True)

    def switch_seconds(self):
        for process in pathlib.Path("/proc").iterdir():
            try:
                if process.name.isdigit() and os.readlink(process / "exe") == str(self.folder / "switch"):
                    fields = (process / "stat").read_text().rpartition(")")[2].split()
                    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
            except OSError:
                continue
        return 0.0

    def run(self, command, environment=(), limit=None):
        """The output, and the switch's share of one core meanwhile. limit: seconds after which it has failed."""
        variables = [word for name in ("OMP_WAIT_POLICY=passive", *environment) for word in ("-x", name)]
        before, began = self.switch_seconds(), time.monotonic()
        # The setting is each host's own, and what a host begins with is that of the machine below.
        rank = ('if [[ $0 ]]; then echo "$0" >/proc/sys/net/ipv4/tcp_congestion_control || exit; fi; '
                'exec taskset -c $((OMPI_COMM_WORLD_RANK % $(nproc))) "$@"')
        try:
            done = subprocess.run([self.netlab, "run", self.folder, "--ppn", str(self.per_host), *variables,
                                   "bash", "-c", rank, self.congestion, *map(str, command)],
                                  stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                                  timeout=limit, check=False)
        except subprocess.TimeoutExpired as expired:  # mpirun is killed, and the hosts' part of it ends without it
            print(f"{' '.join(map(str, command))}: not done after {limit:.0f} s\n"
                  f"{(expired.stdout or b'').decode(errors='replace')}", flush=True)
            raise Failed(f"not done after {limit:.0f} s") from None
        share = (self.switch_seconds() - before) / (time.monotonic() - began)
        if done.returncode != 0:
            print(f"{' '.join(map(str, command))}: exit code {done.returncode}\n{done.stdout}", flush=True)
            raise Failed(reason(done.stdout) or f"exit code {done.returncode}")
        return done.stdout, share


def sweep(lab, arguments, model, folder):
    batch, settings, steps, _ = MODELS[model]
    _, share = lab.run([arguments.trainer, "bench", "buckets", "--bucket-mb", SIZES, "--steps", steps, "--warmup", 1,
                        "--out", folder, f"data.train={arguments.data}", f"train.batch_size={batch}", "optim.lr=0.001",
                        *settings, *arguments.set], limit=TOO_LONG * forecast(model, "sweep"))
    (arguments.out / f"{model}.html").write_text((folder / "buckets.html").read_text())
    return {"report": json.loads((folder / "buckets.json").read_text()), "switch": share}


def auto(lab, arguments, model, folder):
    batch, settings, _, _ = MODELS[model]
    output, share = lab.run([arguments.trainer, f"data.train={arguments.data}", f"train.batch_size={batch}",
                             "optim.lr=0.001", f"train.max_steps={STEPS_OF_AUTO}", f"run.dir={folder}/run",
                             "distributed.bucket_policy=auto", *settings, *arguments.set], [f"XDG_CACHE_HOME={folder}"],
                            limit=TOO_LONG * forecast(model, "auto"))
    line = next((line for line in output.splitlines() if "buckets: " in line), None)
    if line is None:
        print(output, flush=True)
        raise Failed("auto did not say what it chose")
    return {"said": line[line.index("buckets: "):], "switch": share}


def ddp(lab, arguments, model, folder):
    batch, _, steps, _ = MODELS[model]
    _, share = lab.run([arguments.torch, "-B", HERE / "peer_ddp.py", "--model", model, "--batch", batch, "--steps",
                        (steps + 1) // 2, "--store", "10.77.0.1:29555", "--out", folder / "ddp.json"],
                       ["GLOO_SOCKET_IFNAME=eth0"], limit=TOO_LONG * forecast(model, "ddp"))
    return {"report": json.loads((folder / "ddp.json").read_text()), "switch": share}


def both_halves(first, second):
    """One result of two runs of DDP; where one failed, the other with its "failed"."""
    if "failed" in first or "failed" in second:
        return {**first, **second}
    report = {**first["report"], "halves": [first["report"], second["report"]]}
    for figure in ("step", "communication", "exposed"):
        values = first["report"][figure]["values"] + second["report"][figure]["values"]
        report[figure] = {"min": min(values), "median": statistics.median(values), "max": max(values), "values": values}
    return {**first, "report": report, "switch": (first["switch"] + second["switch"]) / 2}


def pack_fashion(arguments, folder):
    data = folder / "fashion.h5"
    subprocess.run([arguments.trainer, "pack", "idx", "--images", FASHION / "train-images-idx3-ubyte.gz", "--labels",
                    FASHION / "train-labels-idx1-ubyte.gz", "-o", data], check=True, stdout=subprocess.DEVNULL)
    return data


def forecast(model, piece):
    """Seconds of both runs of ddp, or of the one of the others, on a machine like that of the results."""
    steps, of_a_step = MODELS[model][2:]
    start = {"sweep": 8, "auto": 4, "ddp": 2 * 10}
    steps = {"sweep": PLANS * (steps + steps // 4 + 2), "auto": STEPS_OF_AUTO, "ddp": steps + 2 * 4}
    return start[piece] + steps[piece] * of_a_step


def measure(arguments):
    arguments.out.mkdir(parents=True, exist_ok=True)
    models, pieces = arguments.models.split(","), arguments.pieces.split(",")
    if "ddp" in pieces and not arguments.torch:
        print("ddp is left out: no torch here; --torch names a python3 that has it")
        pieces.remove("ddp")
    seconds = sum(forecast(model, piece) for model in models for piece in pieces)
    print(f"this takes about {seconds / 60:.0f} minutes on two quiet cores", flush=True)
    with tempfile.TemporaryDirectory(prefix="tutti-") as name:
        arguments.data = arguments.data or pack_fashion(arguments, pathlib.Path(name))
        lab = Lab(arguments, pathlib.Path(name) / "lab")

        def attempt(piece, model):
            folder = pathlib.Path(tempfile.mkdtemp(dir=name))
            began = time.monotonic()
            try:
                result = {"sweep": sweep, "auto": auto, "ddp": ddp}[piece](lab, arguments, model, folder)
            except Failed as failed:
                result = {"failed": str(failed)}
            print(f"{model}, {piece}: {result.get('failed', 'done')}, {time.monotonic() - began:.0f} s", flush=True)
            return result | {"date": datetime.datetime.now(datetime.timezone.utc).strftime("%Y-%m-%d %H:%M UTC")}

        def run(piece, model):
            result = attempt(piece, model)
            return attempt(piece, model) if "failed" in result and piece == "ddp" else result

        failed = []

        def keep(piece, model, result):
            (arguments.out / f"{model}-{piece}.json").write_text(json.dumps(result, indent=1))
            if "failed" in result:
                failed.append(f"{model}, {piece}")
        for model in models:
            half = run("ddp", model) if "ddp" in pieces else None
            for piece in pieces:
                if piece != "ddp":
                    keep(piece, model, run(piece, model))
            if half:
                keep("ddp", model, both_halves(half, run("ddp", model)))
    table(arguments.out)
    if failed:
        sys.exit("failed: " + "; ".join(failed))


def ms(seconds):
    return f"{seconds * 1e3:.1f}"


def taken(plan):
    """Processor time that transfers take from the computation that hides them."""
    if "transfer_cpu" not in plan:  # measured by an older build
        return "–"
    return f"{ms(plan['transfer_cpu']['median'])}, {ms(plan['off_core']['median'])} ms"


SCHEDULE = re.compile(r" (across|within) steps$")


def plan_name(text):
    """Without a schedule. Older builds wrote MB for MiB."""
    return SCHEDULE.sub("", text).replace(" MB", " MiB")


def title(plan, report):
    """Its first name and its schedule."""
    schedule = plan.get("schedule", report.get("schedule", "within steps"))
    return f"{plan_name(plan['names'][0]['text'])} {schedule}"


def chosen_step(report, said):
    """Name and, in the sweep, step of the plan that auto has chosen. It says the schedule where it tried both."""
    name = re.match(r"buckets: ([^,]*),", said)[1]
    wanted = SCHEDULE.sub("", name)
    schedule = SCHEDULE.search(name)
    for plan in report["plans"]:
        if schedule and not title(plan, report).endswith(schedule[0]):
            continue
        if any(plan_name(label["text"]) == wanted for label in plan["names"]):
            return name, plan["step"]["median"]
    return name, None


def table(folder):
    print("| model | gradients | best of the sweep | cost_model | auto chose | yardstick | no schedule beats | hidden (best) "
          "| exposed (best) | calls, off core (best) | DDP step | DDP exposed | switch |")
    print("|---|---|---|---|---|---|---|---|---|---|---|---|---|")
    for model in MODELS:
        read = {piece: json.loads(path.read_text()) for piece in ("sweep", "auto", "ddp")
                if (path := folder / f"{model}-{piece}.json").exists()}
        if read:
            print(f"| {' | '.join(row(model, read))} |")


def row(model, read):
    """The cells of a model; a piece that failed says why where its first figure would be."""
    shares = ", ".join(f"{one['switch']:.0%}" for one in read.values() if "switch" in one) or "–"
    ddp_step, ddp_exposed = failure(read, "ddp"), "–"
    if "report" in read.get("ddp", {}):
        peer = read["ddp"]["report"]
        ddp_step = ms(peer["step"]["median"]) + " ms" + ("; one half " + ddp_step if "failed" in read["ddp"] else "")
        ddp_exposed = ms(peer["exposed"]["median"]) + " ms"
    report = read.get("sweep", {}).get("report")
    chosen = failure(read, "auto")
    if "said" in read.get("auto", {}):
        name, step = chosen_step(report, read["auto"]["said"]) if report else (read["auto"]["said"].split(",")[0], None)
        best = report and report["plans"][report["best"]]["step"]["median"]
        chosen = name + (f", {ms(step)} ms ({step / best - 1:+.1%})" if step else "")
    if not report:
        return [f"{model}, batch {MODELS[model][0]}", "–", failure(read, "sweep"), "–", chosen, "–", "–", "–", "–", "–",
                ddp_step, ddp_exposed, shares]
    best = report["plans"][report["best"]]
    by_cost = next(plan for plan in report["plans"] if any(n["policy"] == "cost_model" for n in plan["names"]))
    aim = report["yardstick"]
    limit = 1.05 * max(aim["compute"], aim["communication"]) + aim["tail"]
    return [f"{model}, batch {report['batch_size']}", f"{report['gradient_bytes'] / 2**20:.1f} MiB",
            f"{title(best, report)}, {ms(best['step']['median'])} ms "
            f"({ms(best['step']['min'])} to {ms(best['step']['max'])})",
            f"{ms(by_cost['step']['median'])} ms, predicted {ms(by_cost['predicted'])}", chosen,
            f"{ms(limit)} ms = 1.05 × max({ms(aim['compute'])}, {ms(aim['communication'])}) + {ms(aim['tail'])}",
            f"{ms(aim['attainable'])} ms", f"{best['overlap']['median']:.0%}", f"{ms(best['exposed']['median'])} ms",
            taken(best), ddp_step, ddp_exposed, shares]


def failure(read, piece):
    return f"failed: {read[piece]['failed']}" if "failed" in read.get(piece, {}) else "–"


def main():
    arguments = parse()
    if arguments.table:
        return table(arguments.out)
    if arguments.batch:
        for model, (batch, settings, steps, seconds) in MODELS.items():
            MODELS[model] = arguments.batch, settings, steps, seconds * max(1, arguments.batch / batch)
    if not arguments.data and not FASHION.is_dir():
        sys.exit(f"{FASHION} is not there: install dataset-fashion-mnist, or give --data, grey 28x28 images")
    arguments.torch = arguments.torch or (sys.executable if importlib.util.find_spec("torch") else None)
    if "TUTTI_PRIVATE_MACHINE" not in os.environ:
        os.execv(arguments.support / "private_machine", ["private_machine", sys.executable, "-B", *sys.argv])
    return measure(arguments)


if __name__ == "__main__":
    main()
