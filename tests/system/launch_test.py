"""How the program is started: bare, under mpirun with and without options, in environments that prove a mistake."""

import contextlib
import json
import pathlib
import shutil
import time

import system_test
from by_hand import free_port
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

    def test_the_folder_of_its_data_may_have_any_name(self):
        folder = self.dir / "it's \"quick\": #1"
        pathlib.Path(self.quickstart_data()["TUTTI_DATA_DIR"]).rename(folder)
        self.assert_exit(self.run_trainer(["train.max_steps=1"], env={"TUTTI_DATA_DIR": str(folder)}), 0)

    def test_a_folder_for_its_data_that_has_none_is_no_reason_to_take_others(self):
        (self.dir / "train.h5").touch()
        for folder in self.dir, self.dir / "none":
            result = self.run_trainer([], env={"TUTTI_DATA_DIR": str(folder)})
            self.assert_exit(result, 4)
            self.assertRegex(result.stderr, f"^error: TUTTI_DATA_DIR is {folder}, where there is no train.h5 with a test.h5; set it")

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

    def test_bare_the_program_makes_no_folder_that_others_of_its_kind_remove(self):
        # In /proc root makes none, either.
        self.assert_exit(self.run_trainer(["doctor"], env={"TMPDIR": "/proc/none"}), 0)

    def test_a_rank_that_is_late_for_the_start_is_named_after_distributed_timeout_or_30_s(self):
        data = self.small_data(64)
        (self.dir / "c.yaml").write_text("distributed: {timeout: 31}\n")
        # With MPI a rank that is stopped before it starts it; by hand one that never comes.
        trainer = self.trainer
        script = self.dir / "script.sh"
        script.write_text(f'#!/bin/sh\n[ "$OMPI_COMM_WORLD_RANK" != 1 ] || kill -STOP $$\nexec {self.quoted_trainer} "$@"\n')
        script.chmod(0o755)
        pair = {"WORLD_SIZE": "3", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(free_port())}
        with contextlib.ExitStack() as stack:
            by_hand = [stack.enter_context(self.start(["-c", "c.yaml", *self.settings(data, "hand")], {**pair, "RANK": rank}))
                       for rank in ("0", "1")]
            self.trainer = script
            mpi = stack.enter_context(self.start_mpirun(2, self.settings(data, "mpi", distributed__timeout=1),
                                                        per_rank_exit_codes=False))
            begin = time.monotonic()
            result = mpi.wait()
            self.assertGreater(time.monotonic() - begin, 25)  # as ranks may begin that far apart
            self.assertEqual(result.exit_code, 5, result.stderr)
            self.assertRegex(result.stderr, r"error: rank 0 on \S+ waits in MPI_Init for its peers, since \d+ s: rank 1, process "
                                            r"\d+, is stopped; .*distributed\.timeout \(1 here, at least 30 at the start\) if ")
            for job in by_hand:
                result = job.wait()
                if result.exit_code == 3 and "built without gloo" in result.stderr:
                    continue
                self.assert_exit(result, 5)
                self.assertRegex(result.stderr, r"error: rank 0 on \S+: rank 2 of 3 did not come to 127\.0\.0\.1:\d+ within "
                                                r"31 s; .*distributed\.timeout is how long to wait")
        self.assertEqual([self.dir / name for name in ("mpi", "hand") if (self.dir / name).exists()], [])

    def test_each_rank_keeps_its_exit_code_where_mpirun_ends_the_job_at_the_first(self):
        library = self.preloadable("TUTTI_SLOW_LEAVERS")
        data = self.small_data(64)
        train = self.settings(data, train__batch_size=8)
        for code, args in ((2, [*train, "train.batchsize=32"]), (4, [*train, "data.train=missing.h5"]),
                           (1, [*train, "optim.lr=1e38", "run.dir=diverges"]),
                           (75, [*train, "train.epochs=1000000", "run.walltime=1", "run.dir=stopped"])):
            with self.subTest(code=code):
                result = self.mpirun(3, [*args, "run.resume=never"], ends_job=True, options=["-x", f"LD_PRELOAD={library}"])
                self.assert_exit(result, code)
                self.assertEqual(result.exit_code, code)

    LEFT_OVER = ({"OMPI_COMM_WORLD_SIZE": "4", "OMPI_COMM_WORLD_RANK": "2"}, {"PMI_SIZE": "4", "PMI_RANK": "1"},
                 {"SLURM_STEP_NUM_TASKS": "4", "SLURM_PROCID": "2", "SLURM_STEP_ID": "0"})

    def test_variables_of_another_rank_that_are_left_over_in_a_shell_are_named(self):
        data = self.small_data(64)
        for env in self.LEFT_OVER:
            with self.subTest(env=env):
                names = " and ".join(sorted(name for name in env if name != "SLURM_STEP_ID"))
                result = self.run_trainer(self.settings(data), env=env)
                self.assert_exit(result, 3)
                self.assertRegex(result.stderr, "error: .* started 4 (ranks|tasks).*no process of .* is seen above this "
                                                f"one: if none started it, unset {names}, which are left over")
                result = self.run_trainer([*self.settings(data), "--no-such-option"], env=env)
                self.assert_exit(result, 2)
                self.assertEqual(result.stderr.count("error: --no-such-option is not an option"), 1, result.stderr)
                self.assertIn("trainer COMMAND", self.run_trainer(["--help"], env=env).stdout)
                result = self.run_trainer(["inspect", data], env=env)
                self.assert_exit(result, 0)
                self.assertIn("does nothing", result.stderr)
                self.assertIn(names, result.stderr)

    def test_ranks_of_the_launcher_of_another_mpi_are_told_once(self):
        # Each without Open MPI's own variables, so alone in MPI; and with mpirun above.
        data = self.small_data(64)
        script = self.dir / "script.sh"
        settings = " ".join(f"{name}={value}" for name, value in self.environment().items() if name.startswith("OMPI_"))
        script.write_text(f"""#!/bin/sh
rank=$OMPI_COMM_WORLD_RANK
unset $(env | sed -n 's/^\\(\\(OMPI\\|PMIX\\)_[A-Za-z_0-9]*\\)=.*/\\1/p')
export OMPI_COMM_WORLD_RANK=$rank OMPI_COMM_WORLD_SIZE=3 {settings}
exec {self.quoted_trainer} "$@"
""")
        script.chmod(0o755)
        self.trainer = script
        result = self.mpirun(3, self.settings(data))
        self.assert_exit(result, 3)
        self.assertEqual(result.stderr.count("error: mpirun started 3 ranks, but MPI sees 1"), 1, result.stderr)
        self.assertNotIn("left over", result.stderr)

    def test_several_ranks_are_told_that_one_alone_packs(self):
        images, labels = self.synthetic_idx(16, classes=4, side=8)
        result = self.mpirun(2, ["pack", "idx", "--images", images, "--labels", labels, "-o", "d.h5"])
        self.assert_exit(result, 0)
        self.assertIn("warning: trainer pack is rank 0's alone: rank 1 does nothing; start it once (with one rank)",
                      result.stderr)
        self.assertRegex(result.stderr, r"rank 1 of 2 on \S+ does nothing, and writes nothing to d\.h5; ")
        self.assertTrue((self.dir / "d.h5").exists())

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

    def test_openmp_s_binding_takes_no_core_from_a_rank(self):
        import os
        cores = sorted(os.sched_getaffinity(0))
        data = self.small_data(64)
        every = f"{{{'},{'.join(map(str, cores))}}}"
        for number, (env, places) in enumerate((({"OMP_PROC_BIND": "close"}, cores),
                                                ({"OMP_PROC_BIND": "spread", "OMP_PLACES": "cores"}, cores),
                                                ({"OMP_PLACES": every}, cores),
                                                ({"OMP_PLACES": f"{{{cores[-1]}}}"}, cores[-1:]),
                                                ({"GOMP_CPU_AFFINITY": " ".join(map(str, cores))}, cores))):
            for ranks in (1, 2):
                with self.subTest(env=env, ranks=ranks):
                    run = f"run{number}of{ranks}"
                    settings = self.settings(data, run, train__batch_size=8)
                    result = self.mpirun(ranks, settings, env=env) if ranks > 1 else self.run_trainer(settings, env=env)
                    self.assert_exit(result, 0)
                    for row in json.loads((self.dir / run / "provenance.json").read_text())["ranks"]:
                        self.assertEqual((row["cores"], row["threads"]), (places, max(1, len(places) // ranks)))


if __name__ == "__main__":
    system_test.main()
