"""jobs/bundle.sh: the folder runs where none of the libraries is installed, and may be moved."""

import os
import pathlib
import re
import shutil
import subprocess

import system_test
from recipes import TrainingTest

# Of the system: the C library and its loader.
SYSTEM = re.compile(r"(ld-linux[^/]*|libc|libm|libdl|librt|libpthread|libresolv|libutil|libnss_\w+|libnsl|libanl)\.so[.\d]*$")
MIB = 1 << 20


class Bundle(TrainingTest):
    def setUp(self):
        super().setUp()
        script = pathlib.Path(__file__).parents[2] / "jobs/bundle.sh"
        made = self.dir / "made"
        result = subprocess.run([script, "-b", self.trainer.parent, "-o", made], stdin=subprocess.DEVNULL,
                                capture_output=True, text=True, timeout=300, check=False)
        self.assertEqual(result.returncode, 0, result.stderr)
        self.bundle = self.dir / "somewhere else"
        made.rename(self.bundle)

    def run_here(self, command, env=None):
        """Without anything of the machine's own environment."""
        return subprocess.run([str(word) for word in command], cwd=self.dir, stdin=subprocess.DEVNULL, text=True,
                              env={"PATH": "/usr/bin:/bin", "HOME": str(self.dir), "TMPDIR": str(self.dir),
                                   "OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
                                   "OMPI_MCA_btl_vader_single_copy_mechanism": "none",
                                   "OMPI_MCA_mpi_yield_when_idle": "1", **(env or {})},
                              capture_output=True, timeout=120, check=False)

    def test_two_ranks_train_with_the_bundles_libraries_alone(self):
        command = [self.bundle / "bin/mpirun", "-np", 2, "--oversubscribe", "--bind-to", "none",
                   self.bundle / "bin/trainer", *self.settings(self.small_data(64))]
        # The loader writes which file it took for each library, those that are opened later included.
        result = self.run_here(command, {"LD_DEBUG": "libs", "LD_DEBUG_OUTPUT": str(self.dir / "loader")})
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertTrue((self.dir / "run/provenance.json").exists())
        taken = set()
        for log in self.dir.glob("loader.*"):
            text = log.read_text(errors="replace")
            if "libhdf5" in text or "orted" in text:  # of the bundle's programs, not of a shell between them
                taken |= set(re.findall(r"calling init: (\S.*)$", text, re.MULTILINE))
        self.assertTrue(any("libhdf5" in path for path in taken))
        self.assertTrue(any("mca_btl_vader" in path for path in taken), "Open MPI's parts are opened, too")
        foreign = [path for path in taken
                   if not pathlib.Path(path).resolve().is_relative_to(self.bundle.resolve())
                   and not SYSTEM.search(path)]
        self.assertEqual(sorted(foreign), [], "from outside of the bundle")

    def test_it_trains_in_a_root_that_holds_the_c_library_alone(self):
        chroot = shutil.which("chroot", path="/usr/sbin:/usr/bin:/sbin:/bin")
        if os.geteuid() != 0 or chroot is None:
            self.skipTest("chroot needs root")
        root = self.dir / "root"
        for folder in ("bin", "tmp", "proc", "dev", "usr/bin"):
            (root / folder).mkdir(parents=True)
        (root / "dev/null").touch()
        trainer = self.bundle / "libexec/trainer"
        needed = subprocess.run(["ldd", trainer, "/bin/sh"], capture_output=True, text=True, check=True).stdout
        for path in set(re.findall(r"(/\S+\.so[.\d]*)", needed)):
            if SYSTEM.search(path):
                target = root / path.lstrip("/")
                target.parent.mkdir(parents=True, exist_ok=True)
                shutil.copy(path, target)
        shutil.copy("/bin/sh", root / "bin/sh")
        shutil.copytree(self.bundle, root / "bundle", symlinks=True)
        shutil.copy(self.small_data(64), root / "tmp/data.h5")
        result = self.run_here([chroot, root, "/bundle/bin/trainer", "data.train=/tmp/data.h5", "run.dir=/tmp/run",
                                "model.name=mlp", "model.hidden=[16]", "train.epochs=1", "train.batch_size=8"],
                               {"TMPDIR": "/tmp"})
        self.assertEqual(result.returncode, 0, result.stdout + result.stderr)
        self.assertTrue((root / "tmp/run/provenance.json").exists())

    def test_hashes_of_the_bundle_are_those_of_openssl(self):
        self.assertIn("libcrypto.so", (self.bundle / "BUNDLE.txt").read_text(), "the whole library was taken")
        result = self.run_here([self.bundle / "bin/trainer", *self.settings(self.small_data(64))])
        self.assertEqual(result.returncode, 0, result.stderr)
        command = ["inspect", self.dir / "run", "--sha256"]
        theirs, ours = self.run_here([self.bundle / "bin/trainer", *command]), self.run_here([self.trainer, *command])
        self.assertEqual(theirs.returncode, 0, theirs.stderr)
        self.assertRegex(theirs.stdout, r"[0-9a-f]{64}")
        self.assertEqual(theirs.stdout, ours.stdout)

    def test_it_is_small_and_says_what_it_needs(self):
        files = [path for path in self.bundle.rglob("*") if path.is_file()]
        # CUDA's own code is beside that: 19 MiB for three kinds of GPUs. libpng and libjpeg are 0.8 MiB of it.
        size = sum(path.stat().st_size for path in files if path.name != "libtutti_cuda.so")
        self.assertLess(size, 62 * MIB)
        text = (self.bundle / "BUNDLE.txt").read_text()
        self.assertRegex(text, r"needs: GLIBC 2\.\d+ or newer")
        self.assertIn("instruction set:", text)
        parts = [float(mib) for mib in re.findall(r"^ +([\d.]+) MiB  ", text, re.MULTILINE)]
        self.assertAlmostEqual(sum(parts), float(re.search(r"size: ([\d.]+) MiB", text)[1]), delta=0.6)

    def test_it_replaces_a_bundle_and_nothing_else(self):
        script = pathlib.Path(__file__).parents[2] / "jobs/bundle.sh"
        mine = self.dir / "mine"
        mine.mkdir()
        (mine / "thesis.tex").touch()
        result = subprocess.run([script, "-b", self.trainer.parent, "-o", mine], capture_output=True, text=True,
                                stdin=subprocess.DEVNULL, timeout=120, check=False)
        self.assertEqual(result.returncode, 2)
        self.assertIn("is no bundle", result.stderr)
        self.assertTrue((mine / "thesis.tex").exists())


if __name__ == "__main__":
    system_test.main()
