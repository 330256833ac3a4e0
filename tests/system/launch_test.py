"""How the program is started: bare, under mpirun with and without options, in environments that prove a mistake."""

import json
import pathlib
import shutil

import system_test
from recipes import TrainingTest


class Launch(TrainingTest):
    def quickstart_data(self):
        """A folder with a slice of Fashion-MNIST for the built-in recipe."""
        folder = self.dir / "quick"
        folder.mkdir()
        self.pack(*self.fashion_mnist(600), name="quick/train.h5")
        self.pack(*self.fashion_mnist(200, "test"), name="quick/test.h5")
        return {"TUTTI_DATA_DIR": str(folder)}

    def test_without_arguments_one_rank_trains_the_built_in_recipe(self):
        result = self.run_trainer([], env=self.quickstart_data())
        self.assert_exit(result, 0)
        self.assertRegex(result.stdout, r"test accuracy 0\.\d{4} \(\d+ of 200\)\n$")
        self.assertTrue((self.dir / "runs/quickstart/metrics.jsonl").exists())

    def test_where_its_data_cannot_be_packed_to_the_built_in_recipe_names_the_variable(self):
        # Elsewhere than where jobs/quickstart.sh packs them.
        (self.dir / "bin").mkdir()
        self.trainer = shutil.copy(self.trainer, self.dir / "bin")
        self.fashion_mnist(1)  # skips where the data are not installed
        (self.dir / "file").touch()
        result = self.run_trainer([], env={"TUTTI_CACHE": "file"})
        self.assert_exit(result, 4)
        self.assertEqual(result.stderr, "error: the data of the quick-start recipe are packed to file/fashion_mnist, which "
                         "cannot be made: Not a directory; set TUTTI_CACHE to a folder that can be written, or TUTTI_DATA_DIR "
                         "to one with train.h5 and test.h5\n")

    def test_map_by_socket_pe_4_trains_the_built_in_recipe_on_a_synthetic_machine(self):
        # Two sockets of four cores that this machine need not have: mpirun maps by them, and does not bind.
        topology = {"HWLOC_SYNTHETIC": "package:2 core:4 pu:1", "HWLOC_THISSYSTEM": "0"}
        result = self.mpirun(2, [], options=["--map-by", "socket:PE=4"], env={**self.quickstart_data(), **topology})
        self.assert_exit(result, 0)
        document = json.loads((self.dir / "runs/quickstart/provenance.json").read_text())
        self.assertEqual(document["world_size"], 2)

    def test_bare_the_program_is_rank_0_of_1_also_inside_an_allocation(self):
        data = self.small_data(64)
        slurm = {"SLURM_JOB_ID": "7", "SLURM_NTASKS": "4", "SLURM_PROCID": "0"}
        self.assert_exit(self.run_trainer(self.settings(data), env=slurm), 0)

    def test_bare_the_program_starts_no_daemon(self):
        data = self.small_data(64)
        with self.start(self.settings(data, train__epochs=100000, train__log_every=1)) as job:
            job.wait_for_metrics(self.dir / "run")
            children = pathlib.Path(f"/proc/{job.process.pid}/task/{job.process.pid}/children").read_text().split()
            self.assertEqual([pathlib.Path(f"/proc/{pid}/comm").read_text() for pid in children], [])

    def test_threads_follow_the_bound_cores(self):
        import os
        cores = sorted(os.sched_getaffinity(0))
        data = self.small_data(64)
        self.assert_exit(self.run_trainer(self.settings(data)), 0)
        document = json.loads((self.dir / "run/provenance.json").read_text())
        self.assertEqual(document["ranks"][0]["threads"], len(cores))
        self.assert_exit(self.mpirun(2, self.settings(data, "two", train__batch_size=8)), 0)
        document = json.loads((self.dir / "two/provenance.json").read_text())
        self.assertEqual([row["threads"] for row in document["ranks"]], [max(1, len(cores) // 2)] * 2)


if __name__ == "__main__":
    system_test.main()
