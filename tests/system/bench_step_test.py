"""trainer bench step: the report's numbers agree with each other and with counts by hand, on any number of ranks."""

import json
import os
from pathlib import Path

import system_test
from by_hand import RendezvousTest

MODEL = ["model.name=mlp", "model.hidden=[32,16]", "model.classes=4"]
# A sample of 8 x 8 pixels through 64-32-16-4; the images need no gradient.
FORWARD = 2 * (64 * 32 + 32 * 16 + 16 * 4)
BACKWARD = 2 * FORWARD - 2 * 64 * 32


class BenchStep(RendezvousTest):
    def bench(self, ranks, *more, model=MODEL, out="out"):
        arguments = ["bench", "step", "--steps", 7, "--warmup", 2, "--products", "32,64", "--out", out,
                     "train.batch_size=8", "optim.lr=0.001", *model, *more]
        return self.run_trainer(arguments) if ranks == 1 else self.mpirun(ranks, arguments)

    def report(self, ranks):
        report = json.loads((self.dir / "out" / "step.json").read_text(encoding="utf-8"))
        self.assertEqual(report["benchmark"], "step")
        self.assertEqual(report["provenance"]["world_size"], ranks)
        return report

    def check(self, report, ranks, accumulate=1):
        step = report["step"]
        self.assertEqual(len(report["steps"]), 7)
        self.assertEqual((step["min"], step["median"], step["max"]),
                         (min(report["steps"]), sorted(report["steps"])[3], max(report["steps"])))
        self.assertAlmostEqual(report["samples_per_second"] * step["median"], 8 * accumulate * ranks, places=6)
        flops = report["flops_per_sample"]
        self.assertAlmostEqual(report["flops_per_second"] / report["samples_per_second"] /
                               (flops["forward"] + flops["backward"]), 1, places=9)
        gemm = report["gemm"]
        self.assertEqual([size["n"] for size in gemm["sizes"]], [32, 64])
        self.assertEqual(gemm["flops_per_second"], max(size["flops_per_second"] for size in gemm["sizes"]))
        self.assertGreater(min(size["flops_per_second"] for size in gemm["sizes"]), 0)
        self.assertAlmostEqual(gemm["share"] * gemm["flops_per_second"] / report["flops_per_second"], 1, places=9)
        self.assertEqual(gemm["threads"], sum(rank["threads"] for rank in report["provenance"]["ranks"]))
        self.assertIn(report["slowest_rank"], range(ranks))
        for part in ("data", "forward", "backward", "exposed_communication", "optimizer", "other"):
            self.assertGreaterEqual(report["account"][part], 0, part)
        if ranks == 1:
            self.assertEqual(report["account"]["exposed_communication"], 0)
        update = report["update"]
        self.assertGreater(min(update["bytes"], update["pass_bytes_per_second"]), 0)
        self.assertAlmostEqual(update["bytes_per_second"] * report["account"]["optimizer"] / update["bytes"], 1, places=9)
        self.assertAlmostEqual(update["share"] * update["pass_bytes_per_second"] / update["bytes_per_second"], 1, places=9)
        self.assertGreaterEqual(report["page_faults_per_step"], 0)
        for name in ("forward", "backward"):
            self.assertEqual(sum(layer[f"{name}_flops"] for layer in report["layers"]), flops[name])
            # Medians of the layers lie in that of the whole, but for the noise of the others.
            self.assertGreater(report["account"][name], 0)
        for layer in report["layers"]:
            seconds = layer["forward"] + layer["backward"]
            counted = layer["forward_flops"] + layer["backward_flops"]
            if counted:
                self.assertAlmostEqual(layer["flops_per_second"] * seconds / (8 * counted), 1, places=9)
                self.assertAlmostEqual(layer["share_of_peak"] * gemm["flops_per_second"] / ranks /
                                       layer["flops_per_second"], 1, places=9)
            self.assertAlmostEqual(layer["share_of_step"] * step["median"], accumulate * seconds, places=12)

    def test_random_data_on_every_number_of_ranks(self):
        for ranks in (1, 2, 3, 4):
            result = self.bench(ranks, "--synthetic", "--shape", "8x8x1")
            self.assert_exit(result, 0)
            report = self.report(ranks)
            self.check(report, ranks)
            self.assertEqual(report["flops_per_sample"], {"forward": FORWARD, "backward": BACKWARD})
            self.assertIn("random data", report["data"])
            for words in ("samples/s", "GFLOP/s", "exposed communication", "fc1", "step.json is written"):
                self.assertIn(words, result.stdout)

    def test_json_on_standard_output_is_the_file_and_nothing_else(self):
        for ranks in (1, 2):
            result = self.bench(ranks, "--synthetic", "--shape", "8x8x1", "--json")
            self.assert_exit(result, 0)
            self.assertEqual(json.loads(result.stdout), self.report(ranks))

    def test_random_sequences(self):
        small = ["model.name=temporal_transformer", "model.dim=8", "model.depth=1", "model.heads=2"]
        self.assert_exit(self.bench(2, "--synthetic", "--shape", "6x5", model=small), 0)
        self.assertIn("samples of [6, 5]", self.report(2)["data"])

    def test_random_samples_are_computed_at_rates_that_no_model_survives(self):
        self.assert_exit(self.bench(1, "--synthetic", "--shape", "8x8x1", "optim.lr=1e30", "schedule.name=cosine",
                                    "schedule.min_lr=1e30"), 0)

    def test_names_the_schedule_that_training_would_take(self):
        self.requires_gloo()  # by shared memory auto is within steps anyway
        for across, policy, schedule in (("true", "per_layer", "across"), ("false", "per_layer", "within"),
                                         ("auto", "single", "within"), ("auto", "per_layer", None)):
            result = self.bench(2, "--synthetic", "--shape", "8x8x1", "distributed.backend=gloo",
                                f"distributed.bucket_policy={policy}", f"distributed.across_steps={across}")
            self.assert_exit(result, 0)
            report = self.report(2)
            self.check(report, 2)
            if schedule is None:  # the clock decides, and says so
                schedule = "within" if "transfers end with their step: " in result.stderr else "across"
            self.assertEqual(report["schedule"], f"{schedule} steps")
            self.assertIn(f"transfers  {schedule} steps, all-reduce: gloo", result.stdout)

    def test_a_config_with_a_data_set(self):
        data = self.small_data()
        (self.dir / "c.yaml").write_text(f"data: {{train: {data}, workers: 0}}\n")
        for ranks in (1, 2):
            self.assert_exit(self.bench(ranks, "-c", "c.yaml"), 0)
            report = self.report(ranks)
            self.check(report, ranks)
            self.assertIn("data.h5", report["data"])
            self.assertEqual(report["flops_per_sample"], {"forward": FORWARD, "backward": BACKWARD})

    def test_names_a_path_that_is_not_utf_8(self):
        odd = os.fsencode(self.dir) + b"/\xff.h5"
        os.rename(self.small_data(), odd)
        self.assert_exit(self.bench(1, f"data.train={os.fsdecode(odd)}"), 0)
        self.assertIn("\N{REPLACEMENT CHARACTER}.h5", self.report(1)["data"])

    def test_products_in_bf16(self):
        result = self.bench(1, "--synthetic", "train.precision=bf16")
        self.skip_where_bf16_is_not(result)
        self.assert_exit(result, 0)
        self.check(self.report(1), 1)
        self.assertEqual(self.report(1)["precision"], "bf16")
        self.assertIn("bf16", result.stdout)

    def test_micro_batches_and_the_shape_that_the_model_names(self):
        model = ["model.name=lenet", "model.image=12", "model.channels=2"]
        self.assert_exit(self.bench(2, "--synthetic", "train.accumulate=2", model=model), 0)
        report = self.report(2)
        self.check(report, 2, accumulate=2)
        self.assertEqual(report["precision"], "f32")
        self.assertIn("[12, 12, 2]", report["data"])
        convolution = report["layers"][0]
        self.assertEqual(convolution["forward_flops"], 2 * 12 * 12 * 32 * 2 * 9)
        self.assertEqual(convolution["backward_flops"], convolution["forward_flops"])

    def test_mistakes_end_all_ranks_alike(self):
        (self.dir / "file").write_text("")
        for words, code, said in ((["data.train=missing.h5"], 4, "missing.h5"),
                                  (["--synthetic", "--shape", "8x"], 2, "--shape: '8x'"),
                                  (["--shape", "8x8x1", "data.train=x.h5"], 2, "--synthetic"),
                                  (["--synthetic", "model.hiden=[1]"], 2, "model.hidden"),
                                  (["--synthetic", "--products", "0"], 2, "--products"),
                                  (["--synthetic", "--stpes", "3"], 2, "did you mean --steps"),
                                  (["-c", "nowhere.yaml"], 2, "nowhere.yaml")):
            for ranks in (1, 2):
                result = self.bench(ranks, *words)
                self.assert_exit(result, code)
                self.assertIn(said, result.stderr)
        self.assertFalse((self.dir / "out" / "step.json").exists())
        result = self.bench(2, "--synthetic", "--shape", "8x8x1", out="file/below")
        self.assert_exit(result, 2)
        self.assertIn("file/below", result.stderr)

    def test_sizes_of_products_leave_the_words_behind_them_to_the_settings(self):
        result = self.run_trainer(["bench", "step", "--synthetic", "--steps", 1, "--products", "8,16", "--products", 32,
                                   *MODEL, "train.batch_size=3", "--out", "out"])
        self.assert_exit(result, 0)
        report = json.loads((self.dir / "out/step.json").read_text())
        self.assertEqual((report["batch_size"], [size["n"] for size in report["gemm"]["sizes"]]), (3, [8, 16, 32]))

    def test_what_cannot_fit_into_memory_is_refused_at_once(self):
        for bench in ("step", "buckets"):
            for batch in (10**8, 10**13):
                for ranks in (1, 2):
                    words = ["bench", bench, "--synthetic", "--out", "out", *MODEL, f"train.batch_size={batch}"]
                    result = self.run_trainer(words) if ranks == 1 else self.mpirun(ranks, words)
                    self.assert_exit(result, 2)
                    self.assertIn(f"train.batch_size {batch} needs at least", result.stderr)
                    self.assertIn("set train.batch_size to less", result.stderr)
                    self.assertEqual(result.stderr.count("needs at least"), 1)

    def test_made_data_in_the_place_of_a_config_s_are_counted_by_the_batch(self):
        recipe = Path(__file__).parents[2] / "jobs" / "fashion_mnist.yaml"
        result = self.run_trainer(["bench", "step", "--synthetic", "-c", recipe, "train.batch_size=100000000"])
        self.assert_exit(result, 2)
        self.assertIn("set train.batch_size to less", result.stderr)

    def test_a_signal_ends_a_step_of_minutes(self):
        arguments = ["bench", "step", "--steps", 1, "--warmup", 0, "--products", "8", "--synthetic", "--out", "out", *MODEL,
                     "model.hidden=[512,512]", "train.accumulate=300000"]
        self.assert_leaves_nothing_when_interrupted(arguments)

    def test_an_interrupted_bench_leaves_no_file(self):
        arguments = ["bench", "step", "--steps", 10000, "--products", "8", "--synthetic", "--out", "out", *MODEL,
                     "model.hidden=[512,512]"]
        self.assert_leaves_nothing_when_interrupted(arguments)


if __name__ == "__main__":
    system_test.main()
