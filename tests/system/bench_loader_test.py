"""trainer bench loader: its figures agree with each other and with the data, on any number of ranks."""

import json
import os

import system_test
from recipes import TrainingTest


class BenchLoader(TrainingTest):
    def bench(self, ranks, *more, data=None, out="out"):
        data = data or self.small_data(200)
        arguments = ["bench", "loader", "--rounds", 2, "--out", out, f"data.train={data}", "model.name=mlp",
                     "train.batch_size=16", *more]
        return self.run_trainer(arguments) if ranks == 1 else self.mpirun(ranks, arguments)

    def report(self):
        return json.loads((self.dir / "out" / "loader.json").read_text(encoding="utf-8"))

    def check_row(self, row, report, samples):
        seconds = row["seconds"]
        self.assertLess(0, seconds["min"])
        self.assertLessEqual(seconds["min"], seconds["median"])
        self.assertLessEqual(seconds["median"], seconds["max"])
        self.assertAlmostEqual(row["bytes_per_second"] * seconds["median"], row["bytes"], delta=1e-6 * row["bytes"])
        plain = next(other for other in report["rows"]
                     if other["order"] == "sequential read" and other["state"] == row["state"])
        self.assertAlmostEqual(row["share"] * plain["bytes_per_second"], row["bytes_per_second"],
                               delta=1e-6 * row["bytes_per_second"])
        batch_reads = [other for other in report["rows"]
                       if other["order"] == "sequential read" and other["state"] == row["state"]
                       and other["block_bytes"] == report["batch_size"] * report["sample_bytes"]]
        self.assertAlmostEqual(row["share_of_batch_reads"] * batch_reads[0]["bytes_per_second"],
                               row["bytes_per_second"], delta=1e-6 * row["bytes_per_second"])
        if row["order"] == "sequential read":
            self.assertIn(row["block_bytes"], (2**20, report["batch_size"] * report["sample_bytes"]))
            self.assertEqual((row["workers"], row["samples"], row["samples_per_second"]), (None, None, None))
            return
        self.assertIsNone(row["block_bytes"])
        self.assertEqual(row["samples"], samples)
        self.assertEqual(row["bytes"], samples * report["sample_bytes"])
        self.assertAlmostEqual(row["samples_per_second"] * seconds["median"], samples, delta=1e-6 * samples)

    def test_every_number_of_ranks(self):
        for ranks in (1, 2, 3, 4):
            result = self.bench(ranks, "data.workers=3")
            self.assert_exit(result, 0)
            report = self.report()
            self.assertEqual(report["benchmark"], "loader")
            self.assertEqual(report["provenance"]["world_size"], ranks)
            self.assertEqual((report["samples"], report["sample_shape"], report["sample_bytes"]), (200, [8, 8, 1], 64))
            self.assertEqual((report["rounds"], report["cold_rounds"], report["batch_size"]), (2, 2, 16))
            self.assertEqual(report["batches"], -(-200 // (16 * ranks)))
            ways = 2 * [("sequential read", None)] + [(order, workers) for order in ("shuffled", "file")
                                                  for workers in (0, 1, 2, 3)]
            self.assertEqual([(row["state"], row["order"], row["workers"]) for row in report["rows"]],
                             [(state, *way) for state in ("warm", "cold") for way in ways])
            for row in report["rows"]:
                self.check_row(row, report, 200)
            self.assertTrue(0 <= report["left_in_memory"] <= 1)
            # All ranks together: what was read before is no longer cold.
            size = (self.dir / "data.h5").stat().st_size
            self.assertLessEqual(max(row["bytes"] for row in report["rows"]
                                     if row["state"] == "cold" and row["order"] == "sequential read"), size)
            self.assertIn("evicted from the page cache", result.stdout)
            self.assertEqual(len([line for line in result.stdout.splitlines() if not line.startswith("#")]), 21)

    def test_json_on_standard_output_is_the_file_and_nothing_else(self):
        for ranks in (1, 2):
            result = self.bench(ranks, "--json", "--cold-rounds", 0)
            self.assert_exit(result, 0)
            self.assertEqual(json.loads(result.stdout), self.report())

    def test_several_files_some_batches_and_no_cold_rounds(self):
        files = [self.small_data(40, name=f"{name}.h5") for name in "ab"]
        (self.dir / "c.yaml").write_text(f"data: {{train: [{files[0]}, {files[1]}]}}\nmodel: {{name: mlp}}\n")
        result = self.run_trainer(["bench", "loader", "-c", "c.yaml", "--rounds", 1, "--cold-rounds", 0, "--batches", 3,
                                   "--out", "out", "train.batch_size=20"])
        self.assert_exit(result, 0)
        report = self.report()
        self.assertEqual((report["samples"], report["batches"], report["left_in_memory"]), (80, 3, None))
        self.assertEqual({row["state"] for row in report["rows"]}, {"warm"})
        for row in report["rows"]:
            self.check_row(row, report, 60)

    def test_ranks_may_have_workers_of_their_own(self):
        arguments = ["bench", "loader", "--rounds", 1, "--cold-rounds", 0, "--out", "out", f"data.train={self.small_data(64)}",
                     "model.name=mlp", "train.batch_size=8", "distributed.timeout=30"]
        result = self.mpirun(1, [*arguments, "data.workers=1", ":", "-np", 1, self.trainer, *arguments, "data.workers=3"],
                             per_rank_exit_codes=False)
        self.assert_exit(result, 0)
        self.assertEqual({row["workers"] for row in self.report()["rows"] if "workers" in row and row["workers"] is not None}, {0, 1, 2})

    def test_names_a_path_that_is_not_utf_8(self):
        odd = os.fsencode(self.dir) + b"/\xff.h5"
        os.rename(self.small_data(40), odd)
        self.assert_exit(self.bench(1, "--cold-rounds", 0, data=os.fsdecode(odd)), 0)
        self.assertTrue(self.report()["files"][0].endswith("\N{REPLACEMENT CHARACTER}.h5"))

    def test_bad_arguments(self):
        for words, said in ((["--rounds", "0"], "--rounds"), (["--batches", "0"], "--batches"),
                            (["--cold-rounds", "-1"], "--cold-rounds"), (["--round", "1"], "did you mean --rounds"),
                            (["data.worker=1"], "data.workers"), (["data.train=[]"], "data.train is not set"),
                            (["train.batch_size=400"], "larger than the data")):
            result = self.bench(2, *words)
            self.assert_exit(result, 2)
            self.assertIn(said, result.stderr)
        result = self.bench(2, data=self.dir / "nowhere.h5")
        self.assert_exit(result, 4)
        self.assertIn("nowhere.h5", result.stderr)
        result = self.run_trainer(["bench", "loadr"])
        self.assert_exit(result, 2)
        self.assertIn("did you mean loader", result.stderr)
        (self.dir / "file").write_text("")
        result = self.bench(2, out="file/below")
        self.assert_exit(result, 2)
        self.assertIn("file/below", result.stderr)
        self.assertFalse((self.dir / "out" / "loader.json").exists())

    def test_an_interrupted_bench_leaves_no_file(self):
        arguments = ["bench", "loader", "--rounds", 10000, "--out", "out", f"data.train={self.small_data(2000)}",
                     "model.name=mlp"]
        self.assert_leaves_nothing_when_interrupted(arguments)


if __name__ == "__main__":
    system_test.main()
