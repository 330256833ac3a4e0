"""Launched by a real Slurm, over two nodes: the same training as under mpirun and bare, preemption, launch mistakes."""

import json
import pathlib
import shlex

import slurm_test

import system_test

JOBS = pathlib.Path(__file__).resolve().parents[2] / "jobs"
TWO_BY_TWO = ["--nodes=2", "--ntasks-per-node=2"]


class SlurmLaunch(slurm_test.SlurmTest):
    def places(self, run):
        """(host, local rank) of each rank."""
        document = json.loads((self.dir / run / "provenance.json").read_text())
        return [(row["host"], row["local_rank"]) for row in document["ranks"]]

    def launcher(self, run):
        return json.loads((self.dir / run / "provenance.json").read_text())["launcher"]

    def weights(self, run):
        return self.sha256(run)

    def recipe(self, data, ranks=4, **more):
        """Arguments for the same training on any number of ranks."""
        given = {"train__batch_size": 32 // ranks, "train__log_every": 1, "train__epochs": 2, **more}
        return self.settings(data, "run", **given)[:1] + self.settings(data, "run", **given)[2:]

    def in_run(self, run):
        return [f"run.dir={self.dir / run}"]

    def test_srun_with_pmix_connects_two_tasks_on_each_of_two_nodes(self):
        data = self.small_data()
        result = self.srun(["--mpi=pmix", *TWO_BY_TWO],
                           [self.trainer, *self.recipe(data), *self.in_run("run")])
        self.assertEqual(result.exit_code, 0, result.stderr)
        self.assertEqual(self.places("run"), [("node1", 0), ("node1", 1), ("node2", 0), ("node2", 1)])
        self.assertEqual(self.launcher("run"), "srun")

    def test_a_job_may_be_submitted_from_a_step(self):
        """sbatch hands on the step's variables, of which PMIx's would have MPI look for the step's server."""
        data = self.small_data()
        bare = shlex.join(str(word) for word in (self.trainer, *self.recipe(data, 1), *self.in_run("bare")))
        run_sh = shlex.join(str(word) for word in (JOBS / "run.sh", *self.recipe(data, 1), *self.in_run("run_sh")))
        script = self.write_script([f"{bare} && {run_sh}; echo code $?"])
        output = self.dir / "inner.out"
        step = self.srun(["--mpi=pmix", "--ntasks=2"], ["sh", "-c", f"[ $SLURM_PROCID != 0 ] || sbatch --parsable --ntasks=1 -o {output} {script}"],
                         env={"TUTTI_TRAINER": str(self.trainer)})
        self.assertEqual(step.exit_code, 0, step.stderr)
        job = int(step.stdout.split(";")[0])
        self.wait_until_job(job, lambda facts: facts["JobState"] == "COMPLETED")
        said = output.read_text()
        self.assertIn("code 0", said, said)
        self.assertEqual((self.launcher("bare"), self.launcher("run_sh")), ("plain", "srun"))

    def test_all_launches_train_the_same(self):
        data = self.small_data()
        recipe = self.recipe(data, train__precision="fp64")
        self.assert_exit(self.mpirun(4, [*recipe, *self.in_run("mpirun")]), 0)
        self.assert_exit(self.run_trainer([*self.recipe(data, 1, train__precision="fp64"), *self.in_run("bare")]), 0)
        train = shlex.join(str(word) for word in (self.trainer, *recipe))
        step = self.srun(["--mpi=pmix", *TWO_BY_TWO], [self.trainer, *recipe, *self.in_run("srun")])
        self.assertEqual(step.exit_code, 0, step.stderr)
        gloo = self.srun(["--mpi=none", *TWO_BY_TWO], [self.trainer, *recipe, *self.in_run("gloo")])
        same = ["srun"] if gloo.exit_code == 3 else ["srun", "gloo"]  # 3: this build is without gloo
        if "gloo" in same:
            self.assertEqual(gloo.exit_code, 0, gloo.stderr)
        jobs = {"sbatch_srun": f"srun --mpi=pmix {train} {self.in_run('sbatch_srun')[0]}",
                "sbatch_mpirun": f"mpirun {train} {self.in_run('sbatch_mpirun')[0]}"}
        for name, line in jobs.items():
            script = self.write_script([line], name + ".sh")
            _, result = self.run_job(lambda script=script: self.sbatch(TWO_BY_TWO, script))
            self.assertEqual(result.exit_code, 0, result.stdout)
            self.assertEqual([host for host, _ in self.places(name)], ["node1", "node1", "node2", "node2"])
        self.assertEqual(self.launcher("sbatch_mpirun"), "mpirun")

        # On four ranks the launcher changes no bit; on one, only the rounding of the sums.
        for name in (*same, *jobs):
            self.assertEqual(self.weights(name), self.weights("mpirun"), name)
            self.assertEqual(self.losses(name), self.losses("mpirun"), name)
        for alone, together in zip(self.losses("bare"), self.losses("mpirun"), strict=True):
            self.assertAlmostEqual(alone, together, places=12)

    def test_a_killed_task_of_another_node_ends_the_step_at_once(self):
        """srun itself waits for the other tasks, and MPI for the one that is gone."""
        program = self.write_script([
            f'[ "$SLURM_PROCID" = 1 ] || exec {self.quoted_trainer} "$@"', f'{self.quoted_trainer} "$@" &', "tries=0",
            f"""until grep -q '"step": 20,' {self.dir}/run/metrics.jsonl 2> /dev/null || [ $tries -eq 600 ]; do""",
            "sleep 0.05; tries=$((tries + 1)); done", "kill -KILL $!", "wait $!"])
        result = self.srun(["--mpi=pmix", "--nodes=2", "--ntasks-per-node=1"],
                           ["bash", program, *self.recipe(self.small_data(), 2, train__epochs=100000), *self.in_run("run")])
        self.assertNotEqual(result.exit_code, 0)
        self.assertRegex(result.stderr, r"error: .*rank 0 on node1 waited \d\.\d s for its peers.*: rank 1 on node2.* has ended")

    def test_a_preempted_job_saves_and_the_requeued_one_goes_on_to_the_same_weights(self):
        data = self.small_data(2000)
        recipe = self.recipe(data, train__epochs=1000000, train__checkpoint__every="never")
        train = shlex.join(str(word) for word in (self.trainer, *recipe))
        end = self.dir / "end"

        def preempt(run):
            # The end is set only when the job has been told to stop, so that no machine is too quick for the signal.
            end.write_text("")
            script = self.write_script([f"srun --mpi=pmix {train} {self.in_run(run)[0]} $(cat {end})", "code=$?",
                                        "echo restart ${SLURM_RESTART_COUNT:-0} code $code",
                                        "[ $code = 75 ] && scontrol requeue $SLURM_JOB_ID", "exit $code"])
            job = self.sbatch([*TWO_BY_TWO, "--requeue"], script)
            metrics = self.dir / run / "metrics.jsonl"
            self.wait_until_job(job, lambda _: metrics.exists() and metrics.stat().st_size > 2000)
            self.assertEqual(self.slurm(["scancel", "--signal=USR1", job]).exit_code, 0)
            self.wait_until_requeued(job)
            stopped = int(self.latest(run).stem.removeprefix("step-"))
            end.write_text(f"train.max_steps={stopped + 500}")
            self.start_requeued(job)
            self.assertIn("restart 0 code 75", self.output(job))
            result = self.wait_for(job)
            self.assertEqual(result.exit_code, 0, result.stdout)
            self.assertIn("restart 1 code 0", result.stdout)
            self.assertEqual(len(self.losses(run)), stopped + 500)
            return run

        run = self.requeue(preempt)
        self.assert_exit(self.mpirun(4, [*recipe, *self.in_run("whole"), end.read_text()]), 0)
        self.assertEqual(self.losses(run), self.losses("whole"))
        self.assertEqual(self.weights(run), self.weights("whole"))

    def test_srun_without_pmix_trains_together_or_says_how_to_start(self):
        data = self.small_data(64)
        result = self.srun(["--mpi=none", *TWO_BY_TWO], [self.trainer, *self.recipe(data), *self.in_run("run")])
        if result.exit_code == 0:
            self.assertEqual(len(self.places("run")), 4)
        else:
            self.assertEqual(result.exit_code, 3, result.stderr)
            self.assertIn("srun --mpi=pmix --ntasks=4", result.stderr)
            self.assertFalse((self.dir / "run").exists())

    def test_parts_that_ranks_would_pack_are_named_as_not_written(self):
        images, labels = self.synthetic_idx(16, classes=4, side=8)
        pack = f"{self.quoted_trainer} pack idx --images {images} --labels {labels} -o part$SLURM_PROCID.h5"
        result = self.srun(["--mpi=pmix", "--ntasks=3"], ["bash", "-c", pack])
        self.assertEqual(result.exit_code, 0, result.stderr)
        self.assertEqual([path.name for path in self.dir.glob("part*")], ["part0.h5"])
        self.assertIn("warning: trainer pack is rank 0's alone: the other 2 do nothing; start it once (srun -n1)",
                      result.stderr)
        for rank in 1, 2:
            self.assertRegex(result.stderr, rf"warning: .*: rank {rank} of 3 on \S+ does nothing, and writes nothing to "
                                            rf"part{rank}\.h5; start it once \(srun -n1\).*sbatch --array")

    def fake(self, text):
        """The environment that gives run.sh a shell's text in place of the program."""
        path = self.dir / "program"
        path.write_text(f"#!/bin/sh\n{text}\n")
        path.chmod(0o755)
        return {"TUTTI_TRAINER": str(path), "TUTTI_MPIRUN_OPTIONS": "--bind-to none"}

    def test_run_sh_inside_a_step_shares_its_cores(self):
        """The inner srun would wait for the step that it is in."""
        result = self.slurm(["salloc", "-Q", "--ntasks=2", "srun", "--ntasks=1", JOBS / "run.sh", "-n", "2"],
                            self.fake("echo rank $SLURM_PROCID of $SLURM_STEP_NUM_TASKS"), timeout=30)
        self.assertEqual(result.exit_code, 0, result.stderr)
        self.assertEqual(sorted(result.stdout.splitlines()), ["rank 0 of 2", "rank 1 of 2"])
        self.assertIn(" --overlap ", result.stderr)
        result = self.slurm(["salloc", "-Q", "--ntasks=2", JOBS / "run.sh"], self.fake("exit 0"))
        self.assertEqual(result.exit_code, 0, result.stderr)
        self.assertNotIn("--overlap", result.stderr)

    def test_run_sh_gives_the_ranks_what_it_has_also_with_export_none(self):
        fake = self.fake('PATH=$PATH:/bin:/usr/bin; echo "$(uname -n) $MODULE"')
        for launcher in "srun", "mpirun":
            exports = {**fake, "MODULE": "loaded", "OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
                       "OMPI_MCA_oob_tcp_if_include": "lo"}
            script = self.write_script([*(f"export {name}={shlex.quote(value)}" for name, value in exports.items()),
                                        f"exec {JOBS}/run.sh --launcher {launcher}"])
            result = self.wait_for(self.sbatch(["--export=NONE", "--nodes=2", "--ntasks-per-node=1"], script))
            self.assertEqual(result.exit_code, 0, result.stdout)
            self.assertIn("node1 loaded", result.stdout)
            self.assertIn("node2 loaded", result.stdout)

    def test_run_sh_refuses_a_heterogeneous_job(self):
        for launcher in "srun", "mpirun":
            result = self.slurm(["salloc", "-Q", "--ntasks=1", "--cpus-per-task=2", ":", "--ntasks=2",
                                 JOBS / "run.sh", "--launcher", launcher], self.fake("echo began"))
            self.assertEqual((result.exit_code, result.stdout), (2, ""))
            self.assertIn("this job has 2 components", result.stderr)
        # What the message says to write.
        data = self.small_data(64)
        result = self.until_srun_ends(lambda: self._until_mpi_starts(lambda: self.slurm(
            ["salloc", "-Q", "--ntasks=1", ":", "--ntasks=2", "srun", "--mpi=pmix", "--wait=60", "--het-group=0-1",
             self.trainer, *self.recipe(data, 3), *self.in_run("run")])))
        self.assertEqual(result.exit_code, 0, result.stderr)
        self.assertEqual([local for _, local in self.places("run")], [0, 0, 1])

    def test_run_sh_names_a_rank_that_was_killed_on_another_host(self):
        script = self.write_script([f"exec {JOBS}/run.sh --launcher mpirun"])
        job = self.sbatch(["--nodes=2", "--ntasks-per-node=1"], script,
                          env=self.fake("[ $OMPI_COMM_WORLD_RANK = 0 ] || kill -KILL $$\nexec sleep 60"))
        result = self.wait_for(job)
        self.assertEqual(result.exit_code, 137, result.stdout)
        self.assertIn("run: rank 1 on node2 was ended by signal 9, KILL\n", result.stdout)

    def run_mpirun_on_two_nodes(self, text):
        """A job of one task on each of two nodes, with a shell's text in place of the program."""
        script = self.write_script([f"exec {JOBS}/run.sh --launcher mpirun"])
        return self.sbatch(["--nodes=2", "--ntasks-per-node=1"], script, env=self.fake(text))

    def test_run_sh_ends_with_5_when_mpirun_loses_a_node(self):
        """mpirun itself has 205, and the rank that still tells of it is killed."""
        daemon = r"$(sed -n 's/^PPid:[[:space:]]*//p' /proc/$PPID/status)"
        job = self.run_mpirun_on_two_nodes("trap : TERM; [ $OMPI_COMM_WORLD_RANK = 0 ] || exec kill -KILL "
                                           f"{daemon} $PPID $$\nwhile :; do sleep 1; done")
        result = self.wait_for(job)
        self.assertEqual(result.exit_code, 5, result.stdout)
        self.assertIn("run: mpirun ended with 205: it lost a node, or its daemon there, and rank 0 was killed; exit code 5\n",
                      result.stdout)

    def test_a_save_of_run_sh_s_ranks_may_take_longer_than_mpirun_would_wait(self):
        """Slurm's SIGTERM goes to the ranks of other nodes, and to mpirun's daemons there, which would kill the ranks."""
        job = self.run_mpirun_on_two_nodes("""save() {
            trap '' TERM USR1; end=$(($(date +%s) + 4)); while [ $(date +%s) -lt $end ]; do sleep 0.1; done; exit 75; }
            trap save TERM USR1; : >began-$OMPI_COMM_WORLD_RANK; while :; do sleep 0.1; done""")
        self.wait_until_job(job, lambda _: all((self.dir / f"began-{rank}").exists() for rank in (0, 1)))
        self.slurm(["scancel", "--signal=TERM", job])
        self.wait_until_job(job, lambda facts: facts["JobState"] == "FAILED" or facts["Restarts"] == "1")
        self.assertIn("run: exit code 75, restart 0\n", self.output(job))
        self.slurm(["scancel", job])

    def test_bare_inside_an_allocation_is_one_rank(self):
        data = self.small_data(64)
        script = self.write_script([shlex.join(str(word) for word in
                                               (self.trainer, *self.recipe(data, 1), *self.in_run("run")))])
        result = self.wait_for(self.sbatch(TWO_BY_TWO, script))
        self.assertEqual(result.exit_code, 0, result.stdout)
        self.assertEqual(self.places("run"), [("node1", 0)])


if __name__ == "__main__":
    system_test.main()
