"""Run directory, checkpoints, resume, signals."""

import json
import os
import pathlib
import re
import shutil
import signal
import subprocess
import time

import system_test
from recipes import TrainingTest


class RunDirectory(TrainingTest):
    def test_holds_what_is_documented(self):
        data = self.small_data(64)
        self.assert_exit(self.run_trainer(self.settings(data)), 0)
        names = {path.name for path in (self.dir / "run").iterdir()}
        self.assertLessEqual({"config.yaml", "provenance.json", "checkpoints", "metrics.jsonl", "log.txt"}, names)

    def test_the_resolved_config_trains_the_same_again(self):
        data = self.small_data(64)
        self.assert_exit(self.run_trainer(self.settings(data, train__log_every=1, train__batch_size=8)), 0)
        again = ["-c", self.dir / "run/config.yaml", f"run.dir={self.dir}/again"]
        self.assert_exit(self.run_trainer(again), 0)
        self.assertEqual(self.losses("again"), self.losses("run"))

    def test_resume_never_keeps_the_old_run_aside(self):
        data = self.small_data(64)
        for _ in range(3):
            self.assert_exit(self.run_trainer(self.settings(data, run__resume="never")), 0)
        self.assertTrue((self.dir / "run/old-1/metrics.jsonl").exists())
        self.assertTrue((self.dir / "run/old-2/checkpoints").exists())
        self.assertFalse((self.dir / "run/old-3").exists())

    def test_a_used_run_directory_of_another_model_is_refused_with_the_list(self):
        data = self.small_data(64)
        self.assert_exit(self.run_trainer(self.settings(data)), 0)
        result = self.run_trainer(self.settings(data, optim__lr="0.3", train__epochs=2))
        self.assert_exit(result, 2)
        self.assertIn("optim.lr: 0.1 -> 0.3", result.stderr)
        self.assertIn("run.resume=never", result.stderr)

    def test_the_same_model_in_other_words_goes_on(self):
        data = self.small_data(64)
        model = "[{conv2d: {out: 4, kernel: 3%s}}, %s, flatten, {linear: {out: 4}}]"
        settings = self.settings(data, model__name="null", model__hidden="null")
        self.assert_exit(self.run_trainer(settings + ["model.layers=" + model % ("", "gelu")]), 0)
        result = self.run_trainer(settings + ["model.layers=" + model % (", stride: [1, 1]", "{gelu: {form: exact}}"),
                                              "train.epochs=2"])
        self.assert_exit(result, 0)
        self.assertIn("resuming", result.stderr)
        other = self.run_trainer(settings + ["model.layers=" + model % ("", "{gelu: {form: tanh}}"), "train.epochs=3"])
        self.assert_exit(other, 2)
        self.assertIn("model.layers", other.stderr)

    def test_classes_are_compared_with_those_that_the_weights_were_trained_on(self):
        self.assert_exit(self.run_trainer(self.settings(self.small_data(64))), 0)
        more = self.small_data(64, "more.h5", classes=6)
        result = self.run_trainer(self.settings(more, train__epochs=2, model__classes=6))
        self.assert_exit(result, 2)
        self.assertIn("was trained with other settings (model.classes: 4 -> 6); restore them", result.stderr)

    def test_a_best_checkpoint_without_data_to_evaluate_on_is_refused(self):
        data = self.small_data(64)
        result = self.mpirun(2, self.settings(data, train__checkpoint__best="val/loss"))
        self.assert_exit(result, 2)
        self.assertIn("train.checkpoint.best is val/loss, but there are no data to evaluate on; set data.val", result.stderr)
        self.assertFalse((self.dir / "run").exists())

    def test_a_refused_resume_leaves_the_run_as_it_is(self):
        data = self.small_data(64)
        self.assert_exit(self.run_trainer(self.settings(data)), 0)
        names = ("config.yaml", "provenance.json", "metrics.jsonl")
        before = [(self.dir / "run" / name).read_text() for name in names]
        self.assert_exit(self.run_trainer(self.settings(data, model__hidden="[8]", train__epochs=2)), 2)
        self.assertEqual([(self.dir / "run" / name).read_text() for name in names], before)

    def test_a_refused_resume_from_a_file_makes_no_run_directory(self):
        data = self.small_data(64)
        self.assert_exit(self.run_trainer(self.settings(data)), 0)
        file = self.latest("run")
        for run, resume, changed, code in (("absent", "absent.h5", {}, 4), ("other", file, {"optim__lr": 0.5}, 2)):
            result = self.mpirun(2, self.settings(data, run=run, run__resume=resume, **changed))
            self.assert_exit(result, code)
            self.assertIn(str(resume), result.stderr)
            self.assertFalse((self.dir / run).exists())

    def test_a_file_name_may_be_any_bytes(self):
        data = self.small_data(64)
        odd = os.fsencode(self.dir) + b"/\xff\xfe.h5"
        os.link(data, odd)
        self.assert_exit(self.run_trainer(self.settings(os.fsdecode(odd))), 0)
        json.loads((self.dir / "run/provenance.json").read_text())
        evaluated = self.run_trainer(["eval", "--run", self.dir / "run", "--data", os.fsdecode(odd), "--json"])
        self.assert_exit(evaluated, 0)
        self.assertIn("\N{REPLACEMENT CHARACTER}", json.loads(evaluated.stdout)["data"])

    def test_a_requeued_job_goes_on_whatever_it_was_told_of_earlier_runs(self):
        data = self.small_data(64)
        self.assert_exit(self.run_trainer(self.settings(data, train__max_steps=1)), 0)  # an earlier run
        first = self.dir / "first.h5"
        shutil.copy(self.latest("run"), first)
        for resume in ("never", first):
            settings = self.settings(data, train__max_steps=3, train__log_every=1, run__resume=resume)
            self.assert_exit(self.run_trainer(settings, env={"SLURM_JOB_ID": "77"}), 0)
            others = [{"SLURM_JOB_ID": "78", "SLURM_RESTART_COUNT": "1"}, {"SLURM_JOB_ID": "77", "SLURM_RESTART_COUNT": "0"}]
            requeued = self.run_trainer(settings, env={"SLURM_JOB_ID": "77", "SLURM_RESTART_COUNT": "1"})
            self.assert_exit(requeued, 0)
            self.assertIn(f"run.resume is {resume}, but Slurm has requeued this job", requeued.stderr)
            self.assertIn("is finished: 3 steps", requeued.stderr)
            for other in others:
                anew = self.run_trainer(settings, env=other)
                self.assert_exit(anew, 0)
                self.assertNotIn("requeued", anew.stderr)
                self.assertIn("finished after 3 steps", anew.stderr)

    def test_who_reads_the_messages_may_end_first(self):
        data = self.small_data(64)
        # head ends with the first byte that it reads.
        script = '"$0" "$@" 2>&1 >/dev/null | head -c 1 >/dev/null; exit "${PIPESTATUS[0]}"'
        command = ["bash", "-c", script, self.trainer, *self.settings(data, train__epochs=20)]
        self.assertEqual(subprocess.run(command, env=self.environment(), check=False).returncode, 0)
        self.assertEqual(self.metrics("run", "memory")[-1]["step"], 160)
        self.assertEqual(self.latest("run").name, "step-00000160.h5")

    def test_going_back_to_an_older_checkpoint_sets_the_later_ones_aside(self):
        data = self.small_data(120)
        common = {"train__batch_size": 10, "train__checkpoint__every": "4 steps", "train__checkpoint__keep": 1,
                  "train__max_steps": 10}
        self.assert_exit(self.run_trainer(self.settings(data, **{**common, "train__checkpoint__keep": 3})), 0)
        older = self.dir / "older.h5"
        (self.dir / "run/checkpoints/step-00000004.h5").rename(older)
        result = self.run_trainer(self.settings(data, **{**common, "train__max_steps": 6}, run__resume=older))
        self.assert_exit(result, 0)
        self.assertEqual([path.name for path in (self.dir / "run/checkpoints").iterdir()], ["step-00000006.h5"])
        self.assertTrue((self.dir / "run/old-1/checkpoints/step-00000010.h5").exists())

    def test_another_best_metric_starts_anew(self):
        # The loss rises, and is above every accuracy.
        data, val = self.small_data(64), self.small_data_of_other_classes()
        self.assert_exit(self.run_trainer(self.settings(data, data__val=val,
                                                        train__checkpoint__best="val/accuracy")), 0)
        self.assertEqual(self.best_step("run"), 8)
        self.assert_exit(self.run_trainer(self.settings(data, data__val=val, train__checkpoint__best="val/loss",
                                                        train__checkpoint__keep=1, train__epochs=3)), 0)
        self.assertEqual(self.best_step("run"), 16)
        self.assertEqual(sorted(path.name for path in (self.dir / "run/checkpoints").iterdir()),
                         ["step-00000016.h5", "step-00000024.h5"])

    def test_a_run_directory_in_use_is_refused(self):
        data = self.small_data(240)
        with self.start(self.settings(data, train__epochs=100000, train__log_every=1)) as job:
            job.wait_for_metrics(self.dir / "run")
            result = self.run_trainer(self.settings(data))
            self.assert_exit(result, 2)
            self.assertIn("in use by process", result.stderr)
            job.signal(signal.SIGUSR1)
            self.assert_exit(job.wait(), 75)

    def full_and_resumed(self, ranks_before, ranks_after, stop, **overrides):
        data = self.small_data(120)
        common = {"train__batch_size": 24 // ranks_before, "train__log_every": 1, "train__epochs": 2,
                  "optim__momentum": 0.9, **overrides}
        self.assert_exit(self.mpirun(ranks_before, self.settings(data, "full", **common)), 0)
        self.assert_exit(self.mpirun(ranks_before, self.settings(data, "run", **common, train__max_steps=stop)), 0)
        common["train__batch_size"] = 24 // ranks_after
        self.assert_exit(self.mpirun(ranks_after, self.settings(data, "run", **common)), 0)
        return self.losses("full"), self.losses("run")

    def test_resumed_in_the_middle_of_an_epoch_every_loss_has_the_same_bits(self):
        for optimizer in ("sgd", "adamw"):
            full, resumed = self.full_and_resumed(2, 2, 3, optim__name=optimizer, **(
                {"optim__momentum": 0, "optim__lr": 0.01} if optimizer == "adamw" else {}))
            self.assertEqual(len(full), 10)
            self.assertEqual(resumed, full)
            self.assertEqual(self.sha256("run"), self.sha256("full"))
            for run in ("full", "run"):
                (self.dir / run).rename(self.dir / f"{run}-{optimizer}")

    def test_resumed_on_other_ranks_the_losses_go_on(self):
        full, resumed = self.full_and_resumed(1, 3, 4, train__precision="fp64")
        for one, other in zip(full, resumed, strict=True):
            self.assertAlmostEqual(one, other, delta=1e-12 * one)

    def test_rows_past_the_checkpoint_are_cut(self):
        data = self.small_data(120)
        common = {"train__batch_size": 10, "train__log_every": 1, "train__checkpoint__every": "5 steps"}
        self.assert_exit(self.run_trainer(self.settings(data, **common)), 0)
        expected = self.losses("run")
        for step in (12, 10):
            (self.dir / f"run/checkpoints/step-{step:08d}.h5").unlink()
        self.assert_exit(self.run_trainer(self.settings(data, **common)), 0)
        self.assertEqual([row["step"] for row in self.metrics("run", "step")], list(range(1, 13)))
        self.assertEqual(self.losses("run"), expected)

    def test_rows_that_cannot_be_written_end_every_rank(self):
        settings = self.settings(self.small_data(), train__epochs=100000, train__log_every=1,
                                 train__checkpoint__every="1 steps")
        rows = self.dir / "run/metrics.jsonl"
        with self.start_mpirun(2, settings) as job:
            job.wait_for_metrics(self.dir / "run")
            with rows.open() as written:
                os.symlink("/dev/full", self.dir / "full")
                os.replace(self.dir / "full", rows)
                result = job.wait()
                kept = written.read()
        self.assert_exit(result, 1)
        self.assertEqual(result.stderr.count("error:"), 1, result.stderr)
        self.assertRegex(result.stderr, "error: rank 0 on .*cannot write .*metrics.jsonl: No space left on device; check")
        # Nor is there a checkpoint behind which the resume would leave that row out.
        rows.unlink()
        rows.write_text(kept)
        written = [row["step"] for row in self.metrics("run", "step")]
        self.assertEqual(self.latest("run").name, f"step-{written[-1]:08d}.h5")
        self.assert_exit(self.mpirun(2, [*settings, f"train.max_steps={written[-1] + 2}"]), 0)
        self.assertEqual([row["step"] for row in self.metrics("run", "step")], list(range(1, written[-1] + 3)))

    def test_a_run_whose_directory_is_removed_leaves_the_next_one_alone(self):
        data = self.small_data(4000)
        # Long epochs: their rows are written into the directory, too.
        given = {"train__checkpoint__every": "never", "train__log_every": 1000000, "train__batch_size": 1,
                 "model__hidden": "[1200, 1200]"}
        with self.start_mpirun(2, self.settings(data, train__epochs=1000000, **given)) as job:
            job.wait_until((self.dir / "run/provenance.json").exists)
            shutil.rmtree(self.dir / "run")
            self.assert_exit(self.run_trainer(self.settings(data, train__max_steps=3, **given)), 0)
            # What it saves now would be the next run's newest checkpoint.
            job.signal(signal.SIGUSR1)
            result = job.wait()
        self.assert_exit(result, 1)
        self.assertEqual(result.stderr.count("error:"), 1, result.stderr)
        self.assertRegex(result.stderr, r"the run directory \S+ was removed, moved or replaced while this run used it; start")
        self.assertEqual([path.name for path in (self.dir / "run/checkpoints").iterdir()], ["step-00000003.h5"])

    def test_old_checkpoints_are_removed(self):
        data = self.small_data(120)
        self.assert_exit(self.run_trainer(self.settings(data, train__batch_size=10, train__checkpoint__every="2 steps",
                                                        train__checkpoint__keep=2)), 0)
        names = sorted(path.name for path in (self.dir / "run/checkpoints").iterdir())
        self.assertEqual(names, ["step-00000010.h5", "step-00000012.h5"])

    def test_the_best_checkpoint_is_kept(self):
        data, val = self.small_data(120), self.small_data(60, "val.h5")
        self.assert_exit(self.run_trainer(self.settings(data, data__val=val, train__epochs=6, train__batch_size=20,
                                                        train__checkpoint__keep=1,
                                                        train__checkpoint__best="val/accuracy")), 0)
        rows = self.metrics("run", "eval")
        best = max(rows, key=lambda row: (row["accuracy"], -row["step"]))
        self.assertTrue((self.dir / f"run/checkpoints/step-{best['step']:08d}.h5").exists())

    def test_the_preemption_signal_saves_and_exits_75_on_every_rank(self):
        data = self.small_data(240)
        settings = self.settings(data, train__epochs=100000, train__log_every=1, train__batch_size=8)
        with self.start_mpirun(2, settings) as job:
            job.wait_for_metrics(self.dir / "run")
            job.signal_rank(1, signal.SIGUSR1)
            result = job.wait()
        self.assert_exit(result, 75)
        self.assertIn("stopped by a signal to another rank", result.stderr)
        self.assertIn("checkpoint is saved", result.stderr)
        step = self.metrics("run", "step")[-1]["step"]
        self.assertEqual(self.latest("run").name, f"step-{step:08d}.h5")

    def test_a_preemption_signal_during_the_start_is_not_lost(self):
        data = self.small_data(240)
        # As if it came in the first moment: it is pending when the program begins.
        script = self.dir / "signalled.py"
        script.write_text("#!/usr/bin/env python3\nimport os, signal, sys\n"
                          "signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGUSR1])\n"
                          f"os.kill(os.getpid(), signal.SIGUSR1)\nos.execv({str(self.trainer)!r}, sys.argv)\n")
        script.chmod(0o755)
        self.trainer, trainer = script, self.trainer
        self.assert_exit(self.mpirun(2, self.settings(data, train__log_every=1)), 75)
        self.assertEqual([row["step"] for row in self.metrics("run", "step")], [1])
        self.trainer = trainer
        self.assert_exit(self.mpirun(2, self.settings(data, train__log_every=1)), 0)

    def test_the_preemption_signal_at_the_end_of_an_epoch_leaves_the_evaluation_to_the_resume(self):
        data, val = self.small_data(64), self.small_data(40, "val.h5")
        # One update an epoch: whenever the signal comes, the update that hears of it is its epoch's last.
        settings = self.settings(data, data__val=val, train__epochs=100000, train__log_every=1, train__batch_size=32)
        with self.start_mpirun(2, settings) as job:
            job.wait_for_metrics(self.dir / "run")
            job.signal(signal.SIGUSR1)
            self.assert_exit(job.wait(), 75)
        stopped_at = self.metrics("run", "step")[-1]["step"]
        self.assertEqual(self.latest("run").name, f"step-{stopped_at:08d}.h5")
        evaluated = [row["step"] for row in self.metrics("run", "eval")]
        self.assertEqual(evaluated, list(range(1, stopped_at)))

        rest = [f"train.epochs={stopped_at + 2}"]
        self.assert_exit(self.mpirun(2, settings + rest), 0)
        self.assert_exit(self.mpirun(2, settings + rest + [f"run.dir={self.dir}/whole"]), 0)
        for kind in ("step", "eval"):
            resumed, whole = ([{**row, "account": None} for row in self.metrics(run, kind)] for run in ("run", "whole"))
            self.assertEqual(resumed, whole)

    def stopped_in_its_evaluation(self, settings):
        """On two ranks, by the preemption signal, in the evaluation behind the first update."""
        with self.start_mpirun(2, settings) as job:
            job.wait_for_metrics(self.dir / "run")
            job.signal(signal.SIGUSR1)
            self.assert_exit(job.wait(), 75)
        self.assertEqual([row["step"] for row in self.metrics("run", "step")], [1])
        self.assertEqual(self.metrics("run", "eval"), [])
        self.assertEqual(self.latest("run").name, "step-00000001.h5")
        self.assertEqual(list((self.dir / "run").rglob("*.tmp")), [])

    def goes_on_as_a_whole_run(self, settings):
        self.assert_exit(self.mpirun(2, settings), 0)
        self.assert_exit(self.mpirun(2, settings + [f"run.dir={self.dir}/whole"]), 0)
        for kind in ("step", "eval"):
            resumed, whole = ([{**row, "account": None} for row in self.metrics(run, kind)] for run in ("run", "whole"))
            self.assertEqual(resumed, whole)

    def long_evaluation(self, **more):
        """One update an epoch, and evaluations of some seconds."""
        data, val = self.small_data(64), self.small_data(4000, "val.h5")
        given = {"data.train": data, "data.val": val, "run.dir": self.dir / "run", "model.name": "resnet18",
                 "model.stem": "cifar", "train.batch_size": 32, "train.log_every": 1, "optim.lr": 0.01}
        return [f"{key}={value}" for key, value in (given | more).items()]

    def test_the_preemption_signal_in_an_evaluation_leaves_it_to_the_resume(self):
        settings = self.long_evaluation(**{"train.epochs": 2})
        self.stopped_in_its_evaluation(settings)
        self.goes_on_as_a_whole_run(settings)

    def test_the_preemption_signal_in_the_last_evaluation_leaves_it_to_the_resume(self):
        settings = self.long_evaluation(**{"train.max_steps": 1, "train.eval_every": 5})
        self.stopped_in_its_evaluation(settings)
        self.goes_on_as_a_whole_run(settings)

    def test_a_run_ends_within_its_walltime_and_goes_on_with_the_same_bits(self):
        data, val = self.small_data(240), self.small_data(40, "val.h5")
        settings = self.settings(data, data__val=val, train__log_every=1, train__batch_size=4, optim__momentum=0.9)
        began = time.monotonic()
        stopped = self.mpirun(2, settings + ["run.walltime=3", "train.epochs=1000000"])
        self.assertLess(time.monotonic() - began, system_test.TIMEOUT)
        self.assert_exit(stopped, 75)
        self.assertRegex(stopped.stderr, r"stopped by run.walltime, 3 s, after step \d+; the checkpoint is saved")
        # It has used the time that it was given: more than the first step, and less than it would take to end.
        step = self.metrics("run", "step")[-1]["step"]
        self.assertGreater(step, 1)
        self.assertEqual(self.latest("run").name, f"step-{step:08d}.h5")

        rest = [f"train.max_steps={step + 40}", "train.epochs=1000000"]
        self.assert_exit(self.mpirun(2, settings + rest + ["run.walltime=600"]), 0)
        self.assert_exit(self.mpirun(2, settings + rest + [f"run.dir={self.dir}/whole"]), 0)
        self.assertEqual(self.losses("run"), self.losses("whole"))
        self.assertEqual(self.sha256("run"), self.sha256("whole"))

    def test_a_walltime_that_is_over_at_the_start_leaves_the_first_step_and_no_evaluation(self):
        data, val = self.small_data(64), self.small_data(40, "val.h5")
        settings = self.settings(data, data__val=val, train__log_every=1, train__batch_size=32, train__max_steps=1)
        self.assert_exit(self.run_trainer(settings + ["run.walltime=0.01"]), 75)
        self.assertEqual([row["step"] for row in self.metrics("run", "step")], [1])
        self.assertEqual(self.metrics("run", "eval"), [])
        # The evaluation is what is left of it.
        self.assert_exit(self.run_trainer(settings), 0)
        self.assertEqual([row["step"] for row in self.metrics("run", "step")], [1])
        self.assertEqual([row["step"] for row in self.metrics("run", "eval")], [1])

    def test_checkpoints_every_so_many_minutes_are_as_far_apart(self):
        # A slow machine makes the gaps longer, never shorter. Epochs, which end all the time, save nothing.
        settings = self.settings(self.small_data(64), train__epochs=1000000,
                                 train__checkpoint__every="0.01 minutes", train__checkpoint__keep=1000)
        folder = self.dir / "run/checkpoints"
        begin = time.monotonic()
        with self.start_mpirun(2, settings) as job:
            job.wait_until(lambda: folder.exists() and len(list(folder.glob("step-*.h5"))) >= 3)
            self.assertGreater(time.monotonic() - begin, 3 * 0.6)
            job.signal_rank(0, signal.SIGTERM)
            self.assert_exit(job.wait(), 75)
        gaps = (time.monotonic() - begin) // 0.6
        self.assertLessEqual(len(list(folder.glob("step-*.h5"))), gaps + 1, "with the one that was written at the end")

    def test_a_walltime_of_no_time_is_refused(self):
        for seconds in ("0", "-1"):
            result = self.run_trainer(self.settings(self.dir / "data.h5", run__walltime=seconds))
            self.assert_exit(result, 2)
            self.assertIn(f"run.walltime: {seconds} is not a number above 0", result.stderr)

    def test_a_resume_on_another_file_says_so(self):
        data, other = self.small_data(64), self.small_data(64, "other.h5")
        self.assert_exit(self.run_trainer(self.settings(data)), 0)
        result = self.run_trainer(self.settings(other, train__epochs=2))
        self.assert_exit(result, 0)
        self.assertIn(f"going on with other settings than before (data.train: [{data}] -> [{other}])", result.stderr)

    def assert_lost_peer_is_named(self, signal_number, fate):
        data = self.small_data(240)
        settings = self.settings(data, train__epochs=100000, train__log_every=1, train__batch_size=8,
                                 train__checkpoint__every="never", distributed__timeout=2)
        with self.start_mpirun(3, settings) as job:
            job.wait_for_metrics(self.dir / "run", 11)
            job.signal_rank(1, signal_number)
            result = job.wait(60)
        self.assertEqual(result.exit_code, 5)
        errors = re.findall(r"error: (?:in step (\d+) \(epoch (\d+)\): )?", result.stderr)
        self.assertIn(len(errors), (2, 3), result.stderr)  # one that is stopped may come to, and find the others gone
        made = self.metrics("run", "step")[-1]["step"]
        for step, epoch in errors:
            # Ten updates per epoch; the other rank may be in the step before or after rank 0's.
            self.assertLessEqual(abs(int(step) - (made + 1)), 1, result.stderr)
            self.assertEqual(int(epoch), (int(step) + 9) // 10, result.stderr)
        self.assertRegex(result.stderr, rf"rank [02] on \S+ waited .* for its peers: rank 1 on \S+, process \d+, {fate}")

    def test_a_killed_peer_ends_the_others_with_5(self):
        self.assert_lost_peer_is_named(signal.SIGKILL, "has ended")

    def test_a_stopped_peer_is_named_at_the_time_out(self):
        self.assert_lost_peer_is_named(signal.SIGSTOP, "is stopped")

    def test_after_a_peers_death_the_survivor_names_it_before_mpirun_ends_it(self):
        data = self.small_data(240)
        settings = self.settings(data, train__epochs=100000, train__log_every=1)
        with self.start_mpirun(2, settings, per_rank_exit_codes=False) as job:
            job.wait_for_metrics(self.dir / "run")
            trainers = [pid for pid in system_test.session_processes(job.process.pid)
                        if (pathlib.Path(f"/proc/{pid}/comm").read_text().strip() == "trainer")]
            self.assertEqual(len(trainers), 2)
            os.kill(max(trainers), signal.SIGKILL)
            result = job.wait(60)
        self.assertNotEqual(result.exit_code, 0)
        self.assertRegex(result.stderr, rf"rank [01] on \S+, process {max(trainers)}, has ended")

    def test_weights_may_come_from_a_checkpoint(self):
        data = self.small_data(64)
        self.assert_exit(self.run_trainer(self.settings(data, "first")), 0)
        self.assert_exit(self.run_trainer(self.settings(data, "second", model__init_from=self.latest("first"),
                                                        train__epochs=0)), 0)
        self.assertEqual(self.sha256("first"), self.sha256("second"))


if __name__ == "__main__":
    system_test.main()
