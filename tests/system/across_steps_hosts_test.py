"""A host that dies while what a step left for the next one's forward is on a slow network."""

import system_test
import two_hosts
from recipes import TrainingTest

# Rank 1 dies as soon as rank 0 has written that the first step is done: 13 MB of gradients then have two seconds of the
# network before them. mpirun is not told before the survivor has spoken.
DIES = """#!/bin/sh
if [ "$OMPI_COMM_WORLD_RANK" != 1 ]; then exec {trainer} "$@"; fi
{trainer} "$@" &
tries=0
until grep -q '"step": 1,' {run}/metrics.jsonl 2> /dev/null || [ $tries -eq 3000 ]; do sleep 0.01; tries=$((tries + 1)); done
kill -KILL $!
wait $!
tries=0
until grep -q waited {run}/log.txt || [ $tries -eq 200 ]; do sleep 0.1; tries=$((tries + 1)); done
exit 1
"""


class AcrossStepsOnHosts(TrainingTest):
    @classmethod
    def setUpClass(cls):
        two_hosts.start(cls, "--rate", "50mbit")

    def test_a_peer_that_is_killed_while_a_bucket_is_deferred_ends_the_other(self):
        data = self.small_data(240, classes=4, side=16)
        program = self.dir / "dies.sh"
        program.write_text(DIES.format(trainer=self.trainer, run=self.dir / "run"))
        program.chmod(0o755)
        settings = self.settings(data, "run", train__epochs=100000, train__log_every=1, model__hidden="[512, 6144]",
                                 distributed__bucket_policy="per_layer", distributed__across_steps="true",
                                 distributed__timeout=3)
        command = [two_hosts.NETLAB, "run", self.lab, "--ppn", "1", "--wdir", self.dir, program, *settings]
        result = self.machine.run(command, 120, env=two_hosts.environment(self))
        self.assertNotEqual(result.returncode, 0)
        self.assertIn("Killed", result.stderr)
        # It waits for these sums, or for the next step's where the dead one's system had all in its queues; where it still
        # sends, Open MPI ends it before it can speak.
        self.assertRegex(result.stderr, r"error: .*all_reduce of .*waited|mca_btl_tcp_frag_send")
        self.assertEqual([row["step"] for row in self.metrics("run", "step")], [1])
        self.assertEqual(list((self.dir / "run/checkpoints").glob("*")), [])


if __name__ == "__main__":
    system_test.main()
