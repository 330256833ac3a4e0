"""mpirun over several hosts: network namespaces joined by a switch whose links have a rate and a delay."""

import json
import subprocess
import time

import system_test
import two_hosts
from recipes import TrainingTest


class Hosts(TrainingTest):
    @classmethod
    def setUpClass(cls):
        two_hosts.start(cls)

    def netlab(self, options, args):
        command = [two_hosts.NETLAB, "run", self.lab, "--ppn", "2", "--wdir", self.dir, *options, self.trainer, *args]
        return self.machine.run(command, 120, env=two_hosts.environment(self))

    def test_two_ranks_on_each_of_two_hosts_train_as_four_on_one(self):
        data = self.small_data()
        common = {"train__batch_size": 8, "train__log_every": 1}
        result = self.netlab([], self.settings(data, "hosts", **common))
        self.assertEqual(result.returncode, 0, result.stderr)
        document = json.loads((self.dir / "hosts/provenance.json").read_text())
        self.assertEqual([(row["host"], row["local_rank"]) for row in document["ranks"]],
                         [("node1", 0), ("node1", 1), ("node2", 0), ("node2", 1)])
        self.assert_exit(self.mpirun(4, self.settings(data, "one", **common)), 0)
        self.assertEqual(self.losses("hosts"), self.losses("one"))
        hashes = [self.run_trainer(["inspect", run, "--sha256"]).stdout for run in ("hosts", "one")]
        self.assertEqual(*hashes)

    def test_bad_usage_ends_the_ranks_of_all_hosts_with_2(self):
        result = self.netlab([], ["train.batchsize=8"])
        self.assertEqual(result.returncode, 2)
        self.assertEqual(result.stderr.count("error: command line: train.batchsize is not a known key"), 1)

    def killed_while_training(self, ppn, victim):
        """What is said when the rank `victim` is killed in the middle of a run."""
        data = self.small_data()
        script = self.dir / "script.sh"
        script.write_text(f'#!/bin/sh\necho $$ > {self.dir}/pid-$OMPI_COMM_WORLD_RANK\nexec {self.trainer} "$@"\n')
        script.chmod(0o755)
        command = [two_hosts.NETLAB, "run", self.lab, "--ppn", ppn, "--wdir", self.dir, script,
                   *self.settings(data, "long", train__batch_size=8, train__epochs=1000000, train__log_every=1)]
        job = subprocess.Popen([str(part) for part in self.machine.entered(command)], env=two_hosts.environment(self),
                               stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
        try:
            metrics = self.dir / "long/metrics.jsonl"
            deadline = time.monotonic() + 60
            while not (metrics.exists() and metrics.read_text().count("\n") > 3):
                self.assertIsNone(job.poll(), "the run has ended too early")
                self.assertLess(time.monotonic(), deadline, "no step within 60 s")
                time.sleep(0.05)
            self.machine.run(["kill", "-KILL", (self.dir / f"pid-{victim}").read_text().strip()])
            return job.communicate(timeout=60)[1]
        finally:
            job.kill()
            job.communicate()

    def test_a_rank_that_dies_on_another_host_is_named(self):
        self.assertRegex(self.killed_while_training(1, 1), r"rank 0 on node1 (waited \S+ s for its peers|has lost a peer): rank 1 on node2 has ended")

    def test_rank_0_is_named_by_those_of_another_host(self):
        self.assertRegex(self.killed_while_training(1, 0), r"rank 1 on node2 (waited \S+ s for its peers|has lost a peer): rank 0 on node1 has ended")

    def test_the_last_rank_of_another_host_is_named(self):
        self.assertRegex(self.killed_while_training(2, 3), r"waited .* for its peers: rank 3 on node2(, process \d+,)? has ended")


if __name__ == "__main__":
    system_test.main()
