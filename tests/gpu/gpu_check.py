"""What jobs/gpu_check.sh runs: the stages of gpu_stages.py, one report as JSON and as text. See there.

The report is written again after each piece of a stage, so that what was found stays when the time ends; a folder that
has one keeps its other stages, and of a stage that is begun again what it had until there is something new.
"""

import argparse
import datetime
import hashlib
import json
import os
import pathlib
import shutil
import signal
import statistics
import sys
import tempfile
import time

from cases import CASES, VARIANTS, aim_text
from gpu_narrowing import SUSPECTED, summary_lines
from gpu_process import ENOUGH, OUT_OF_TIME, Failed, OutOfTime, Processes, Skipped
from gpu_stages import OPTIONAL, PARTS, STAGES, Check

ROOT = pathlib.Path(__file__).resolve().parents[2]
NO_GPU = 77
VERDICTS = ("passed", "FAILED")


def no_gpu(processes):
    """Why there is none, or nothing."""
    program = shutil.which("nvidia-smi")
    if program is None:
        # Containers may have the device without the tool.
        return "" if os.path.exists("/dev/nvidiactl") else "nvidia-smi is not installed"
    done = Processes().run([program, "-L"], seconds=max(min(60, processes.left()), 2))
    if done.returncode is None:
        return "nvidia-smi -L did not end, as where the driver is stuck"
    return "" if done.returncode == 0 and "GPU" in done.stdout else "nvidia-smi shows no GPU"


def this_gpu(processes):
    """Name and GiB of the GPU that a process here sees first, as far as nvidia-smi says them."""
    program = shutil.which("nvidia-smi")
    if program is None:
        return None, None
    visible = os.environ.get("CUDA_VISIBLE_DEVICES", "").split(",")[0].strip()
    done = Processes().run([program, *(["-i", visible] if visible else []), "--query-gpu=name,memory.total",
                            "--format=csv,noheader,nounits"], seconds=max(min(60, processes.left()), 2))
    said = done.stdout.splitlines() if done.returncode == 0 else []
    name, _, memory = (said or [""])[0].rpartition(",")
    return name.strip() or None, int(memory) / 1024 if memory.strip().isdigit() else None


class Report:
    """gpu_check.json and gpu_check.txt of a folder. Its stages may be of several machines and builds: each says of which."""

    def __init__(self, folder, rehearsal, version, gpu):
        self.folder, self.version, self.gpu = folder, version, gpu
        try:
            before = json.loads((folder / "gpu_check.json").read_text(encoding="utf-8"))
        except (OSError, ValueError):
            before = {}
        kept = before.get("stages", []) if before.get("rehearsal") == rehearsal else []
        self.stages = {stage["name"]: stage for stage in kept}
        self.rehearsal = rehearsal
        folder.mkdir(parents=True, exist_ok=True)

    def begin(self, name):
        """A stage that is not in the report until keep()."""
        date = f"{datetime.datetime.now(datetime.timezone.utc):%Y-%m-%d %H:%M UTC}"
        # What a reader finds of a stage in which the machine went away.
        stage = {"name": name, "date": date, "version": self.version, "gpu": self.gpu, "status": "cut off",
                 "seconds": 0.0}
        if before := self.stages.get(name):
            # The last verdict stands beside a part of the next.
            before = before.get("before") if before["status"] == "cut off" else before
        return {**stage, "before": before} if before else stage

    def keep(self, stage):
        before = stage.get("before")
        if stage["status"] == "skipped" and before and before["status"] in VERDICTS:
            # Why it says nothing here, beside what it said elsewhere.
            skipped = {key: stage[key] for key in ("date", "version", "gpu", "reason") if key in stage}
            stage = {**before, "skipped_later": skipped}
        elif stage["status"] != "cut off":
            stage.pop("before", None)
        self.stages[stage["name"]] = stage
        self.write()

    def failed(self):
        verdicts = (stage.get("before", stage) if stage["status"] == "cut off" else stage for stage in self.stages.values())
        return [stage["name"] for stage in verdicts if stage["status"] == "FAILED"]

    def write(self):
        stages = [self.stages[name] for name in STAGES if name in self.stages]
        missing = [name for name in STAGES if (name not in self.stages and name not in OPTIONAL)
                   or (name in self.stages and self.stages[name]["status"] == "cut off")]
        report = {"rehearsal": self.rehearsal, "version": self.version, "gpu": self.gpu, "passed": not self.failed(), "complete": not missing,
                  "failed": self.failed(), "not_run": missing, "stages": stages}
        for name, text in ("gpu_check.json", json.dumps(report, indent=1) + "\n"), ("gpu_check.txt", as_text(report)):
            beside = self.folder / (name + ".new")
            beside.write_text(text, encoding="utf-8")
            beside.replace(self.folder / name)


