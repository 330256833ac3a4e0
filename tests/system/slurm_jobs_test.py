"""jobs/*/*.sbatch, submitted as they are to a real Slurm: four nodes of 64 cores and 4 (fake) GPUs. Only the training is
made small, with settings; nodes, ranks, cores and GPUs are the files' own, and asserted from what ran."""

import collections
import json
import pathlib
import re

import slurm_test
import system_test
from recipes import png
from sequences import packing, write_videos

ROOT = pathlib.Path(__file__).resolve().parents[2]
JOBS = ROOT / "jobs"

Shape = collections.namedtuple("Shape", "nodes tasks cpus gpus")  # tasks and gpus: per node; cpus: per task
SHAPES = {
    "cyclone_video/pretrain": Shape(4, 4, 4, 4),
    "cyclone_video/classify": Shape(4, 4, 4, 4),
    "cyclone_video/neighbouring": Shape(4, 4, 4, 4),
    "cyclone_video/track": Shape(4, 4, 4, 4),
    "cyclone_video/predict_classify": Shape(4, 4, 4, 4),
    "cyclone_video/predict_classify_val2": Shape(4, 4, 4, 4),
    "cyclone_video/predict_track": Shape(4, 4, 4, 4),
    "cyclone_video/preprocess": Shape(1, 1, 1, 0),
    "locator/train_2x4": Shape(2, 4, 8, 4),
    "locator/train_4x4": Shape(4, 4, 8, 4),
    "mnist/train_2x2": Shape(2, 2, 32, 2),
    "clip_selection/train": Shape(1, 2, 8, 2),
    "checks/allreduce": Shape(4, 1, 4, 1),
    "checks/bench_allreduce": Shape(4, 1, 4, 1),
    "checks/bucket_sweep": Shape(2, 4, 4, 4),
}

# Models of the recipe's kind that a core trains in a moment.
SMALL_CLIP = ["model.frames=1", "model.tubelet=1", "model.patch=4", "model.dim=8", "model.depth=1", "model.heads=2",
              "data.normalize=null", "train.precision=fp32"]
SMALL_MLP = ["model.hidden=[8]"]


