"""Command lines and configs as people have them for other trainers, and jobs/run.sh, which they start with -n, -c, -l."""

import fcntl
import json
import os
import pathlib
import re
import signal
import subprocess
import time

import system_test
from recipes import TrainingTest

# An mpirun that starts rank 0 unless NO_RANK is set, and does not come back from its end for SECONDS, in which it sleeps in a lock
# or, with POLLS, in a poll; then it ends with 7. It takes notice of its children's ends only with REAPS. With LIVES it has one
# more, that lives. As Open MPI's own it has a folder for its files.
STUCK_MPIRUN = """#!/usr/bin/env python3
import os, pathlib, signal, sys, threading, time

words = sys.argv[1:]
if words == ["--version"]:
    sys.exit(print("mpirun (Open MPI) 4.1.4"))
if words[-1] == "true":
    sys.exit()
for number in signal.SIGUSR1, signal.SIGINT:
    signal.signal(number, signal.SIG_IGN)
pathlib.Path(os.environ["TMPDIR"], f"ompi.{os.uname().nodename}.{os.geteuid()}", f"pid.{os.getpid()}").mkdir(parents=True)
start = next(place for place, word in enumerate(words) if word.endswith("/sh"))
children = [] if "NO_RANK" in os.environ else [os.posix_spawn(words[start], words[start:], {**os.environ, "OMPI_COMM_WORLD_RANK": "0"})]
for child in children:
    os.waitid(os.P_PID, child, os.WEXITED | (0 if "REAPS" in os.environ else os.WNOWAIT))
if "LIVES" in os.environ:
    os.spawnlp(os.P_NOWAIT, "sleep", "sleep", os.environ["SECONDS"])
pathlib.Path("is stuck").touch()
lock = threading.Lock()
lock.acquire()
time.sleep(float(os.environ["SECONDS"])) if "POLLS" in os.environ else lock.acquire(timeout=float(os.environ["SECONDS"]))
sys.exit(7)
"""
JOBS = pathlib.Path(__file__).resolve().parents[2] / "jobs"


