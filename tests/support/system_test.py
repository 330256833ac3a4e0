"""Tests of the real program, alone and under mpirun, as Python unittest cases that print TAP (see tap.py).

    import system_test

    class Training(system_test.SystemTest):
        def test_the_loss_does_not_depend_on_the_number_of_ranks(self):
            data = self.pack(*self.synthetic_idx(256))
            losses = []
            for ranks in (1, 2, 4):
                result = self.mpirun(ranks, [f"data.train={data}", f"run.dir={self.dir}/run{ranks}",
                                             f"train.batch_size={64 // ranks}", "model.name=lenet"])
                self.assert_exit(result, 0)
                losses.append(self.metrics(self.dir / f"run{ranks}", "step")[-1]["loss"])
            self.assertAlmostEqual(losses[0], losses[1], places=12)

        def test_a_killed_peer_ends_all_ranks_with_5(self):
            with self.start_mpirun(3, ["-c", "long.yaml"]) as job:
                job.wait_until(lambda: "step 1" in job.stdout())
                job.signal_rank(1, signal.SIGKILL)
                result = job.wait(timeout=60)
            self.assertEqual(result.exit_codes, [5, 137, 5])

        def test_real_data(self):
            images, labels = self.fashion_mnist(1000)     # skips the test where the data set is not installed

    if __name__ == "__main__":
        system_test.main()

The program is $TUTTI_TRAINER, else build/trainer. Every test has a folder of its own, `self.dir`, in which everything
runs (relative paths are relative to it), which holds Open MPI's session, too, and which is removed afterwards.
Nothing of a launcher that may be around the tests (Slurm, mpirun, torchrun, OMP_*) reaches the program.
"""

import gzip
import json
import os
import pathlib
import random
import shlex
import shutil
import signal
import struct
import subprocess
import tempfile
import time
import unittest
from collections import namedtuple

from tap import main  # noqa: F401  (part of this module's interface)

FASHION_MNIST = pathlib.Path("/usr/share/datasets/fashion-mnist")
TIMEOUT = 120  # seconds; generous, because only a hang should reach it

# exit_code: of the program, or of mpirun. exit_codes: one per rank, None for a rank that could not record it (killed
# together with its wrapper); empty without mpirun or without per_rank_exit_codes. 128 + n: ended by signal n.
Result = namedtuple("Result", "exit_code stdout stderr exit_codes")

# Runs one rank and records its process id and exit code. Open MPI ends the whole job as soon as one of its direct
# children ends without MPI_Finalize; so the wrapper waits until all ranks have recorded theirs, and reports success.
# With ENDS_JOB it ends at once, as its rank has, and mpirun does to the job what it does to one of users.
# It survives the signals that mpirun passes on to the rank's process group, because they are meant for the program.
_WRAPPER = """
trap : TERM INT USR1 USR2
rank=$OMPI_COMM_WORLD_RANK
sh -c 'echo $$ > "$1.part"; mv "$1.part" "$1"; shift; exec "$@"' sh "$RECORD/pid-$rank" "$@"
code=$?
if [ "$ENDS_JOB" ]; then echo $code > "$RECORD/exit-$rank"; exit $code; fi
echo $code > "$RECORD/part-$rank"
mv "$RECORD/part-$rank" "$RECORD/exit-$rank"
tries=0
while [ $tries -lt 1500 ]; do
    set -- "$RECORD"/exit-*
    [ $# -eq "$OMPI_COMM_WORLD_SIZE" ] && break
    sleep 0.02
    tries=$((tries + 1))
done
exit 0
"""

_FOREIGN = ("OMPI_", "PMIX_", "PMI_", "SLURM_", "OMP_", "GOMP_", "TORCHELASTIC_", "MASTER_", "LOCAL_", "TUTTI_")
_FOREIGN_NAMES = ("RANK", "WORLD_SIZE", "GROUP_RANK", "ROLE_RANK")


def trainer_path():
    root = pathlib.Path(__file__).resolve().parents[2]
    return pathlib.Path(os.environ.get("TUTTI_TRAINER", root / "build" / "trainer")).resolve()


