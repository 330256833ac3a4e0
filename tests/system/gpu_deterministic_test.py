"""run.deterministic on GPUs that are not there: the same bits on any power-of-two number of ranks and on any way between them."""

import json

import system_test
from gpu_program import GpuProgramTest

GLOBAL_BATCH = 16
SHARDS = 4
# 52 samples: the last update of an epoch has 4, one for each shard; the validation's last shards have none.
SAMPLES = 52
LAYERS = ("[{conv2d: {out: 4, kernel: 3}}, batch_norm2d, relu, {dropout: {p: 0.3}}, flatten, {linear: {out: 16}}, relu,"
          " {linear: {out: 4}}]")


class GpuDeterministic(GpuProgramTest):
    def setUp(self):
        super().setUp()
        self.data = self.small_data(SAMPLES)
        self.val = self.small_data(17, "val.h5")

    def given(self, ranks, **settings):
        return {"model": "batch_norm", "model__layers": LAYERS, "run__deterministic": "true", "run__virtual_shards": SHARDS, "data__val": self.val,
                "train__batch_size": GLOBAL_BATCH // ranks, "train__max_steps": "null", "train__epochs": 2,
                "optim__momentum": 0.9, "optim__clip_norm": 0.5, "distributed__backend": "mpi",
                **settings}

    def start_shards(self, ranks, name, device="cuda", **settings):
        given = self.given(ranks, **settings)
        return self.start_on(device, ranks, name, gpus=given.pop("gpus", 1), **given)

    def train(self, *arguments, **settings):
        with self.start_shards(*arguments, **settings) as job:
            result = job.wait()
        self.assert_exit(result, 0)
        return result

    def outcome(self, name):
        """What must be equal: hash of the weights, rows of the metrics without what is measured."""
        rows = [{key: value for key, value in row.items() if key != "account"}
                for kind in ("step", "eval") for row in self.metrics(self.dir / name, kind)]
        return self.sha256(self.latest(name)), rows

    def test_the_bits_are_those_of_one_rank_and_near_the_cpus(self):
        self.with_nccl()
        told = self.train(1, "one").stderr
        self.assertIn("4 per rank, each on the GPU, one after another", told)
        self.assertIn("no CUDA graph", told)
        one = self.outcome("one")
        self.assertEqual(len(one[1]), 8 + 2)
        self.train(2, "two")
        self.train(4, "four", train__recompute="true")
        self.train(4, "nccl", gpus=4, distributed__backend="nccl")
        self.train(2, "halves", gpus=2, train__batch_size=4, train__accumulate=2, distributed__backend="nccl")
        for name in "two", "four", "nccl", "halves":
            self.assertEqual(self.outcome(name), one, name)
        told = self.train(1, "cpu", device="auto").stderr
        self.assertIn("device: auto takes the CPU, as run.deterministic is true", told)
        cpu = self.outcome("cpu")
        self.assertNotEqual(cpu[0], one[0])
        for mine, other in zip(one[1], cpu[1], strict=True):
            self.assertAlmostEqual(mine["loss"], other["loss"], delta=1e-5 * other["loss"])

    def test_shards_without_samples_add_nothing(self):
        # The last update of an epoch has one sample: of 4 shards, 3 are empty, and so are whole ranks.
        self.data = self.small_data(49, "odd.h5")
        for ranks in (1, 2, 4):
            self.train(ranks, f"{ranks}")
        one = self.outcome("1")
        self.assertEqual(len(one[1]), 8 + 2)
        for ranks in (2, 4):
            self.assertEqual(self.outcome(f"{ranks}"), one, ranks)
        self.train(1, "cpu", device="cpu")
        for mine, other in zip(one[1], self.outcome("cpu")[1], strict=True):
            self.assertAlmostEqual(mine["loss"], other["loss"], delta=1e-5 * other["loss"])

    def test_a_run_goes_on_on_other_ranks_where_streams_are_late(self):
        self.with_nccl()
        self.train(1, "whole", train__precision="bf16")
        self.libraries["TUTTI_FAKE_LATE"] = "1"
        for ranks, stop in (2, 3), (1, 5), (4, "null"):
            self.train(ranks, "moved", gpus=ranks, distributed__backend="auto", train__precision="bf16", train__max_steps=stop,
                       run__resume="auto")
        whole, moved = self.outcome("whole"), self.outcome("moved")
        self.assertEqual(moved[0], whole[0])
        # Where it was stopped it was evaluated, too.
        self.assertEqual([row for row in moved[1] if row in whole[1]], whole[1])

    def test_a_run_does_not_go_on_on_the_other_kind_of_device(self):
        for there, here, words in ("auto", "cuda", "device: cpu -> cuda"), ("cuda", "auto", "device: cuda -> cpu"):
            self.train(1, there, train__max_steps=3, device=there)
            with self.start_shards(2, there, train__max_steps=6, device=here) as job:
                result = job.wait()
            self.assertEqual(result.exit_codes, [2, 2], result.stderr)
            self.assertIn(words, result.stderr)
            self.assertEqual(len(self.metrics(self.dir / there, "step")), 3)
        # The same device under another name.
        self.train(2, "cuda", train__max_steps=4)
        self.train(2, "auto", train__max_steps=4, device="cpu")

    def test_a_failed_step_is_made_again_where_it_was_computed(self):
        for device in "auto", "cuda":
            with self.start_shards(2, device, device=device, optim__lr=1e30, optim__clip_norm="null") as job:
                self.assert_exit(job.wait(), 1)
            file, = (self.dir / device).glob("failed-step-*.h5")
            result = self.run_trainer(["replay", file, "--json"], env={**self.libraries, "TUTTI_FAKE_GPUS": "1"})
            self.assert_exit(result, 1)
            self.assertEqual("fake GPU" in json.loads(result.stdout)["device"], device == "cuda")

    def test_what_cannot_be_promised_is_refused_on_all_ranks(self):
        for ranks, settings, words in (
                (2, {"run__cuda_graph": "true"}, ("run.cuda_graph is true", "several places in turn")),
                (2, {"distributed__compress": "bf16"}, ("compress",)),
                (2, {"distributed__strategy": "zero1"}, ("zero1",)),
                (2, {"train__precision": "fp64"}, ("fp64", "device"))):
            with self.start_shards(ranks, "refused", gpus=2, **settings) as job:
                result = job.wait()
            self.assertEqual(result.exit_codes, [2] * ranks, result.stderr)
            for word in words:
                self.assertIn(word, result.stderr)
        self.libraries["TUTTI_FAKE_UNLIKE_GPUS"] = "1"
        with self.start_shards(2, "unlike", gpus=2) as job:
            result = job.wait()
        self.assertEqual(result.exit_codes, [2, 2], result.stderr)
        for word in "rank 1", "5 multiprocessors", "rank 0 on fake GPU", "4 multiprocessors", "one model":
            self.assertIn(word, result.stderr)
        # Of no concern to others.
        with self.start_on("cuda", 2, "others", gpus=2, distributed__backend="mpi") as job:
            self.assert_exit(job.wait(), 0)


if __name__ == "__main__":
    system_test.main()
