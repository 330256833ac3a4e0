"""Ranks without MPI: one process each, which find each other by RANK, WORLD_SIZE, MASTER_ADDR and MASTER_PORT.

    class Launch(by_hand.RendezvousTest):
        def test_two_ranks_train(self):
            results = self.by_hand(2, ["-c", "mnist.yaml"])       # one Result per rank
"""

import contextlib
import socket

from recipes import TrainingTest


def free_port():
    """A port that was free a moment ago. Rank 0 takes the next free one if it no longer is."""
    with socket.create_server(("127.0.0.1", 0)) as probe:
        return probe.getsockname()[1]


class RendezvousTest(TrainingTest):
    def requires_gloo(self):
        """Skips the test when the program was built without gloo, after it has said so."""
        pair = {"RANK": "0", "WORLD_SIZE": "2", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": "1"}
        result = self.run_trainer([], env={**pair, "GLOO_SOCKET_IFNAME": "nosuch0"})
        self.assert_exit(result, 3)
        if "built without gloo" in result.stderr:
            self.assertIn("libgloo-dev", result.stderr)
            self.skipTest("this program was built without gloo")

    def start_by_hand(self, ranks, args, env=None, environment_of=None, port=None):
        """One Job per rank. environment_of(rank): a launcher's variables, instead of RANK and WORLD_SIZE."""
        master = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port or free_port())}
        place = environment_of or (lambda rank: {"RANK": str(rank), "WORLD_SIZE": str(ranks)})
        return [self.start(args, {**master, **(env or {}), **place(rank)}) for rank in range(ranks)]

    def by_hand(self, ranks, args, **options):
        with contextlib.ExitStack() as stack:
            jobs = [stack.enter_context(job) for job in self.start_by_hand(ranks, args, **options)]
            return [job.wait() for job in jobs]