def session_processes(session):
    """Ids of the processes of a session. Ranks have their own process groups, but stay in mpirun's session."""
    found = []
    for entry in os.listdir("/proc"):
        if entry.isdigit():
            try:
                with open(f"/proc/{entry}/stat", encoding="utf-8", errors="replace") as file:
                    fields = file.read().rpartition(")")[2].split()
            except OSError:
                continue  # ended meanwhile
            if int(fields[3]) == session and fields[0] != "Z":
                found.append(int(entry))
    return found


class Job:
    """A running program or mpirun. As a context manager it leaves no process behind."""

    def __init__(self, command, folder, environment, ranks=0):
        self.command = [str(part) for part in command]
        self.folder = folder
        self.ranks = ranks  # of which exit codes are recorded
        with open(folder / "stdout", "wb") as out, open(folder / "stderr", "wb") as err:
            self.process = subprocess.Popen(self.command, cwd=environment["PWD"], env=environment, stdout=out,
                                            stderr=err, stdin=subprocess.DEVNULL, start_new_session=True)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.end()

    def _read(self, name):
        return (self.folder / name).read_text(encoding="utf-8", errors="replace")

    def stdout(self):
        """What was written until now."""
        return self._read("stdout")

    def stderr(self):
        return self._read("stderr")

    def said(self):
        """Command and output, for messages of failed tests."""
        return (f"command: {' '.join(self.command)}\n--- stdout\n{self.stdout()[-4000:]}\n"
                f"--- stderr\n{self.stderr()[-4000:]}")

    def rank_pid(self, rank, timeout=30):
        """Process id of a rank's program (needs per_rank_exit_codes)."""
        path = self.folder / f"pid-{rank}"
        self.wait_until(path.exists, timeout)
        return int(path.read_text())

    def signal(self, number):
        """To the program, or to mpirun, which passes on SIGUSR1, SIGUSR2 and SIGTERM."""
        self.process.send_signal(number)

    def signal_rank(self, rank, number):
        os.kill(self.rank_pid(rank), number)

    def wait_until(self, condition, timeout=TIMEOUT):
        """Until condition() is true; fails when the job ends before, or does not get there in time."""
        deadline = time.monotonic() + timeout
        while not condition():
            if self.process.poll() is not None and not condition():
                raise AssertionError(f"ended with {self.process.returncode} too early\n{self.said()}")
            if time.monotonic() > deadline:
                raise AssertionError(f"not within {timeout} s\n{self.said()}")
            time.sleep(0.02)

    def wait_for_metrics(self, run, lines=1):
        """Until metrics.jsonl of this run directory holds so many lines."""
        metrics = pathlib.Path(run) / "metrics.jsonl"
        self.wait_until(lambda: metrics.exists() and metrics.read_text().count("\n") >= lines)

    def wait(self, timeout=TIMEOUT):
        """The result; a job that takes longer is ended and fails the test."""
        deadline = time.monotonic() + timeout
        while self.process.poll() is None:  # Popen.wait with a timeout looks only every 50 ms
            if time.monotonic() > deadline:
                self.end()
                raise AssertionError(f"timed out after {timeout} s\n{self.said()}")
            time.sleep(0.004)
        codes = [self._exit_code(rank) for rank in range(self.ranks)]
        code = self.process.returncode
        return Result(code if code >= 0 else 128 - code, self.stdout(), self.stderr(), codes)

    def _exit_code(self, rank):
        path = self.folder / f"exit-{rank}"
        return int(path.read_text()) if path.exists() else None

    def end(self):
        """Ends every process of the job: politely, so that mpirun cleans up, then by force."""
        if self.process.poll() is None:
            self.process.terminate()
            try:
                self.process.wait(5)
            except subprocess.TimeoutExpired:
                pass
        deadline = time.monotonic() + 10
        while time.monotonic() < deadline:
            left = session_processes(self.process.pid)
            if not left:
                break
            for pid in left:
                try:
                    os.kill(pid, signal.SIGKILL)
                except ProcessLookupError:
                    pass
            time.sleep(0.02)
        self.process.wait()


