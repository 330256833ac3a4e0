"""Ranks without MPI on several hosts: network namespaces joined by a bridge."""

import json

import system_test
import two_hosts
from by_hand import RendezvousTest

# Starts four ranks, two on each host, and ends with the sum of their exit codes.
FOUR = """
lab=$1 address=$2
shift 2
pids=
for rank in 0 1 2 3; do
    "$NETLAB" exec "$lab" "node$((1 + rank / 2))" env RANK=$rank WORLD_SIZE=4 "MASTER_ADDR=$address" MASTER_PORT=29500 "$@" &
    pids="$pids $!"
done
sum=0
for pid in $pids; do wait "$pid"; sum=$((sum + $?)); done
exit $sum
"""


class RendezvousHosts(RendezvousTest):
    @classmethod
    def setUpClass(cls):
        two_hosts.start(cls)

    def setUp(self):
        super().setUp()
        self.requires_gloo()
        self.data = self.small_data(96)

    def inside(self, command):
        result = self.machine.run(["env", "-C", self.dir, f"NETLAB={two_hosts.NETLAB}", *command], 120,
                                  env=two_hosts.environment(self))
        self.assertEqual(result.returncode, 0, result.stderr)
        return result.stdout

    def places(self, run):
        document = json.loads((self.dir / run / "provenance.json").read_text())
        return [(row["host"], row["local_rank"]) for row in document["ranks"]]

    def test_two_ranks_on_each_of_two_hosts_meet_on_the_first(self):
        # By its number, and by a name that on node1 itself may resolve to loopback: the others must not be sent there.
        for run, address in (("number", "10.77.0.1"), ("name", "node1")):
            self.inside(["sh", "-c", FOUR, "sh", self.lab, address, self.trainer, *self.settings(self.data, run)])
            self.assertEqual(self.places(run), [("node1", 0), ("node1", 1), ("node2", 0), ("node2", 1)])
        for result in self.by_hand(4, self.settings(self.data, "one_host")):
            self.assert_exit(result, 0)
        hashes = {self.sha256(run) for run in ("number", "name", "one_host")}
        self.assertEqual(len(hashes), 1, hashes)

    def test_mpirun_brings_gloo_together_over_hosts(self):
        self.inside([two_hosts.NETLAB, "run", self.lab, "--wdir", self.dir, self.trainer,
                     *self.settings(self.data, "gloo", distributed__backend="gloo")])
        self.assertEqual(self.places("gloo"), [("node1", 0), ("node2", 0)])

    def test_the_doctor_sees_both_hosts(self):
        report = json.loads(self.inside([two_hosts.NETLAB, "run", self.lab, self.trainer, "doctor", "--json"]))
        self.assertTrue(report["healthy"], report["problems"])
        self.assertEqual([row["host"] for row in report["ranks"]], ["node1", "node2"])


if __name__ == "__main__":
    system_test.main()