class FamiliarOptions(TrainingTest):
    def config(self, run):
        """Lines of the resolved configuration, stripped."""
        return [line.strip() for line in (self.dir / run / "config.yaml").read_text().splitlines()]

    def assert_set(self, run, *lines):
        for line in lines:
            self.assertIn(line, self.config(run))

    def test_the_mnist_examples_flags(self):
        data = self.small_data(64, classes=10, side=28)
        result = self.run_trainer(["-c", JOBS / "mnist.yaml", f"data.train={data}", "data.val=[]", "run.dir=run",
                                   "--batch-size", "64", "--test-batch-size", "1000", "--epochs", "14", "--lr", "1.0",
                                   "--gamma", ".7", "--no-cuda", "--dry-run", "--seed", "1", "--log-interval", "1",
                                   "--save-model"])
        self.assert_exit(result, 0)
        self.assert_set("run", "device: cpu", "batch_size: 64", "epochs: 14", "max_steps: 1", "gamma: 0.7", "seed: 1",
                        "log_every: 1")
        self.assertEqual(self.metrics("run", "step")[-1]["step"], 1)

    def test_the_mnist_examples_flags_without_its_recipe_are_warned_of(self):
        result = self.run_trainer(["--no-cuda", "--dry-run", "--seed", "1", f"data.train={self.small_data(64)}", "run.dir=run",
                                   "train.batch_size=16"])
        self.assert_exit(result, 0)
        self.assertIn("--no-cuda, --dry-run, --seed are flags of the MNIST example, but without -c", result.stderr)

    def test_the_locators_flags_and_keys(self):
        data, val = self.small_data(64, classes=2), self.small_data(16, "val.h5", classes=2)
        (self.dir / "locator.yaml").write_text(
            f"data: {{manifest_train: absent.h5, manifest_val: {val}, image_col: image_path, presence_col: presence, cx_col: cx,\n"
            "       cy_col: cy, use_pre_letterboxed: true, letterbox_meta_csv: meta.csv, letterbox_size_assert: 384}\n"
            "train: {batch_size: 256, num_workers: 0, epochs: 500, lr: 2e-4, weight_decay: 1e-4, amp: false,\n"
            "        scale_lr_by_world_size: true, seed: 491, save_dir: checkpoints, val_every: 2, best_ckpt_start_epoch: 5,\n"
            "        heatmap_stride: 4, use_aug: false}\n"
            "infer: {batch_size: 128, presence_threshold: .5, topk_peaks: 1, roi_base_radius_px: 112, roi_sigma_multiplier: 2.5,\n"
            "        out_dir: outputs/preds}\n"
            "model: {name: mlp, hidden: [8]}\noptim: {name: adamw}\n")
        result = self.run_trainer(["--config", "locator.yaml", "--train_csv", data, "--log_dir", "logs", "--epochs", "2",
                                   "--bs", "16", "--lr", "0.01", "--num_workers", "1"])
        self.assert_exit(result, 0)
        self.assert_set("logs", "batch_size: 16", "epochs: 2", "lr: 0.01", "workers: 1", "eval_every: 2", "best_from: 5", "seed: 491",
                        "weight_decay: 0.0001", "precision: fp32", "scale_lr_by_world_size: true")
        self.assertEqual(len(self.metrics("logs", "eval")), 1)
        for value, transforms in (("true", "[{horizontal_flip: {p: 0.5}}]"), ("no", "[]")):
            (self.dir / "aug.yaml").write_text(f"train: {{use_aug: {value}, max_steps: 1, batch_size: 8}}\nmodel: {{name: mlp}}\n")
            self.assert_exit(self.run_trainer(["-c", "aug.yaml", "--train_csv", data, "--log_dir", "aug", "run.resume=never"]), 0)
            self.assert_set("aug", f"transforms: {transforms}")

    def test_an_explicit_0_is_not_lost(self):
        result = self.run_trainer(["--train_csv", self.small_data(64), "--epochs", "0"])
        self.assert_exit(result, 0)
        self.assertIn("finished after 0 steps", result.stderr)

    def test_the_clip_selections_keys_and_flags(self):
        data = self.small_data(64)
        (self.dir / "clips.yaml").write_text(
            "train: {seed: 1234, lr: 1e-3, epochs: 1, weight_decay: 1e-4, warmup_epochs: 1, save_epochs: 10,\n"
            "        batch_size: 6, eval_freq: 1}\n"
            "distributed: {strategy: dp, backend: mpi, timeout: 1800, find_unused_parameters: false}\n"
            "optim: {name: adam}\nmodel: {name: mlp, hidden: [8]}\n")
        result = self.run_trainer(["--config_path", "clips.yaml", "--log-level", "INFO", f"data.train={data}"])
        self.assert_exit(result, 0)
        self.assert_set("runs/clips", "seed: 1234", "lr: 0.001", "weight_decay: 0.0001", "warmup_epochs: 1",
                        "every: 10 epochs", "strategy: ddp", "timeout: 1800", "batch_size: 6")

    def test_refused_ones_end_all_ranks_with_2(self):
        (self.dir / "clips.yaml").write_text("train_dataset:\n  label_path: data/train.json\n")
        for args, message in ((["--config_path", "clips.yaml"], "clips.yaml:2: train_dataset.label_path"),
                              (["--train_csv", "train.csv"], "samples are read from HDF5"),
                              (["--variant", "neighboring"], "-c jobs/cyclone_video/neighbouring.yaml"),
                              (["--local_rank=0"], "leave it out"),
                              (["--nproc-per-node", "2"], "--nproc-per-node (PyTorch launchers) is not taken over; it is the launcher's:")):
            with self.subTest(args=args):
                result = self.mpirun(2, args)
                self.assert_exit(result, 2)
                self.assertEqual(result.stderr.count("error:"), 1)
                self.assertIn(message, result.stderr)

    def test_the_video_models_prediction_flags(self):
        data = self.small_data(30)
        self.assert_exit(self.run_trainer(self.settings(data)), 0)
        result = self.run_trainer(["predict", "--csvfile", data, "--inference_model", "run", "--preds_csv", "out.csv",
                                   "--get_logits", "--get_embeddings"])
        self.assert_exit(result, 0)
        rows = (self.dir / "out.csv").read_text().splitlines()
        self.assertEqual(len(rows), 31)


