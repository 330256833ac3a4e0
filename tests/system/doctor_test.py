"""`trainer doctor` under the launchers, and with each problem that a test can really cause."""

import json
import os
import shutil
import subprocess

import system_test
from by_hand import RendezvousTest


def may_mount():
    """May this user mount in a namespace of its own?"""
    probe = ["unshare", "--mount", "sh", "-c", "mount -t tmpfs -o size=16m tmpfs /dev/shm"]
    return shutil.which("unshare") and subprocess.run(probe, capture_output=True, check=False).returncode == 0


class Doctor(RendezvousTest):
    def diagnose(self, env=None, prefix=(), code=0):
        """The JSON of one rank."""
        with self._start([*prefix, self.trainer, "doctor", "--json"], env) as job:
            result = job.wait()
        self.assert_exit(result, code)
        return json.loads(result.stdout)

    def problem(self, env=None, prefix=()):
        """The only problem that is found; its fix must be given."""
        problems = self.diagnose(env, prefix, code=1)["problems"]
        self.assertEqual(len(problems), 1, problems)
        self.assertTrue(problems[0]["fix"])
        return problems[0]["name"], problems[0]["what"]

    def test_one_rank_is_healthy(self):
        report = self.diagnose()
        self.assertTrue(report["healthy"])
        self.assertEqual(report["launcher"], "plain")
        [rank] = report["ranks"]
        self.assertEqual(rank["cores"], sorted(os.sched_getaffinity(0)))
        self.assertIn("lo", rank["interfaces"])
        self.assertTrue(rank["libraries"]["MPI"])
        self.assertEqual(report["all_reduce"]["wrong"], 0)

    def test_the_table_names_every_rank_of_mpirun(self):
        result = self.mpirun(3, ["doctor"])
        crowded = len(os.sched_getaffinity(0)) < 3
        self.assert_exit(result, 1 if crowded else 0)
        self.assertIn("3 ranks, started by mpirun", result.stdout)
        for word in ("threads", "NUMA", "HDF5 locking", "/dev/shm", "on every rank", "64 MB in", "GB/s",
                     "[more-ranks-than-cores]" if crowded else "no problems found"):
            self.assertIn(word, result.stdout)
        self.assertRegex(result.stdout, r"(?m)^2 +\S+ +2 ")

    def test_a_rank_on_one_of_several_cores_is_hinted_at(self):
        cores = sorted(os.sched_getaffinity(0))
        for binding in "core", "none":
            with self._start([shutil.which("mpirun"), "-np", "1", "--bind-to", binding, self.trainer, "doctor", "--json"],
                             {"OMP_NUM_THREADS": ""}) as job:
                result = job.wait()
            self.assert_exit(result, 0)
            report = json.loads(result.stdout)
            [rank] = report["ranks"]
            self.assertIn(rank["launcher_cores"], (cores, []))  # none where there is a quota, or a batch system
            idle = 2 * len(rank["cores"]) <= len(rank["launcher_cores"])
            self.assertEqual([hint["name"] for hint in report["hints"]], ["cores-left-idle"] if idle else [])

    def test_without_mpi_it_says_so(self):
        self.requires_gloo()
        results = self.by_hand(2, ["doctor", "--json"])
        for result in results:
            self.assert_exit(result, 0)
        report = json.loads(results[0].stdout)
        self.assertEqual(report["all_reduce"]["backend"], "gloo")
        self.assertEqual(report["launcher"], "RANK and WORLD_SIZE")
        self.assertEqual(results[1].stdout, "")

    def test_interfaces_that_do_not_exist(self):
        for variable in ("OMPI_MCA_btl_tcp_if_include", "NCCL_SOCKET_IFNAME", "GLOO_SOCKET_IFNAME"):
            name, what = self.problem({variable: "nosuch0"})
            self.assertEqual(name, "interface-does-not-exist")
            self.assertIn(f"{variable}: no network interface nosuch0", what)
        # What selects by other means is no name.
        self.diagnose({"NCCL_SOCKET_IFNAME": "^docker", "OMPI_MCA_btl_tcp_if_include": "127.0.0.0/8"})
        self.diagnose({"NCCL_SOCKET_IFNAME": "l"})

    def test_a_binding_narrower_than_the_threads(self):
        name, what = self.problem({"OMP_NUM_THREADS": "4"}, prefix=["taskset", "-c", min(os.sched_getaffinity(0))])
        self.assertEqual(name, "binding-narrower-than-threads")
        self.assertIn("bound to 1 core, but OMP_NUM_THREADS asks for 4 threads", what)

    def test_singletons_under_srun(self):
        # A step of four tasks whose process manager MPI does not understand: each becomes a world of its own.
        name, what = self.problem({"SLURM_STEP_NUM_TASKS": "4", "SLURM_PROCID": "0", "PMI_FD": "9"})
        self.assertEqual(name, "singletons")
        self.assertIn("srun started 4 tasks, but MPI sees 1", what)

    def test_a_small_dev_shm(self):
        if not may_mount():
            self.skipTest("this user may not mount in a namespace of its own")
        small = "mount -t tmpfs -o size=16m tmpfs /dev/shm && exec \"$@\""
        name, what = self.problem(prefix=["unshare", "--mount", "sh", "-c", small, "sh"])
        self.assertEqual(name, "small-dev-shm")
        self.assertIn("has 16 MiB free", what)

    def test_locking_that_is_switched_off_is_told(self):
        [rank] = self.diagnose({"HDF5_USE_FILE_LOCKING": "FALSE"})["ranks"]
        self.assertEqual(rank["hdf5_locking"], "off (HDF5_USE_FILE_LOCKING=FALSE)")


if __name__ == "__main__":
    system_test.main()
