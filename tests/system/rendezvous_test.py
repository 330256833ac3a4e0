"""Launches that bring no MPI: ranks meet at MASTER_ADDR and MASTER_PORT, and gloo carries their collectives."""

import contextlib
import shutil
import signal
import socket
import subprocess
import sys
import unittest

import system_test
from by_hand import RendezvousTest, free_port


def torchrun():
    """The command of an installed torchrun, or nothing."""
    found = shutil.which("torchrun")
    if found:
        return [found]
    probe = subprocess.run([sys.executable, "-c", "import torch.distributed.run"], capture_output=True, check=False)
    return [sys.executable, "-m", "torch.distributed.run"] if probe.returncode == 0 else None


class Rendezvous(RendezvousTest):
    def setUp(self):
        super().setUp()
        self.requires_gloo()
        self.data = self.small_data(96)

    def two(self, run, **overrides):
        """Settings of a run on two ranks; 96 samples, 6 steps."""
        return self.settings(self.data, run, data__val=self.data, train__log_every=1, **overrides)

    def weights(self, run):
        return self.sha256(self.latest(run))

    def assert_all(self, results, code):
        for result in results:
            self.assert_exit(result, code)

    def test_the_weights_and_metrics_are_those_of_mpirun(self):
        self.assert_exit(self.mpirun(2, self.two("mpirun")), 0)
        self.assert_exit(self.mpirun(2, self.two("mpirun-gloo", distributed__backend="gloo")), 0)
        self.assert_all(self.by_hand(2, self.two("hand")), 0)
        for run in ("mpirun-gloo", "hand"):
            self.assertEqual(self.weights(run), self.weights("mpirun"), run)
            self.assertEqual(self.losses(run), self.losses("mpirun"), run)
            for ours, theirs in zip(self.metrics(run, "eval"), self.metrics("mpirun", "eval"), strict=True):
                self.assertEqual((ours["loss"], ours["accuracy"]), (theirs["loss"], theirs["accuracy"]))

    def test_four_ranks_train_to_the_bits_of_mpirun(self):
        self.assert_exit(self.mpirun(4, self.settings(self.data, "mpirun")), 0)
        self.assert_all(self.by_hand(4, self.settings(self.data, "hand")), 0)
        self.assertEqual(self.weights("hand"), self.weights("mpirun"))

    def test_one_rank_or_three_see_the_same_losses(self):
        self.assert_exit(self.run_trainer(self.settings(self.data, "one", train__batch_size=24, train__log_every=1)), 0)
        self.assert_all(self.by_hand(3, self.settings(self.data, "three", train__log_every=1)), 0)
        self.assert_all(self.by_hand(1, self.settings(self.data, "alone", train__batch_size=24, train__log_every=1)), 0)
        self.assertEqual(self.weights("alone"), self.weights("one"))
        for ours, theirs in zip(self.losses("three"), self.losses("one"), strict=True):
            self.assertAlmostEqual(ours, theirs, places=5)

    def test_srun_without_pmix_meets_at_the_first_host_of_the_step(self):
        def step(rank):
            return {"SLURM_JOB_ID": "7", "SLURM_STEP_ID": "0", "SLURM_PROCID": str(rank), "SLURM_NTASKS": "2",
                    "SLURM_STEP_NUM_TASKS": "2", "SLURM_STEP_NODELIST": "localhost", "MASTER_ADDR": "",
                    "MASTER_PORT": ""}
        self.assert_exit(self.mpirun(2, self.two("mpirun")), 0)
        self.assert_all(self.by_hand(2, self.two("srun"), environment_of=step), 0)
        self.assertEqual(self.weights("srun"), self.weights("mpirun"))

    def test_a_port_that_somebody_else_holds_is_passed_over(self):
        with socket.create_server(("127.0.0.1", 0)) as holder:
            self.assert_all(self.by_hand(2, self.two("held"), port=holder.getsockname()[1]), 0)

    def test_the_survivors_of_a_killed_rank_say_so_and_exit_with_5(self):
        args = self.settings(self.data, "long", train__epochs=100000)
        with contextlib.ExitStack() as stack:
            jobs = [stack.enter_context(job) for job in self.start_by_hand(3, args)]
            jobs[0].wait_for_metrics(self.dir / "long")
            jobs[1].signal(signal.SIGKILL)
            for rank in (0, 2):
                result = jobs[rank].wait(timeout=30)
                self.assert_exit(result, 5)
                self.assertRegex(result.stderr, f"rank {rank} on .* (waited .* for|cannot reach) its peers")

    def test_a_rank_with_bad_usage_ends_all_with_the_same_code(self):
        for result in self.by_hand(2, self.two("bad", optim__lr=-1)):
            self.assert_exit(result, 2)

    def test_the_signal_that_asks_to_stop_saves_and_resumes(self):
        args = self.settings(self.data, "stopped", train__epochs=100000)
        with contextlib.ExitStack() as stack:
            jobs = [stack.enter_context(job) for job in self.start_by_hand(2, args)]
            jobs[0].wait_for_metrics(self.dir / "stopped")
            jobs[1].signal(signal.SIGUSR1)
            self.assert_all([job.wait(timeout=60) for job in jobs], 75)
        stopped = int(self.latest("stopped").stem.removeprefix("step-"))
        self.assert_all(self.by_hand(2, self.settings(self.data, "stopped", train__epochs=100000,
                                                      train__max_steps=stopped + 3)), 0)

    def test_evaluation_and_predictions_work_the_same(self):
        self.assert_all(self.by_hand(2, self.two("run")), 0)
        args = ["--checkpoint", self.latest("run"), f"data.val={self.data}", "model.name=mlp", "model.hidden=[16]",
                f"data.train={self.data}"]
        ours = self.by_hand(3, ["eval", *args])
        self.assert_all(ours, 0)
        alone = self.run_trainer(["eval", *args])
        self.assert_exit(alone, 0)
        self.assertIn("test accuracy", alone.stdout)
        self.assertEqual(ours[0].stdout, alone.stdout)
        self.assertEqual([result.stdout for result in ours[1:]], ["", ""])

    def test_a_meeting_point_that_is_missing_is_refused_at_once(self):
        env = {"RANK": "0", "WORLD_SIZE": "4", "LOCAL_RANK": "0", "TORCHELASTIC_RUN_ID": "x"}
        result = self.run_trainer(self.two("none"), env=env)
        self.assert_exit(result, 3)
        self.assertIn("MASTER_ADDR", result.stderr)
        self.assertIn("mpirun -np 4", result.stderr)

    def test_ranks_by_hand_without_a_meeting_point_do_not_train_alone(self):
        for rank in ("0", "1"):
            result = self.run_trainer(self.two("none"), env={"RANK": rank, "WORLD_SIZE": "2", "MASTER_PORT": "29500"})
            self.assert_exit(result, 3)
            self.assertRegex(result.stderr, f"^error: RANK is {rank} and WORLD_SIZE 2, but MASTER_ADDR is not set: .*"
                                            "mpirun -np 2 trainer")
        self.assertFalse((self.dir / "none").exists())

    def test_numbers_by_hand_that_do_not_fit_together_end_every_process_with_both(self):
        cases = (((0, 3), (1, 3), (1, 3)), r"two processes are rank 1 of 3: one on \S+ and one on \S+; give each process"), \
                (((0, 3), (1, 3), (0, 3)), r"two processes are rank 0 of 3: one on \S+ and one on \S+; give each process"), \
                (((0, 3), (1, 3), (2, 4)), r"rank 2 on \S+ has WORLD_SIZE 4, and rank 0 on \S+ 3; give each process")
        for processes, expected in cases:
            with self.subTest(processes=processes), contextlib.ExitStack() as stack:
                places = [{"RANK": str(rank), "WORLD_SIZE": str(size)} for rank, size in processes]
                jobs = self.start_by_hand(3, self.two("none", distributed__timeout=31), environment_of=places.__getitem__)
                for job in [stack.enter_context(job) for job in jobs]:
                    result = job.wait(timeout=28)
                    self.assert_exit(result, 3)
                    self.assertRegex(result.stderr, "error: " + expected)
        self.assertFalse((self.dir / "none").exists())

    def test_a_name_that_does_not_resolve_ends_every_rank_with_the_remedy(self):
        name = {"MASTER_ADDR": "no-such-host.invalid"}
        for rank, result in enumerate(self.by_hand(2, self.two("none"), env=name)):
            self.assert_exit(result, 3)
            self.assertRegex(result.stderr, rf"error: rank {rank} on .* cannot resolve MASTER_ADDR=no-such-host.invalid \(.*\); "
                                            "set MASTER_ADDR to")

    def test_an_interface_that_does_not_exist_is_refused_at_once(self):
        env = {"RANK": "0", "WORLD_SIZE": "2", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(free_port()),
               "GLOO_SOCKET_IFNAME": "nosuch0"}
        result = self.run_trainer(self.two("none"), env=env)
        self.assert_exit(result, 3)
        self.assertRegex(result.stderr, "GLOO_SOCKET_IFNAME is nosuch0.*choose one of: .*lo")

    def test_a_wrong_option_ends_a_rank_started_alone_though_the_others_never_come(self):
        env = {"RANK": "0", "WORLD_SIZE": "2", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(free_port())}
        with self._start([self.trainer, "train", "--no-such-option"], env) as job:
            result = job.wait(timeout=120)
        self.assert_exit(result, 2)
        self.assertEqual(result.stderr.count("error: "), 1, result.stderr)

    def test_the_mpi_backend_is_refused_where_there_is_no_mpi(self):
        for result in self.by_hand(2, self.two("mpi", distributed__backend="mpi")):
            self.assert_exit(result, 2)
        self.assertFalse((self.dir / "mpi").exists())


@unittest.skipUnless(torchrun(), "torchrun is not installed")
class Torchrun(RendezvousTest):
    def setUp(self):
        super().setUp()
        self.requires_gloo()
        self.data = self.small_data(96)

    def torchrun(self, options, args):
        command = [*torchrun(), *options, "--nproc_per_node=2", "-r", "1", "-t", "1", "--log_dir", self.dir / "logs",
                   "--no_python", self.trainer, *args]
        with self._start(command, {"PYTHONWARNINGS": "ignore"}) as job:
            result = job.wait(timeout=120)
        self.assert_exit(result, 0)

    def test_the_weights_are_those_of_mpirun(self):
        self.assert_exit(self.mpirun(2, self.settings(self.data, "mpirun")), 0)
        self.torchrun(["--master_addr=127.0.0.1", f"--master_port={free_port()}"], self.settings(self.data, "agent"))
        self.torchrun(["--standalone"], self.settings(self.data, "standalone"))
        hashes = [self.sha256(self.latest(run)) for run in ("mpirun", "agent", "standalone")]
        self.assertEqual(hashes[1:], hashes[:1] * 2)


if __name__ == "__main__":
    system_test.main()
