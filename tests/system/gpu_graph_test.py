"""Steps whose gradients are one CUDA graph have the bits of steps issued operation by operation, and a run says why it
has none. On tests/support/fake_gpu, whose graphs repeat the arguments with which they were recorded."""

import argparse
import contextlib
import itertools
import json
import os
import pathlib
import sys
import tempfile
from unittest import mock

import system_test
from gpu_program import GpuProgramTest
from sequences import packing, write_videos

sys.path.append(str(pathlib.Path(__file__).parents[1] / "gpu"))
import gpu_process
import gpu_stages

RECORDED = "computed by a CUDA graph from now on"
NOT_RECORDED = "no CUDA graph, each operation of a step is issued on its own: "
LAYERS = ("[{conv2d: {out: 4, kernel: 3}}, batch_norm2d, relu, {max_pool2d: {kernel: 2}}, {dropout: {p: 0.3}}, flatten, "
          "{linear: {out: 4}}]")
# 100 samples: the last batch of an epoch is smaller; two epochs and a validation between them.
CASES = {
    "momentum, a rate that falls at every step, a warm-up": {
        "optim.momentum": 0.9, "schedule.name": "cosine", "schedule.warmup_epochs": 0.5, "data.val": "the training data"},
    "adamw, dropout, batch statistics, moving average, clipping": {
        "model.name": "null", "model.hidden": "null", "model.layers": LAYERS, "optim.name": "adamw", "optim.lr": 0.01,
        "optim.clip_norm": 0.5, "train.ema": 0.9},
    "lamb": {"optim.name": "lamb", "optim.lr": 0.02},
    "adadelta": {"optim.name": "adadelta", "optim.weight_decay": 0.01},
    "stochastic depth, recomputed": {
        "model.name": "vit", "model.hidden": "null", "model.dim": 8, "model.depth": 2, "model.heads": 2,
        "model.drop_path": 0.4, "train.recompute": "true", "optim.name": "adam", "optim.lr": 0.003,
        "train.label_smoothing": 0.1, "data.val": "the training data"},
    "clips, recomputed": {
        "model.name": "videomae", "model.hidden": "null", "model.frames": 1, "model.tubelet": 1, "model.patch": 4,
        "model.dim": 16, "model.depth": 2, "model.heads": 2, "train.recompute": "true", "optim.name": "adam",
        "optim.lr": 0.003, "train.class_weights": "[1,2,3,4]"},
    "hidden clips, with an evaluation between the steps": {
        "model.name": "videomae_pretrain", "model.hidden": "null", "model.frames": 1, "model.tubelet": 1, "model.patch": 2,
        "model.dim": 16, "model.depth": 2, "model.heads": 2, "model.mask_ratio": 0.6, "model.decoder_depth": 1,
        "optim.name": "adam", "optim.lr": 0.003, "data.val": "the training data"},
    "hidden clips, bf16, recomputed": {
        "model.name": "videomae_pretrain", "model.hidden": "null", "model.frames": 1, "model.tubelet": 1, "model.patch": 2,
        "model.dim": 16, "model.depth": 2, "model.heads": 2, "model.mask_ratio": 0.6, "model.decoder_depth": 1,
        "train.precision": "bf16", "train.recompute": "true", "optim.name": "adam", "optim.lr": 0.003},
    # Heads of 8 values: the library's fused attention, which also has a state for backward.
    "bf16, fused attention, recomputed, with an evaluation between the steps": {
        "model.name": "vit", "model.hidden": "null", "model.dim": 16, "model.depth": 2, "model.heads": 2,
        "train.precision": "bf16", "train.recompute": "true", "optim.name": "adam", "optim.lr": 0.003,
        "data.val": "the training data"},
    "bf16, GELU by tanh in the products beside it, with an evaluation between the steps": {
        "model.name": "vit", "model.hidden": "null", "model.dim": 16, "model.depth": 2, "model.heads": 2,
        "model.gelu": "tanh", "train.precision": "bf16", "optim.name": "adam", "optim.lr": 0.003, "data.val": "the training data"},
}


