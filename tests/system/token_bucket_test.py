"""trainer bench buckets on a network that lets a burst pass at once, as those do that shape with token buckets."""

import json

import system_test
import two_hosts
from recipes import TrainingTest


class TokenBucket(TrainingTest):
    @classmethod
    def setUpClass(cls):
        two_hosts.start(cls, "--rate", "50mbit", "--burst", "70000")

    def test_sizes_are_added_until_the_model_knows_both_sides_of_the_burst(self):
        data = self.small_data(240, classes=4, side=16)
        command = [two_hosts.NETLAB, "run", self.lab, "--ppn", "1", "--wdir", self.dir, self.trainer, "bench", "buckets",
                   "--steps", 2, "--warmup", 1, "--bucket-mb", 25, "--policies", "single", "--out", self.dir / "out",
                   f"data.train={data}", "train.batch_size=12", "model.name=mlp", "model.hidden=[384]", "optim.lr=0.001"]
        for _ in range(3):  # where much else runs, a message of some bytes may take as long as the burst saves
            result = self.machine.run([str(word) for word in command], 120, env=two_hosts.environment(self))
            self.assertEqual(result.returncode, 0, result.stderr)
            measured = json.loads((self.dir / "out/buckets.json").read_text(encoding="utf-8"))["all_reduce"]
            if len(measured["fit"]["pieces"]) > 1:
                break
        rows = measured["sizes"]
        sizes = [row["bytes"] for row in rows]
        self.assertEqual(sizes, sorted(set(sizes)))
        in_between = [size for size in sizes[:-1] if size not in (4, *(4096 * 4**k for k in range(9)))]
        self.assertTrue(in_between, sizes)
        self.assertGreater(len(measured["fit"]["pieces"]), 1, measured)
        # 64 ms on the wire beside less than one for what fits into the burst: one line is wrong by half of it or more.
        whole = rows[-1]
        self.assertGreater(whole["model"], 0.75 * whole["time"]["median"], measured)


if __name__ == "__main__":
    system_test.main()
