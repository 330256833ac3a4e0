"""What peer_torch.py makes of its measurements, and how it treats children that fail; without torch."""

import argparse
import os
import pathlib
import sys
import tempfile
import unittest
from unittest import mock

import core_distance
import peer_torch
from tap import main
from torch_process import Failed, TorchRanks, environment_of

# Answers as torch_steps.py does; a rank's seconds are its number and the step's.
CHILD = """
import json, os, sys
print(json.dumps({"rank": int(os.environ.get("RANK", 0)), "port": os.environ.get("MASTER_PORT")}), flush=True)
for line in sys.stdin:
    if line.strip() == "3":
        sys.exit("a | reason")
    if line.strip() == "2" and os.environ.get("RANK") == "1":
        sys.stdin.read()
    print(json.dumps([int(os.environ.get("RANK", 0)) * (i == 0) + i for i in range(int(line))]), flush=True)
"""


class Children(unittest.TestCase):
    def start(self, ranks):
        folder = tempfile.TemporaryDirectory(prefix="tutti-")
        self.addCleanup(folder.cleanup)
        script = pathlib.Path(folder.name) / "child.py"
        script.write_text(CHILD)
        job = TorchRanks(sys.executable, script, ranks, "tuned", folder.name, [])
        self.addCleanup(job.end)
        return job

    def test_the_slowest_rank_counts_in_each_step(self):
        job = self.start(2)
        self.assertEqual(job.ready(60)["rank"], 0)
        self.assertEqual(job.steps(4, 60), [1, 1, 2, 3])
        self.assertEqual(job.steps(1, 60), [1])

    def test_a_child_that_ends_gives_its_last_line_as_reason(self):
        job = self.start(1)
        job.ready(60)
        with self.assertRaisesRegex(Failed, r"ended \(a / reason\)"):
            job.steps(3, 60)
        with self.assertRaises(Failed):
            job.steps(1, 60)

    def test_a_child_that_is_silent_is_given_up_and_ended(self):
        job = self.start(2)
        job.ready(60)
        with self.assertRaisesRegex(Failed, "no answer within 1 s"):
            job.steps(2, 1)
        pids = [process.pid for process in job.processes]
        job.end()
        for pid in pids:
            self.assertRaises(ProcessLookupError, os.kill, pid, 0)

    def test_the_environment_says_what_a_variant_is(self):
        os.environ["OMP_NUM_THREADS"] = "7"
        self.addCleanup(os.environ.pop, "OMP_NUM_THREADS")
        self.assertNotIn("OMP_NUM_THREADS", environment_of("installed", 0, 1, 5, "cache"))
        tuned = environment_of("tuned", 1, 2, 5, "cache")
        self.assertEqual(environment_of("tuned", 0, 1, 5, "cache", threads=2)["OMP_NUM_THREADS"], "2")
        self.assertEqual((tuned["OMP_NUM_THREADS"], tuned["RANK"], tuned["GLOO_SOCKET_IFNAME"]), ("1", "1", "lo"))
        self.assertIn("shim.so", environment_of("tuned", 0, 1, 5, "cache", "shim.so")["LD_PRELOAD"])
        self.assertNotIn("LD_PRELOAD", environment_of("installed", 0, 1, 5, "cache", "shim.so"))
        self.assertNotIn("TORCHINDUCTOR_CACHE_DIR", tuned)
        self.assertEqual(environment_of("compiled", 0, 1, 5, "cache")["TORCHINDUCTOR_CACHE_DIR"], "cache")


class Budget(unittest.TestCase):
    def test_slow_machines_get_fewer_steps_but_some(self):
        self.assertEqual(peer_torch.steps_of_block(40, 0.01, 6, 60), 40)
        self.assertEqual(peer_torch.steps_of_block(40, 1.0, 6, 60), 5)
        self.assertEqual(peer_torch.steps_of_block(40, 9.0, 6, 60), peer_torch.LEAST_STEPS)

    def fitted(self, model, rate, ranks=1, threads=1):
        arguments = argparse.Namespace(rounds=3, variants=["installed", "tuned", "compiled"])
        case = {"model": model, "precision": "fp32", "ranks": ranks, "threads": threads}
        with mock.patch("peer_torch.run_ours", lambda *_: [{"samples_per_second": rate}]):
            # What the default 12 minutes leave to one of 24 cases.
            peer_torch.fit(arguments, case, None, 720 * peer_torch.MODELS[model][3] / 1179)
        return case["steps"]

    def test_a_machine_as_fast_as_the_readme_s_has_whole_blocks(self):
        for model, rate in (("resnet18", 100), ("vit", 850), ("mlp", 59000)):
            self.assertEqual(self.fitted(model, rate), peer_torch.MODELS[model][1])
            self.assertEqual(self.fitted(model, 1.7 * rate, ranks=2), peer_torch.MODELS[model][1])
        self.assertEqual(self.fitted("vit", 250), 2)
        self.assertLess(self.fitted("vit", 2 * 250, ranks=2), 10)
        self.assertLess(self.fitted("vit", 2 * 250, threads=2), 10)

    def test_what_the_time_does_not_allow_is_no_failure(self):
        late = lambda over: peer_torch.late(type("Arguments", (), {"is_over": staticmethod(lambda: over)}))
        self.assertIn("left out", late(True))
        self.assertRegex(late(False), "failed: .* 90 s")