def ratio_lines(stage):
    """PyTorch's times over ours."""
    lines = []
    for name, result in (stage.get("result") or {}).get("results", {}).items():
        for variant, times in result.items():
            if not (ours := result.get("beside", {}).get(variant)) or not isinstance(times, list):
                continue
            ratio = statistics.median(theirs / own for theirs, own in zip(times, ours))
            lines.append(f"  {name:<10} PyTorch {variant}: {statistics.median(times):.2f} ms, x {ratio:.2f} of ours"
                         f"{aim_text(name, variant, stage.get('gpu'), result['batch'])}")
    return lines


def notice_lines(one):
    """What a case ran without: its times, and its parity, are not of the fused kernels then."""
    return [f"{'':<13}notice: {line}" for line in one.get("notices", [])]


def as_text(report):
    stages = {stage["name"]: stage for stage in report["stages"]}
    facts = stages.get("facts", {})
    lines = [f"gpu_check {'REHEARSAL on the CPU ' if report['rehearsal'] else ''}{facts.get('date', '')}"]
    for gpu in facts.get("result", {}).get("gpus", []):
        lines.append("  " + ", ".join(f"{key} {value}" for key, value in gpu.items()))
    for stage in report["stages"]:
        # A stage that was begun again, and cut off, has its last verdict, too.
        for one, mark in (stage, ""), (stage.get("before"), "before: "):
            if one is None:
                continue
            other = "" if one.get("version") == report["version"] else f"[of {one.get('version', 'an unknown version')}] "
            if one.get("gpu") != report["gpu"]:
                other += f"[on {one.get('gpu') or 'an unknown GPU'}] "
            reason = " ".join(one.get("reason", "").split())[:300]
            lines.append(f"{one['status']:<8} {one['name']:<28} {one['seconds']:8.1f} s  {mark}{other}{reason}".rstrip())
            if skipped := one.get("skipped_later"):
                lines.append(f"{'':<8} skipped on {skipped['date']}: {' '.join(skipped['reason'].split())[:200]}")
    for one in stages.get("stepwise_parity", {}).get("result", []):
        if "worst" not in one:
            lines.append(f"  {one['network']:<10} {one['precision']}: failed")
            continue
        lines.append(f"  {one['network']:<10} {one['precision']}: worst loss {one['worst']['loss']:.1e}, gradient norm "
                     f"{one['worst']['grad_norm']:.1e}")
        lines += notice_lines(one)
    times = stages.get("step_times", {})
    for name, one in times.get("result", {}).items():
        tuned = f", {one['autotuned_milliseconds']:.2f} with run.autotune" if "autotuned_milliseconds" in one else ""
        lines.append(f"  {name:<10} " + (f"{one['milliseconds']:.2f} ms a step of {one.get('batch', '?')}{tuned}"
                                         f"{aim_text(name, 'ours', times.get('gpu'), one.get('batch'))}"
                                         if "milliseconds" in one else "failed"))
        lines += notice_lines(one)
    lines += ratio_lines(stages.get("step_bench", {}))
    lines += summary_lines(stages.get("sanitizer_narrowed", {}).get("result") or {})
    if report["failed"]:
        lines.append("failed: " + ", ".join(report["failed"]))
    if report["not_run"]:
        lines.append("incomplete, not run to the end: " + ", ".join(report["not_run"]))
    elif report["passed"]:
        lines.append("complete: all stages passed, or had a reason to be skipped")
    return "\n".join(lines) + "\n"