class GpuGraph(GpuProgramTest):
    def train(self, name, graph, ranks=1, **settings):
        given = {"run__cuda_graph": graph, "train__max_steps": "null", "train__epochs": 2, "gpus": ranks, "optim__momentum": 0,
                 **settings}
        return self.run_on("cuda", ranks, name, **given)

    def setUp(self):
        super().setUp()
        self.data = self.small_data(100, name="uneven.h5")

    def assert_same_bits(self, ours, theirs):
        self.assertEqual(self.losses(ours), self.losses(theirs))
        self.assertEqual(self.sha256(ours), self.sha256(theirs))

    def both(self, name, ranks=1, **settings):
        """The same run without and with graphs."""
        eager = self.train(f"{name}-eager", "false", ranks, **settings)
        self.assert_exit(eager, 0)
        self.assertNotIn("CUDA graph", eager.stderr)
        graphed = self.train(f"{name}-graph", "true", ranks, **settings)
        self.assert_exit(graphed, 0)
        self.assertEqual(graphed.stderr.count(RECORDED), 1, graphed.stderr)
        self.assertNotIn("no fused", graphed.stderr)
        self.assert_same_bits(f"{name}-graph", f"{name}-eager")

    def test_one_rank_has_the_same_bits(self):
        for number, (name, settings) in enumerate(CASES.items()):
            with self.subTest(name):
                if settings.get("data.val"):
                    settings = {**settings, "data.val": self.data}
                self.both(f"case{number}", **{key.replace(".", "__"): value for key, value in settings.items()})

    def test_targets_have_the_same_bits_and_those_of_the_cpu_nearly(self):
        self.data = self.numbers_with_targets(100)
        for loss in "mse", "l1", "huber":
            with self.subTest(loss):
                settings = {"train__loss": loss, "data__val": self.data, "optim__name": "adam", "optim__lr": 0.01}
                self.both(loss, **settings)
                self.assert_exit(self.run_on("cpu", 1, f"{loss}-cpu", train__max_steps="null", train__epochs=2,
                                             optim__momentum=0, **settings), 0)
                for ours, theirs in zip(self.losses(f"{loss}-graph"), self.losses(f"{loss}-cpu"), strict=True):
                    self.assertAlmostEqual(ours, theirs, delta=1e-5)
                ours, theirs = (self.metrics(f"{loss}-{run}", "eval")[-1] for run in ("graph", "cpu"))
                for metric in "loss", "mae", "rmse", "distance":
                    self.assertAlmostEqual(ours[metric], theirs[metric], delta=1e-5)
        self.both("bf16", train__precision="bf16", data__val=self.data, train__eval_every="2 steps", optim__name="adam", optim__lr=0.01)

    def test_a_locator_has_the_same_bits_and_those_of_the_cpu_nearly(self):
        self.data = self.images_with_places(20)
        settings = {"data__val": self.data, "model__name": "locator", "model__hidden": "null", "train__heatmap_sigma": 4,
                    "optim__lr": 1e-5, "train__epochs": 1, "train__batch_size": 4, "train__log_every": 1}
        self.both("locator", **settings)
        self.both("bf16", **settings, train__precision="bf16")
        self.assert_exit(self.run_on("cpu", 1, "locator-cpu", **{"train__max_steps": "null", "optim__momentum": 0, **settings}), 0)
        # The last maps have one pixel: batch norms of four numbers make much of a rounding in the steps behind the first.
        for ours, theirs, tolerance in zip(self.losses("locator-graph"), self.losses("locator-cpu"), (1e-5, 0.05, 0.05, 0.05, 0.05), strict=True):
            self.assertAlmostEqual(ours, theirs, delta=tolerance * theirs)
        ours, theirs = (self.metrics(f"locator-{run}", "eval")[-1] for run in ("graph", "cpu"))
        self.assertEqual(ours.keys(), theirs.keys())
        self.assertAlmostEqual(ours["loss"], theirs["loss"], delta=0.05 * theirs["loss"])

    def test_a_temporal_transformer_has_the_same_bits_and_those_of_the_cpu_nearly(self):
        write_videos(self.dir, 10)
        self.data = self.dir / "sequences.h5"
        self.assert_exit(self.run_trainer(packing(self.dir, self.data)), 0)
        settings = {"data__val": self.data, "model__name": "temporal_transformer", "model__hidden": "null", "model__dim": 16,
                    "model__depth": 1, "model__heads": 2, "optim__name": "adam", "optim__lr": 1e-3, "train__epochs": 2,
                    "train__batch_size": 4, "train__log_every": 1}
        for fusion, more in {"early": {}, "cross": {"model__fusion": "cross", "model__features": "[2, 2, 1]"}}.items():
            with self.subTest(fusion):
                self.both(fusion, **settings, **more)
                self.assert_exit(self.run_on("cpu", 1, f"{fusion}-cpu", **{"train__max_steps": "null", "optim__momentum": 0,
                                                                          **settings, **more}), 0)
                for ours, theirs in zip(self.losses(f"{fusion}-graph"), self.losses(f"{fusion}-cpu"), strict=True):
                    self.assertAlmostEqual(ours, theirs, delta=1e-4 * theirs)
                ours, theirs = (self.metrics(f"{fusion}-{run}", "eval")[-1] for run in ("graph", "cpu"))
                self.assertEqual(ours["confusion"], theirs["confusion"])
                for metric in "loss", "atiou":
                    self.assertAlmostEqual(ours[metric], theirs[metric], delta=1e-3)
        self.both("bf16", **settings, train__precision="bf16")
        # Heads of 32, whose attention is fused with padding, too.
        losses = []
        for precision in "fp32", "bf16":
            wide = {**settings, "model__dim": 64, "train__precision": precision}
            self.both(f"wide-{precision}", **wide)
            losses.append(self.losses(f"wide-{precision}-graph"))
        self.assertNotEqual(losses[1], losses[0])
        for rounded, exact in zip(losses[1], losses[0], strict=True):
            self.assertAlmostEqual(rounded, exact, delta=0.05 * exact)

    def test_two_ranks_have_the_same_bits_with_nccl(self):
        self.with_nccl()
        for name, settings in {"ddp": {"model": "lenet", "optim__momentum": 0.9, "distributed__bucket_policy": "per_layer"},
                               "batch_norm": {"model": "batch_norm"},
                               "synchronized": {"model": "batch_norm", "distributed__sync_batch_norm": "true"},
                               "zero1": {"distributed__strategy": "zero1", "optim__name": "adamw"}}.items():
            with self.subTest(name):
                self.both(name, 2, distributed__backend="nccl", **settings)

    def test_gradients_that_travel_as_bf16_are_part_of_a_graph(self):
        self.with_nccl()
        for ranks in 2, 3:
            with self.subTest(ranks):
                self.both(f"compressed{ranks}", ranks, distributed__backend="nccl", distributed__compress="bf16",
                          distributed__strategy="ddp", distributed__bucket_policy="per_layer")

    def test_one_rank_with_nccl_has_the_same_bits(self):
        self.with_nccl()
        self.both("nccl", distributed__backend="nccl")

    # From the second epoch on, when steps are recorded since long, the rate throws the weights away.
    DIVERGES = {"optim__lr": 0.01, "schedule__name": "step", "schedule__step_size": 1, "schedule__gamma": 1e30}

    def test_a_loss_that_is_not_finite_stops_before_the_update(self):
        for graph in "true", "false":
            result = self.train(f"nan-{graph}", graph, **self.DIVERGES)
            self.assert_exit(result, 1)
            self.assertEqual(RECORDED in result.stderr, graph == "true", result.stderr)
            self.assertRegex(result.stderr, r"step 1[0-9] \(epoch 2\): the loss is ")
        self.assertEqual(self.losses("nan-true"), self.losses("nan-false"))

    def test_an_update_that_is_skipped_is_skipped_with_a_graph_too(self):
        for graph in "true", "false":
            result = self.train(f"skip-{graph}", graph, train__nan_policy="skip", **self.DIVERGES)
            self.assert_exit(result, 0)
            self.assertEqual(RECORDED in result.stderr, graph == "true", result.stderr)
            self.assertIn("the update is skipped", result.stderr)
        self.assert_same_bits("skip-true", "skip-false")

    def test_a_series_of_skipped_updates_ends_the_run_with_a_graph_too(self):
        said = []
        for graph in "true", "false":
            result = self.train("series", graph, train__nan_policy="skip", train__epochs=1000, run__resume="never", **self.DIVERGES)
            self.assert_exit(result, 1)
            self.assertEqual(RECORDED in result.stderr, graph == "true", result.stderr)
            self.assertEqual(result.stderr.count("the update is skipped"), 100)
            said.append(result.stderr.split("error: ")[1])
        self.assertIn("100 updates one after the other were skipped", said[0])
        self.assertEqual(*said)

    def test_a_resumed_run_has_the_bits_of_one_that_was_not_stopped(self):
        settings = {"optim__name": "adamw", "optim__lr": 0.01, "model": "batch_norm"}
        self.assert_exit(self.train("whole", "false", **settings), 0)
        for steps in 6, 12, "null":
            self.assert_exit(self.train("parts", "true", train__max_steps=steps, run__resume="auto", **settings), 0)
        self.assert_same_bits("parts", "whole")

    def test_a_traced_run_times_its_layers_first(self):
        self.both("traced", run__trace="true", run__trace_steps=4)

    def test_bench_step_says_whether_its_steps_were_graphs(self):
        reports = {}
        for graph in "true", "false":
            result = self.mpirun(1, ["bench", "step", "--synthetic", "--shape", "8x8x1", "--warmup", 5, "--steps", 6, "--products",
                                     16, "--out", self.dir, "model.name=mlp", "model.hidden=[8]", "device=cuda",
                                     f"run.cuda_graph={graph}"], env=self.libraries)
            self.assert_exit(result, 0)
            reports[graph] = json.loads((self.dir / "step.json").read_text())
            self.assertEqual("The gradients were a CUDA graph" in result.stdout, graph == "true", result.stdout)
        self.assertEqual(reports["true"]["cuda_graph"], {"ran": True, "why_not": ""})
        self.assertEqual(reports["false"]["cuda_graph"], {"ran": False, "why_not": ""})
        self.assertEqual({layer["forward"] for layer in reports["true"]["layers"]}, {0})
        self.assertGreater(min(layer["forward"] for layer in reports["false"]["layers"] if layer["kind"] == "linear"), 0)

    def test_layers_have_the_gpus_times_and_not_the_hosts(self):
        """On a GPU that does its work when the host waits for it, which has long issued the step by then."""
        run = ["bench", "step", "--synthetic", "--shape", "8x8x1", "--warmup", 1, "--steps", 9, "--products", 16, "--out", self.dir,
               "model.name=mlp", "model.hidden=[256]", "device=cuda", "run.cuda_graph=false"]
        self.assert_exit(self.mpirun(1, run, env={**self.libraries, "TUTTI_FAKE_LATE": "1"}), 0)
        report = json.loads((self.dir / "step.json").read_text())
        account, layers = report["account"], report["layers"]
        backward = sum(layer["backward"] for layer in layers)
        # Issuing them takes a thousandth of the step.
        self.assertGreater(backward, 0.1 * account["backward"])
        self.assertGreater(backward, 0.01 * report["step"]["median"])

    def test_a_run_without_graphs_says_once_why(self):
        for name, ranks, settings, why in (
                ("accumulates", 1, {"train__accumulate": 2}, "train.accumulate is above 1"),
                ("staged", 2, {"distributed__backend": "mpi"}, "transfers of mpi need the host in the middle of a step")):
            result = self.train(name, "auto", ranks, **settings)
            self.assert_exit(result, 0)
            self.assertEqual(result.stderr.count(NOT_RECORDED + why), 1, result.stderr)
            self.assertNotIn(RECORDED, result.stderr)
            result = self.train(f"{name}-demanded", "true", ranks, **settings)
            self.assert_exit(result, 2)
            self.assertIn(f"run.cuda_graph is true, but {why}", result.stderr)

    def stage(self, trainer=None):
        """The gpu_check's own, for small runs."""
        check = gpu_stages.Check(argparse.Namespace(trainer=trainer or self.trainer, rehearse=False, quick=True), self.dir,
                                 gpu_process.Processes(), lambda result: None)
        environment = self.environment({**self.libraries, "TUTTI_FAKE_GPUS": "2"})
        small = {"lenet": ["model.name=mlp", "model.hidden=[8]"]}
        patches = contextlib.ExitStack()
        patches.enter_context(mock.patch.dict(os.environ, environment))
        # The name of the folder for temporary files is found once per process, otherwise.
        patches.enter_context(mock.patch.object(tempfile, "tempdir", None))
        patches.enter_context(mock.patch.dict(gpu_stages.NETWORKS, small))
        patches.enter_context(mock.patch.object(check, "nccl_shares_gpus", return_value=True))
        self.addCleanup(patches.close)
        return check

    def test_several_ranks_pass_the_stage_of_the_gpu_check(self):
        self.with_nccl()
        check = self.stage()
        passed = {"steps": 10, "notices": []}
        self.assertEqual(check.graphs_of_several_ranks(), {"staged": "equal", "nccl": {"ddp": passed, "zero1": passed}})
        losses = check.losses
        with mock.patch.object(check, "losses", lambda name, *rest, **more: [*losses(name, *rest, **more), name]):
            with self.assertRaises(gpu_process.Failed) as failed:
                check.graphs_of_several_ranks()
            self.assertIn("the losses differ", str(failed.exception))
        with mock.patch.object(check, "losses", lambda name, *rest, **more: [0.0]):
            with self.assertRaisesRegex(gpu_process.Failed, "again: the losses with a CUDA graph differ"):
                check.with_and_without_graph("again", 1, "device=cuda")

    def test_steps_without_a_graph_do_not_pass_the_stage_of_the_gpu_check(self):
        program, count = self.trainer.with_name("eager"), itertools.count()

        def stage_after(said):
            # Equal losses: what was asked to be a graph is none.
            program.write_text(f"""#!/bin/bash
[[ "$*" != *run.cuda_graph=true* ]] || printf '%s\n' '{said}' >&2
exec {self.trainer} "${{@/run.cuda_graph=true/run.cuda_graph=false}}"
""")
            program.chmod(0o755)
            return self.stage(program).with_and_without_graph(f"graph{next(count)}", 1, "device=cuda")

        for said, reason in (("", "no CUDA graph ran"), (NOT_RECORDED + "cudaMalloc failed", "cudaMalloc failed"),
                             (f"{RECORDED}\n{NOT_RECORDED}cudaMalloc failed", "cudaMalloc failed")):
            with self.assertRaisesRegex(gpu_process.Failed, reason):
                stage_after(said)
        product = "the product 1 x 2 by 2 x 3 has a kernel of its own: refused"
        self.assertEqual(stage_after(f"{RECORDED}\n{product}"), {"steps": 10, "notices": [product]})

    def test_the_cpu_has_none_and_says_so_when_asked(self):
        self.assert_exit(self.run_on("cpu", 1, "quiet", run__cuda_graph="auto"), 0)
        result = self.run_on("cpu", 1, "demanded", run__cuda_graph="true")
        self.assert_exit(result, 2)
        self.assertIn("run.cuda_graph is true, but device is cpu", result.stderr)


if __name__ == "__main__":
    system_test.main()
