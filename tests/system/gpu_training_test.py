"""Training on GPUs that are not there gives what training on the CPU gives."""

import json
import re

import system_test
from exact_resume_test import RECIPES
from gpu_program import BATCH, MODELS, GpuProgramTest

# Sums of products in other orders, in fp32, over a few steps.
TOLERANCE = 1e-5


class GpuTraining(GpuProgramTest):
    def assert_same_training(self, name, result, expected, tolerance=TOLERANCE, steps=3):
        self.assert_exit(result, 0)
        self.assertIn("fake GPU", result.stderr)
        ours, theirs = self.metrics(name, "step"), self.metrics(expected, "step")
        self.assertEqual([row["step"] for row in ours], list(range(1, steps + 1)))
        for mine, other in zip(ours, theirs, strict=True):
            self.assertAlmostEqual(mine["loss"], other["loss"], delta=tolerance * other["loss"])

    def test_one_and_two_ranks_train_as_on_the_cpu(self):
        for model in "mlp", "lenet":
            self.assert_exit(self.run_on("cpu", 1, f"{model}-cpu", model), 0)
            for ranks in 1, 2:
                name = f"{model}-{ranks}"
                result = self.run_on("cuda", ranks, name, model, distributed__backend="mpi")
                self.assert_same_training(name, result, f"{model}-cpu")

    def test_two_ranks_sum_batch_statistics_as_on_the_cpu(self):
        for sync in "true", "false":
            settings = {"model": "batch_norm", "distributed__sync_batch_norm": sync}
            self.assert_exit(self.run_on("cpu", 2, f"cpu-{sync}", **settings), 0)
            result = self.run_on("cuda", 2, f"cuda-{sync}", distributed__backend="mpi", **settings)
            self.assert_same_training(f"cuda-{sync}", result, f"cpu-{sync}")

    def test_two_ranks_divide_the_optimizer_as_on_the_cpu(self):
        settings = {"distributed__strategy": "zero1", "distributed__backend": "mpi", "optim__momentum": 0.9}
        self.assert_exit(self.run_on("cpu", 2, "cpu", **settings), 0)
        self.assert_same_training("cuda", self.run_on("cuda", 2, "cuda", **settings), "cpu")

    def test_ranks_compare_the_weights_in_device_memory(self):
        settings = {"model": "batch_norm", "distributed__strategy": "ddp"}
        self.assert_exit(self.run_on("cpu", 2, "cpu", **settings), 0)
        result = self.run_on("cuda", 2, "cuda", distributed__backend="mpi", distributed__verify_every=1, **settings)
        self.assert_same_training("cuda", result, "cpu")

    def test_gradients_that_travel_as_bf16_are_those_of_the_cpu(self):
        self.with_nccl()
        settings = {"distributed__compress": "bf16", "distributed__strategy": "ddp", "optim__momentum": 0.9}
        for ranks in 2, 3:
            self.assert_exit(self.run_on("cpu", ranks, f"cpu{ranks}", "lenet", **settings), 0)
            self.assert_exit(self.run_on("cpu", ranks, f"exact{ranks}", "lenet", **{**settings, "distributed__compress": "none"}), 0)
            for backend in "nccl", "mpi":
                name = f"{backend}{ranks}"
                result = self.run_on("cuda", ranks, name, "lenet", gpus=ranks, distributed__backend=backend,
                                     distributed__verify_every=1, **settings)
                # Products in another order may round the other way, to a neighbour of bf16.
                self.assert_same_training(name, result, f"cpu{ranks}", 20 * TOLERANCE)
                rounded, exact = ([row["loss"] for row in self.metrics(run, "step")] for run in (name, f"exact{ranks}"))
                self.assertNotEqual(rounded[1:], exact[1:])

    def test_gradients_that_travel_as_bf16_lie_in_a_window_of_nccl(self):
        self.with_nccl()
        log = self.dir / "nccl.log"
        self.libraries["TUTTI_FAKE_NCCL_LOG"] = str(log)
        result = self.run_on("cuda", 2, "run", gpus=2, distributed__backend="nccl", distributed__compress="bf16")
        self.assert_exit(result, 0)
        rows = [[int(word) for word in line.split()] for line in log.read_text().splitlines()]
        windows = [row for row in rows if row[1] > 0]
        self.assertEqual(sorted(row[0] for row in windows), [0, 1], rows)
        for _, size, within, elsewhere in windows:
            self.assertLessEqual(abs(within - 3 * size), 16, "half of the arena's bytes in each of three steps")
            self.assertLess(elsewhere, size)

    def test_every_recipe_trains_as_on_the_cpu(self):
        for number, (ranks, recipe) in enumerate(RECIPES.values()):
            jobs = []
            for device in "cpu", "cuda":
                settings = {"optim.momentum": 0, "train.max_steps": 3, "train.log_every": 1, "data.val": self.data,
                            **recipe}
                if device == "cuda":
                    settings["distributed.backend"] = "mpi"
                jobs.append(self.start_mpirun(ranks, self.settings(self.data, f"{device}{number}", device=device)
                                              + [f"{key}={value}" for key, value in settings.items()],
                                              env={**self.libraries, "TUTTI_CACHE": str(self.dir / f"cache-{device}")}))
            of_cpu, of_cuda = [job.wait() for job in jobs]
            self.assert_exit(of_cpu, 0)
            self.assert_same_training(f"cuda{number}", of_cuda, f"cpu{number}")

    def test_engines_that_are_measured_train_as_on_the_cpu_and_are_told(self):
        settings = {"model": "lenet", "train__max_steps": 8}
        self.assert_exit(self.run_on("cpu", 2, "cpu", **settings), 0)
        self.with_nccl()
        for graph in "true", "false":
            name = f"cuda-{graph}"
            result = self.run_on("cuda", 2, name, gpus=2, run__autotune="true", run__cuda_graph=graph, distributed__backend="nccl",
                                 **settings)
            self.assert_same_training(name, result, "cpu", steps=8)
            self.assertEqual(result.stderr.count("were measured in"), 1, result.stderr)
        result = self.run_on("cpu", 1, "warned", run__autotune="true")
        self.assert_exit(result, 0)
        self.assertIn("run.autotune has no effect on the CPU", result.stderr)

    def test_bf16_activations_train_near_fp32_and_leave_as_fp32(self):
        for model in "lenet", "batch_norm":
            losses = []
            for precision in "fp32", "bf16":
                settings = {"train__precision": precision, "distributed__backend": "mpi"}
                self.assert_exit(self.run_on("cuda", 2, f"{model}-{precision}", model, **settings), 0)
                losses.append([row["loss"] for row in self.metrics(f"{model}-{precision}", "step")])
            self.assertNotEqual(losses[1], losses[0])
            for rounded, exact in zip(losses[1], losses[0], strict=True):
                self.assertAlmostEqual(rounded, exact, delta=0.02 * exact)
        result = self.run_trainer(["predict", "--run", self.dir / "lenet-bf16", "--data", self.data, "--embeddings",
                                   "-o", "predicted.h5", "device=cuda"], env=self.libraries)
        self.assert_exit(result, 0)
        listed = self.run_trainer(["inspect", "predicted.h5"]).stdout
        for name in "logits", "embeddings":
            self.assertRegex(listed, f"{name} .*f32")

    def test_bf16_products_read_the_weights_of_the_moment(self):
        # Averaged weights in evaluations between the steps, the others in the steps; and those of a checkpoint.
        validation = self.pack(*self.synthetic_idx(30, classes=4, side=8, seed=5), name="val.h5")
        # Four steps an epoch: evaluations after the steps 4, 8 and 10, the checkpoint within an epoch.
        settings = {"train__precision": "bf16", "distributed__backend": "mpi", "train__ema": 0.6, "optim__momentum": 0.9,
                    "data__train": self.pack(*self.synthetic_idx(4 * BATCH, classes=4, side=8), name="short.h5")}
        for ranks, model, strategy in (1, "lenet", "auto"), (2, "mlp", "zero1"):
            given = {**settings, "model": model, "distributed__strategy": strategy}
            names = [f"{model}-{kind}" for kind in ("plain", "evaluated", "resumed")]
            self.assert_exit(self.run_on("cuda", ranks, names[0], **given, train__max_steps=10), 0)
            self.assert_exit(self.run_on("cuda", ranks, names[1], **given, train__max_steps=10, data__val=validation), 0)
            for steps in 6, 10:
                self.assert_exit(self.run_on("cuda", ranks, names[2], **given, train__max_steps=steps,
                                             data__val=validation, run__resume="auto"), 0)
            losses = [[row["loss"] for row in self.metrics(name, "step")] for name in names]
            self.assertEqual(len(losses[0]), 10)
            self.assertEqual(losses[1], losses[0])
            self.assertEqual(losses[2], losses[0])
            evaluated = [self.metrics(name, "eval") for name in names[1:]]
            self.assertGreaterEqual(len(evaluated[0]), 3)
            self.assertEqual(evaluated[1][-1]["loss"], evaluated[0][-1]["loss"])
            result = self.mpirun(ranks, ["eval", "--json", "--run", self.dir / names[1], "device=cuda"], env=self.libraries)
            self.assert_exit(result, 0)
            self.assertEqual(json.loads(result.stdout)["loss"], evaluated[0][-1]["loss"])

    def test_bf16_products_of_every_rank_read_the_weights_that_the_first_has_read(self):
        self.assert_exit(self.run_on("cpu", 1, "source", train__max_steps=10), 0)
        settings = {"train__precision": "bf16", "distributed__backend": "mpi", "model__init_from": self.latest("source")}
        for ranks, name in (1, "one"), (2, "two"):
            self.assert_exit(self.run_on("cuda", ranks, name, **settings), 0)
        self.assert_exit(self.run_on("cuda", 2, "random", **{**settings, "model__init_from": "null"}), 0)
        one, two, random = ([row["loss"] for row in self.metrics(name, "step")] for name in ("one", "two", "random"))
        self.assertLess(one[0], 0.5 * random[0], "trained weights are others")
        for mine, other in zip(two, one, strict=True):
            self.assertAlmostEqual(mine, other, delta=0.02 * random[0])

    def test_the_statement_of_memory_has_the_copy_that_bf16_products_read(self):
        settings = [*MODELS["mlp"], f"data.train={self.data}", "device=cuda"]
        (self.dir / "mlp.yaml").write_text("train: {batch_size: 8}\n", encoding="utf-8")
        stated = {}
        for precision in "bf16", "fp32":
            result = self.run_trainer(["inspect", "-c", "mlp.yaml", *settings, f"train.precision={precision}"],
                                      env=self.libraries)
            self.assert_exit(result, 0)
            stated[precision] = dict(re.findall(r"^  (parameters|rounded) +([\d.]+) KiB", result.stdout, re.MULTILINE))
        self.assertNotIn("rounded", stated["fp32"])
        self.assertAlmostEqual(float(stated["bf16"]["rounded"]), float(stated["bf16"]["parameters"]) / 2, delta=0.1)

    def test_a_run_moves_between_gpus_and_the_cpu(self):
        validation = self.pack(*self.synthetic_idx(30, classes=4, side=8, seed=5), name="val.h5")
        settings = {"distributed__backend": "mpi", "data__val": validation, "optim__momentum": 0.9}
        self.assert_exit(self.run_on("cpu", 1, "cpu", **settings, train__max_steps=5), 0)
        for steps, device, ranks in (2, "cuda", 2), (3, "cpu", 1), (5, "cuda", 1):
            result = self.run_on(device, ranks, "moved", **settings, train__max_steps=steps, run__resume="auto")
            self.assert_exit(result, 0)
        losses = [[row["loss"] for row in self.metrics(run, "step")] for run in ("cpu", "moved")]
        self.assertEqual(len(losses[1]), 5)
        for mine, other in zip(losses[1], losses[0], strict=True):
            self.assertAlmostEqual(mine, other, delta=TOLERANCE * other)
        evaluations = []
        for device in "cpu", "cuda":
            result = self.mpirun(2, ["eval", "--json", "--run", self.dir / "moved", f"device={device}"],
                                 env=self.libraries)
            self.assert_exit(result, 0)
            evaluations.append(json.loads(result.stdout))
        self.assertEqual(evaluations[1]["correct"], evaluations[0]["correct"])
        self.assertAlmostEqual(evaluations[1]["loss"], evaluations[0]["loss"], delta=TOLERANCE)

    def test_auto_goes_through_host_memory_where_there_is_no_nccl_and_says_once_why(self):
        self.assert_exit(self.run_on("cpu", 1, "cpu"), 0)
        result = self.run_on("auto", 2, "cuda", gpus=2)
        self.assert_same_training("cuda", result, "cpu")
        self.assertEqual(result.stderr.count("gradients go through host memory: "), 1, result.stderr)

    def test_nccl_carries_what_host_memory_carries(self):
        self.with_nccl()
        for name, settings in {"ddp": {"model": "lenet"}, "batch_norm": {"model": "batch_norm"},
                               "synchronized": {"model": "batch_norm", "distributed__sync_batch_norm": "true"},
                               "zero1": {"distributed__strategy": "zero1"}}.items():
            self.assert_exit(self.run_on("cpu", 2, f"{name}-cpu", **settings), 0)
            result = self.run_on("cuda", 2, name, gpus=2, distributed__backend="nccl", **settings)
            self.assert_same_training(name, result, f"{name}-cpu")

    def test_gradients_lie_in_a_window_of_nccl_or_it_is_said_why_not(self):
        self.with_nccl()
        self.assert_exit(self.run_on("cpu", 2, "cpu"), 0)
        log = self.dir / "nccl.log"
        self.libraries["TUTTI_FAKE_NCCL_LOG"] = str(log)
        for strategy in "ddp", "zero1":
            log.unlink(missing_ok=True)
            result = self.run_on("cuda", 2, strategy, gpus=2, distributed__backend="nccl", distributed__strategy=strategy)
            self.assert_same_training(strategy, result, "cpu")
            self.assertNotIn("ordinary device memory", result.stderr)
            rows = [[int(word) for word in line.split()] for line in log.read_text().splitlines()]
            windows = [row for row in rows if row[1] > 0]
            self.assertEqual(sorted(row[0] for row in windows), [0, 1], rows)
            for _, size, within, elsewhere in windows:
                self.assertGreaterEqual(within, 3 * size, "the whole arena in each of three steps")
                self.assertLess(elsewhere, size)
        self.libraries["TUTTI_FAKE_NO_WINDOWS"] = "1"
        result = self.run_on("cuda", 2, "without", gpus=2, distributed__backend="nccl")
        self.assert_same_training("without", result, "cpu")
        self.assertEqual(result.stderr.count("gradients lie in ordinary device memory: NCCL "), 1, result.stderr)

    def test_bench_buckets_reduces_device_memory(self):
        self.with_nccl()
        for backend, path in {"nccl": "NCCL", "mpi": "pinned"}.items():
            result = self.mpirun(2, ["bench", "buckets", "--steps", 2, "--warmup", 1, "--out", backend, *MODELS["mlp"],
                                     "device=cuda", f"data.train={self.data}", "train.batch_size=6",
                                     f"distributed.backend={backend}"],
                                 env={**self.libraries, "TUTTI_FAKE_GPUS": "2"})
            self.assert_exit(result, 0)
            report = json.loads((self.dir / backend / "buckets.json").read_text(encoding="utf-8"))
            self.assertIn(path, report["all_reduce"]["path"])
            self.assertGreater(len(report["all_reduce"]["sizes"]), 0)

    def test_streams_that_are_late_change_nothing(self):
        self.with_nccl()
        validation = self.pack(*self.synthetic_idx(30, classes=4, side=8, seed=5), name="val.h5")
        settings = {"model": "lenet", "data__val": validation}
        self.assert_exit(self.run_on("cpu", 2, "cpu", **settings), 0)
        self.libraries["TUTTI_FAKE_LATE"] = "1"
        for backend in "nccl", "mpi":
            result = self.run_on("cuda", 2, backend, gpus=2, distributed__backend=backend, **settings)
            self.assert_same_training(backend, result, "cpu")
            ours, theirs = (self.metrics(run, "eval")[-1]["loss"] for run in (backend, "cpu"))
            self.assertAlmostEqual(ours, theirs, delta=TOLERANCE * theirs)

    def test_auto_takes_nccl_and_one_rank_may(self):
        self.with_nccl()
        self.assert_exit(self.run_on("cpu", 1, "cpu"), 0)
        for ranks, backend in (2, "auto"), (1, "nccl"):
            result = self.run_on("cuda", ranks, f"cuda{ranks}", gpus=ranks, distributed__backend=backend)
            self.assert_same_training(f"cuda{ranks}", result, "cpu")
            self.assertNotIn("host memory", result.stderr)

    def test_an_error_keeps_its_words_and_its_code_where_nccl_does_not_abort(self):
        self.with_nccl()
        self.libraries["TUTTI_FAKE_STUCK_ABORT"] = "1"
        weights = self.dir / "weights.h5"
        weights.write_bytes(self.data.read_bytes())
        gave_up, diverges = "NCCL did not abort within 10 s", {"optim__lr": 1e30}
        # Side by side: each waits for those 10 s.
        jobs = {
            "in a step": (self.start_on("cuda", 1, "run", distributed__backend="nccl", **diverges), 1,
                          (r"step \d+ \(epoch 1\): the loss is .*; waiting for NCCL to abort",
                           r"step \d+ \(epoch 1\): the loss is .*; " + gave_up)),
            "before the first": (self.start_on("cuda", 1, "early", distributed__backend="nccl", model__init_from=weights), 4,
                                 ("weights.h5.*; " + gave_up,)),
            "in a benchmark": (self.start(["bench", "step", "--products", 8, "--steps", 5, "--warmup", 1, *MODELS["mlp"],
                                           "device=cuda", f"data.train={self.data}", "train.batch_size=6",
                                           "distributed.backend=nccl", "optim.lr=1e30"], env=self.libraries), 1,
                               (r"step \d+ \(epoch 1\): the loss is .*; " + gave_up,)),
        }
        for place, (job, code, words) in jobs.items():
            with self.subTest(place):
                result = job.wait()
                self.assert_exit(result, code)
                for word in words:
                    self.assertRegex(result.stderr, word)

    def test_a_rank_that_is_killed_while_nccl_waits_for_it_is_named_at_once(self):
        self.with_nccl()
        self.libraries["TUTTI_FAKE_NCCL_DIES"] = "1:2"
        result = self.run_on("cuda", 2, "run", gpus=2, distributed__backend="nccl")
        self.assertEqual(result.exit_codes, [5, 137], result.stderr)
        self.assertRegex(result.stderr, r"error: .*: rank 0 on \S+ waited \d\.\d s for its peers: "
                                        r"rank 1 on \S+, process \d+, has ended")

    def test_a_driver_that_shows_no_gpu_is_told_with_its_reason(self):
        for code, reason in {35: "the NVIDIA driver is one for CUDA 12.8, and this program's module for CUDA ",
                             100: "the NVIDIA driver shows this process no GPU",
                             999: "the NVIDIA driver gives no GPU: "}.items():
            self.libraries["TUTTI_FAKE_COUNT_FAILS"] = str(code)
            result = self.run_on("cuda", 1, "refused")
            self.assert_exit(result, 2)
            self.assertIn(reason, result.stderr)
            result = self.run_on("auto", 1, f"auto-{code}")
            self.assert_exit(result, 0)
            self.assertIn(reason, result.stderr)

    def test_nccl_that_is_not_there_is_refused(self):
        result = self.run_on("cuda", 2, "run", gpus=2, distributed__backend="nccl")
        self.assertNotIn(0, result.exit_codes)
        self.assertEqual(len(set(result.exit_codes)), 1, result.exit_codes)
        self.assertIn("NCCL", result.stderr)
        self.assertFalse((self.dir / "run").exists())

    def test_two_ranks_do_not_share_a_gpu_unless_asked_to(self):
        result = self.run_on("cuda", 2, "run")
        self.assert_exit(result, 3)
        for word in "rank 0 and rank 1", "GPU-01000000-0000", "distributed.backend: mpi":
            self.assertIn(word, result.stderr)


if __name__ == "__main__":
    system_test.main()
