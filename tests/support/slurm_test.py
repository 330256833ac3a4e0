"""Tests on a real Slurm cluster of this machine (mini_slurm): `nodes`, `cores` and `gpus` of the class say its size.

    class Step(slurm_test.SlurmTest):
        def test_srun_starts_four_ranks(self):
            result = self.srun(["--nodes=2", "--ntasks-per-node=2"], [self.trainer, *self.settings(data)])
            self.assertEqual(result.exit_code, 0)

        def test_a_job(self):
            job = self.sbatch([], "jobs/mnist/mnist_2x2.sbatch", ["train.epochs=1"])
            self.assertEqual(self.wait_for(job).exit_code, 0)

The cluster comes up once per class, in half a second, and ends with it. Classes skip where Slurm is not installed or
cannot run.
"""

import os
import re
import shutil
import time
import unittest

import private_machine
import system_test
from recipes import TrainingTest

MINI_SLURM = private_machine.HERE / "mini_slurm"
TIMEOUT = 120
ENDED = ("COMPLETED", "FAILED", "CANCELLED", "TIMEOUT", "NODE_FAIL")


class SlurmTest(TrainingTest):
    nodes, cores, gpus = 2, 4, 2

    @classmethod
    def setUpClass(cls):
        if shutil.which("slurmctld") is None or shutil.which("slurmd") is None:
            raise unittest.SkipTest("Slurm is not installed (slurmctld slurmd slurm-client munge)")
        cls.machine = private_machine.start(cls)
        cls.cluster = cls.machine.folder / "slurm"
        up = cls.machine.run([MINI_SLURM, "up", cls.cluster, "-n", cls.nodes, "-c", cls.cores, "-g", cls.gpus])
        if up.returncode == 3:
            raise unittest.SkipTest(up.stderr)
        if up.returncode != 0:
            raise AssertionError(f"Slurm does not come up:\n{up.stderr[-4000:]}")

    def slurm(self, command, env=None, timeout=TIMEOUT):
        """Runs a command as a user of the cluster, in self.dir; a Result."""
        clean = {name: value for name, value in self.environment().items() if not name.startswith("OMPI_")}
        clean.update(env or {})
        done = self.machine.run([MINI_SLURM, "run", self.cluster, "env", "-C", self.dir, *command], timeout, env=clean)
        return system_test.Result(done.returncode, done.stdout, done.stderr, [])

    def srun(self, options, command, **more):
        return self._until_mpi_starts(lambda: self.slurm(["srun", *options, *command], **more))

    def run_job(self, submit):
        """Submits with submit(), which returns the job's number, and waits for the end: (number, Result)."""
        jobs = []

        def once():
            jobs.append(submit())
            return self.wait_for(jobs[-1])

        result = self._until_mpi_starts(once)
        return jobs[-1], result

    @staticmethod
    def _mpi_crashed(said):
        """Open MPI 4.1.4 crashes now and then in MPI_Init (a null callback in mca_btl_tcp) when srun starts many ranks
        on few cores: 1 of 6 starts of 16 ranks on 2 cores. Nothing of the program has run then; it is started again."""
        starts = re.split(r"restart \d", said)  # jobs that are requeued say so between their starts
        return any("Segmentation fault" in start and "tutti " not in start for start in starts)

    def _until_mpi_starts(self, run):
        for _ in range(6):
            result = run()
            if not self._mpi_crashed(result.stdout + result.stderr):
                break
        return result

    @staticmethod
    def _srun_stays(said):
        """Slurm 22.05's srun for several components of a job was seen to stay when all tasks of all of them had exited, as
        it says itself at the end of --wait. Of a task that does not end it says "running"."""
        return "srun: First task exited" in said and ": exited" in said and ": running" not in said

    def until_srun_ends(self, run):
        """run(), which starts tasks with --wait; again where srun stayed behind them."""
        for attempt in range(3):
            try:
                return run()
            except AssertionError as error:
                if attempt == 2 or not self._srun_stays(str(error)):
                    raise
                self.slurm(["scancel", f"--user={os.geteuid()}"])

    def requeue(self, scenario):
        """Runs scenario(run), which submits a job with this run.dir, lets it be requeued and looks at what it did;
        once more, with another directory, where it failed since Open MPI did not start."""
        for attempt in range(6):
            try:
                return scenario(f"run{attempt}")
            except AssertionError:
                outputs = list(self.dir.glob("slurm-*.out"))
                if not any(self._mpi_crashed(path.read_text(errors="replace")) for path in outputs):
                    raise
                for path in outputs:
                    path.unlink()
        return self.fail("Open MPI crashed in each of six starts")

    def sbatch(self, options, script, arguments=(), **more):
        """Submits a script; the job's number."""
        result = self.slurm(["sbatch", "--parsable", f"--output={self.dir}/slurm-%j.out", "--open-mode=append",
                             *options, script, *arguments], **more)
        self.assertEqual(result.exit_code, 0, result.stderr)
        return int(result.stdout.split(";")[0])

    def write_script(self, lines, name="job.sh"):
        path = self.dir / name
        path.write_text("#!/bin/bash\n" + "\n".join(lines) + "\n")
        return path

    def facts(self, job):
        """What scontrol says of a job, as a map: NumNodes, NumTasks, Requeue, JobState, ExitCode, …"""
        shown = self.slurm(["scontrol", "show", "job", job]).stdout
        return dict(re.findall(r"(\S+?)=(.*?)(?=\s+[A-Za-z/:]+=|\s*$)", shown, re.M))

    def output(self, job):
        path = self.dir / f"slurm-{job}.out"
        return path.read_text(errors="replace") if path.exists() else ""

    def wait_until_job(self, job, condition, timeout=TIMEOUT):
        """Until condition(facts) holds; what the facts were then. A job that ends before fails the test at once."""
        deadline = time.monotonic() + timeout
        while True:
            facts = self.facts(job)
            if condition(facts):
                return facts
            over = facts.get("JobState") in ENDED
            if over or time.monotonic() > deadline:
                when = "before its end" if over else f"within {timeout} s"
                self.fail(f"job {job} not {when}: {facts}\n{self.output(job)[-4000:]}")
            time.sleep(0.1)

    def wait_until_requeued(self, job, timeout=TIMEOUT):
        self.wait_until_job(job, lambda facts: facts.get("Restarts") == "1" and facts["JobState"] == "PENDING", timeout)

    def start_requeued(self, job, timeout=TIMEOUT):
        """Waits until a job is requeued and its first run is gone from the nodes, which refuse a second copy of a job;
        then starts it again without Slurm's pause of two minutes."""
        self.wait_until_requeued(job, timeout)
        deadline = time.monotonic() + timeout
        while set(self.slurm(["sinfo", "-h", "-N", "-o", "%T"]).stdout.split()) != {"idle"}:
            self.assertLess(time.monotonic(), deadline, "the first run does not leave the nodes")
            time.sleep(0.1)
        # slurmd revoked the job's credential; it takes one of the same second for the revoked one.
        revoked = int(time.time())
        while int(time.time()) <= revoked + 1:
            time.sleep(0.1)
        result = self.slurm(["scontrol", "update", f"jobid={job}", "StartTime=now"])
        self.assertEqual(result.exit_code, 0, result.stderr)

    def wait_for(self, job, timeout=TIMEOUT):
        """Waits for a job's end; a Result whose stdout is the job's output."""
        # A shell inside looks, not often: scontrol alone takes some hundredths of a second of the two cores that the
        # job needs, and entering the machine for each look more.
        until = 'until scontrol show job "$0" | grep -Eq "JobState=($1) "; do sleep 0.3; done'
        self.slurm(["timeout", timeout, "sh", "-c", until, job, "|".join(ENDED)], timeout=timeout + 20)
        facts = self.wait_until_job(job, lambda seen: seen.get("JobState") in ENDED, timeout=1)
        code, ended_by = (int(part) for part in facts["ExitCode"].split(":"))
        return system_test.Result(code or (128 + ended_by if ended_by else 0), self.output(facts["JobId"]), "", [])
