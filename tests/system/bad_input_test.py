"""Bad input: a clear line, the documented exit code on every rank, nothing half-written."""

import gzip
import json
import math
import os
import shlex
import shutil
import socket
import struct

import system_test
from recipes import TrainingTest


class BadInput(TrainingTest):
    def refused(self, arguments, code, *words, ranks=2):
        """All ranks end with `code`; exactly one error line holds all the words. Returns it."""
        result = self.mpirun(ranks, arguments, timeout=60)
        self.assert_exit(result, code)
        errors = [line for line in result.stderr.splitlines() if "error: " in line]
        self.assertEqual(len(errors), 1, result.stderr)
        for word in words:
            self.assertIn(word, errors[0])
        return errors[0]

    def test_an_unknown_key_is_answered_with_the_nearest_one(self):
        data = self.small_data(64)
        self.refused(self.settings(data) + ["train.batchsize=8"], 2, "train.batchsize", "train.batch_size")

    def test_an_unknown_key_in_a_file_names_the_line(self):
        (self.dir / "bad.yaml").write_text("model:\n  name: mlp\ntrian:\n  epochs: 1\n")
        self.refused(["-c", "bad.yaml"], 2, "bad.yaml:3", "trian", "train")

    def test_a_wrong_type_is_named(self):
        data = self.small_data(64)
        self.refused(self.settings(data) + ["train.epochs=many"], 2, "train.epochs", "many", "integer")

    def test_an_unknown_flag_is_answered_with_the_nearest_one(self):
        self.refused(["--confg", "x.yaml"], 2, "--confg", "--config")

    def test_a_key_that_is_written_as_a_flag_is_answered_with_the_key(self):
        self.refused(["--max_steps", "32"], 2, "--max_steps", "train.max_steps=32")

    def test_an_unknown_command_is_answered_with_the_nearest_one(self):
        self.refused(["inspct"], 2, "inspct", "inspect")

    def test_a_config_without_its_flag_is_answered_with_it(self):
        self.refused(["my.yaml"], 2, "my.yaml is not a command", "trainer -c my.yaml")

    def test_a_file_in_the_place_of_a_command_or_a_setting_is_answered_with_where_it_belongs(self):
        data = self.small_data(64).name
        (self.dir / "runs").mkdir()
        self.refused([data], 2, "data.h5 is not a command", "trainer inspect data.h5", "data.train=data.h5")
        self.refused(["runs"], 2, "runs is not a command", "trainer inspect runs")
        for word, ours in (("test", "eval"), ("validate", "eval"), ("fit", "train")):
            self.refused([word], 2, f"{word} is not a command of trainer; did you mean {ours}?")
        self.refused(["train", data], 2, "data.h5 is not key=value", "data.train=data.h5")
        self.refused(["-c", data], 2, "data.h5: an HDF5 file, not a config", "data.train=data.h5")
        self.refused(["-c", "runs"], 2, "runs: cannot read the config file: Is a directory", "-c runs/config.yaml")
        self.refused(["eval", "runs"], 2, "no weights are named", "--run runs")
        self.refused(["eval", "--run", "runs", data], 2, "data.h5 is neither a setting", "--data data.h5")
        self.refused(["predict", "runs", data, "-o", "rows.h5"], 2, "no weights are named", "--run runs")
        self.refused(["train", "model.name=resnet"], 2, "did you mean resnet18?")
        self.refused(["train", "train.precision=fp16"], 2, "did you mean bf16?")

    def test_a_checkpoint_that_is_not_there_is_answered_with_what_may_be_given(self):
        self.refused(self.settings(self.small_data(64)) + ["run.resume=yes"], 4, "run.resume", "yes", "auto, never")
        self.assertFalse((self.dir / "run").exists())

    def test_a_checkpoint_that_cannot_be_looked_at_is_answered_with_why(self):
        (self.dir / "loop.h5").symlink_to("loop.h5")
        for path, why in ("loop.h5", "Too many levels of symbolic links"), ("a" * 300 + ".h5", "File name too long"):
            self.refused(self.settings(self.small_data(64)) + [f"run.resume={path}"], 4, path, why)
            self.assertFalse((self.dir / "run").exists())
            result = self.run_trainer(["replay", path])
            self.assert_exit(result, 4)
            self.assertIn(why, result.stderr)

    def test_a_missing_config_is_named(self):
        self.refused(["-c", "nowhere.yaml"], 2, "nowhere.yaml")

    def test_a_missing_data_file_is_named(self):
        self.refused(self.settings(self.dir / "nowhere.h5"), 4, "nowhere.h5: No such file or directory; check the path")
        self.refused(self.settings("nowhere.h5"), 4, f"nowhere.h5: No such file or directory (looked for in {self.dir}, where the "
                     "program was started); check the path, or make the file: trainer pack images, clips")

    def test_a_folder_and_a_pipe_are_no_data_sets(self):
        self.refused(self.settings(self.dir), 4, "Is a directory", "name the HDF5 files in it",
                     f"trainer pack images --dir {self.dir} -o FILE.h5")
        os.mkfifo(self.dir / "pipe.h5")
        self.refused(self.settings(self.dir / "pipe.h5"), 4, "pipe.h5: a pipe", "regular file")

    def test_a_text_file_is_no_data_set(self):
        (self.dir / "text.h5").write_text("hello")
        self.refused(self.settings(self.dir / "text.h5"), 4, "text.h5", "HDF5")

    def test_a_truncated_data_file_is_named(self):
        data = self.small_data(64)
        with open(data, "r+b") as file:
            file.truncate(data.stat().st_size * 2 // 3)
        self.refused(self.settings(data), 4, "data.h5")
        self.assertFalse((self.dir / "run").exists(), "no run directory for a run that never was")

    def test_a_label_out_of_range_names_the_sample(self):
        data = self.small_data(64)
        raw = bytearray(data.read_bytes())
        # Labels are stored as one run of 64-bit integers 0, 1, 2, 3, 0, …; sample 37 (label 1) becomes 77.
        run = struct.pack("<64q", *(i % 4 for i in range(64)))
        place = raw.find(run)
        if place < 0:
            run = bytes(i % 4 for i in range(64))
            place = raw.find(run)
            raw[place + 37] = 77
        else:
            raw[place + 37 * 8] = 77
        self.assertGreaterEqual(place, 0, "the labels lie in the file as documented")
        data.write_bytes(raw)
        # As validation data, too: before the first step, not after the first epoch.
        for settings in self.settings(data), self.settings(self.small_data(64, "good.h5"), data__val=data):
            self.refused(settings + ["train.batch_size=8"], 4, "sample 37", "77", "data.h5")
            self.assertFalse((self.dir / "run").exists(), "no run directory for a run that never was")

    def test_a_batch_larger_than_the_data_is_refused(self):
        data = self.small_data(64)
        self.refused(self.settings(data, train__batch_size=33), 2, "train.batch_size", "66", "64 samples", "at most 32")
        self.assertFalse((self.dir / "run").exists(), "no run directory for a run that never was")

    def on_rank_1(self, lines):
        """From now on the program is started by a script that does these lines on rank 1."""
        script = self.dir / "script.sh"
        script.write_text(f'#!/bin/sh\nif [ "$OMPI_COMM_WORLD_RANK" = 1 ]; then\n{lines}\nfi\n'
                          f'exec {self.quoted_trainer} "$@"\n')
        script.chmod(0o755)
        self.trainer = script

    def test_what_is_wrong_on_one_rank_alone_is_told_with_its_rank_and_host(self):
        data = self.small_data(64)
        place = f"rank 1 on {socket.gethostname()}: "
        for extra, words in (("--confg x", ["--confg", "--config"]), ("train.batchsize=3", ["train.batch_size"]),
                             ("device=gpu", ["did you mean cuda?"])):
            trainer = self.trainer
            self.on_rank_1(f'set -- "$@" {extra}')
            self.refused(self.settings(data), 2, place, *words)
            self.trainer = trainer
        self.assertFalse((self.dir / "run").exists(), "no run directory for a run that never was")

    def test_what_the_device_the_channels_or_memory_refuse_leaves_no_run_directory(self):
        data = self.small_data(64)
        for setting, code, words in (
                ("train.precision=tf32", 2, ["the CPU has no tf32", "train.precision"]),
                ("data.normalize={mean: [0.1, 0.2], std: [1, 1]}", 2, ["data.normalize.mean has 2 values", "1 channel;"]),
                ("model.hidden=[3000000, 3000000]", 1, ["memory"])):
            self.refused([*self.settings(data, device="cpu"), setting], code, *words)
            self.assertFalse((self.dir / "run").exists(), "no run directory for a run that never was")

    def test_a_rank_with_other_settings_is_refused_with_the_list(self):
        data = self.small_data(64)
        self.on_rank_1('set -- "$@" train.batch_size=4 model.hidden=[32]')
        self.refused(self.settings(data), 2, "rank 1", "train.batch_size: 8 -> 4", "model.hidden: [16] -> [32]",
                     "same command line")
        self.assertFalse((self.dir / "run").exists(), "no run directory for a run that never was")

    def test_a_rank_with_another_command_ends_all_with_its_name_and_both_commands(self):
        data = self.small_data(64)
        place = f"rank 1 on {socket.gethostname()}: "
        trainer, program = self.trainer, self.quoted_trainer
        (self.dir / "x.yaml").write_text(f"data: {{train: {data}}}\nmodel: {{name: mlp}}\n")
        (self.dir / "y.yaml").write_text(f"data: {{train: {data}}}\nmodel: {{name: lenet}}\n")
        train = ["-c", "x.yaml", "run.dir=run", "train.batch_size=8"]
        for mine, of_rank_1 in ((train, "eval --run run"), (["bench", "allreduce"], "bench allreduce --iterations 7"),
                                (["predict", "--run", "run", "-o", "a.csv"], "predict --run run -o b.csv --embeddings")):
            with self.subTest(mine=mine, of_rank_1=of_rank_1):
                self.on_rank_1(f"exec {program} {of_rank_1}")
                self.refused(mine, 2, place, "this rank runs trainer ", "but rank 0 trainer ", "same command line")
            self.trainer = trainer
        self.assertFalse((self.dir / "run").exists(), "no run directory for a run that never was")

    def test_a_rank_with_a_command_of_the_first_rank_alone_is_missed(self):
        data = self.small_data(64)
        trainer, program = self.trainer, self.quoted_trainer
        train = self.settings(data, train__batch_size=8)
        of_train = shlex.join(str(word) for word in train)
        for mine, of_rank_1, left in ((train, f"inspect {data}", 0), (train, "--version", 0),
                                      (["inspect", data], of_train, 1), (["--help"], of_train, 1)):
            with self.subTest(mine=mine, of_rank_1=of_rank_1):
                self.on_rank_1(f"exec {program} {of_rank_1}")
                result = self.mpirun(2, mine, per_rank_exit_codes=False, timeout=60)
                # mpirun itself ends the job where the other had already told it that it starts MPI.
                self.assertIn(result.exit_code, (1, 5), result.stderr)
                self.assertRegex(result.stderr, f"waits in MPI_Init for its peers, of which only rank {left} of the 2"
                                                "|mpirun has exited due to process rank")
            self.trainer = trainer
        self.assertFalse((self.dir / "run").exists(), "no run directory for a run that never was")

    def test_a_rank_with_another_config_file_is_refused_and_another_spelling_is_not(self):
        data = self.small_data(64)
        trainer, program = self.trainer, self.quoted_trainer
        (self.dir / "sub").mkdir()
        (self.dir / "x.yaml").write_text(f"data: {{train: {data}}}\nmodel: {{name: mlp}}\ntrain: {{epochs: 1}}\n")
        (self.dir / "y.yaml").write_text(f"data: {{train: {data}}}\nmodel: {{name: lenet}}\ntrain: {{epochs: 1}}\n")
        rest = f"run.dir={self.dir}/run train.batch_size=8"
        self.on_rank_1(f"exec {program} -c y.yaml {rest}")
        self.refused(["-c", "x.yaml", *rest.split()], 2, "rank 1", "model.name: mlp -> lenet")
        self.assertFalse((self.dir / "run").exists(), "no run directory for a run that never was")
        self.trainer = trainer
        self.on_rank_1(f"cd sub; exec {program} -c ../x.yaml {rest}")
        self.assert_exit(self.mpirun(2, ["-c", "x.yaml", *rest.split()]), 0)
        self.trainer = trainer
        self.on_rank_1(f"exec {program} eval --json --run ./run --data {data}")
        self.assert_exit(self.mpirun(2, ["eval", "--run", "run", "--data", data]), 0)

    def test_commands_of_the_first_rank_alone_start_no_mpi(self):
        data = self.small_data(64)
        trainer, program = self.trainer, self.quoted_trainer
        settings = self.settings(data, train__epochs=1, train__batch_size=8)
        # A second start of MPI in one rank would abort; the first rank alone would wait for the others.
        script = self.dir / "script.sh"
        script.write_text(f'#!/bin/sh\n{program} --version && {program} inspect {data} && {program} --help || exit\n'
                          f'[ "$OMPI_COMM_WORLD_RANK" != 0 ] || {program} inspect {data} || exit\nexec {program} "$@"\n')
        script.chmod(0o755)
        self.trainer = script
        result = self.mpirun(2, settings, timeout=60)
        self.assert_exit(result, 0)
        self.assertEqual(result.stdout.count("samples   64"), 2)

    def test_a_command_of_the_first_rank_works_once_on_several(self):
        data = self.small_data(64)
        result = self.mpirun(3, ["inspect", data])
        self.assert_exit(result, 0)
        self.assertEqual(result.stdout.count("samples   64"), 1)
        self.assertEqual(result.stderr, "")

    def test_a_rank_that_ends_before_mpi_starts_is_not_waited_for(self):
        data = self.small_data(64)
        self.on_rank_1("exit 0")
        result = self.mpirun(3, self.settings(data), per_rank_exit_codes=False, timeout=60)
        self.assertEqual(result.exit_code, 5, result.stderr)
        self.assertRegex(result.stderr, r"error: rank [02] on \S+ waits in MPI_Init for its peers, of which only "
                                        "ranks 0, 2 of the 3 on this host still run")
        self.assertFalse((self.dir / "run").exists(), "no run directory for a run that never was")

    def test_a_rank_may_have_its_own_copy_of_the_data_and_its_own_threads_for_them(self):
        data = self.small_data(64)
        copy = self.dir / "copy.h5"
        shutil.copy(data, copy)
        self.on_rank_1(f'set -- "$@" data.train={copy} data.workers=2 data.prefetch=3 run.log_level=debug')
        result = self.mpirun(2, self.settings(data, train__epochs=1, train__batch_size=8), timeout=60)
        self.assert_exit(result, 0)

    def test_a_rank_with_other_data_of_the_same_name_is_refused(self):
        self.small_data(64)
        for name, images in ("larger", self.synthetic_idx(96, classes=4, side=8)), ("relabelled", self.synthetic_idx(
                64, classes=4, side=8, seed=1)):
            if name == "relabelled":
                raw = bytearray(images[1].read_bytes())
                raw[-1] = 0
                images[1].write_bytes(raw)
            self.pack(*images, name=f"{name}/data.h5")
        for name, options in ("normalised", ["--mean", "0.3", "--std", "0.5"]), ("named", ["--class-names", "a,b,c,d"]):
            self.pack(*self.synthetic_idx(64, classes=4, side=8), name=f"{name}/data.h5", options=options)
        trainer = self.trainer
        for name, difference in (("larger", "96 samples"), ("relabelled", "its labels differ"), ("normalised", ", 0.3 ± 0.5"),
                                 ("named", " a b c d")):
            self.trainer = trainer
            self.on_rank_1(f"cd {self.dir / name}")
            self.refused(self.settings("data.h5"), 4, "rank 1", "data.h5", difference, "same file")
            self.assertFalse((self.dir / "run").exists(), "no run directory for a run that never was")

    def test_a_rank_with_other_weights_is_refused(self):
        data = self.small_data(64)
        for run, epochs in ("run", 1), ("other", 2):
            self.assert_exit(self.run_trainer(self.settings(data, run, train__epochs=epochs)), 0)
        self.on_rank_1(f"exec {self.quoted_trainer} eval --run {self.dir}/other --data {data}")
        self.refused(["eval", "--run", "run", "--data", data], 2, "rank 1", "other weights than rank 0's")

    def test_a_rank_with_other_targets_is_refused(self):
        for folder, last in ("here", 7), ("there", 8):
            (self.dir / folder).mkdir()
            table = self.dir / folder / "data.csv"
            table.write_text("x,y\n" + "".join(f"{i},{i % 5}\n" for i in range(63)) + f"63,{last}\n")
            self.assert_exit(self.run_trainer(["pack", "csv", "--csv", table, "--target", "y", "-o",
                                               self.dir / folder / "data.h5"]), 0)
        shutil.copy(self.dir / "here" / "data.h5", self.dir)
        self.on_rank_1(f"cd {self.dir / 'there'}")
        self.refused(self.settings("data.h5", model__classes=1), 4, "rank 1", "data.h5", "its targets differ", "same file")

    def test_a_rank_with_another_number_of_targets_is_refused_with_both(self):
        for folder, columns in ("here", ["--target", "y,z"]), ("there", ["--target", "y", "--drop", "z"]):
            (self.dir / folder).mkdir()
            table = self.dir / folder / "data.csv"
            table.write_text("x,y,z\n" + "".join(f"{i},{i % 5},{i % 3}\n" for i in range(64)))
            self.assert_exit(self.run_trainer(["pack", "csv", "--csv", table, *columns, "-o",
                                               self.dir / folder / "data.h5"]), 0)
        shutil.copy(self.dir / "here" / "data.h5", self.dir)
        self.on_rank_1(f"cd {self.dir / 'there'}")
        line = self.refused(self.settings("data.h5"), 4, "rank 1", "samples [1] of f32, 1 target y, features x, not 64",
                            "samples [1] of f32, 2 targets y z", "same file")
        self.assertNotIn("classes", line)

    def test_a_loss_that_is_not_finite_ends_the_run_and_saves_nothing_bad(self):
        data = self.small_data(240)
        self.refused(self.settings(data, optim__lr="1e30", train__batch_size=8, train__epochs=5,
                                   train__checkpoint__every="1 steps"), 1, "optim.lr")
        # What the first update made of the weights is large, but finite.
        self.assertEqual([path.name for path in (self.dir / "run/checkpoints").iterdir()], ["step-00000001.h5"])
        for name, (_, values) in self.exported("run").items():
            self.assertTrue(all(map(math.isfinite, struct.unpack(f"<{len(values) // 4}f", values))), name)

    def test_a_validation_loss_that_is_not_finite_is_null(self):
        data, val = self.small_data(64), self.small_data(40, "val.h5")
        for _ in range(2):  # the second time the result comes from the checkpoint
            result = self.run_trainer(self.settings(data, data__val=val, optim__lr="1e30", train__max_steps=1))
            self.assert_exit(result, 0)
            self.assertIn("test accuracy", result.stdout)
        self.assertIsNone(self.metrics("run", "eval")[-1]["loss"])

    def test_data_with_more_classes_than_the_model_are_refused(self):
        data = self.small_data(64)
        more = self.pack(*self.synthetic_idx(60, classes=20, side=8), name="more.h5")
        self.assert_exit(self.run_trainer(self.settings(data, model__classes=6)), 0)
        self.refused(["eval", "--run", self.dir / "run", "--data", more], 4, "more.h5", "20 classes")

    def test_a_top_k_of_more_than_the_classes_is_refused(self):
        data = self.small_data(64)
        words = ("train.topk is 9, but the model has 4 classes", "at most 4")
        self.refused(self.settings(data, data__val=data, train__topk=9), 2, *words)
        self.assertFalse((self.dir / "run").exists())
        self.assert_exit(self.run_trainer(self.settings(data)), 0)
        self.refused(["eval", "--run", self.dir / "run", "--data", data, "train.topk=9"], 2, *words)

    def test_predictions_do_not_overwrite_their_data(self):
        data = self.small_data(64)
        self.assert_exit(self.run_trainer(self.settings(data)), 0)
        self.refused(["predict", "--run", self.dir / "run", "--data", data, "-o", data], 2, "data.h5")

    def test_missing_weights_are_named(self):
        data = self.small_data(64)
        self.refused(self.settings(data, model__init_from="none.safetensors"), 4, "none.safetensors")

    def test_damaged_weights_are_named(self):
        data = self.small_data(64)
        (self.dir / "bad.safetensors").write_bytes(struct.pack("<Q", 1 << 40) + b"{}")
        self.refused(self.settings(data, model__init_from=self.dir / "bad.safetensors"), 4, "bad.safetensors")

    def test_data_that_are_given_as_weights_are_refused_as_data(self):
        data = self.small_data(64)
        for arguments in (self.settings(data, model__init_from=data), ["import", data, "-o", "w.h5"],
                          ["export", data, "-o", "w.h5"], ["eval", "--checkpoint", data, "--data", data],
                          ["predict", "--checkpoint", data, "--data", data, "-o", "w.h5"]):
            words = [f"{data} is a data set of samples, not weights; "]
            if "--checkpoint" in arguments:
                words.append("give weights with --checkpoint FILE or --run DIR, and data with --data FILE.h5")
            ranks = 1 if arguments[0] in ("import", "export") else 2
            self.refused(arguments, 4, *words, ranks=ranks)
            self.assertEqual([path.name for path in self.dir.glob("w.h5*")], [])
            self.assertFalse((self.dir / "run").exists())

    def test_weights_of_another_model_are_refused_with_the_list(self):
        data = self.small_data(64)
        header = json.dumps({"fc9.weight": {"dtype": "F32", "shape": [1], "data_offsets": [0, 4]}}).encode()
        (self.dir / "other.safetensors").write_bytes(struct.pack("<Q", len(header)) + header + bytes(4))
        self.refused(self.settings(data, model__init_from=self.dir / "other.safetensors"), 4, "missing: ", "fc1.weight",
                     "not in the model: fc9.weight")

    def test_weights_of_another_network_do_not_fill_the_screen(self):
        data = self.small_data(64)
        names = [f"layers.{index:02}.weight" for index in range(40)]
        header = json.dumps({name: {"dtype": "F32", "shape": [1], "data_offsets": [4 * at, 4 * at + 4]}
                             for at, name in enumerate(names)}).encode()
        (self.dir / "other.safetensors").write_bytes(struct.pack("<Q", len(header)) + header + bytes(160))
        said = self.refused(self.settings(data, model__init_from=self.dir / "other.safetensors"), 4,
                            "not in the model: layers.00.weight", "layers.03.weight and 36 others")
        self.assertNotIn("layers.04.weight", said)
        self.assertNotIn("there and", said, "nobody knows the settings of such a file")

    def test_weights_of_a_model_with_other_settings_are_refused_with_those_first(self):
        data = self.small_data(64)
        self.assert_exit(self.begin(data, "old"), 0)
        other = ["model.hidden=[12, 12]"]
        said = "model.hidden is [16] there and [12, 12] here: "
        new = self.refused(self.settings(data, model__init_from=self.dir / "old") + other, 4, said, "does not fit the model")
        old = self.refused(["eval", "--run", self.dir / "old", "--data", data, *other], 4, said, "does not take these weights")
        for line in new, old:
            self.assertLess(line.index(said), line.index("missing"))
        lenet = [word for word in self.settings(data, model__init_from=self.dir / "old") if not word.startswith("model.hidden")]
        self.refused([*lenet, "model.name=lenet"], 4, "model.name is mlp there and lenet here, ")

    def test_a_damaged_checkpoint_is_refused(self):
        data = self.small_data(64)
        self.assert_exit(self.run_trainer(self.settings(data)), 0)
        raw = bytearray(self.latest("run").read_bytes())
        raw[len(raw) // 2] ^= 1
        self.latest("run").write_bytes(raw)
        again = self.settings(data, train__epochs=2)
        self.refused(again, 4, "step-", "run.resume=never starts anew and moves what was written to ", "run/old-1/")
        named = self.refused([*again, f"run.resume={self.latest('run')}"], 4, "step-")
        self.assertNotIn("never", named)
        self.assert_exit(self.mpirun(2, [*again, "run.resume=never"]), 0)
        self.assertEqual(list((self.dir / "run/old-1/checkpoints").iterdir())[0].read_bytes(), raw)

    def test_a_missing_checkpoint_to_resume_is_named(self):
        data = self.small_data(64)
        self.refused(self.settings(data, run__resume=self.dir / "gone.h5"), 4, "gone.h5")

    def test_a_gpu_that_is_not_there_is_refused_with_the_reason(self):
        data = self.small_data(64)
        self.refused(self.settings(data, device="cuda"), 2, "cuda", "cpu")

    def test_nccl_is_refused_on_the_cpu(self):
        data = self.small_data(64)
        settings = self.settings(data, device="cpu", distributed__backend="nccl")
        self.refused(settings, 2, "distributed.backend", "device: cuda")

    def test_auto_says_once_why_it_takes_the_cpu(self):
        data = self.small_data(64)
        for device, count in ("auto", 1), ("cpu", 0):
            result = self.mpirun(2, self.settings(data, f"run-{device}", device=device), timeout=60)
            self.assert_exit(result, 0)
            lines = [line for line in result.stderr.splitlines() if "device: auto takes the CPU: " in line]
            self.assertEqual(len(lines), count, result.stderr)

    def test_no_data_at_all_is_refused(self):
        self.refused(["model.name=mlp", "data.train=[]"], 2, "data.train")

    def test_packing_truncated_images_leaves_no_file(self):
        images, labels = self.synthetic_idx(50)
        images.write_bytes(images.read_bytes()[:-10])
        result = self.run_trainer(["pack", "idx", "--images", images, "--labels", labels, "-o", "out.h5"])
        self.assert_exit(result, 4)
        self.assertIn(images.name, result.stderr)
        self.assertEqual(list(self.dir.glob("out*")), [])

    def test_packing_damaged_gzip_leaves_no_file(self):
        images, labels = self.synthetic_idx(50)
        packed = gzip.compress(images.read_bytes())
        images.write_bytes(packed[: len(packed) // 2])
        result = self.run_trainer(["pack", "idx", "--images", images, "--labels", labels, "-o", "out.h5"])
        self.assert_exit(result, 4)
        self.assertEqual(list(self.dir.glob("out*")), [])


if __name__ == "__main__":
    system_test.main()
