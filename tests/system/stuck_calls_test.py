"""A call of MPI that does not come back ends the rank all the same."""

import contextlib
import signal

import system_test
from recipes import TrainingTest


class StuckCalls(TrainingTest):
    @contextlib.contextmanager
    def stuck(self, timeout):
        """A job of two ranks that train, of which rank 0 is stuck in MPI from now on, as a context."""
        library = self.preloadable("TUTTI_STUCK_CALLS")
        settings = self.settings(self.small_data(), "run", train__epochs=100000, train__log_every=1,
                                 distributed__timeout=timeout)
        env = {"STUCK_RANK": "0", "STUCK_FROM": self.dir / "stuck"}
        with self.start_mpirun(2, settings, options=["-x", f"LD_PRELOAD={library}"], env=env) as job:
            job.wait_for_metrics(self.dir / "run", 20)
            (self.dir / "stuck").touch()
            yield job

    def test_it_ends_soon_where_a_peer_has_ended_and_names_it(self):
        with self.stuck(timeout=600) as job:
            job.signal_rank(1, signal.SIGKILL)
            result = job.wait(60)
        self.assertEqual(result.exit_codes, [5, 137], result.stderr)
        self.assertRegex(result.stderr, r"error: a call of MPI that does not come back: rank 0 on \S+ waited [5-9]\.\d s for "
                                        r"its peers: rank 1 on \S+, process \d+, has ended; .*start the same command again")

    def test_it_ends_at_the_time_out_while_the_peers_wait_for_it(self):
        with self.stuck(timeout=8) as job:
            result = job.wait(60)
        self.assertEqual(result.exit_codes, [5, 5], result.stderr)
        self.assertRegex(result.stderr, r"error: a call of MPI that does not come back: rank 0 on \S+ waited \d+\.\d s for its "
                                        r"peers(; look for the first error of another rank|: rank 1 on \S+ .*has ended)")
        self.assertRegex(result.stderr, r"\[rank 1 on \S+\] error: .*waited \d+\.\d s for its peers: "
                                        r"(nothing came from rank 0|rank 0 on \S+ .*has ended)")


if __name__ == "__main__":
    system_test.main()