def parse(words=None):
    parser = argparse.ArgumentParser(prog="jobs/gpu_check.sh")
    # Of a bundle, these files are in its share/tutti.
    bundled = ROOT.parents[1] / "bin/trainer"
    parser.add_argument("--trainer", default=bundled if bundled.exists() else ROOT / "build/trainer", type=pathlib.Path)
    parser.add_argument("--tests", type=pathlib.Path, help="folder of the test programs (default: beside trainer)")
    parser.add_argument("--out", default=pathlib.Path("."), type=pathlib.Path)
    parser.add_argument("--python", help="one that has torch for this GPU")
    parser.add_argument("--part", help="of " + ", ".join(PARTS))
    parser.add_argument("--stages")
    parser.add_argument("--minutes", type=float)
    parser.add_argument("--models", default=",".join(CASES))
    parser.add_argument("--variants", default=",".join(VARIANTS))
    parser.add_argument("--suites", default=",".join(SUSPECTED))
    parser.add_argument("--jobs", type=int, default=max(1, min(6, len(os.sched_getaffinity(0)) // 2)))
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--rehearse", action="store_true")
    arguments = parser.parse_args(words)
    arguments.trainer = arguments.trainer.resolve()
    if arguments.tests is None:
        beside = arguments.trainer.parent
        arguments.tests = beside / "tests" if (beside / "tests").is_dir() else beside
    wanted = arguments.stages.split(",") if arguments.stages else []
    for part in arguments.part.split(",") if arguments.part else []:
        if part not in PARTS:
            parser.error(f"--part: {part} is none of {', '.join(PARTS)}")
        wanted += PARTS[part]
    if unknown := [name for name in wanted if name not in STAGES]:
        parser.error(f"--stages: {unknown[0]} is none of {', '.join(STAGES)}")
    if unknown := [name for name in arguments.models.split(",") if name not in CASES]:
        parser.error(f"--models: {unknown[0]} is none of {', '.join(CASES)}")
    if unknown := [name for name in arguments.variants.split(",") if name not in VARIANTS]:
        parser.error(f"--variants: {unknown[0]} is none of {', '.join(VARIANTS)}")
    if arguments.jobs < 1:
        parser.error(f"--jobs: {arguments.jobs} is no number of processes")
    if arguments.minutes is not None and not 60 * arguments.minutes > ENOUGH:
        parser.error(f"--minutes: {arguments.minutes:g} minutes are not enough to start anything")
    # The facts say where the libraries are: always, and first.
    arguments.wanted = [name for name in STAGES if name == "facts" or name in (wanted or set(STAGES) - set(OPTIONAL))]
    arguments.suites = [name if name.endswith(".") else name + "." for name in arguments.suites.split(",")]
    if not os.access(arguments.trainer, os.X_OK):
        parser.error(f"{arguments.trainer} is missing: build it, or name it with --trainer")
    return arguments


def run_stage(check, name, stage):
    begin = time.monotonic()
    try:
        stage["result"], stage["status"] = getattr(check, name)(), "passed"
    except Skipped as reason:
        stage["status"], stage["reason"] = "skipped", str(reason)
    except Failed as reason:
        stage["status"], stage["reason"] = "FAILED", str(reason)
    except OutOfTime:
        stage["reason"] = "; ".join(filter(None, (OUT_OF_TIME, stage.get("reason"))))
    except (SystemExit, KeyboardInterrupt):
        raise
    except Exception as problem:  # of the stage itself: the others shall have their turn
        stage["status"], stage["reason"] = "FAILED", f"{type(problem).__name__}: {problem}"
    finally:
        stage["seconds"] = round(time.monotonic() - begin, 1)


def version_of(trainer):
    """As "tutti 0.1.0, sha256 1a2b3c4d5e6f": of two builds of one version each has its own verdicts."""
    folder = trainer.parent.parent / "libexec" if trainer.parent.name == "bin" else trainer.parent
    digest = hashlib.sha256()
    for name in trainer.name, "libtutti_cuda.so":
        if (folder / name).is_file():
            digest.update((folder / name).read_bytes())
    said = Processes().run([trainer, "--version"], seconds=20).stdout.split("\n")[0].strip()
    return f"{said or 'unknown version'}, sha256 {digest.hexdigest()[:12]}"


def check(arguments, processes):
    """The exit code."""
    if not arguments.rehearse and (reason := no_gpu(processes)):
        print(f"gpu_check: no GPU here ({reason}); nothing was checked. --rehearse tries the stages on the CPU",
              file=sys.stderr)
        return NO_GPU
    gpu, arguments.memory = ("the CPU", None) if arguments.rehearse else this_gpu(processes)
    report = Report(arguments.out, arguments.rehearse, version_of(arguments.trainer), gpu)
    with tempfile.TemporaryDirectory(prefix="tutti-") as folder:
        for name in arguments.wanted:
            if processes.left() <= ENOUGH:
                break
            stage = report.begin(name)

            def note(result, remark="", stage=stage):
                stage["result"] = result
                if remark:
                    stage["reason"] = remark
                report.keep(stage)

            check = Check(arguments, pathlib.Path(folder), processes, note)
            run_stage(check, name, stage)
            if stage["status"] != "cut off" or "result" in stage or name not in report.stages:
                report.keep(stage)
            print(f"gpu_check: {name} {stage['status']} {stage.get('reason', '')[:200]}", file=sys.stderr, flush=True)
    report.write()
    print((arguments.out / "gpu_check.txt").read_text(encoding="utf-8"), end="")
    return 1 if report.failed() else 0


def main():
    arguments = parse()
    # Processes are ended on the way out, and the report stays as it is.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    return check(arguments, Processes(arguments.minutes))


if __name__ == "__main__":
    sys.exit(main())
