"""Ranks without MPI on several hosts: network namespaces joined by a bridge."""

import json
import re
import shlex

import system_test
import two_hosts
from by_hand import RendezvousTest

# Starts four ranks, two on each host, and ends with the sum of their exit codes.
FOUR = """
lab=$1 address=$2
shift 2
pids=
for rank in 0 1 2 3; do
    "$NETLAB" exec "$lab" "node$((1 + rank / 2))" env RANK=${RANKS_SAID:-$rank} WORLD_SIZE=4 "MASTER_ADDR=$address" MASTER_PORT=29500 "$@" &
    pids="$pids $!"
done
sum=0
for pid in $pids; do wait "$pid"; sum=$((sum + $?)); done
exit $sum
"""

# Rank 3 gets a signal in the middle of the run, and is killed when the others have ended.
LOSES_ONE = """#!/bin/sh
cd {folder}
if [ "$RANK" != 3 ]; then
    {trainer} "$@"
    code=$?
    touch "ended$RANK"
    exit $code
fi
{trainer} "$@" &
until grep -q '"step": 20,' run/metrics.jsonl 2> /dev/null; do sleep 0.05; done
kill -{signal} $!
until [ -e ended0 ] && [ -e ended1 ] && [ -e ended2 ]; do sleep 0.05; done
kill -KILL $! 2> /dev/null
exit 0
"""


class RendezvousHosts(RendezvousTest):
    @classmethod
    def setUpClass(cls):
        two_hosts.start(cls)

    def setUp(self):
        super().setUp()
        self.requires_gloo()
        self.data = self.small_data(96)

    def inside(self, command, code=0, variables=()):
        result = self.machine.run(["env", "-C", self.dir, f"NETLAB={two_hosts.NETLAB}", *variables, *command], 120,
                                  env=two_hosts.environment(self))
        self.assertEqual(result.returncode, code, result.stderr)
        return result

    def four(self, address, program, args, code=0):
        return self.inside(["sh", "-c", FOUR, "sh", self.lab, address, program, *args], code)

    def places(self, run):
        document = json.loads((self.dir / run / "provenance.json").read_text())
        return [(row["host"], row["local_rank"]) for row in document["ranks"]]

    def test_two_ranks_on_each_of_two_hosts_meet_on_the_first(self):
        # By its number, and by a name that on node1 itself may resolve to loopback: the others must not be sent there.
        for run, address in (("number", "10.77.0.1"), ("name", "node1")):
            self.four(address, self.trainer, self.settings(self.data, run))
            self.assertEqual(self.places(run), [("node1", 0), ("node1", 1), ("node2", 0), ("node2", 1)])
        for result in self.by_hand(4, self.settings(self.data, "one_host")):
            self.assert_exit(result, 0)
        self.four("node1", self.trainer, self.settings(self.data, "zero1", distributed__strategy="zero1"))
        hashes = {self.sha256(run) for run in ("number", "name", "zero1", "one_host")}
        self.assertEqual(len(hashes), 1, hashes)

    def test_sums_and_way_are_those_of_mpirun_on_these_hosts_also_in_bf16(self):
        for run, settings in ("fp32", {}), ("bf16", {"distributed__compress": "bf16"}):
            self.four("node1", self.trainer, self.settings(self.data, run, **settings))
            self.inside([two_hosts.NETLAB, "run", self.lab, "--ppn", "2", "--wdir", self.dir, self.trainer,
                         *self.settings(self.data, f"{run}-mpi", **settings)])
            self.assertEqual(self.sha256(run), self.sha256(f"{run}-mpi"), run)
        bench = json.loads(self.four("node1", self.trainer, ["bench", "allreduce", "--sizes", "4K", "--json"]).stdout)
        self.assertEqual(bench["path"], "shared memory and gloo")

    def what_is_said_of_rank_3(self, signal, **overrides):
        program = self.dir / "loses_one.sh"
        program.write_text(LOSES_ONE.format(folder=shlex.quote(str(self.dir)), trainer=self.quoted_trainer, signal=signal))
        program.chmod(0o755)
        settings = self.settings(self.data, "run", train__epochs=100000, train__log_every=1, **overrides)
        return self.four("node1", program, settings, code=3 * 5).stderr

    def test_a_rank_that_is_silent_is_named_though_each_rank_waits_for_a_few_others(self):
        said = self.what_is_said_of_rank_3("STOP", distributed__timeout=2)
        self.assertRegex(said, r"rank \d on node\d waited \d\.\d s for its peers "
                               r"\(timed out: nothing came from rank 3 on node2\)")
        self.assertNotRegex(said, "nothing came from ranks? [0-2]")

    def test_a_rank_that_was_killed_is_named_at_once(self):
        self.assertRegex(self.what_is_said_of_rank_3("KILL"), "rank 0 on node1 .* its peers.*rank 3 on node2 has ended")

    def test_processes_that_all_say_that_they_are_rank_0_hear_so_on_both_hosts(self):
        settings = self.settings(self.data, "none", distributed__timeout=30)
        result = self.inside(["sh", "-c", FOUR, "sh", self.lab, "10.77.0.1", self.trainer, *settings], code=4 * 3,
                             variables=["RANKS_SAID=0"])
        said = re.findall(r"(?m)^error: two processes are rank 0 of 4: one on node1 and one on (?:node1|10\.77\.0\.2);", result.stderr)
        self.assertEqual(len(said), 4, result.stderr)

    def test_mpirun_brings_gloo_together_over_hosts(self):
        self.inside([two_hosts.NETLAB, "run", self.lab, "--wdir", self.dir, self.trainer,
                     *self.settings(self.data, "gloo", distributed__backend="gloo")])
        self.assertEqual(self.places("gloo"), [("node1", 0), ("node2", 0)])

    def test_the_doctor_sees_both_hosts(self):
        report = json.loads(self.inside([two_hosts.NETLAB, "run", self.lab, self.trainer, "doctor", "--json"]).stdout)
        self.assertTrue(report["healthy"], report["problems"])
        self.assertEqual([row["host"] for row in report["ranks"]], ["node1", "node2"])


if __name__ == "__main__":
    system_test.main()