@mock.patch("peer_torch.has_avx512", lambda: True)
class Table(unittest.TestCase):
    CASE = {"model": "vit", "precision": "fp32", "ranks": 2, "threads": 1,
            "ours": {"rates": [960, 480, 1920], "one_core": [500, 240, 1000], "unrelated": [950, 480, 1980],
                     "report": {"gemm": {"share": 0.75}}},
            "theirs": {"tuned": {"rates": [480, 480, 480]}, "compiled": {"rates": [], "failure": "failed: ended"}}}

    def test_ratios_are_of_rounds_and_failures_have_their_reason(self):
        row = peer_torch.table([self.CASE], ["tuned", "compiled", "installed"]).splitlines()[-1]
        self.assertEqual(row, "| vit | fp32 | 2 | 960 | 1.92 | 1.98 | 480 (× 2.00) | failed: ended | – | 40% | 75% | – |")

    def test_the_limit_of_a_core_with_avx512_is_left_out_on_others(self):
        with mock.patch("peer_torch.has_avx512", lambda: False):
            row = peer_torch.table([self.CASE], ["tuned"]).splitlines()[-1]
        self.assertEqual(row, "| vit | fp32 | 2 | 960 | 1.92 | 1.98 | 480 (× 2.00) | – | 75% | – |")

    def test_a_case_without_a_measurement_has_as_many_cells(self):
        lines = peer_torch.table([{**self.CASE, "failure": "left out"}, self.CASE], ["tuned"]).splitlines()
        self.assertEqual({line.count("|") for line in lines}, {11})
        self.assertIn("left out", lines[2])

    def test_one_core_has_no_ratio_to_itself_and_threads_are_said(self):
        alone = self.CASE | {"ranks": 1, "ours": {"rates": [480], "one_core": [], "report": {"gemm": {"share": 0.75}}}}
        row = peer_torch.table([alone], ["installed"]).splitlines()[-1]
        self.assertEqual(row, "| vit | fp32 | 1 | 480 | – | – | – | 40% | 75% | – |")
        row = peer_torch.table([self.CASE | {"ranks": 1, "threads": 2}], []).splitlines()[-1]
        self.assertTrue(row.startswith("| vit | fp32 | 1 × 2 threads | 960 | 1.92 | 1.98 |"), row)
        self.assertIn("| 40% | 75% | – |", row)

    def test_rounds_of_near_and_of_far_cores_have_ratios_of_their_own(self):
        near, far, changed = (90, 100), (440, 460), (90, 450)
        case = {**self.CASE, "ours": self.CASE["ours"] | {"core_to_core_ns": [near, far, changed]},
                "theirs": {"tuned": {"rates": [480, 480, 480], "core_to_core_ns": [near, near, near]}}}
        *_, row, empty, note = peer_torch.table([case], ["tuned"]).splitlines()
        self.assertTrue(row.endswith("| 90 to 460 (ours 270, tuned 95) |"), row)
        self.assertEqual(empty, "")
        self.assertEqual(note, "vit fp32 on 2: × one core near 1.92 (1 round), far 2.00 (1 round), 1 round of neither; "
                               "ours × PyTorch tuned near 2.00 (1 round), 2 rounds of neither")
        case["ours"]["core_to_core_ns"] = [near, near, near]
        self.assertTrue(peer_torch.table([case], ["tuned"]).endswith("| 90 to 100 (ours 95, tuned 95) |"))


class CoreDistance(unittest.TestCase):
    def test_a_measurement_is_of_a_kind_where_all_round_trips_around_it_are(self):
        for nanoseconds, expected in (((90, 110), "near"), ((249.9,), "near"), ((250,), "far"), ((450, 300, 500), "far"),
                                      ((90, 450), None), ((90, None), None), ((), None)):
            self.assertEqual(core_distance.kind(*nanoseconds), expected, nanoseconds)

    def test_a_missing_or_failing_program_is_no_number_and_no_error(self):
        self.assertIsNone(core_distance.now("/nowhere/bench_core_distance"))
        self.assertIsNone(core_distance.now("/bin/false"))
        self.assertEqual(core_distance.cell({"ours": [(None, None)], "tuned": []}), "–")

    def test_rounds_of_a_kind_have_their_median(self):
        self.assertEqual(core_distance.apart([1.75, 2, 1.5], ["near", "near", "far"]),
                         "near 1.88 (2 rounds), far 1.50 (1 round)")


if __name__ == "__main__":
    main()
