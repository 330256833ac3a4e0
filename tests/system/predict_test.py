"""trainer eval and trainer predict: the same rows from any number of ranks, and errors that all ranks share."""

import csv
import ctypes
import hashlib
import json
import re
import shutil
import signal
import struct
import subprocess
import unittest

import system_test
from recipes import TrainingTest, has_avx512, write_safetensors


class Predict(TrainingTest):
    def trained(self, count=64, val=101, **overrides):
        """Trains a little; the paths of the run and of a validation set with an uneven number of samples."""
        data = self.small_data(count)
        validation = self.pack(*self.synthetic_idx(val, classes=4, side=8, seed=5), name="val.h5")
        settings = {"data__val": validation, "train__precision": "fp64", "optim__lr": 0.005, **overrides}
        self.assert_exit(self.run_trainer(self.settings(data, **settings)), 0)
        return self.dir / "run", validation

    def rows(self, name):
        with open(self.dir / name, newline="") as file:
            return list(csv.DictReader(file))

    def numbers(self, row, prefix):
        return [float(value) for key, value in row.items() if key.startswith(prefix)]

    def evaluated(self, *arguments, ranks=1):
        result = self.mpirun(ranks, ["eval", "--json", *arguments])
        self.assert_exit(result, 0)
        return json.loads(result.stdout)

    def test_eval_is_the_evaluation_of_the_training_at_any_world_size(self):
        run, _ = self.trained()
        last = self.metrics("run", "eval")[-1]
        for ranks in (1, 2, 3, 4):
            row = self.evaluated("--run", run, "train.batch_size=5", ranks=ranks)
            self.assertEqual((row["correct"], row["samples"]), (last["correct"], 101))
            self.assertEqual(row["accuracy"], last["accuracy"])
            self.assertAlmostEqual(row["loss"], last["loss"], delta=1e-12 * last["loss"])
            self.assertEqual(row["world_size"], ranks)

    def test_eval_gives_the_metrics_that_training_gives(self):
        run, _ = self.trained(train__topk=2, train__confusion=True)
        last = self.metrics("run", "eval")[-1]
        row = self.evaluated("--run", run, ranks=2)
        for metric in ("top2", "balanced_accuracy", "confusion"):
            self.assertEqual(row[metric], last[metric], metric)
        text = self.run_trainer(["eval", "--run", run]).stdout
        self.assertIn(f"top-2 accuracy {last['top2']:.4f}", text)
        rows = [f"  {label} | " + " ".join(f"{count:6}" for count in row) for label, row in enumerate(last["confusion"])]
        self.assertIn("confusion, a row per label, a column per prediction\n" + "\n".join(rows) + "\n", text)

    def test_data_whose_classes_have_other_names_are_refused(self):
        images = self.synthetic_idx(64, classes=4, side=8)
        data = self.pack(*images, options=["--class-names", "ash,elm,fir,oak"])
        other = self.pack(*images, name="other.h5", options=["--class-names", "ash,fir,oak,yew"])
        self.assert_exit(self.run_trainer(self.settings(data, data__val=data)), 0)
        wrong = "class 1 is fir, but in the training data it is elm; pack the data with the classes of training"
        moved = data.with_name("moved.h5")
        for gone in False, True:
            if gone:
                data.rename(moved)
            for command in (["eval"], ["predict", "-o", self.dir / "out.csv"]):
                result = self.mpirun(2, [*command, "--run", self.dir / "run", "--data", other])
                self.assert_exit(result, 4)
                self.assertIn(wrong, result.stderr)
        moved.rename(data)
        refused = self.run_trainer(self.settings(data, data__val=other, run="other"))
        self.assert_exit(refused, 4)
        self.assertIn("class 1 is fir, but in data.train", refused.stderr)
        self.assertFalse((self.dir / "other").exists())
        self.pack(*images, name="unnamed.h5")
        # Of data without names the trained ones are said.
        unnamed = ["--run", self.dir / "run", "--data", self.dir / "unnamed.h5"]
        result = self.run_trainer(["eval", *unnamed, "train.confusion=true"])
        self.assert_exit(result, 0)
        self.assertRegex(result.stdout, r"\n  ash \|( +\d+){4}\n  elm \|")
        self.assert_exit(self.run_trainer(["predict", *unnamed, "-o", self.dir / "out.h5"]), 0)
        self.assertIn(b"class_name_3", (self.dir / "out.h5").read_bytes())

    def test_data_without_labels_whose_classes_have_other_names_are_refused(self):
        table, data, bare = self.dir / "t.csv", self.dir / "data.h5", self.dir / "bare.h5"
        table.write_text("x,y\n" + "".join(f"{i},{'elm' if i % 2 else 'ash'}\n" for i in range(16)))
        self.assert_exit(self.run_trainer(["pack", "csv", "--csv", table, "--label", "y", "-o", data]), 0)
        self.assert_exit(self.run_trainer(self.settings(data, train__batch_size=4)), 0)
        for names, code in ("ash,elm", 0), ("elm,ash", 4):
            self.assert_exit(self.run_trainer(["pack", "csv", "--csv", table, "--no-labels", "--drop", "y", "--class-names", names,
                                               "-o", bare]), 0)
            result = self.run_trainer(["predict", "--run", self.dir / "run", "--data", bare, "-o", self.dir / "out.csv"])
            self.assert_exit(result, code)
        self.assertIn(f"{bare}: class 0 is elm, but in the training data it is ash; pack the data with", result.stderr)

    def test_training_data_that_are_gone_are_told(self):
        data = self.small_data(64)
        self.assert_exit(self.run_trainer(self.settings(data)), 0)
        moved = data.rename(self.dir / "moved.h5")
        # Weights of another program do not say what they were trained on; a checkpoint does.
        weights = self.dir / "w.safetensors"
        write_safetensors(weights, self.exported("run"))
        told = f"{data}, which the model was trained on, is not there: whether {moved} has the same classes"
        for source, count in (["--run", self.dir / "run"], 0), (["-c", self.dir / "run/config.yaml", "--checkpoint", weights], 1):
            result = self.mpirun(2, ["eval", *source, "--data", moved, "model.classes=4"])
            self.assert_exit(result, 0)
            self.assertEqual(result.stderr.count(told), count, result.stderr)

    def test_no_output_takes_the_place_of_data_or_a_checkpoint(self):
        data = self.small_data(64)
        self.assert_exit(self.run_trainer(self.settings(data)), 0)
        val = self.small_data(40, "val.h5")
        older = self.dir / "run/checkpoints/step-00000001.h5"
        older.write_bytes(self.latest("run").read_bytes())
        for output, what in ((data, "a data set"), (older, "the checkpoint of a run")):
            before = output.read_bytes()
            result = self.run_trainer(["predict", "--run", self.dir / "run", "--data", val, "-o", output])
            self.assert_exit(result, 2)
            self.assertIn(f"-o {output} would overwrite {what}", result.stderr)
            self.assertEqual(output.read_bytes(), before)

    def test_the_best_checkpoint_can_be_asked_for(self):
        # A rate so high that the loss is worse at the end than before.
        run, val = self.trained(train__epochs=6, train__checkpoint__best="val/loss", train__checkpoint__keep=1,
                                optim__lr=3)
        rows = self.metrics("run", "eval")
        best = min(rows, key=lambda row: row["loss"])
        self.assertLess(best["step"], rows[-1]["step"])
        kept = run / f"checkpoints/step-{best['step']:08d}.h5"
        for ranks in (1, 2):
            row = self.evaluated("--run", run, "--best", ranks=ranks)
            self.assertAlmostEqual(row["loss"], best["loss"], delta=1e-12 * best["loss"])
            self.assertEqual(row["weights"], str(kept))
        self.assertEqual(self.evaluated("--run", run)["weights"], str(self.latest("run")))
        self.assertIn(f"best      step {best['step']} (", self.run_trainer(["inspect", run]).stdout)
        self.assert_exit(self.run_trainer(["export", run, "--best", "-o", self.dir / "best.h5"]), 0)
        self.assert_exit(self.run_trainer(["export", kept, "-o", self.dir / "kept.h5"]), 0)
        sums = [self.run_trainer(["eval", "-c", run / "config.yaml", "--checkpoint", self.dir / name, "--json"])
                for name in ("best.h5", "kept.h5")]
        self.assertEqual(*(json.loads(result.stdout)["weights_sha256"] for result in sums))

        of_file = self.mpirun(2, ["eval", "--checkpoint", kept, "--best"])
        self.assert_exit(of_file, 2)
        self.assertIn("is one file, and not a run directory", of_file.stderr)
        kept.unlink()
        gone = self.mpirun(2, ["predict", "--run", run, "--best", "-o", self.dir / "out.csv"])
        self.assert_exit(gone, 4)
        self.assertIn(f"{kept}, the best, is no longer there", gone.stderr)
        self.assert_exit(self.run_trainer(self.settings(self.dir / "data.h5", run="other")), 0)
        none = self.run_trainer(["eval", "--run", self.dir / "other", "--data", val, "--best"])
        self.assert_exit(none, 4)
        self.assertIn("train with train.checkpoint.best=val/accuracy, for example", none.stderr)

    def test_eval_ends_with_the_line_that_scripts_look_for(self):
        run, _ = self.trained()
        result = self.run_trainer(["eval", "--checkpoint", run])
        self.assert_exit(result, 0)
        first, last = result.stdout.splitlines()
        self.assertRegex(first, r"^accuracy [01]\.\d{4} \(\d+ of 101\), loss \d\.\d{4}, "
                                r"balanced accuracy [01]\.\d{4}$")
        self.assertRegex(last, r"^test accuracy [01]\.\d{4} \(\d+ of 101\)$")

    def test_weights_and_config_may_be_named_in_several_ways(self):
        run, validation = self.trained()
        expected = self.evaluated("--run", run)["loss"]
        checkpoint = self.latest("run")
        for arguments in (["--checkpoint", checkpoint], ["--checkpoint", run],
                          ["-c", run / "config.yaml", "--checkpoint", checkpoint],
                          ["--run", run, "--checkpoint", checkpoint],
                          ["--checkpoint", checkpoint, "--data", validation],
                          ["--checkpoint", checkpoint, "data.val=[]", "--data", validation],
                          ["--checkpoint", checkpoint, f"data.train=[{self.dir}/gone.h5]"]):
            self.assertEqual(self.evaluated(*arguments)["loss"], expected, arguments)

    def test_several_data_files_are_one(self):
        run, validation = self.trained()
        for arguments in (["--data", validation, validation], ["--data", validation, "--data", validation]):
            row = self.evaluated("--run", run, *arguments, "train.batch_size=7")
            self.assertEqual(row["samples"], 202)

    def test_rows_are_in_input_order_and_agree_at_every_world_size(self):
        run, _ = self.trained()
        correct = self.metrics("run", "eval")[-1]["correct"]
        for ranks, batch in ((1, 101), (1, 8), (2, 8), (3, 5), (4, 30)):
            name = f"out-{ranks}-{batch}.csv"
            result = self.mpirun(ranks, ["predict", "--run", run, "-o", name, "--embeddings", f"train.batch_size={batch}"])
            self.assert_exit(result, 0)
            self.assertIn(f"({correct} of 101)", result.stdout)
            rows = self.rows(name)
            self.assertEqual([int(row["index"]) for row in rows], list(range(101)))
            self.assertEqual([int(row["label"]) for row in rows], [i % 4 for i in range(101)])
            self.assertEqual(sum(row["label"] == row["prediction"] for row in rows), correct)
            for row, one in zip(rows, self.rows("out-1-101.csv"), strict=True):
                logits = self.numbers(row, "logit_")
                self.assertEqual(int(row["prediction"]), logits.index(max(logits)))
                self.assertEqual((len(logits), len(self.numbers(row, "embedding_"))), (4, 16))
                for prefix in ("logit_", "embedding_"):
                    for value, expected in zip(self.numbers(row, prefix), self.numbers(one, prefix), strict=True):
                        self.assertAlmostEqual(value, expected, delta=1e-12 * max(1, abs(expected)))

    def hashes(self, name):
        result = self.run_trainer(["inspect", name])
        self.assert_exit(result, 0)
        found = re.findall(r"^    (\w+) +(\w+) +(\[[\d, ]+\]) +([0-9a-f]{64})$", result.stdout, re.M)
        return {column: (dtype, shape, digest) for column, dtype, shape, digest in found}

    def test_hdf5_holds_the_numbers_of_the_csv(self):
        for precision, code in (("fp32", "f"), ("fp64", "d")):
            run, _ = self.trained(run__resume="never", train__precision=precision)
            for name in ("out.csv", "out.h5"):
                self.assert_exit(self.mpirun(2, ["predict", "--run", run, "-o", name, "--embeddings"]), 0)
            rows, hashes = self.rows("out.csv"), self.hashes("out.h5")

            def digest(letter, values):
                values = list(values)
                return hashlib.sha256(struct.pack(f"<{len(values)}{letter}", *values)).hexdigest()

            dtype = {"f": "f32", "d": "f64"}[code]
            flat = lambda prefix: (value for row in rows for value in self.numbers(row, prefix))
            self.assertEqual(hashes, {
                "labels": ("i64", "[101]", digest("q", (int(row["label"]) for row in rows))),
                "predictions": ("i64", "[101]", digest("q", (int(row["prediction"]) for row in rows))),
                "logits": (dtype, "[101, 4]", digest(code, flat("logit_"))),
                "embeddings": (dtype, "[101, 16]", digest(code, flat("embedding_"))),
            })

    @unittest.skipUnless(has_avx512(), "without AVX-512 a row's last bits depend on its place in the batch")
    def test_hdf5_files_hold_the_same_bytes_at_the_same_batch_size_per_rank(self):
        # Full batches on every rank, so that the library gets the same shapes: 96 = 4 x 8 x 3.
        run, validation = self.trained(val=96, train__precision="fp32")
        sums = set()
        for ranks in (1, 2, 4):
            name = f"out{ranks}.h5"
            self.assert_exit(self.mpirun(ranks, ["predict", "--run", run, "-o", name, "train.batch_size=8"]), 0)
            sums.add((self.sha256(name), (self.dir / name).read_bytes()))
        self.assertEqual(len(sums), 1)

    def test_fp32_rows_agree_at_the_same_batch_size_per_rank(self):
        run, validation = self.trained(val=96, train__precision="fp32")
        expected = None
        for ranks in (1, 2, 4):
            self.assert_exit(self.mpirun(ranks, ["predict", "--run", run, "-o", "out.csv", "train.batch_size=8"]), 0)
            logits = [self.numbers(row, "logit_") for row in self.rows("out.csv")]
            expected = expected or logits
            for row, one in zip(logits, expected, strict=True):
                for value, first in zip(row, one, strict=True):
                    self.assertAlmostEqual(value, first, delta=1e-6 * max(1, abs(first)))

    def test_hdf5_files_hold_the_same_bytes_each_time(self):
        run, validation = self.trained(val=96, train__precision="fp32")
        for name in ("out1.h5", "out2.h5"):
            self.assert_exit(self.mpirun(2, ["predict", "--run", run, "-o", name, "train.batch_size=8"]), 0)
        self.assertEqual((self.dir / "out1.h5").read_bytes(), (self.dir / "out2.h5").read_bytes())

    def test_an_hdf5_file_knows_where_it_comes_from(self):
        run, validation = self.trained()
        self.assert_exit(self.run_trainer(["predict", "--run", run, "-o", "out.h5", "--no-logits"]), 0)
        text = self.run_trainer(["inspect", "out.h5"]).stdout
        self.assertIn(str(validation), text)
        self.assertIn(self.sha256(run).strip(), text)
        self.assertEqual(set(self.hashes("out.h5")), {"labels", "predictions", "embeddings"})

    def test_hdf5_holds_embeddings_unless_they_are_declined_and_csv_where_they_are_asked_for(self):
        run, _ = self.trained()
        for arguments, expected in (([], {"labels", "predictions", "logits", "embeddings"}),
                                    (["--no-embeddings"], {"labels", "predictions", "logits"}),
                                    (["--no-embeddings", "--no-logits"], {"labels", "predictions"})):
            self.assert_exit(self.mpirun(2, ["predict", "--run", run, "-o", "out.h5", *arguments]), 0)
            self.assertEqual(set(self.hashes("out.h5")), expected)
            (self.dir / "out.h5").unlink()
        self.assert_exit(self.run_trainer(["predict", "--run", run, "-o", "out.csv"]), 0)
        self.assertEqual(set(self.rows("out.csv")[0]), {"index", "label", "prediction", *(f"logit_{k}" for k in range(4))})
        both = self.run_trainer(["predict", "--run", run, "-o", "both.h5", "--embeddings", "--no-embeddings"])
        self.assert_exit(both, 2)
        self.assertIn("leave one out", both.stderr)

    def test_exported_weights_have_pytorchs_names_and_come_back_with_the_same_bits(self):
        run, _ = self.trained(train__precision="fp32")
        self.assert_exit(self.run_trainer(["export", run, "-o", "w.safetensors"]), 0)
        content = (self.dir / "w.safetensors").read_bytes()
        length, = struct.unpack_from("<Q", content)
        header = json.loads(content[8:8 + length])
        self.assertEqual({name: entry["shape"] for name, entry in header.items() if name != "__metadata__"},
                         {"fc1.weight": [16, 64], "fc1.bias": [16], "fc2.weight": [4, 16], "fc2.bias": [4]})
        self.assertEqual(length % 8, 0)
        self.assertEqual(len(content) - 8 - length, 4 * (16 * 64 + 16 + 4 * 16 + 4))
        self.assert_exit(self.run_trainer(["import", "w.safetensors", "-o", "w.h5"]), 0)
        expected = self.evaluated("--run", run, ranks=2)
        for weights in ("w.safetensors", "w.h5"):
            found = self.evaluated("-c", run / "config.yaml", "--checkpoint", self.dir / weights, ranks=2)
            for key in ("weights_sha256", "loss", "correct"):
                self.assertEqual(found[key], expected[key], key)

    def test_an_export_that_cannot_be_is_refused_and_leaves_no_file(self):
        run, _ = self.trained()
        for arguments, code in (([run, "-o", "w.pt"], 2), ([run], 2), (["absent", "-o", "w.h5"], 4),
                                ([run, "-o", self.latest("run")], 2), ([run, "-o", "/proc/absent/w.h5"], 2)):
            self.assert_exit(self.run_trainer(["export", *arguments]), code)
        self.assertEqual(list(self.dir.glob("w.*")), [])

    def test_fewer_samples_than_ranks(self):
        run, _ = self.trained(val=2)
        self.assert_exit(self.mpirun(4, ["predict", "--run", run, "-o", "out.csv"]), 0)
        self.assertEqual([row["index"] for row in self.rows("out.csv")], ["0", "1"])
        self.assertEqual(self.evaluated("--run", run, ranks=4)["samples"], 2)

    def refused(self, arguments, code, *words, ranks=2):
        names = lambda: sorted(path.name for path in self.dir.iterdir() if not path.name.startswith("ompi"))
        before = names()
        result = self.mpirun(ranks, arguments, timeout=60)
        self.assert_exit(result, code)
        errors = [line for line in result.stderr.splitlines() if "error: " in line]
        self.assertEqual(len(errors), 1, result.stderr)
        for word in words:
            self.assertIn(str(word), errors[0])
        self.assertEqual(names(), before, "nothing half-written")

    def test_a_label_out_of_range_names_the_sample_and_leaves_no_file(self):
        run, validation = self.trained(val=64)
        raw = bytearray(validation.read_bytes())
        place = raw.find(struct.pack("<64q", *(i % 4 for i in range(64))))
        self.assertGreaterEqual(place, 0, "the labels lie in the file as documented")
        raw[place + 37 * 8] = 77
        validation.write_bytes(raw)
        for command in (["eval"], ["predict", "-o", "out.h5"], ["predict", "-o", "out.csv"]):
            self.refused([*command, "--run", run, "train.batch_size=4"], 4, "sample 37", "77", "val.h5")

    def test_what_is_missing_or_wrong_is_named(self):
        run, validation = self.trained()
        checkpoint = self.latest("run")
        self.refused(["eval"], 2, "--checkpoint")
        self.refused(["predict", "--run", run], 2, "output")
        self.refused(["predict", "--run", run, "-o", "out.txt"], 2, "out.txt", ".csv")
        self.refused(["predict", "--run", run, "-o", "/proc/nowhere/out.csv"], 2, "/proc/nowhere/out.csv cannot be written")
        self.refused(["eval", "--run", "nowhere"], 4, "nowhere")
        self.refused(["eval", "--checkpoint", "gone.h5"], 4, "gone.h5")
        self.refused(["eval", "--checkpoint", checkpoint, "data.val=[]"], 2, "--data")
        self.refused(["eval", "--checkpoint", checkpoint, "--data", "gone.h5"], 4, "gone.h5")
        self.refused(["eval", "--checkpoint", checkpoint, "model.hidden=[17]"], 4, "fc1.weight", "step-")
        self.refused(["eval", "--checkpoint", validation], 4, "is a data set of samples, not weights")
        self.assert_exit(self.run_trainer(["export", run, "-o", "weights.safetensors"]), 0)
        self.refused(["eval", "--checkpoint", "weights.safetensors"], 2, "-c FILE.yaml")
        self.refused(["eval", "--checkpoint", checkpoint, "train.batchsize=3"], 2, "train.batch_size")
        self.refused(["eval", "--chekpoint", checkpoint], 2, "--checkpoint")

    def delete_from_file(self, path, name):
        """With the HDF5 library that the program is linked with: Python may have none."""
        linked = subprocess.run(["ldd", self.trainer], capture_output=True, text=True, check=True).stdout
        library = ctypes.CDLL(re.search(r"=> (/\S*/libhdf5\S*)", linked).group(1))
        library.H5Fopen.restype = ctypes.c_int64
        file = library.H5Fopen(str(path).encode(), 1, ctypes.c_int64(0))  # H5F_ACC_RDWR, H5P_DEFAULT
        self.assertGreaterEqual(file, 0)
        self.assertEqual(library.H5Ldelete(ctypes.c_int64(file), name.encode(), ctypes.c_int64(0)), 0)
        self.assertEqual(library.H5Fclose(ctypes.c_int64(file)), 0)

    def test_data_need_no_labels(self):
        run, validation = self.trained(val=37)
        bare = self.dir / "bare.h5"
        shutil.copy(validation, bare)
        self.delete_from_file(bare, "labels")

        self.assert_exit(self.mpirun(2, ["predict", "--run", run, "-o", "with.csv"]), 0)
        result = self.mpirun(2, ["predict", "--run", run, "--data", bare, "-o", "without.csv"])
        self.assert_exit(result, 0)
        self.assertIn("without.csv: 37 rows, the data have no labels", result.stdout)
        self.assertEqual(self.rows("without.csv"), [{**row, "label": "-1"} for row in self.rows("with.csv")])

        self.assert_exit(self.run_trainer(["predict", "--run", run, "--data", bare, "-o", "without.h5"]), 0)
        self.assertRegex(self.run_trainer(["inspect", "without.h5"]).stdout, r"correct +unknown: no labels")
        self.refused(["eval", "--run", run, "--data", bare], 4, "bare.h5", "there is no data set /labels")
        self.refused(["predict", "--run", run, "--data", validation, bare, "-o", "both.csv"], 4,
                     "val.h5 has labels, but", "bare.h5 has none")
        self.refused(["train", f"data.train={bare}"], 4, "there is no data set /labels",
                     "data without labels can only be predicted")
        self.assertIn("  labels    none\n", self.run_trainer(["inspect", bare]).stdout)

    def test_data_of_another_shape_are_to_blame_themselves(self):
        run, _ = self.trained(train__precision="fp32")
        wide = self.pack(*self.synthetic_idx(30, classes=4, side=9), name="wide.h5")
        shapes = ("wide.h5 has samples of shape [9, 9, 1]", "trained on samples of shape [8, 8, 1]", "give data")
        gone = f"data.train={self.dir}/gone.h5"
        for settings in [], [gone]:
            self.refused(["predict", "--run", run, "--data", wide, "-o", "out.csv", *settings], 4, *shapes)
        # Weights of another program do not say what they were trained on: only their own shapes tell.
        weights = self.dir / "w.safetensors"
        write_safetensors(weights, self.exported("run"))
        self.refused(["predict", "-c", run / "config.yaml", "--checkpoint", weights, "--data", wide, "-o", "out.csv", gone,
                      "model.classes=4"], 4,
                     "a model for", "wide.h5, samples of shape [9, 9, 1], does not take these weights", "fc1.weight",
                     "or give data of the shape that they were trained on")

    def test_a_damaged_checkpoint_is_refused(self):
        self.trained()
        raw = bytearray(self.latest("run").read_bytes())
        place = raw.rfind(struct.pack("<d", 0.0) * 2) // 2
        for at in range(place, place + 64):
            raw[at] ^= 1
        self.latest("run").write_bytes(raw)
        result = self.mpirun(2, ["eval", "--run", "run"])
        self.assert_exit(result, 4)
        self.assertIn("step-", result.stderr)

    def test_a_signal_ends_all_ranks_and_leaves_no_file(self):
        run, _ = self.trained()
        big = self.pack(*self.synthetic_idx(40000, classes=4, side=8), name="big.h5")
        with self.start_mpirun(2, ["predict", "--run", run, "--data", *[big] * 50, "-o", "out.csv",
                                   "train.batch_size=1"]) as job:
            started = lambda: any(path.stat().st_size > 1000 for path in self.dir.glob("out.csv.*.tmp"))
            job.wait_until(started)
            job.signal_rank(1, signal.SIGTERM)
            result = job.wait()
        self.assert_exit(result, 1)
        self.assertIn("stopped by signal 15", result.stderr)
        self.assertEqual(list(self.dir.glob("out*")), [])

    def test_a_signal_ends_an_evaluation_on_all_ranks(self):
        run, _ = self.trained()
        big = self.pack(*self.synthetic_idx(40000, classes=4, side=8), name="big.h5")
        # With -c a part of the start has signals of its own.
        for weights in (["--run", run], ["-c", run / "config.yaml", "--checkpoint", self.latest("run")]):
            for number in signal.SIGUSR1, signal.SIGTERM:
                with self.start_mpirun(2, ["eval", *weights, "--data", *[big] * 500, "train.batch_size=1"]) as job:
                    job.wait_until(lambda job=job: "samples, 2 ranks" in job.stderr())
                    for rank in 0, 1:
                        job.signal_rank(rank, number)
                    result = job.wait()
                self.assert_exit(result, 1)
                self.assertIn("eval was stopped by a signal; start it again", result.stderr)

    def test_the_run_says_what_memory_it_took(self):
        self.trained()
        row = self.metrics("run", "memory")[-1]
        self.assertEqual(len(row["peak_rss_bytes"]), 1)
        self.assertGreater(row["peak_rss_bytes"][0], 1 << 20)


if __name__ == "__main__":
    system_test.main()