class RunScript(TrainingTest):
    def run_script(self, args, env=None):
        environment = {**self.environment(), "TUTTI_TRAINER": str(self.trainer), **(env or {})}
        return subprocess.run([str(part) for part in (JOBS / "run.sh", *args)], cwd=self.dir, env=environment,
                              stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=120, check=False)

    def test_n_c_l_start_two_ranks_with_that_config(self):
        data = self.small_data(128)
        (self.dir / "mine.yaml").write_text(f"data: {{train: {data}}}\nmodel: {{hidden: [8]}}\n")
        result = self.run_script(["-n", "2", "-c", "mine.yaml", "-l", "WARNING", "train.epochs=1"])
        self.assertEqual(result.returncode, 0, result.stderr)
        document = json.loads((self.dir / "runs/mine/provenance.json").read_text())
        self.assertEqual((document["world_size"], document["launcher"]), (2, "mpirun"))
        self.assertNotIn("finished after", result.stderr)  # a message of the level info

    def test_commands_pass_through(self):
        data = self.small_data(64)
        self.assert_exit(self.run_trainer(self.settings(data)), 0)
        result = self.run_script(["-n", "2", "eval", "--run", "run", "--data", data])
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertIn("test accuracy", result.stdout)

    def started(self, *args):
        """What the program is given on each rank: their number, and the words of one."""
        record = self.program('printf "%s\\n" "$OMPI_COMM_WORLD_SIZE" "$@" >"rank-$OMPI_COMM_WORLD_RANK"')
        result = self.run_script(args, record)
        self.assertEqual(result.returncode, 0, result.stderr)
        ranks, *words = (self.dir / "rank-0").read_text().splitlines()
        return int(ranks), words, result.stderr

    def test_the_level_reaches_commands_that_take_settings_and_no_others(self):
        for command in ([], ["train"], ["eval", "--run", "run"], ["predict", "-o", "out.csv"], ["bench", "step", "--steps", "1"],
                        ["bench", "buckets"], ["bench", "loader"], ["train.epochs=1"], ["--epochs", "3"]):
            _, words, said = self.started("-n", "1", "-l", "INFO", *command)
            self.assertEqual(words, [*command, "run.log_level=info"])
            self.assertNotIn("no log level", said)
        for command in (["doctor"], ["pack", "idx", "--images", "x"], ["sampler"], ["bench", "allreduce"], ["inspect", "x.h5"]):
            _, words, said = self.started("-n", "1", "-l", "INFO", *command)
            self.assertEqual(words, command)
            self.assertRegex(said, rf"-l: trainer {command[0]}.* has no log level")
        result = self.run_script(["-n", "1", "-l", "INFO", "sampler", "--samples", "2", "--world", "1", "--rank", "0", "--no-shuffle"])
        self.assertEqual((result.returncode, result.stdout), (0, "0\n1\n"), result.stderr)

    def test_values_may_stand_in_the_word_of_their_option(self):
        for given in (["-n2", "-cmine.yaml", "-lDEBUG", "--launcher=mpirun"], ["-n=2", "-c=mine.yaml", "-l=debug"],
                      ["-n", "2", "--config=mine.yaml", "-l", "Debug"], ["-n", "2", "--config", "mine.yaml", "-ldebug"]):
            ranks, words, _ = self.started(*given, "bench", "step", "--steps=3")
            self.assertEqual((ranks, words), (2, ["bench", "step", "-c", "mine.yaml", "--steps=3", "run.log_level=debug"]))

    def test_the_exit_code_is_the_trainers(self):
        self.assertEqual(self.run_script(["-n", "1", "train.batchsize=3"]).returncode, 2)

    def program(self, text):
        """A shell's text in place of the program."""
        path = self.dir / "program"
        path.write_text(f"#!/bin/sh\n{text}\n")
        path.chmod(0o755)
        return {"TUTTI_TRAINER": str(path)}

    def fake_mpirun(self):
        """The environment with an mpirun that runs rank 0 and ends with CODE. With NO_RANK rank 0 does not begin, with
        FOREIGN it finds that file where run.sh's record of it would be, as on another node."""
        fake = self.dir / "bin/mpirun"
        fake.parent.mkdir()
        fake.write_text('#!/bin/bash\n[[ $1 != --version ]] || { echo "mpirun (Open MPI) 4.1.4"; exit; }\n'
                        'while (($#)) && [[ $1 != */sh && $1 != true ]]; do shift; done\n'
                        'if [[ ${NO_RANK-} && $1 == true ]]; then echo no slots; exit 1; fi\n'
                        'if [[ ${FOREIGN-} && $1 != true ]]; then set -- "${@:1:4}" "$FOREIGN" "${@:6}"; fi\n'
                        '[[ ${NO_RANK-} ]] || OMPI_COMM_WORLD_RANK=0 "$@"; exit $CODE\n')
        fake.chmod(0o755)
        folder = self.dir / "temporary files"
        folder.mkdir()
        return {"PATH": f"{fake.parent}:{os.environ['PATH']}", "TMPDIR": str(folder)}

    def test_rank_0_s_exit_code_is_believed_where_mpirun_s_is_its_own(self):
        """It says 205 when it loses a node, and 0 or 1 in other cases."""
        path = self.fake_mpirun()
        lost = "kill -KILL $PPID $$"  # the whole rank, as mpirun kills it
        cases = ((205, "exit 75", 75), (0, "exit 75", 75), (1, "exit 75", 75), (75, "exit 75", 75), (5, "exit 75", 5),
                 (205, "exit 5", 5), (0, "exit 4", 4), (137, "exit 5", 137), (139, "exit 0", 139), (0, "exit 0", 0),
                 (205, "exit 0", 5), (1, "exit 0", 1), (205, lost, 5), (137, lost, 137), (0, lost, 5), (1, lost, 1),
                 (205, "exit 143", 143), (0, "exit 143", 143), (137, "exit 143", 137), (205, "exit 143", 143, "predict"))
        for mpirun, rank, code, *command in cases:
            with self.subTest(mpirun=mpirun, rank=rank, command=command):
                result = self.run_script(["-n", "1", "--launcher", "mpirun", *command],
                                         {**self.program(rank), **path, "CODE": str(mpirun)})
                self.assertEqual(result.returncode, code, result.stderr)
                self.assertEqual(list(pathlib.Path(path["TMPDIR"]).iterdir()), [])
        result = self.run_script(["-n", "1", "--launcher", "mpirun"],
                                 {**self.program(""), **path, "CODE": "1", "NO_RANK": "1"})
        self.assertEqual(result.returncode, 1)
        self.assertIn("no slots\nrun: mpirun ended with 1", result.stderr)

    def test_an_mpirun_that_ends_with_0_without_rank_0_is_believed_only_where_that_may_be_elsewhere(self):
        path = self.fake_mpirun()
        batch = {"ENVIRONMENT": "BATCH", "SLURM_JOB_ID": "1"}
        foreign = self.dir / "foreign"
        foreign.write_text("run.sh 1 on another\n")
        for given, code in (({"NO_RANK": "1", **batch}, 5), ({"NO_RANK": "1"}, 0), ({"FOREIGN": str(foreign)}, 0),
                            ({"NO_RANK": "1", **batch, "TUTTI_MPIRUN_OPTIONS": "--hostfile hosts"}, 0),
                            ({"NO_RANK": "1", **batch, "OMPI_MCA_rmaps_base_no_schedule_local": "1"}, 0)):
            with self.subTest(given=given):
                result = self.run_script(["-n", "1", "--launcher", "mpirun"],
                                         {**self.program("exit 4"), **path, "CODE": "0", **given})
                self.assertEqual(result.returncode, code, result.stderr)
                self.assertEqual("mpirun ended with 0, but rank 0 did not begin; exit code 5" in result.stderr, code == 5)
        self.assertEqual(foreign.read_text(), "run.sh 1 on another\n")

    def test_what_mpirun_is_told_to_be_quiet_about_is_said(self):
        few = {"TUTTI_MPIRUN_OPTIONS": "--map-by slot", "OMPI_MCA_rmaps_base_oversubscribe": "0"}
        result = self.run_script(["-n", "9999"], {**self.program("exit 0"), **few})
        self.assertEqual(result.returncode, 1)
        self.assertIn("There are not enough slots available", result.stderr)
        killed = self.program("[ $OMPI_COMM_WORLD_RANK = 0 ] || kill -KILL $$\nexec sleep 60")
        result = self.run_script(["-n", "2"], killed)
        self.assertEqual(result.returncode, 137)
        self.assertRegex(result.stderr, r"\nrun: rank 1 on \S+ was ended by signal 9, KILL\n$")
        result = self.run_script(["-n", "2"], self.program("echo mine >&2; exit 75"))
        self.assertEqual((result.returncode, result.stderr.splitlines()[1:]), (75, ["mine"] * 2))

    def start_script(self, args, env=None):
        """A training in a process group of its own, when it has begun: the job, and what it said."""
        job = subprocess.Popen([str(part) for part in (JOBS / "run.sh", "-n", "2", "--launcher", "mpirun", *args)],
                               cwd=self.dir, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                               text=True, env={**self.environment(), "TUTTI_TRAINER": str(self.trainer), **(env or {})},
                               start_new_session=True)
        self.addCleanup(job.communicate)
        self.addCleanup(job.kill)
        said = ""
        while "\nepoch " not in said:
            line = job.stdout.readline()
            self.assertTrue(line, said)
            said += line
        return job, said

    def test_asked_to_end_it_has_the_ranks_save(self):
        """mpirun itself would give them a second (Open MPI 4.1), which may be less than a step takes."""
        settings = self.settings(self.small_data(64), train__epochs=10000, train__log_every=1)
        for request, ask in ((signal.SIGTERM, os.killpg), (signal.SIGTERM, os.kill), (signal.SIGUSR1, os.kill)):
            with self.subTest(request.name, ask=ask.__name__):
                job, said = self.start_script(settings)
                ask(job.pid, request)
                said += job.communicate(timeout=60)[0]
                self.assertEqual(job.returncode, 75, said)
                self.assertIn("the checkpoint is saved", said)

    def test_asked_once_more_it_still_waits_for_the_ranks(self):
        """Slurm sends SIGTERM after the SIGUSR1 that it was told to send."""
        program = self.program("trap '' USR1; touch begun; sleep 4; exit 75")
        job = subprocess.Popen([JOBS / "run.sh", "-n", "1", "--launcher", "mpirun"], cwd=self.dir, stdin=subprocess.DEVNULL,
                               stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env={**self.environment(), **program})
        self.addCleanup(job.communicate)
        self.addCleanup(job.kill)
        while not (self.dir / "begun").exists():
            self.assertIsNone(job.poll())
            time.sleep(0.01)
        for request in signal.SIGUSR1, signal.SIGTERM, signal.SIGUSR1:
            job.send_signal(request)
            time.sleep(0.3)
        said = job.communicate(timeout=60)[0]
        self.assertEqual(job.returncode, 75, said)

    def wait_until_caught(self, pid, number):
        deadline = time.monotonic() + 30
        while time.monotonic() < deadline:
            caught = re.search(r"^SigCgt:\s*(\w+)", pathlib.Path(f"/proc/{pid}/status").read_text(), re.M)
            if int(caught[1], 16) >> (number - 1) & 1:
                return
            time.sleep(0.001)
        self.fail(f"process {pid} does not catch {number.name}")

    def test_a_notice_of_the_first_moments_is_not_lost(self):
        """mpirun drops one that comes before its ranks are there, or ends by it."""
        settings = self.settings(self.small_data(64), train__epochs=100000000, train__checkpoint__every="never")
        command = [str(part) for part in (JOBS / "run.sh", "-n", "2", "--launcher", "mpirun", *settings)]
        for milliseconds in 0, 50, 120, 250:  # since it hears signals
            with self.subTest(milliseconds=milliseconds):
                job = subprocess.Popen(command, cwd=self.dir, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                                       text=True, env={**self.environment(), "TUTTI_TRAINER": str(self.trainer)}, start_new_session=True)
                self.addCleanup(job.communicate)
                self.addCleanup(job.kill)
                self.wait_until_caught(job.pid, signal.SIGUSR1)
                time.sleep(milliseconds / 1000)
                job.send_signal(signal.SIGUSR1)
                said = job.communicate(timeout=60)[0]
                self.assertEqual(job.returncode, 75, said)
                self.assertEqual("tutti " in said, "the checkpoint is saved" in said, said)

    def wait_until_free(self, run):
        """Until no rank holds the run directory."""
        deadline = time.monotonic() + 60
        with (self.dir / run / "lock").open("r+b") as lock:
            while True:
                try:
                    return fcntl.lockf(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                except OSError:
                    self.assertLess(time.monotonic(), deadline, f"{run} is still in use")
                    time.sleep(0.05)

    def test_killed_or_interrupted_it_takes_the_ranks_along_and_leaves_no_file(self):
        for request in (signal.SIGKILL, signal.SIGINT):
            with self.subTest(request.name):
                job, _ = self.start_script(self.settings(self.small_data(64), train__epochs=10000, train__log_every=1),
                                           {"TMPDIR": str(self.dir)})
                job.send_signal(request)
                said = job.communicate(timeout=60)[0]
                self.assertIn(job.returncode, (-signal.SIGKILL,) if request == signal.SIGKILL else (130, 75), said)
                self.wait_until_free("run")  # mpirun may end a moment before its ranks
                self.assert_leaves_no_process(job)
                self.assertEqual(list(self.dir.glob("tmp.*")), [])

    def kernel_says_in_what_a_process_sleeps(self):
        with subprocess.Popen(["sleep", "60"]) as sleeper:
            try:
                time.sleep(0.5)
                return pathlib.Path(f"/proc/{sleeper.pid}/wchan").read_text() not in ("", "0")
            except OSError:
                return False
            finally:
                sleeper.kill()

    def start_stuck(self, rank, **how):
        """run.sh, with less patience, and the mpirun above."""
        text = (JOBS / "run.sh").read_text()
        self.assertEqual(text.count("\npatience=15\n"), 1)
        for name, content in ("run.sh", text.replace("\npatience=15\n", "\npatience=2\n")), ("bin/mpirun", STUCK_MPIRUN):
            path = self.dir / name
            path.parent.mkdir(exist_ok=True)
            path.write_text(content)
            path.chmod(0o755)
        (self.dir / "temporary files").mkdir(exist_ok=True)
        (self.dir / "is stuck").unlink(missing_ok=True)
        job = subprocess.Popen([self.dir / "run.sh", "-n", "1", "--launcher", "mpirun"], cwd=self.dir, text=True, start_new_session=True,
                               stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                               env={**self.environment(), **self.program(rank), "PATH": f"{self.dir / 'bin'}:{os.environ['PATH']}",
                                    "TMPDIR": str(self.dir / "temporary files"), **how})
        self.addCleanup(job.communicate)
        self.addCleanup(job.kill)
        return job

    def assert_leaves_no_process(self, job):
        deadline = time.monotonic() + 30
        while left := system_test.session_processes(job.pid):
            self.assertLess(time.monotonic(), deadline, left)
            time.sleep(0.05)

    def test_an_mpirun_that_does_not_come_back_from_its_end_is_killed(self):
        cases = [("exit 5", 5, {}), ("exit 75", 75, {}), ("exit 0", 5, {}), ("kill -KILL $PPID $$", 5, {})]
        if self.kernel_says_in_what_a_process_sleeps():
            cases += [("exit 4", 4, {"REAPS": "1"}), ("kill -KILL $PPID $$", 5, {"REAPS": "1"})]
        for rank, code, how in cases:
            with self.subTest(rank=rank, how=how):
                job = self.start_stuck(rank, SECONDS="100", **how)
                said = job.communicate(timeout=60)[0]
                self.assertEqual(job.returncode, code, said)
                self.assertIn("run: all ranks have ended, but mpirun does not come back from its end; it is killed\n", said)
                self.assertRegex(said, r"run: mpirun ended with 137(: it was stuck in its end, .* exit code 5|, rank 0 with \d+, which counts)\n")
                self.assertEqual(list((self.dir / "temporary files").iterdir()), [])
                self.assert_leaves_no_process(job)

    def test_an_mpirun_whose_ranks_or_daemons_may_still_run_is_not_killed(self):
        cases = [("exit 0", {"LIVES": "1"}), ("exit 0", {"LIVES": "1", "REAPS": "1"}), ("", {"NO_RANK": "1"}), ("exec sleep 6", {})]
        if self.kernel_says_in_what_a_process_sleeps():
            cases += [("exit 0", {"POLLS": "1"}), ("exit 0", {"POLLS": "1", "REAPS": "1"})]
        for rank, how in cases:
            with self.subTest(rank=rank, how=how):
                job = self.start_stuck(rank, SECONDS="0" if "sleep" in rank else "6", **how)
                said = job.communicate(timeout=60)[0]
                self.assertEqual(job.returncode, 7, said)
                self.assertNotIn("it is killed", said)
                self.assert_leaves_no_process(job)

    def test_a_stuck_mpirun_is_killed_also_where_the_script_was_signalled(self):
        for request, ask in ((signal.SIGTERM, os.killpg), (signal.SIGUSR1, os.killpg), (signal.SIGINT, os.killpg),
                             (signal.SIGKILL, os.kill)):
            with self.subTest(request.name):
                job = self.start_stuck("exit 3", SECONDS="100")
                while not (self.dir / "is stuck").exists():
                    self.assertIsNone(job.poll())
                    time.sleep(0.01)
                ask(job.pid, request)
                said = job.communicate(timeout=60)[0]
                self.assertEqual(job.returncode, -request if request == signal.SIGKILL else 3, said)
                self.assertIn("it is killed", said)
                self.assertEqual(list((self.dir / "temporary files").iterdir()), [])
                self.assert_leaves_no_process(job)

    def test_a_restarted_job_that_finds_no_run_says_so(self):
        (self.dir / "mine").mkdir()
        (self.dir / "mine/config.yaml").touch()
        for restarts, arguments, says in (("1", ["run.dir=none"], True), ("1", ["run.dir=mine"], False), ("1", [], False),
                                          ("1", ["run.dir=~/mine"], False), ("0", ["run.dir=none"], False)):
            with self.subTest(restarts=restarts, arguments=arguments):
                result = self.run_script(["-n", "1", "--launcher", "mpirun", *arguments],
                                         {**self.program("exit 0"), "SLURM_RESTART_COUNT": restarts, "HOME": str(self.dir)})
                self.assertEqual(result.returncode, 0, result.stderr)
                self.assertEqual("this job was restarted, and none holds no run" in result.stderr, says, result.stderr)

    def test_mistakes_are_named(self):
        for args, env, message in ((["-n", "0"], {}, "-n 0"), (["-l", "LOUD"], {}, "-l loud"), (["-c"], {}, "-c needs"),
                                   (["-c", ""], {}, "-c has an empty value"), (["--config="], {}, "--config has an empty value"),
                                   (["-n", ""], {}, "-n has an empty value"), (["-nx"], {}, "-n x"),
                                   (["--launcher", "ssh"], {}, "--launcher ssh"),
                                   ([], {"SLURM_STEP_NUM_TASKS": "4"}, "without srun"),
                                   ([], {"SLURM_HET_SIZE": "2"}, "srun --mpi=pmix --wait=60 --het-group=0-1 trainer")):
            with self.subTest(args=args):
                result = self.run_script(args, env)
                self.assertEqual(result.returncode, 2)
                self.assertIn(message, result.stderr)


if __name__ == "__main__":
    system_test.main()
