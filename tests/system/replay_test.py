"""`trainer replay`: the step that ended a run is recorded, and made again on one rank."""

import json
import os
import random
import shlex
import signal
import time

import system_test
from recipes import TrainingTest
from sequences import FOLDERS, npy, packing, write_videos


class Replay(TrainingTest):
    def table(self, bad=37, count=64):
        """A table of numbers near 1; one of sample `bad` is so large that a sum with it overflows."""
        numbers = random.Random(0)
        rows = []
        for i in range(count):
            values = [f"{numbers.random() + (i % 4 == k):.4f}" for k in range(4)]
            if i == bad:
                values = ["3.3e38"] * 4
            rows.append(",".join(values) + f",{i % 4}")
        path, target = self.dir / "table.csv", self.dir / "data.h5"
        path.write_text("\n".join(["a,b,c,d,label", *rows]) + "\n")
        self.assert_exit(self.run_trainer(["pack", "csv", "--csv", path, "--label", "label", "-o", target]), 0)
        return target

    def train_until_it_fails(self, ranks, data, run="run", **settings):
        """The path that the run names."""
        result = self.mpirun(ranks, self.settings(data, run, **settings))
        self.assert_exit(result, 1)
        self.assertIn("lower optim.lr or check the data", result.stderr)
        words = result.stderr.split("; where it comes from: trainer replay ")
        self.assertEqual(len(words), 2, result.stderr)
        return shlex.split(words[1])[0]

    def replay(self, code, *arguments):
        result = self.run_trainer(["replay", *arguments])
        self.assert_exit(result, code)
        return result

    def test_the_sample_and_the_layer_are_named(self):
        data = self.table()
        file = self.train_until_it_fails(2, data, model__hidden="[64]", data__shuffle="false")
        self.assertEqual(file, str(self.dir / "run/failed-step-00000003.h5"))
        report = json.loads(self.replay(1, file, "--json").stdout)
        self.assertTrue(report["reproduced"])
        self.assertEqual([sample["index"] for sample in report["samples"]], [37])
        self.assertEqual((report["step"], report["begin"], report["end"], report["world_size"]), (3, 32, 48, 2))
        self.assertEqual([type(rank["recorded_loss"]) for rank in report["ranks"]], [float, str])
        self.assertAlmostEqual(report["ranks"][0]["loss"], report["ranks"][0]["recorded_loss"], delta=1e-5)
        first = report["first"]
        self.assertEqual([first[key] for key in ("where", "name", "kind", "layer", "rank", "of")],
                         ["output", "fc1", "linear", 0, 1, 512])
        shown = self.replay(1, file).stdout
        self.assertIn("sample 37 of the data (position 37, rank 1)", shown)
        self.assertIn(f"the output of layer 1, fc1 (linear): {first['count']} of 512 values", shown)

    def test_a_sequence_is_named_among_others(self):
        """Outputs of a sample are rows of seconds, and wanted are others than outputs: each sample's own are looked at."""
        write_videos(self.dir, 13)
        seconds = json.loads((self.dir / "list.json").read_text())[3]["timeRange"][1]
        (self.dir / FOLDERS[0] / "v3.npy").write_bytes(npy([[3.3e38, 3.3e38]] * seconds))
        self.assert_exit(self.run_trainer(packing(self.dir, "data.h5")), 0)
        result = self.mpirun(2, ["data.train=data.h5", "model.name=temporal_transformer", "model.dim=16", "model.depth=1",
                                 "model.heads=2", "optim={name: adam, lr: 1e-3}", "train.batch_size=4", "data.shuffle=false",
                                 f"run.dir={self.dir / 'run'}"])
        self.assert_exit(result, 1)
        (file,) = (self.dir / "run").glob("failed-step-*.h5")
        report = json.loads(self.replay(1, file, "--json").stdout)
        self.assertTrue(report["reproduced"])
        self.assertEqual([(sample["index"], sample["rank"]) for sample in report["samples"]], [(3, 1)])
        self.assertAlmostEqual(report["ranks"][0]["loss"], report["ranks"][0]["recorded_loss"], delta=1e-5)
        result = self.run_trainer(["-c", self.dir / "run/config.yaml", f"run.dir={self.dir / 'other'}", f"run.resume={file}"])
        self.assert_exit(result, 4)
        self.assertIn(f"{file} holds a step that failed, not a state to go on from; name one of RUN_DIR/checkpoints", result.stderr)
        self.assertFalse((self.dir / "other").exists())

    def test_synchronised_batch_norm_has_the_statistics_of_the_run(self):
        data = self.small_data(64)
        model = ("[{conv2d: {out: 4, kernel: 3, padding: 1}}, batch_norm2d, relu, flatten, {linear: {out: 4}}]")
        settings = {"distributed__sync_batch_norm": "true", "model__name": "null", "model__hidden": "null",
                    "model__layers": model, "train__batch_size": 4, "train__log_every": 1, "train__accumulate": 2}
        finite, infinite = "data.normalize={mean: [0.5], std: [0.5]}", "data.normalize={mean: [0], std: [1e-40]}"
        self.assert_exit(self.mpirun(2, [*self.settings(data, "good", train__max_steps=1, **settings), finite]), 0)
        result = self.mpirun(2, [*self.settings(data, "bad", **settings), infinite])
        self.assert_exit(result, 1)
        file = self.dir / "bad/failed-step-00000001.h5"
        report = json.loads(self.replay(1, file, "--json").stdout)
        self.assertEqual(report["first"]["where"], "samples")
        self.assertEqual({sample["rank"] for sample in report["samples"]}, {0, 1})

        # The same samples and weights, finite: the loss is that of the run with these.
        losses = []
        for extra in [], ["distributed.sync_batch_norm=false"]:
            report = json.loads(self.replay(0, file, "--json", finite, *extra).stdout)
            losses.append(sum(rank["loss"] for rank in report["ranks"]) / 2)
        self.assertAlmostEqual(losses[0], self.losses("good")[0], places=6)
        self.assertNotAlmostEqual(losses[1], losses[0], places=3)

    def test_weights_that_an_update_threw_too_far_are_found_on_any_schedule(self):
        data = self.small_data(64)
        wild = {"optim__lr": 1e30, "train__batch_size": 8}
        for run, more in {"zero1": {"distributed__strategy": "zero1"},
                          "across": {"distributed__strategy": "ddp", "distributed__across_steps": "true"},
                          "accumulate": {"train__accumulate": 2},
                          "deterministic": {"run__deterministic": "true", "run__virtual_shards": 4}}.items():
            with self.subTest(run):
                file = self.train_until_it_fails(2, data, run, **wild, **more)
                self.assertEqual(file, str(self.dir / run / "failed-step-00000002.h5"))
                report = json.loads(self.replay(1, file, "--json").stdout)
                first = report["first"]
                self.assertEqual((first["where"], first["rank"]), ("output", 0), first)
                self.assertEqual([rank["recorded_loss"] for rank in report["ranks"]], ["nan", "nan"])
                self.assertEqual(len(report["samples"]), report["end"] - report["begin"])

    def test_the_command_that_a_failed_run_suggests_may_be_pasted(self):
        file = self.train_until_it_fails(1, self.small_data(64), run="it's my run", optim__lr=1e30)
        self.assertEqual(file, str(self.dir / "it's my run/failed-step-00000002.h5"))
        shown = self.run_trainer(["inspect", file]).stdout
        command = next(line for line in shown.splitlines() if "failed    at step 2: " in line).split(": ", 1)[1]
        self.assertEqual(shlex.split(command), ["trainer", "replay", file])

    def test_files_that_are_no_failed_step_and_other_data_are_refused(self):
        data, other = self.small_data(64), self.small_data(48, "other.h5")
        file = self.train_until_it_fails(2, data, optim__lr=1e30)
        self.assertIn(f"failed    at step 2: trainer replay {file}", self.run_trainer(["inspect", file]).stdout)
        self.assertIn("missing.h5 does not exist", self.replay(4, "missing.h5").stderr)
        self.assertIn(f"is a directory; name the file in it: {self.dir / file}", self.replay(4, self.dir / "run").stderr)
        self.assertIn("there is none in it", self.replay(4, self.dir).stderr)
        not_one = self.replay(4, data).stderr
        self.assertIn("not a checkpoint", not_one)
        self.assertIn("to replay RUN_DIR/failed-step-….h5", not_one)
        self.assertIn("64 samples", self.replay(4, file, f"data.train={other}").stderr)
        self.assertIn("train.batch_size", self.replay(2, file, "train.batch_size=4").stderr)
        self.assertIn("did you mean", self.replay(2, file, "data.trian=a.h5").stderr)
        self.replay(2)
        self.assert_exit(self.run_trainer(self.settings(data, "good", train__max_steps=1)), 0)
        self.assertIn("holds no failed step", self.replay(4, self.latest("good")).stderr)
        damaged = self.dir / "damaged.h5"
        damaged.write_bytes((self.dir / file).read_bytes()[:-400])
        self.replay(4, damaged)

    def killed_while_recording(self, victim):
        """The Result of a run of two ranks, of which one dies while rank 0 writes the failed step."""
        data = self.small_data(64)
        args = self.settings(data, f"killed-{victim}", optim__lr=1e30, model__hidden="[3000, 3000]",
                             train__checkpoint__every="1000 steps")
        folder = self.dir / f"killed-{victim}"
        with self.start_mpirun(2, args) as job:
            pids = [job.rank_pid(rank) for rank in (0, 1)]
            part = f"failed-step-00000002.h5.*-{pids[0]}.tmp"
            deadline = time.monotonic() + 60
            while not list(folder.glob(part)):  # 37 MB of weights are hashed and written, then synced
                self.assertLess(time.monotonic(), deadline, job.said())
            os.kill(pids[0], signal.SIGSTOP)
            self.assertTrue(list(folder.glob(part)), "rank 0 is stopped in the middle of writing")
            os.kill(pids[victim], signal.SIGKILL)
            if victim != 0:
                os.kill(pids[0], signal.SIGCONT)
            return job.wait(timeout=60), folder

    def test_a_peer_that_dies_during_the_record_takes_nothing_from_it(self):
        result, folder = self.killed_while_recording(1)
        self.assertEqual(result.exit_codes, [1, 137], result.stderr)
        self.assertIn("lower optim.lr or check the data", result.stderr)
        self.replay(1, folder / "failed-step-00000002.h5")
        self.assertEqual([path.name for path in folder.glob("*.tmp")], [])

    def test_rank_0_that_dies_during_the_record_leaves_no_half_of_it(self):
        result, folder = self.killed_while_recording(0)
        self.assertEqual(result.exit_codes, [137, 1], result.stderr)
        self.assertRegex(result.stderr, r"step 2 \(epoch 1\): the loss is .*; while that was recorded: .*rank 0 on .* has ended")
        self.assertEqual([path.name for path in folder.glob("failed-step-*.h5")], [])
        # What it left under another name goes with the next run there.
        data = self.dir / "data.h5"
        self.assert_exit(self.run_trainer(self.settings(data, folder.name, train__max_steps=1)), 0)
        self.assertEqual([path.name for path in folder.glob("*.tmp")], [])

    def test_a_record_that_cannot_be_written_only_warns(self):
        data = self.small_data(64)
        (self.dir / "run" / "failed-step-00000002.h5" / "in the way").mkdir(parents=True)
        result = self.mpirun(2, self.settings(data, optim__lr=1e30))
        self.assert_exit(result, 1)
        self.assertIn("warning: the failed step is not recorded: cannot save", result.stderr)
        self.assertNotIn("trainer replay", result.stderr)


if __name__ == "__main__":
    system_test.main()