class SystemTest(unittest.TestCase):
    """Base class; gives each test `self.dir` (a pathlib.Path) and the helpers below."""

    def setUp(self):
        self.trainer = trainer_path()
        if not os.access(self.trainer, os.X_OK):
            self.fail(f"{self.trainer} is missing: build it, or set TUTTI_TRAINER")
        # Directly in /tmp: sockets of Open MPI lie below it, and their paths may have 107 characters at most.
        folder = tempfile.TemporaryDirectory(prefix="tutti-", dir="/tmp", ignore_cleanup_errors=True)
        self.addCleanup(folder.cleanup)
        self.dir = pathlib.Path(folder.name)
        self._records = self.dir / ".jobs"
        self._records.mkdir()
        self._jobs = 0

    @property
    def quoted_trainer(self):
        """The program as one word of a shell's text: there may be a space in its path."""
        return shlex.quote(str(self.trainer))

    def preloadable(self, variable):
        """The library that the build makes and this variable names, by a path for LD_PRELOAD, which ends at a space."""
        library = os.environ.get(variable)
        if not library:
            self.skipTest(f"{variable} does not name the library that the build makes for this test")
        link = self.dir / pathlib.Path(library).name
        if not link.is_symlink():
            link.symlink_to(pathlib.Path(library).resolve())
        return link

    def environment(self, extra=None):
        """The tests' environment without any launcher's variables, and with Open MPI kept inside self.dir."""
        clean = {name: value for name, value in os.environ.items()
                 if not name.startswith(_FOREIGN) and name not in _FOREIGN_NAMES}
        clean.update({
            "PWD": str(self.dir), "TMPDIR": str(self.dir),
            "OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
            "OMPI_MCA_btl": "self,vader", "OMPI_MCA_oob_tcp_if_include": "lo",
            "OMPI_MCA_btl_vader_backing_directory": str(self.dir),
            "OMPI_MCA_btl_vader_single_copy_mechanism": "none",  # containers forbid it
            "OMPI_MCA_hwloc_base_binding_policy": "none", "OMPI_MCA_rmaps_base_oversubscribe": "1",
            "OMPI_MCA_mpi_yield_when_idle": "1",
        })
        clean.update(extra or {})
        return clean

    def _start(self, command, env, ranks=0):
        folder = self._records / str(self._jobs)
        self._jobs += 1
        folder.mkdir()
        if ranks:
            (folder / "rank.sh").write_text(_WRAPPER)
        # Two of Open MPI that begin and end at one time take each other's folder away (session_dir.c).
        environment = self.environment({"RECORD": str(folder), "TMPDIR": str(folder), **(env or {})})
        command = [folder / "rank.sh" if part is _WRAPPER else part for part in command]
        job = Job(command, folder, environment, ranks)
        self.addCleanup(job.end)
        return job

    def start(self, args, env=None):
        """Starts the program without mpirun; a Job."""
        return self._start([self.trainer, *args], env)

    def start_mpirun(self, ranks, args, per_rank_exit_codes=True, options=(), env=None, ends_job=False):
        """Starts the program under mpirun; a Job. Without per_rank_exit_codes mpirun sees the ranks as they are, and
        ends the job when one of them fails; with ends_job it does so, too, and yet their codes are recorded. options:
        more of mpirun's."""
        mpirun = shutil.which("mpirun")
        if mpirun is None:
            self.skipTest("mpirun is not installed")
        command = [mpirun, "-np", ranks, "--oversubscribe", "--bind-to", "none", *options]
        if per_rank_exit_codes:
            # The wrapper is what mpirun sees: its explanations about processes that end early would only mislead.
            command += ["--quiet", "sh", _WRAPPER]
        if ends_job:
            env = {**(env or {}), "ENDS_JOB": "yes"}
        return self._start([*command, self.trainer, *args], env, ranks if per_rank_exit_codes else 0)

    def run_trainer(self, args, timeout=TIMEOUT, env=None):
        """Runs the program without mpirun; a Result."""
        with self.start(args, env) as job:
            return job.wait(timeout)

    def mpirun(self, ranks, args, per_rank_exit_codes=True, timeout=TIMEOUT, options=(), env=None, ends_job=False):
        """Runs the program under mpirun; a Result."""
        with self.start_mpirun(ranks, args, per_rank_exit_codes, options, env, ends_job) as job:
            return job.wait(timeout)

    def assert_exit(self, result, code):
        """The program, and each rank when recorded, ended with this code."""
        codes = result.exit_codes or [result.exit_code]
        if any(found != code for found in codes):
            self.fail(f"exit code {codes}, expected {code}\n--- stdout\n{result.stdout[-4000:]}\n"
                      f"--- stderr\n{result.stderr[-4000:]}")

    def assert_leaves_nothing_when_interrupted(self, arguments):
        """A bench on two ranks that writes to "out": one rank gets SIGTERM, all end, and no file is there."""
        with self.start_mpirun(2, arguments) as job:
            job.wait_until(lambda: (self.dir / "out").is_dir())
            job.signal_rank(1, signal.SIGTERM)
            result = job.wait(timeout=60)
        self.assert_exit(result, 1)
        self.assertIn("signal", result.stderr)
        self.assertEqual(os.listdir(self.dir / "out"), [])

    def fashion_mnist(self, count, split="train"):
        """The first `count` images of Fashion-MNIST's "train" or "test" as IDX files: (images, labels)."""
        prefix = {"train": "train", "test": "t10k"}[split]
        parts = []
        for kind, header in (("images-idx3", 16), ("labels-idx1", 8)):
            source = FASHION_MNIST / f"{prefix}-{kind}-ubyte.gz"
            if not source.exists():
                self.skipTest(f"{source} is missing (Debian package dataset-fashion-mnist)")
            with gzip.open(source) as file:
                head = file.read(header)
                size = 1 if header == 8 else 28 * 28
                parts.append(head[:4] + struct.pack(">I", count) + head[8:] + file.read(count * size))
        return self._write_idx(f"fashion-{split}-{count}", *parts)

    def synthetic_idx(self, count, classes=10, side=28, seed=0):
        """`count` noisy images as IDX files, (images, labels): class k has a bright bar at a place of its own, which
        any model learns at once. Sample i has the class i % classes."""
        numbers = random.Random(seed)
        noise = bytes(value // 4 for value in range(256))
        images = bytearray(struct.pack(">IIII", 0x803, count, side, side))
        for index in range(count):
            image = bytearray(numbers.randbytes(side * side).translate(noise))
            begin = (index % classes) * side * side // classes
            length = max(1, side * side // classes)
            image[begin:begin + length] = bytes(255 - value for value in image[begin:begin + length])
            images += image
        labels = struct.pack(">II", 0x801, count) + bytes(index % classes for index in range(count))
        return self._write_idx(f"synthetic-{count}-{classes}-{side}-{seed}", bytes(images), labels)

    def _write_idx(self, name, images, labels):
        paths = self.dir / f"{name}-images-idx3-ubyte", self.dir / f"{name}-labels-idx1-ubyte"
        paths[0].write_bytes(images)
        paths[1].write_bytes(labels)
        return paths

    def pack(self, images, labels, name="data.h5", options=()):
        """Packs IDX files into self.dir / name and returns its path."""
        target = self.dir / name
        result = self.run_trainer(["pack", "idx", "--images", images, "--labels", labels, "-o", target, *options])
        self.assert_exit(result, 0)
        return target

    def metrics(self, run_dir, kind=None):
        """The objects of a run's metrics.jsonl; kind "step" or "eval": only these."""
        lines = (self.dir / run_dir / "metrics.jsonl").read_text(encoding="utf-8").splitlines()
        rows = [json.loads(line) for line in lines]
        return [row for row in rows if kind is None or row["type"] == kind]
