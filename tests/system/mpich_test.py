"""A build with MPICH, under MPICH's own launcher."""

import shutil

import system_test
from by_hand import RendezvousTest


class Mpich(RendezvousTest):
    def test_two_ranks_of_hydra_train_to_the_weights_of_two_ranks_without_mpi(self):
        launcher = shutil.which("mpirun.mpich")
        if launcher is None:
            self.skipTest("MPICH's mpirun is not installed")
        self.requires_gloo()
        data = self.small_data(96)
        with self._start([launcher, "-np", "2", self.trainer, *self.settings(data, "hydra")], {}) as job:
            self.assert_exit(job.wait(), 0)
        for result in self.by_hand(2, self.settings(data, "hand")):
            self.assert_exit(result, 0)
        self.assertEqual(self.sha256(self.latest("hydra")), self.sha256(self.latest("hand")))
        self.assertIn("MPICH", (self.dir / "hydra/provenance.json").read_text())


if __name__ == "__main__":
    system_test.main()