class SlurmJobs(slurm_test.SlurmTest):
    nodes, cores, gpus = 4, 64, 4

    def submit(self, name, arguments=(), options=(), **env):
        """Submits a file of jobs/ as a user would; binding is off, because the nodes' cores are not there."""
        given = {"TUTTI_TRAINER": str(self.trainer), "TUTTI_JOBS": str(JOBS), "TUTTI_MPIRUN_OPTIONS": "--bind-to none"}
        return self.sbatch(options, JOBS / f"{name}.sbatch", arguments, env={**given, **env})

    def assert_directives(self, name, facts):
        shape = SHAPES[name]
        ranks = shape.nodes * shape.tasks
        seen = {key: facts.get(key) for key in ("JobName", "NumNodes", "NumTasks", "CPUs/Task", "NumCPUs", "Requeue")}
        seen["NumNodes"] = seen["NumNodes"].split("-")[0]  # "2-2" while the job waits
        self.assertEqual(seen, {"JobName": name.replace("/", "_"), "NumNodes": str(shape.nodes), "NumTasks": str(ranks),
                                "CPUs/Task": str(shape.cpus), "NumCPUs": str(ranks * shape.cpus), "Requeue": "1"})
        self.assertEqual(facts["NtasksPerN:B:S:C"].split(":")[0], str(shape.tasks))
        self.assertEqual(facts.get("TresPerNode"), f"gres:gpu:{shape.gpus}" if shape.gpus else None)

    def run_to_its_end(self, name, *more, **env):
        job, result = self.run_job(lambda: self.submit(name, *more, **env))
        self.assertEqual(result.exit_code, 0, result.stdout)
        self.assert_directives(name, self.facts(job))
        return result

    def assert_ranks(self, name, run, launcher):
        """World, hosts and GPUs of the ranks that trained."""
        shape = SHAPES[name]
        document = json.loads((self.dir / run / "provenance.json").read_text())
        self.assertEqual(document["launcher"], launcher)
        ranks = [(row["host"], row["local_rank"], row["visible_gpus"]) for row in document["ranks"]]
        gpus = ",".join(str(gpu) for gpu in range(shape.gpus))
        self.assertEqual(ranks, [(f"node{node + 1}", local, gpus)
                                 for node in range(shape.nodes) for local in range(shape.tasks)])

    def train(self, name, launcher, settings, classes=4, side=8, data=None, said=r"accuracy \d\.\d{4} \(\d+ of 96\)"):
        data = data or self.small_data(96, classes=classes, side=side)
        common = [f"data.train={data}", f"data.val={data}", "run.dir=run", "train.batch_size=2", "train.epochs=1"]
        result = self.run_to_its_end(name, [*common, *settings])
        self.assert_ranks(name, "run", launcher)
        self.assertRegex(result.stdout, f"test {said}")

    def test_every_file_is_listed_here_and_has_the_comments_it_promises(self):
        files = sorted(path.relative_to(JOBS).with_suffix("").as_posix() for path in JOBS.glob("**/*.sbatch"))
        self.assertEqual(files, sorted(SHAPES))
        for name in files:
            text = (JOBS / f"{name}.sbatch").read_text()
            for line in re.findall(r"^#SBATCH .*", text, re.M):
                self.assertRegex(line, r"^#SBATCH --\S+ +# \w", name)
            self.assertRegex(text, r"(?m)^#SBATCH --signal=B:USR1@\d+ ")
            self.assertIn("\n#SBATCH --requeue ", text)

    def test_cyclone_video_pretrain(self):
        settings = [*SMALL_CLIP, "model.decoder_depth=1", "data.transforms=[{multi_scale_crop: {size: 8, scales: [1, 0.5]}}]"]
        self.train("cyclone_video/pretrain", "mpirun", settings, said=r"loss \d\.\d{4} \(96 samples\)")

    def test_cyclone_video_neighbouring(self):
        self.train("cyclone_video/neighbouring", "mpirun", SMALL_CLIP, classes=3)

    def test_cyclone_video_track_and_its_prediction(self):
        track = self.tracked_clips(96, "track.h5")
        self.train("cyclone_video/track", "mpirun", SMALL_CLIP, data=track, said=r"rmse \d+\.\d{4} \(96 samples\)")
        self.predict("cyclone_video/predict_track", self.tracked_clips(89, "test.h5"))
        header, *rows = (self.dir / "out.csv").read_text().splitlines()
        self.assertEqual(header, "index,path,target_x_pix,target_y_pix,output_x_pix,output_y_pix")
        self.assertEqual([row.split(",")[1] for row in rows], [f"{clip:03}" for clip in range(89)])

    def test_cyclone_video_classify_and_its_predictions(self):
        self.train("cyclone_video/classify", "mpirun", SMALL_CLIP, classes=2)
        self.predict("cyclone_video/predict_classify")
        self.predict("cyclone_video/predict_classify_val2")

    def tracked_clips(self, count, name):
        """Of one frame, packed as preprocess.sbatch says, but small."""
        rows = ["path,x_pix,y_pix,label"]
        for clip in range(count):
            frames = self.dir / "tracked" / f"{clip:03}"
            frames.mkdir(parents=True, exist_ok=True)
            (frames / "img_00001.png").write_bytes(png(8, 8, [bytes([clip] * 8)] * 8, 0))
            rows.append(f"{frames.name},{clip % 8},{clip // 8 % 8}.5,1")
        table = self.dir / f"{name}.csv"
        table.write_text("\n".join([*rows, "000,1,1,0", "001,,2,1"]) + "\n")
        packed = self.run_trainer(["pack", "clips", "--dir", self.dir / "tracked", "--csv", table, "--target", "x_pix,y_pix",
                                   "--keep", "label=1", "--frames", 1, "-o", self.dir / name])
        self.assert_exit(packed, 0)
        return self.dir / name

    def predict(self, name, data=None):
        """Exactly one row per sample, in order, from 16 ranks."""
        data = data or self.small_data(89, f"{name[-5:]}.h5", classes=2)
        result = self.run_to_its_end(name, RUN="run", DATA=str(data), OUTPUT="out.csv")
        self.assertIn("89 samples, 16 ranks", result.stdout)
        rows = (self.dir / "out.csv").read_text().splitlines()[1:]
        self.assertEqual([int(row.split(",")[0]) for row in rows], list(range(89)))

    def test_cyclone_video_preprocess(self):
        for name in ("calm/1", "calm/2", "storm/1"):
            (self.dir / "clips" / name).mkdir(parents=True)
            (self.dir / "clips" / name / "img_00001.png").write_bytes(png(8, 8, [bytes(24)] * 8, 2))
        self.run_to_its_end("cyclone_video/preprocess", ["--frames", 2], CLIPS="clips", OUTPUT="packed.h5")
        shown = self.run_trainer(["inspect", "packed.h5"])
        self.assertRegex(shown.stdout, r"samples +3\n")
        self.assertIn("[224, 224, 6]", shown.stdout)  # the option given replaces the script's
        self.assertIn("paths     one each, the first: clips/calm/1\n", shown.stdout)

    def test_locator_on_two_nodes(self):
        data = self.images_with_places(96)
        self.train("locator/train_2x4", "srun", ["train.precision=fp32"], data=data)

    def test_locator_on_four_nodes(self):
        # The recipe's own network on two nodes, above: sixteen ranks take minutes over its gradients of 60 MB.
        self.train("locator/train_4x4", "srun", ["train.precision=fp32", "model.name=mlp", "model.backbone=null", *SMALL_MLP],
                   classes=2)

    def test_mnist(self):
        self.train("mnist/train_2x2", "srun", [], side=28)

    def test_clip_selection(self):
        write_videos(self.dir, 96)
        data = self.dir / "sequences.h5"
        self.assert_exit(self.run_trainer(packing(self.dir, data)), 0)
        self.train("clip_selection/train", "srun", ["model.dim=8", "model.depth=1", "model.heads=2"], data=data,
                   said=r"AtIoU \d\.\d{4} \(96 samples\)")

    def test_a_preempted_job_is_requeued_by_its_own_script_and_finishes(self):
        data = self.small_data(2000, classes=2)
        recipe = self.dir / "recipe.yaml"
        common = "model: {name: mlp, hidden: [8]}\noptim: {name: adam, lr: 1e-3}\ntrain: {epochs: 1000000"

        def preempt(launcher, run):
            recipe.write_text(common + "}\n")
            job = self.submit("clip_selection/train",
                              ["-c", recipe, "--launcher", launcher, f"data.train={data}", "data.val=[]", f"run.dir={run}",
                               "train.batch_size=8", "train.log_every=10", "train.checkpoint={every: never}"],
                              ["--nodes=2", "--ntasks-per-node=1", "--gres=gpu:1", "--cpus-per-task=1"])
            metrics = self.dir / run / "metrics.jsonl"
            self.wait_until_job(job, lambda _: metrics.exists() and metrics.stat().st_size > 500)
            # What --signal=B:USR1@300 does 300 s before the limit: the batch shell alone is told.
            self.slurm(["scancel", "--batch", "--signal=USR1", job])
            self.wait_until_requeued(job)
            # The end is set only now, so that no machine is too quick for the signal.
            steps = int(self.latest(run).stem.removeprefix("step-")) // 10 * 10 + 200
            recipe.write_text(f"{common}, max_steps: {steps}}}\n")
            self.start_requeued(job)
            self.assertIn("exit code 75, restart 0", self.output(job))
            result = self.wait_for(job)
            self.assertEqual(result.exit_code, 0, result.stdout)
            self.assertIn("exit code 0, restart 1", result.stdout)
            self.assertEqual([row["step"] for row in self.metrics(run, "step")], list(range(10, steps + 1, 10)))

        for launcher in "srun", "mpirun":
            with self.subTest(launcher=launcher):
                self.requeue(lambda run, launcher=launcher: preempt(launcher, f"{launcher}_{run}"))

    def endless_recipe(self):
        (self.dir / "recipe.yaml").write_text("model: {name: mlp, hidden: [8]}\noptim: {name: adam, lr: 1e-3}\n"
                                              "train: {epochs: 1000000, batch_size: 8, checkpoint: {every: never}}\n")

    def test_a_notice_to_the_steps_of_an_mpirun_of_two_nodes_requeues_the_job(self):
        """Preemption with GraceTime sends SIGTERM to the steps: the ranks of other nodes, but also mpirun's daemons there,
        which must not end by it."""
        self.endless_recipe()
        job = self.submit("clip_selection/train",
                          ["-c", self.dir / "recipe.yaml", "--launcher", "mpirun", f"data.train={self.small_data(2000)}",
                           "data.val=[]", "run.dir=run"],
                          ["--nodes=2", "--ntasks-per-node=1", "--gres=gpu:1", "--cpus-per-task=1"])
        metrics = self.dir / "run/metrics.jsonl"
        self.wait_until_job(job, lambda _: metrics.exists() and metrics.stat().st_size > 500)
        self.slurm(["scancel", "--signal=TERM", job])
        self.wait_until_requeued(job)
        self.assertIn("exit code 75, restart 0", self.output(job))
        self.assertTrue(self.latest("run").exists())
        self.slurm(["scancel", job])

    def test_a_cancelled_job_stays_cancelled(self):
        self.endless_recipe()
        data = self.small_data(2000, classes=2)
        for limit, launcher, nodes in (("04:00:00", "srun", 1), ("UNLIMITED", "srun", 1), ("04:00:00", "mpirun", 2)):
            run = f"run_{limit[:2]}_{launcher}"
            job = self.submit("clip_selection/train", ["-c", self.dir / "recipe.yaml", "--launcher", launcher, f"data.train={data}",
                                                       "data.val=[]", f"run.dir={run}"],
                              [f"--nodes={nodes}", "--ntasks-per-node=1", "--gres=gpu:1", "--cpus-per-task=1", f"--time={limit}"])
            self.wait_until_job(job, lambda _, run=run: (self.dir / run / "metrics.jsonl").exists())
            self.slurm(["scancel", job])
            self.wait_until_job(job, lambda facts: facts["JobState"] == "CANCELLED")
            self.assertIn("the job was cancelled, so it is not requeued", self.output(job))
            self.assertEqual(self.facts(job)["Restarts"], "0")
            self.assertTrue(self.latest(run).exists())

    def test_of_an_array_only_the_task_that_was_told_is_requeued(self):
        """The last task has the number of the whole array."""
        self.endless_recipe()
        script = self.dir / "array.sbatch"
        script.write_text("#!/bin/bash\n#SBATCH --array=1-2 --nodes=1 --ntasks=1 --requeue --output=%A_%a.out\n"
                          f'exec {JOBS}/run.sh -c recipe.yaml data.train={self.small_data(2000, classes=2)} "data.val=[]" run.dir=run$SLURM_ARRAY_TASK_ID\n')
        job = self.sbatch([], script, [], env={"TUTTI_TRAINER": str(self.trainer)})
        for task in 1, 2:
            self.wait_until_job(f"{job}_{task}", lambda _, task=task: (self.dir / f"run{task}/metrics.jsonl").exists())
        self.slurm(["scancel", "--batch", "--signal=USR1", f"{job}_2"])
        self.wait_until_job(f"{job}_2", lambda facts: facts["JobState"] == "PENDING" and facts["Restarts"] == "1")
        facts = self.facts(f"{job}_1")
        self.assertEqual((facts["JobState"], facts["Restarts"]), ("RUNNING", "0"))
        self.slurm(["scancel", job])

    def skip_without(self, *command):
        words = self.run_trainer([*command, "--help"])
        if words.exit_code != 0:
            self.skipTest(f"this version has no trainer {' '.join(command)}")

    def test_allreduce_check(self):
        self.skip_without("doctor")
        job, result = self.run_job(lambda: self.submit("checks/allreduce"))
        self.assert_directives("checks/allreduce", self.facts(job))
        for node in range(1, 5):
            self.assertIn(f"node{node}", result.stdout)
        self.assertRegex(result.stdout, r"all-reduce \(mpi\): ten random floats \S+ from the exact sum .*; 64 MB in ")
        # On a machine with fewer than the four cores that a task asks for, the doctor says so.
        problems = set(re.findall(r"\[([a-z-]+)\]$", result.stdout, re.M))
        self.assertLessEqual(problems, {"binding-narrower-than-threads"}, result.stdout)
        self.assertEqual(result.exit_code, 1 if problems else 0, result.stdout)

    def test_allreduce_benchmark(self):
        self.skip_without("bench", "allreduce")
        self.run_to_its_end("checks/bench_allreduce", SIZES="4K:64K", OUTPUT="out")
        self.assertTrue(json.loads((self.dir / "out/allreduce.json").read_text()))

    def test_bucket_sweep_has_a_table_for_each_size(self):
        self.skip_without("bench", "buckets")
        data = self.small_data(64, side=28)

        def once(task):
            job = self.submit("checks/bucket_sweep", [f"data.train={data}", "data.val=[]", "train.batch_size=2", "--steps", "2",
                               "--warmup", "1"],
                              [f"--array={task}"], OUTPUT="out")
            return self.wait_for(f"{job}_{task}")

        for task in (0, 1):
            result = self._until_mpi_starts(lambda: once(task))
            self.assertEqual(result.exit_code, 0, result.stdout)
        for size in ("0.25", "1"):
            self.assertTrue(json.loads((self.dir / "out" / size / "buckets.json").read_text()))

    def test_the_array_of_the_bucket_sweep_has_a_size_for_each_task(self):
        text = (JOBS / "checks/bucket_sweep.sbatch").read_text()
        sizes = re.search(r"^sizes=\((.*?)\)", text, re.M)[1].split()
        self.assertIn(f"#SBATCH --array=0-{len(sizes) - 1} ", text)
        for name in ("checks/bucket_sweep", "checks/allreduce", "checks/bench_allreduce"):
            job = self.submit(name, options=["--hold"])
            self.assert_directives(name, self.facts(job))
            self.slurm(["scancel", job])


if __name__ == "__main__":
    system_test.main()
