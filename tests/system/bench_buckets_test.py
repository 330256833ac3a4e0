"""trainer bench buckets: the report's numbers agree with each other, on any number of ranks, real and replayed."""

import html.parser
import json
import os
import statistics

import system_test
from recipes import TrainingTest

FIGURES = ("step", "data", "forward", "backward", "optimizer", "communication", "hidden", "exposed", "transfer_cpu",
           "off_core")


class Page(html.parser.HTMLParser):
    """Notes unclosed elements, the embedded report, and whether anything would be loaded."""

    VOID = {"meta", "link", "img", "br", "input", "hr"}

    def __init__(self, text):
        super().__init__()
        self.open, self.loads, self.report, self.closed_wrong = [], [], "", []
        self.in_report = False
        self.feed(text)
        self.close()

    def handle_starttag(self, tag, attrs):
        attrs = dict(attrs)
        if tag not in self.VOID:
            self.open.append(tag)
        self.in_report = tag == "script" and attrs.get("id") == "report"
        self.loads += [attrs[name] for name in ("src", "href") if name in attrs]

    def handle_endtag(self, tag):
        if not self.open or self.open.pop() != tag:
            self.closed_wrong.append(tag)
        self.in_report = False

    def handle_data(self, data):
        if self.in_report:
            self.report += data


