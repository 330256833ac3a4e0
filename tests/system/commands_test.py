"""The small subcommands: sampler, pack, inspect, help."""

import json
import os
import re
import shlex
import shutil
import struct
import unittest

import system_test
from recipes import TrainingTest


class Commands(TrainingTest):
    def test_help_everywhere(self):
        for arguments in (["--help"], ["train", "--help"], ["inspect", "--help"], ["pack", "--help"],
                          ["pack", "idx", "--help"], ["sampler", "--help"], ["eval", "--help"],
                          ["predict", "--help"], ["bench", "buckets", "--help"], ["bench", "--help"], ["bench", "allreduce", "--help"]):
            result = self.run_trainer(arguments)
            self.assert_exit(result, 0)
            self.assertTrue(result.stdout, arguments)

    def test_the_word_help_prints_what_the_option_of_that_command_prints(self):
        for words, command in (("help", ""), ("help train", "train"), ("help bench step", "bench step"), ("help pack idx", "pack idx"),
                               ("pack help", "pack"), ("pack help idx", "pack idx"), ("bench help", "bench"),
                               ("bench help step", "bench step"), ("help help", "")):
            said = self.run_trainer(words.split())
            self.assert_exit(said, 0)
            self.assertEqual(said.stdout, self.run_trainer([*command.split(), "--help"]).stdout, words)
        self.assertIn("--version", said.stdout)
        self.assertIn("did you mean train?", self.run_trainer(["help", "trian"]).stderr)

    def test_the_version_says_on_its_first_line_which_and_then_what_a_report_of_an_error_needs(self):
        result = self.run_trainer(["--version"])
        self.assert_exit(result, 0)
        first, *lines = result.stdout.splitlines()
        self.assertRegex(first, r"^tutti \d+\.\d+\.\d+$")
        said = dict(line.split(": ", 1) for line in lines)
        self.assertEqual(list(said), ["commit", "MPI", "HDF5", "CPU", "gloo", "CUDA module"])
        self.assertRegex(said["CPU"], "oneDNN|Eigen")
        self.assert_exit(self.begin(self.small_data(16), "run"), 0)
        provenance = json.loads((self.dir / "run/provenance.json").read_text())
        self.assertEqual((first, said["commit"]), (f"tutti {provenance['version']}", provenance["commit"]))
        self.assertEqual((said["MPI"], said["HDF5"]), (provenance["libraries"]["mpi"], provenance["libraries"]["hdf5"]))

    def test_sampler_prints_a_ranks_indices(self):
        # DistributedSampler(range(10), num_replicas=3, rank=1, seed=0), epoch 0, made with torch 2.15
        result = self.run_trainer(["sampler", "--samples", 10, "--world", 3, "--rank", 1])
        self.assert_exit(result, 0)
        self.assertEqual(result.stdout.split(), ["1", "3", "8", "4"])

    def test_sampler_without_shuffling_pads_from_the_beginning(self):
        result = self.run_trainer(["sampler", "--samples", 5, "--world", 2, "--rank", 1, "--no-shuffle"])
        self.assertEqual(result.stdout.split(), ["1", "3", "0"])

    def test_sampler_names_the_number_that_makes_no_sense(self):
        for changed, value in (("--rank", 2), ("--rank", -1), ("--world", 0), ("--samples", -1), ("--epoch", -1),
                               ("--samples", 10**17)):
            arguments = {"--samples": 5, "--world": 2, "--rank": 1, "--epoch": 0, changed: value}
            result = self.run_trainer(["sampler", *(word for pair in arguments.items() for word in pair)])
            self.assert_exit(result, 2)
            self.assertIn(changed, result.stderr)

    def test_sampler_refuses_a_number_beyond_64_bits(self):
        for flag in ("--seed", "--samples", "--epoch"):
            arguments = {"--samples": 5, "--world": 2, "--rank": 1, flag: 10**20}
            result = self.run_trainer(["sampler", *(word for pair in arguments.items() for word in pair)])
            self.assert_exit(result, 2)
            self.assertIn("64 bits", result.stderr)
            self.assertEqual(result.stdout, "")

    def test_an_unknown_flag_is_answered_with_the_one_that_was_meant(self):
        for arguments, meant in ((["sampler", "--worlds", 2], "--world"), (["sampler", "--drop", 2], "--drop-last"),
                                 (["inspect", "--SHA256"], "--sha256"), (["train", "--epoch", 2], "--epochs"),
                                 (["--log-intervall", 2], "--log-interval"), (["predict", "--get_logit"], "--get_logits"),
                                 (["train", "--max_steps", 2], "write train.max_steps=2\n"), (["predict", "--bs", 8], "train.batch_size=8"),
                                 (["--output_dir", "x"], "run.dir="), (["bench", "step", "--grad_clip", 1], "optim.clip_norm="),
                                 (["bench", "buckets", "--bucket_mb", 1], "--bucket-mb"), (["-C", "x.yaml"], "-c?"),
                                 (["-n", 2], "mpirun -np N"), (["-l", "INFO"], "run.log_level="), (["--warmup", 5], "write schedule.warmup_epochs=5\n"),
                                 (["-a", "resnet18", "--lr", 1], "write model.name=resnet18\n"), (["--sync-bn"], "sync_batch_norm=true\n"),
                                 (["--optimizer=adam"], "write optim.name=adam\n"), (["--amp", "train.epochs=1"], "bf16 (there is no fp16)"),
                                 (["--gpus", 2], "one rank for each GPU"), (["-e"], "trainer eval --run RUN_DIR")):
            result = self.run_trainer(arguments)
            self.assert_exit(result, 2)
            self.assertIn(meant, result.stderr.partition(";")[2])
        # What is near to nothing, or means nothing to that command, is answered with its help alone.
        for arguments in (["-x"], ["predict", "--output_dir", "x"], ["doctor", "--batch_size", 2], ["inspect", "-z"]):
            result = self.run_trainer(arguments)
            self.assert_exit(result, 2)
            self.assertRegex(result.stderr, r"; run trainer \w+ --help\n$")

    def test_all_that_is_missing_is_named_with_what_it_is_for(self):
        for arguments, said in ((["export"], "missing: path (run directory (its latest checkpoint) or checkpoint), "
                                             "-o,--output (file to write: .safetensors or .h5); run trainer export --help"),
                                (["sampler", "--world", 2], "missing: --samples (number of samples in the data set), "
                                                            "--rank (the rank, from 0);"),
                                (["sampler", "--sample", 2], "did you mean --samples?")):
            result = self.run_trainer(arguments)
            self.assert_exit(result, 2)
            self.assertIn(said, result.stderr)

    def test_help_is_printed_once_by_several_ranks(self):
        for arguments in (["train", "--help"], ["eval", "--help"], ["predict", "--help"], ["bench", "buckets", "--help"],
                          ["help", "train"], ["bench", "help", "step"], ["pack", "help", "idx"]):
            result = self.mpirun(2, arguments)
            self.assert_exit(result, 0)
            self.assertEqual(result.stdout.count("Usage"), 1, arguments)

    def test_inspect_shows_a_data_set(self):
        data = self.pack(*self.synthetic_idx(40, classes=4, side=8), options=["--class-names", "a,b,c,d"])
        result = self.run_trainer(["inspect", data])
        self.assert_exit(result, 0)
        for word in ("40", "[8, 8, 1]", "u8", "classes   4", "d"):
            self.assertIn(word, result.stdout)

    def test_inspect_checks_the_hash_of_a_checkpoint(self):
        self.assert_exit(self.begin(self.small_data(16), "run"), 0)
        whole = self.run_trainer(["inspect", self.dir / "run"])
        self.assert_exit(whole, 0)
        self.assertTrue(whole.stdout.endswith("  content   matches the stored SHA-256\n"), whole.stdout)
        raw = bytearray(self.latest("run").read_bytes())
        weights = self.exported("run")["fc1.weight"][1]
        raw[raw.index(weights)] ^= 1
        self.latest("run").write_bytes(raw)
        damaged = self.run_trainer(["inspect", self.dir / "run"])
        self.assert_exit(damaged, 4)
        self.assertIn("fc1.weight", damaged.stdout, "what there is is shown")
        self.assertIn("the stored SHA-256 does not match its content", damaged.stderr)

    def test_a_path_that_cannot_be_looked_at_is_bad_data_with_the_reason(self):
        self.small_data(16)
        (self.dir / "loop").symlink_to("loop")
        for name, reason in (("loop/x.h5", "Too many levels of symbolic links"), ("x" * 300, "File name too long")):
            for arguments in (["inspect", name], ["inspect", "--sha256", name], ["eval", "--checkpoint", name],
                              ["eval", "--run", name], ["predict", "--checkpoint", name, "-o", "o.h5", "--data", "data.h5"],
                              ["export", name, "-o", "o.safetensors"],
                              ["train", "data.train=data.h5", f"model.init_from={name}", "run.dir=new",
                               "train.batch_size=8"]):
                result = self.run_trainer(arguments)
                self.assert_exit(result, 4)
                self.assertRegex(result.stderr, rf"error: .*cannot be looked at: {reason}; check the path")
        self.assertFalse((self.dir / "new").exists())

    @unittest.skipUnless(os.access("/dev/full", os.W_OK), "there is no /dev/full")
    def test_output_that_is_lost_is_an_error_but_none_where_nobody_wants_it(self):
        self.small_data(16)
        for arguments in ("sampler --samples 9 --world 1 --rank 0", "inspect data.h5", "inspect --config-reference", "--help", "eval --help"):
            for where, code in (("> /dev/full", 1), (">&-", 0), ("> /dev/null", 0)):
                command = ["sh", "-c", f"exec {self.quoted_trainer} {arguments} {where}"]
                with self._start(command, {}) as job:
                    result = job.wait(timeout=60)
                self.assert_exit(result, code)
                if code:
                    self.assertIn("error: standard output is not complete: No space left on device; ", result.stderr)

    def test_what_is_printed_never_reaches_a_file_where_the_streams_are_closed(self):
        data = self.small_data(16)
        with self._start(["sh", "-c", f"exec {self.quoted_trainer} inspect data.h5 <&- >&- 2>&-"], {}) as job:
            self.assert_exit(job.wait(timeout=60), 0)
        log = self.dir / "calls"
        if shutil.which("strace") is None:
            self.skipTest("strace is not installed")
        with self._start(["sh", "-c", f"exec strace -o {log} -e trace=openat {self.quoted_trainer} inspect {data} >&-"], {}) as job:
            result = job.wait(timeout=60)
        if "ptrace" in result.stderr and "Operation not permitted" in result.stderr:
            self.skipTest("no process may be traced here")
        self.assert_exit(result, 0)
        self.assertRegex(log.read_text(), r'data\.h5", .* = \d+\n')
        self.assertNotRegex(log.read_text(), r'data\.h5", .* = [012]\n')

    def test_a_file_larger_than_ulimit_allows_is_an_error_that_says_so(self):
        images, labels = self.synthetic_idx(400, classes=4, side=16)
        with self._start(["sh", "-c", f"ulimit -f 20; exec {self.quoted_trainer} pack idx --images {images} --labels {labels} "
                                      "-o large.h5"], {}) as job:
            result = job.wait(timeout=60)
        self.assert_exit(result, 1)
        self.assertRegex(result.stderr, "error: large.h5: writing failed: .*: File too large; check the free space")
        self.assertNotIn("time =", result.stderr)
        self.assertEqual(list(self.dir.glob("large*")), [])

    def test_inspect_says_what_is_wrong_with_weights(self):
        (self.dir / "model.pt").write_bytes(b"PK\3\4" + bytes(100))
        (self.dir / "cut.safetensors").write_bytes(struct.pack("<Q", 5000) + b"{")
        for name, words in (("model.pt", "save_file(torch.load(FILE), OUT)"), ("cut.safetensors", "or cut off")):
            result = self.run_trainer(["inspect", self.dir / name])
            self.assert_exit(result, 4)
            self.assertIn(words, result.stderr)

    def test_inspect_shows_a_checkpoint_and_a_run(self):
        data = self.small_data(64)
        self.assert_exit(self.run_trainer(self.settings(data)), 0)
        for target in (self.dir / "run", self.latest("run")):
            result = self.run_trainer(["inspect", target])
            self.assert_exit(result, 0)
            self.assertIn("fc1.weight", result.stdout)
            self.assertIn("[16, 64]", result.stdout)

    def test_a_checkpoint_that_cannot_be_looked_at_is_not_passed_over(self):
        data = self.small_data(64)
        self.assert_exit(self.run_trainer(self.settings(data)), 0)
        broken = self.dir / "run/checkpoints/step-99999999.h5"
        broken.symlink_to(broken.name)
        for arguments in (["inspect", "run"], ["eval", "--run", "run"], self.settings(data)):
            result = self.run_trainer(arguments)
            self.assert_exit(result, 4)
            self.assertIn("step-99999999.h5 cannot be looked at: Too many levels of symbolic links; ", result.stderr)
        broken.unlink()
        result = self.run_trainer(["predict", "--run", "run", "--data", data, "-o", "x" * 300 + ".h5"])
        self.assert_exit(result, 2)
        self.assertIn(".h5 cannot be written: File name too long; give a name in a folder that can be written", result.stderr)

    def test_inspect_shows_layers_memory_and_buckets_of_a_config(self):
        data = self.small_data(64)
        (self.dir / "c.yaml").write_text(f"data: {{train: {data}}}\nmodel: {{name: lenet}}\n")
        result = self.run_trainer(["inspect", "-c", "c.yaml", "--world", "2", "device=cpu"])
        self.assert_exit(result, 0)
        self.assertIn("as if all 2 ranks shared this host's cores", result.stdout)
        self.assertIn("warning: training refuses this: train.batch_size 64 × 2 ranks = 128 is larger than", result.stderr)
        result = self.run_trainer(["inspect", "-c", "c.yaml", "train.batch_size=32"])
        self.assert_exit(result, 0)
        for word in ("conv2", "max_pool2d", "parameters", "activations", "buckets", "expected peak", "fc2.bias .. conv1.weight"):
            self.assertIn(word, result.stdout)

    def test_inspect_says_where_the_run_chooses_other_buckets(self):
        config = ["inspect", "-c", "/dev/null", "--synthetic", "device=cpu", "train.batch_size=8"]
        for world, policy, chosen in ((2, "auto", True), (2, "cost_model", True), (2, "single", False), (1, "auto", False)):
            result = self.run_trainer([*config, "--world", world, f"distributed.bucket_policy={policy}"])
            self.assert_exit(result, 0)
            words = f"of the first steps: distributed.bucket_policy {policy} then makes others"
            self.assertEqual(words in result.stdout, chosen, (world, policy))

    def test_what_a_run_keeps_beside_its_model_leaves_the_libraries_memory_as_it_is(self):
        (self.dir / "c.yaml").write_text("model: {name: mlp, hidden: [2000, 2000, 2000]}\ntrain: {batch_size: 8}\n")
        units = {"B": 1 / 2**20, "KiB": 1 / 2**10, "MiB": 1, "GiB": 2**10}

        def stated(*settings):
            result = self.run_trainer(["inspect", "-c", "c.yaml", "--synthetic", "device=cpu", *settings])
            self.assert_exit(result, 0)
            rows = re.findall(r"^  ([a-z]+) +([0-9.]+) (B|[KMG]iB)  ", result.stdout, re.M)
            return {name: float(number) * units[unit] for name, number, unit in rows}

        plain = stated()
        for item, settings in {"average": ["train.ema=0.9"], "accumulated": ["train.accumulate=2"],
                               "shards": ["run.deterministic=true"]}.items():
            with self.subTest(item):
                more = stated(*settings)
                self.assertGreater(more[item], plain["parameters"] * 0.99)
                self.assertGreater(more["libraries"], plain["libraries"] - plain["parameters"] / 2)
                self.assertGreater(more["total"], plain["total"] + plain["parameters"] / 2)

    def test_inspect_shows_a_config_before_there_are_data(self):
        (self.dir / "c.yaml").write_text("model: {name: lenet, classes: 7}\ntrain: {batch_size: 8}\n")
        data = self.small_data(64)
        for arguments, shape in ((["--synthetic"], "[28, 28, 1]"), (["--synthetic", "--shape", "32x32x3"], "[32, 32, 3]"),
                                 (["--synthetic", f"data.train={self.dir / 'nowhere.h5'}", "data.val=no.h5"], "[28, 28, 1]"),
                                 ([], "[28, 28, 1]")):
            result = self.run_trainer(["inspect", "-c", "c.yaml", "--world", 4, *arguments])
            self.assert_exit(result, 0)
            self.assertIn(f"samples {shape}, batch 8 x 4 ranks", result.stdout)
            self.assertRegex(result.stdout, r"fc2 +linear +\[7\]")
            self.assertEqual("data.train is not set" in result.stderr, not arguments, result.stderr)
            self.assertEqual(len(result.stderr.splitlines()), 0 if arguments else 1)
        clips = self.run_trainer(["inspect", "-c", "c.yaml", "--synthetic", "model.name=videomae", "model.depth=1", "model.frames=4",
                                  "model.classes=2", "train.batch_size=1"])
        self.assert_exit(clips, 0)
        self.assertIn("1 sample [224, 224, 12], batch 1", clips.stdout)
        totals = [int(re.search(r"resident set, (\d+) bytes", self.run_trainer(["inspect", "-c", "c.yaml", *of]).stdout)[1])
                  for of in ([f"data.train={data}", "model.name=resnet18", "model.stem=cifar"],
                             ["--synthetic", "--shape", "8x8x1", "model.name=resnet18", "model.stem=cifar"])]
        self.assertAlmostEqual(totals[0], totals[1], delta=0.2 * totals[0])
        for arguments, said in ((["-c", "c.yaml", "--shape", "8x8x1"], "--shape is for --synthetic only"),
                                (["-c", "c.yaml", "--synthetic", "--shape", "8x"], "no shape of a sample"),
                                ([data, "--synthetic"], "--synthetic is for a config"),
                                ([data, "--shape", "8x8x1"], "--shape is for a config"),
                                (["-c", "c.yaml", "--synthetic", "--shape", "2x2x1"], "max_pool2d")):
            result = self.run_trainer(["inspect", *arguments])
            self.assert_exit(result, 2)
            self.assertIn(said, result.stderr)

    def test_inspect_shows_weights_that_no_run_is_around(self):
        self.assert_exit(self.run_trainer(self.settings(self.small_data(64))), 0)
        for name in ("w.safetensors", "w.h5"):
            self.assert_exit(self.run_trainer(["export", "run", "-o", name]), 0)
            result = self.run_trainer(["inspect", name])
            self.assert_exit(result, 0)
            self.assertRegex(result.stdout, name + r": weights\n  tensors, 1108 values\n(.*\n)*    fc1.weight +f32 +\[16, 64\]\n")

    def test_inspect_refuses_what_is_neither(self):
        (self.dir / "text").write_text("hello")
        self.assert_exit(self.run_trainer(["inspect", "text"]), 4)
        self.assert_exit(self.run_trainer(["inspect", "nowhere"]), 4)
        self.assert_exit(self.run_trainer(["inspect"]), 2)

    def test_inspect_refuses_what_it_would_ignore_and_what_training_refuses(self):
        data = self.small_data(64)
        (self.dir / "c.yaml").write_text(f"data: {{train: {data}}}\nmodel: {{name: mlp}}\ntrain: {{batch_size: 8}}\n")
        config = ["inspect", "-c", "c.yaml"]
        for arguments, said in (
                (["inspect", data, data], "is one too many"), (["inspect", data, "optim.lr=3"], "optim.lr=3 is one too many"),
                (["inspect", data, "--world", 4], "--world is for a config"), ([*config, "--sha256"], "leave out -c"),
                ([*config, "--world", 4294967298], "--world"), ([*config, "--world", 3, "distributed.strategy=single"], "single"),
                ([*config, "train.checkpoint.best=val/loss"], "no data to evaluate on"),
                ([*config, "distributed.backend=nccl", "device=cpu"], "distributed.backend is nccl")):
            result = self.run_trainer(arguments)
            self.assert_exit(result, 2)
            self.assertIn(said, result.stderr)
            self.assertEqual(result.stdout, "")
        result = self.run_trainer([*config, "train.topk=50"])
        self.assert_exit(result, 0)
        self.assertIn("warning: training refuses this: train.topk is 50", result.stderr)

    def test_inspect_does_not_advise_to_pack_over_what_is_no_data_set(self):
        (self.dir / "text").write_text("hello")
        data = self.small_data(64)
        self.assert_exit(self.run_trainer(self.settings(data)), 0)
        with open(self.latest("run"), "r+b") as file:
            file.truncate(5000)
        for path in ("text", "nowhere", "run", self.latest("run")):
            result = self.run_trainer(["inspect", path])
            self.assert_exit(result, 4)
            self.assertNotIn("pack", result.stderr)
            if path == "run":
                self.assertIn("a damaged HDF5 file, cut off or overwritten", result.stderr)

    def test_inspect_says_how_a_config_is_given(self):
        (self.dir / "c.yaml").write_text("train: {epochs: 1}\n")
        result = self.run_trainer(["inspect", "c.yaml"])
        self.assert_exit(result, 4)
        self.assertIn("a config is given with -c: trainer inspect -c c.yaml", result.stderr)

    def test_a_folder_that_is_missing_is_made_for_what_is_written(self):
        data = self.small_data(64)
        self.assert_exit(self.run_trainer(self.settings(data)), 0)
        run, new = self.dir / "run", self.dir / "new"
        for arguments in (["export", run, "-o", new / "a/w.safetensors"], ["import", new / "a/w.safetensors", "-o", new / "b/w.h5"],
                          ["predict", "--run", run, "--data", data, "-o", new / "c/p.csv"]):
            self.assert_exit(self.run_trainer(arguments), 0)
            self.assertTrue(arguments[-1].is_file())
            result = self.run_trainer([*arguments[:-1], f"/proc/none/{arguments[-1].name}"])
            self.assert_exit(result, 2)
            self.assertIn("cannot be written: No such file or directory; give a name in a folder that can be written", result.stderr)

    def test_pack_refuses_an_unknown_format(self):
        result = self.run_trainer(["pack", "idz"])
        self.assert_exit(result, 2)
        self.assertIn("idx", result.stderr)

    def test_pack_does_not_overwrite_its_own_source(self):
        images, labels = self.synthetic_idx(30)
        for source in (images, labels):
            before = source.read_bytes()
            result = self.run_trainer(["pack", "idx", "--images", images, "--labels", labels, "-o", source])
            self.assert_exit(result, 2)
            self.assertIn("overwrite", result.stderr)
            self.assertEqual(source.read_bytes(), before)

    def test_a_hash_is_asked_of_weights_only(self):
        data = self.small_data(8)
        result = self.run_trainer(["inspect", data, "--sha256"])
        self.assert_exit(result, 4)
        self.assertIn("neither a checkpoint nor predictions", result.stderr)

    def test_commands_that_are_suggested_may_be_pasted(self):
        data = self.small_data(8).rename(self.dir / "it's $HOME's data.h5")
        for arguments, code, begin, end, expected in (
                (["inspect", data, "--sha256"], 4, "hashes those; ", " shows what it is", ["trainer", "inspect", str(data)]),
                (["my recipe.yaml"], 2, "with -c: ", "\n", ["trainer", "-c", "my recipe.yaml"])):
            result = self.run_trainer(arguments)
            self.assert_exit(result, code)
            self.assertIn(begin, result.stderr)
            self.assertEqual(shlex.split(result.stderr.split(begin)[1].split(end)[0]), expected)

    def test_packing_twice_gives_the_same_bytes(self):
        images, labels = self.synthetic_idx(30)
        one, two = self.pack(images, labels, "one.h5"), self.pack(images, labels, "two.h5")
        self.assertEqual(one.read_bytes(), two.read_bytes())


if __name__ == "__main__":
    system_test.main()
