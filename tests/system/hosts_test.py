"""mpirun over several hosts: network namespaces joined by a switch whose links have a rate and a delay."""

import json

import system_test
import two_hosts
from recipes import TrainingTest

# Rank 1, on the other host, is killed in the middle of the run.
DIES = """#!/bin/sh
if [ "$OMPI_COMM_WORLD_RANK" != 1 ]; then exec {trainer} "$@"; fi
{trainer} "$@" &
tries=0
until grep -q '"step": 20,' {run}/metrics.jsonl 2> /dev/null || [ $tries -eq 600 ]; do sleep 0.05; tries=$((tries + 1)); done
kill -KILL $!
kill -KILL $$
"""

# The same, but it is stopped: its system still answers for it.
STOPS = DIES.replace("kill -KILL $!\nkill -KILL $$", "kill -STOP $!\nwait $!")


# It is killed and its launcher does not see it, as srun does not say before all have ended.
DIES_UNSEEN = DIES.replace("kill -KILL $$", "exec sleep 100")


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
        self.assertEqual(self.sha256("hosts"), self.sha256("one"))
        result = self.netlab([], self.settings(data, "zero1", distributed__strategy="zero1", **common))
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertEqual(self.losses("zero1"), self.losses("one"))

    def test_the_plan_of_two_ranks_on_each_of_two_hosts_goes_by_hosts(self):
        result = self.netlab([], ["bench", "buckets", "--steps", "2", "--warmup", "1", "--policies", "single", "--out",
                                  self.dir / "out", f"data.train={self.small_data()}", "train.batch_size=8",
                                  "model.name=mlp"])
        self.assertEqual(result.returncode, 0, result.stderr)
        result = self.run_trainer(["plan", "--from", "out/buckets.json", "--world", "8,6", "--json"])
        self.assert_exit(result, 0)
        document = json.loads(result.stdout)
        self.assertEqual(document["measured_hosts"], 2)
        self.assertEqual([world["hosts"] for world in document["worlds"]], [4, 3])

    def test_ranks_that_are_dealt_out_to_hosts_train_the_same_but_for_the_order_of_sums(self):
        data = self.small_data()
        common = {"train__batch_size": 8, "train__log_every": 1}
        self.assert_exit(self.mpirun(4, self.settings(data, "one", **common)), 0)
        expected = self.losses("one")
        for run, settings in ("ddp", {}), ("zero1", {"distributed__strategy": "zero1"}):
            result = self.netlab(["--map-by", "node"], self.settings(data, run, **settings, **common))
            self.assertEqual(result.returncode, 0, result.stderr)
            document = json.loads((self.dir / run / "provenance.json").read_text())
            self.assertEqual([row["host"] for row in document["ranks"]], ["node1", "node2", "node1", "node2"])
            losses = self.losses(run)
            for mine, other in zip(losses, expected, strict=True):
                self.assertAlmostEqual(mine, other, delta=1e-4 * abs(other))
        self.assertEqual(self.losses("zero1"), self.losses("ddp"))

    def test_one_of_two_silent_ranks_of_a_host_is_named_where_hosts_add_first(self):
        program = self.dir / "stops.sh"
        program.write_text(STOPS.format(trainer=self.quoted_trainer, run=self.dir / "run").replace("!= 1", "!= 3"))
        program.chmod(0o755)
        settings = self.settings(self.small_data(), "run", train__epochs=100000, train__log_every=1, distributed__timeout=2)
        command = [two_hosts.NETLAB, "run", self.lab, "--ppn", "2", "--wdir", self.dir, program, *settings]
        result = self.machine.run(command, 120, env=two_hosts.environment(self))
        self.assertEqual(result.returncode, 5, result.stderr)
        self.assertRegex(result.stderr, r"error: .*rank \d on node\d waited 2\.\d s for its peers.*rank 3")

    def test_mpirun_names_the_rank_that_was_killed_on_another_host_and_ends_the_others(self):
        program = self.dir / "dies.sh"
        program.write_text(DIES.format(trainer=self.quoted_trainer, run=self.dir / "run"))
        program.chmod(0o755)
        settings = self.settings(self.small_data(), "run", train__epochs=100000, train__log_every=1)
        command = [two_hosts.NETLAB, "run", self.lab, "--ppn", "1", "--wdir", self.dir, program, *settings]
        result = self.machine.run(command, 120, env=two_hosts.environment(self))
        self.assertNotEqual(result.returncode, 0)
        self.assertRegex(result.stderr, r"process rank 1 with PID \d+ on node node2 exited on signal 9")

    def test_a_killed_rank_of_another_host_is_named_at_once_where_the_launcher_says_nothing(self):
        for dead, per_host in (1, 1), (3, 2), (0, 1):
            run = self.dir / f"run{dead}"
            program = self.dir / f"dies{dead}.sh"
            program.write_text(DIES_UNSEEN.format(trainer=self.quoted_trainer, run=run).replace("!= 1", f"!= {dead}"))
            program.chmod(0o755)
            settings = self.settings(self.small_data(), run.name, train__epochs=100000, train__log_every=1)
            command = [two_hosts.NETLAB, "run", self.lab, "--ppn", str(per_host), "--wdir", self.dir, program, *settings]
            result = self.machine.run(command, 60, env=two_hosts.environment(self))
            self.assertEqual(result.returncode, 5, result.stderr)
            host = "node1" if dead < per_host else "node2"
            self.assertRegex(result.stderr, rf"error: .*waited \d\.\d s for its peers.*: rank {dead} on {host}.* has ended")

    def test_a_rank_that_is_silent_on_another_host_is_named_at_the_time_out(self):
        data = self.small_data()
        # Over gloo all ranks are asked then which call they are in, and may take 1.5 s to answer.
        for backend, said, seconds in (("mpi", "nothing came from rank 1 on node2;", "2"),
                                       ("gloo", r"nothing came from rank 1 on node2\)", "[23]")):
            program = self.dir / f"{backend}.sh"
            program.write_text(STOPS.format(trainer=self.quoted_trainer, run=self.dir / backend))
            program.chmod(0o755)
            settings = self.settings(data, backend, train__epochs=100000, train__log_every=1, distributed__timeout=2,
                                     distributed__backend=backend)
            command = [two_hosts.NETLAB, "run", self.lab, "--ppn", "1", "--wdir", self.dir, program, *settings]
            result = self.machine.run(command, 120, env=two_hosts.environment(self))
            self.assertEqual(result.returncode, 5, result.stderr)
            self.assertRegex(result.stderr, rf"error: .*rank 0 on node1 waited {seconds}\.\d s for its peers.*{said}")

    def test_bad_usage_ends_the_ranks_of_all_hosts_with_2(self):
        result = self.netlab([], ["train.batchsize=8"])
        self.assertEqual(result.returncode, 2)
        self.assertEqual(result.stderr.count("error: command line: train.batchsize is not a known key"), 1)


if __name__ == "__main__":
    system_test.main()