class BenchBuckets(TrainingTest):
    def bench(self, ranks, *more, model=("model.name=mlp", "model.hidden=[32,16]"), out="out"):
        data = self.dir / "data.h5"
        if not data.exists():
            self.pack(*self.synthetic_idx(160, classes=4, side=8))
        arguments = ["bench", "buckets", "--steps", 4, "--warmup", 1, "--out", out,
                     "-c", self.config(data), "train.batch_size=8", *model, *more]
        return self.run_trainer(arguments) if ranks == 1 else self.mpirun(ranks, arguments)

    def config(self, data):
        (self.dir / "c.yaml").write_text(f"data: {{train: {data}, workers: 0}}\noptim: {{lr: 0.001}}\n")
        return "c.yaml"

    def report(self):
        return json.loads((self.dir / "out" / "buckets.json").read_text(encoding="utf-8"))

    def check_plan(self, plan, report):
        self.assertEqual(len(plan["steps"]), report["steps"])
        for step in plan["steps"]:
            self.assertAlmostEqual(step["hidden"] + step["exposed"], step["communication"], places=12)
            self.assertGreaterEqual(step["hidden"], 0)
            self.assertGreater(step["step"], step["backward"])
        for figure in FIGURES:
            spread = plan[figure]
            self.assertLessEqual(spread["min"], spread["median"])
            self.assertLessEqual(spread["median"], spread["max"])
        for name in ("step", "backward", "exposed"):
            self.assertEqual(plan[name]["max"], max(step[name] for step in plan["steps"]))
        self.assertLess(plan["transfer_cpu"]["max"], plan["step"]["max"])
        if report["provenance"]["world_size"] == 1:
            self.assertEqual(plan["transfer_cpu"]["max"], 0)
        else:
            self.assertGreater(plan["transfer_cpu"]["min"], 0)
        self.assertGreater(plan["predicted"], 0)
        self.assertGreaterEqual(sum(bucket["bytes"] for bucket in plan["buckets"]), report["gradient_bytes"])
        for bucket in plan["buckets"]:
            for end in ("min", "median", "max"):
                self.assertLessEqual(bucket["ready"][end], bucket["start"][end])
                self.assertLessEqual(bucket["start"][end], bucket["done"][end])
        line = plan["timeline"]
        self.assertEqual(len(line["buckets"]), len(plan["buckets"]))
        self.assertLess(line["micro_batches"][0]["backward"][0], line["backward_end"])
        self.assertLessEqual(line["optimizer"][1], line["step"])
        self.assertGreaterEqual(line["early_updates"], 0)
        self.assertLessEqual(line["early_updates"], line["communication"][1] - line["communication"][0] + 1e-12)
        self.assertEqual(len(line["micro_batches"][0]["layer_forward"]), len(report["layers"]))

    def check_report(self, ranks):
        report = self.report()
        self.assertEqual(report["benchmark"], "buckets")
        self.assertEqual(report["provenance"]["world_size"], ranks)
        self.assertEqual(report["steps"], 4)
        for plan in report["plans"]:
            self.check_plan(plan, report)
        self.assertEqual(sum(parameter["bytes"] for parameter in report["parameters"]), report["gradient_bytes"])
        medians = [plan["step"]["median"] for plan in report["plans"]]
        self.assertEqual(medians[report["best"]], min(medians))
        page = Page((self.dir / "out" / "buckets.html").read_text(encoding="utf-8"))
        self.assertEqual(json.loads(page.report), report)
        self.assertEqual((page.open, page.closed_wrong, page.loads), ([], [], []))
        return report

    def test_a_model_without_parameters_is_refused(self):
        for ranks in (1, 2):
            result = self.mpirun(ranks, ["bench", "buckets", "-c", self.nothing(), "--out", "nothing"])
            self.assert_exit(result, 2)
            self.assertIn("the model has no parameters", result.stderr)

    def nothing(self):
        config = self.dir / "nothing.yaml"
        if not config.exists():
            data = self.small_data(64)
            config.write_text(f"data: {{train: {data}}}\nmodel: {{layers: [{{max_pool2d: {{kernel: 4}}}}, flatten]}}\n"
                              "train: {batch_size: 8}\n")
        return config

    def test_says_that_training_would_take_zero1(self):
        for strategy, notes in (("auto", 1), ("ddp", 0)):
            self.assert_exit(self.bench(2, f"distributed.strategy={strategy}"), 0)
            self.assertEqual(sum("training takes zero1" in note for note in self.report()["notes"]), notes, strategy)

    def test_every_number_of_ranks(self):
        for ranks in (1, 2, 3, 4):
            result = self.bench(ranks)
            self.assert_exit(result, 0)
            report = self.check_report(ranks)
            self.assertIsNone(report["replay"])
            names = [name["text"] for plan in report["plans"] for name in plan["names"]]
            self.assertEqual(sorted(names), sorted(["single", "per_layer", "cost_model"] +
                                                   [f"ddp {mb} MiB" for mb in ("0.25", 1, 4, 10, 25, 100)]))
            if ranks == 1:
                self.assertIn("nothing to hide", result.stdout)
                self.assertEqual(report["all_reduce"]["sizes"], [])
                self.assertIsNone(report["plans"][0]["overlap"])
                self.assertEqual(report["plans"][0]["communication"]["max"], 0)
            else:
                self.assertGreater(report["all_reduce"]["sizes"][-1]["time"]["median"], 0)
                self.assertGreater(len(report["all_reduce"]["fit"]["pieces"]), 0)
                self.assertEqual(report["all_reduce"]["sizes"][0]["bytes"], 4)
                self.assertGreater(report["plans"][0]["communication"]["median"], 0)
                # Shared memory may be faster in parts; then come what is before them, and the computation.
                yardstick = report["yardstick"]
                self.assertGreater(yardstick["least_communication"], 0)
                self.assertLessEqual(yardstick["least_communication"], report["all_reduce"]["sizes"][-1]["time"]["min"])
                self.assertGreater(yardstick["attainable"], yardstick["least_communication"])

    def test_json_on_standard_output_is_the_file_and_nothing_else(self):
        for ranks in (1, 2):
            result = self.bench(ranks, "--json", "--replay")
            self.assert_exit(result, 0)
            self.assertEqual(json.loads(result.stdout), self.check_report(ranks))

    def test_predictions_know_how_fast_the_rounds_computed(self):
        for ranks in (1, 2):
            self.assert_exit(self.bench(ranks), 0)
            report = self.report()
            measured, compute = report["measurement"], report["yardstick"]["compute"]
            self.assertEqual(measured["steps"], report["steps"])
            self.assertAlmostEqual(measured["before"] + measured["backward_end"] + measured["rest"], compute, places=12)
            for plan in report["plans"]:
                self.assertGreaterEqual(plan["predicted"], compute - 1e-12)
            # Each step's slowest rank computes in no more than the step, and in no less than what is not waiting.
            single = next(plan for plan in report["plans"] if any(name["text"] == "single" for name in plan["names"]))
            self.assertLessEqual(compute, single["step"]["median"] + 1e-12)
            if ranks == 2:
                without = statistics.median(step["step"] - step["exposed"] for step in single["steps"])
                self.assertGreaterEqual(compute, without - 1e-12)

        # Where no row is in one bucket such steps are measured all the same, and not shown.
        self.assert_exit(self.bench(2, "--policies", "per_layer"), 0)
        report = self.report()
        self.assertEqual([[name["text"] for name in plan["names"]] for plan in report["plans"]], [["per_layer"]])
        self.assertEqual(report["measurement"]["steps"], report["steps"])

    def test_the_same_cuts_are_measured_once_and_named_together(self):
        result = self.bench(2, "--policies", "ddp,single", "--bucket-mb", "25,100")
        self.assert_exit(result, 0)
        report = self.report()
        self.assertEqual([[name["text"] for name in plan["names"]] for plan in report["plans"]],
                         [["ddp 25 MiB", "ddp 100 MiB", "single"]])
        self.assertIn("measured once: ddp 25 MiB = ddp 100 MiB = single", result.stdout)

    def test_micro_batches_and_convolutions(self):
        result = self.bench(2, "train.accumulate=2", "train.batch_size=4",
                            model=("model.layers=[{conv2d: {out: 4, kernel: 3}}, relu, flatten, {linear: {out: 4}}]",))
        self.assert_exit(result, 0)
        report = self.check_report(2)
        self.assertEqual(len(report["plans"][0]["timeline"]["micro_batches"]), 2)
        self.assertIn("layers, 4 samples per rank x 2 micro-batches, 2 ranks, ", result.stdout)

    def test_replay_of_a_measurement_in_the_same_run_says_so_everywhere(self):
        for ranks in (1, 4):
            result = self.bench(ranks, "--replay")
            self.assert_exit(result, 0)
            report = self.check_report(ranks)
            self.assertIn("asleep", report["replay"])
            self.assertIn("on rank 0", report["replay"])
            self.assertIn("REPLAY", result.stdout)
        page = (self.dir / "out" / "buckets.html").read_text(encoding="utf-8")
        self.assertIn("Replay: nothing was computed", page)

    def test_replay_of_a_file_keeps_its_times(self):
        self.assert_exit(self.bench(1), 0)
        profile = self.report()["profile"]
        (self.dir / "out" / "buckets.json").rename(self.dir / "one.json")
        result = self.bench(3, "--replay", "one.json")
        self.assert_exit(result, 0)
        report = self.check_report(3)
        self.assertIn("one.json", report["replay"])
        self.assertEqual(report["profile"], profile)
        least = profile["optimizer"] + profile["data"] + sum(profile["layer_forward"] + profile["layer_backward"])
        total = sum(step["step"] for plan in report["plans"] for step in plan["steps"])
        steps = sum(len(plan["steps"]) for plan in report["plans"])
        self.assertGreater(total, 0.9 * least * steps)
        # A name that is not UTF-8.
        (self.dir / "one.json").rename(os.fsdecode(os.fsencode(self.dir) + b"/\xff.json"))
        self.assert_exit(self.bench(1, "--replay", os.fsdecode(b"\xff.json")), 0)
        self.assertIn("\N{REPLACEMENT CHARACTER}.json", self.check_report(1)["replay"])
        os.rename(os.fsencode(self.dir) + b"/\xff.json", self.dir / "one.json")
        # Of another model: its layers are not these.
        result = self.bench(2, "--replay", "one.json", "model.hidden=[32,16,16]")
        self.assert_exit(result, 4)
        self.assertIn("one.json", result.stderr)
        # Of another batch or precision: their layers take other times; those of a micro-batch do not.
        for setting, said in (("train.batch_size=16", "train.batch_size 8, and here it is 16"),
                              ("train.precision=fp64", "train.precision fp32, and here it is fp64")):
            result = self.bench(1, "--replay", "one.json", setting)
            self.assert_exit(result, 4)
            self.assertIn(said, result.stderr)
        self.assert_exit(self.bench(1, "--replay", "one.json", "train.accumulate=2"), 0)

    def test_of_a_model_of_less_than_4_kib_a_transfer_costs_something_besides_its_bytes(self):
        self.assert_exit(self.bench(2, model=("model.name=mlp", "model.hidden=[]")), 0)
        report = self.report()
        self.assertLess(report["gradient_bytes"], 4096)
        self.assertEqual(len(report["all_reduce"]["fit"]["residuals"]), len(report["all_reduce"]["sizes"]))
        self.assertGreater(report["all_reduce"]["fit"]["pieces"][0]["alpha"], 0)

    def test_random_data(self):
        for ranks in (1, 2):
            result = (self.run_trainer if ranks == 1 else lambda words: self.mpirun(ranks, words))(
                ["bench", "buckets", "--synthetic", "--shape", "8x8x1", "--steps", 4, "--warmup", 1, "--out", "out",
                 "train.batch_size=8", "optim.lr=0.001", "model.name=mlp", "model.hidden=[32,16]"])
            self.assert_exit(result, 0)
            self.check_report(ranks)
        result = self.bench(2, "--shape", "8x8x1")
        self.assert_exit(result, 2)
        self.assertIn("--synthetic", result.stderr)

    def test_the_processors_part_of_transfers_is_kept_with_the_fit(self):
        self.assert_exit(self.bench(2), 0)
        processor = self.report()["all_reduce"]["fit"]["processor"]
        self.assertEqual(list(processor), ["per_transfer", "seconds_per_byte"])
        self.assertGreaterEqual(min(processor.values()), 0)
        self.assert_exit(self.bench(2, "--replay"), 0)
        self.assertEqual(set(self.report()["all_reduce"]["fit"]["processor"].values()), {0}, "timed waits wait on")

    def test_bad_arguments(self):
        for words, said in ((["--bucket-mb", "0"], "--bucket-mb: '0'"), (["--bucket-mb", "1,x"], "'x'"),
                            (["--policies", "sinlge"], "did you mean single"), (["--steps", "0"], "--steps"),
                            (["--warmup", "-1"], "--warmup"), (["--bucket-bm", "1"], "did you mean --bucket-mb"),
                            (["model.hiden=[1]"], "model.hidden"), (["data.train=[]"], "data.train is not set")):
            result = self.bench(2, *words)
            self.assert_exit(result, 2)
            self.assertIn(said, result.stderr)
        self.assert_exit(self.bench(2, "--replay", "nowhere.json"), 4)
        self.assert_exit(self.run_trainer(["bench", "bukets"]), 2)
        self.assertFalse((self.dir / "out" / "buckets.json").exists())
        (self.dir / "file").write_text("")
        result = self.bench(2, out="file/below")
        self.assert_exit(result, 2)
        self.assertIn("file/below", result.stderr)

    def test_an_interrupted_bench_leaves_no_file(self):
        self.pack(*self.synthetic_idx(160, classes=4, side=8))
        arguments = ["bench", "buckets", "--steps", 10000, "--out", "out", "-c", self.config(self.dir / "data.h5"),
                     "train.batch_size=8", "model.name=mlp"]
        self.assert_leaves_nothing_when_interrupted(arguments)


if __name__ == "__main__":
    system_test.main()
