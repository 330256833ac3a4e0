"""jobs/bundle.sh: the folder runs where none of the libraries is installed, and may be moved."""

import os
import pathlib
import random
import re
import shutil
import struct
import subprocess
import zlib

import system_test
from recipes import TrainingTest

# Of the system: the C library and its loader.
SYSTEM = re.compile(r"(ld-linux[^/]*|libc|libm|libdl|librt|libpthread|libresolv|libutil|libnss_\w+|libnsl|libanl)\.so[.\d]*$")
MIB = 1 << 20


def png(side, pixels):
    """A PNG of 8-bit RGB."""
    def chunk(kind, data):
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
    rows = b"".join(b"\0" + pixels[3 * side * y:3 * side * (y + 1)] for y in range(side))
    return (b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", struct.pack(">IIBBBBB", side, side, 8, 2, 0, 0, 0)) +
            chunk(b"IDAT", zlib.compress(rows)) + chunk(b"IEND", b""))


def jpeg(side, numbers):
    """A baseline JPEG, chroma of half the size as cameras write it; each block has a few random coefficients."""
    def segment(kind, data):
        return bytes([0xFF, kind]) + struct.pack(">H", len(data) + 2) + data
    # Huffman tables whose codes are all of three bits, so that the symbol N is the code N. A symbol is the number of bits
    # of the coefficient that follows; 0 ends a block.
    tables = b"".join(bytes([table, 0, 0, 6, *[0] * 13, *range(6)]) for table in (0x00, 0x10))
    bits = ""
    for _ in range((side // 16) ** 2 * 6):  # of each 16 x 16: four blocks of Y, one of Cb, one of Cr
        for size in [numbers.randrange(1, 6) for _ in range(6)]:
            bits += f"{size:03b}{numbers.randrange(1 << size):0{size}b}"
        bits += "000"
    bits += "1" * (-len(bits) % 8)
    scan = int(bits, 2).to_bytes(len(bits) // 8, "big").replace(b"\xff", b"\xff\0")
    frame = struct.pack(">BHHB", 8, side, side, 3) + bytes([1, 0x22, 0, 2, 0x11, 0, 3, 0x11, 0])
    return (b"\xff\xd8" + segment(0xDB, bytes([0, *[8] * 64])) + segment(0xC0, frame) + segment(0xC4, tables) +
            segment(0xDA, bytes([3, 1, 0, 2, 0, 3, 0, 0, 63, 0])) + scan + b"\xff\xd9")


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

    def test_images_of_the_bundle_are_those_of_the_libraries(self):
        self.assertIn("libjpeg.so", (self.bundle / "BUNDLE.txt").read_text(), "the whole library was taken")
        numbers, side = random.Random(1), 32
        folder = self.dir / "images/one"
        folder.mkdir(parents=True)
        (folder / "a.png").write_bytes(png(side, numbers.randbytes(3 * side * side)))
        (folder / "b.jpg").write_bytes(jpeg(side, numbers))
        packed = []
        for trainer in (self.bundle / "bin/trainer", self.trainer):
            target = self.dir / f"{len(packed)}.h5"
            result = self.run_here([trainer, "pack", "images", "--dir", folder.parent, "-o", target])
            self.assertEqual(result.returncode, 0, result.stderr)
            self.assertIn(f"2 samples [{side}, {side}, 3] u8", result.stdout)
            packed.append(target.read_bytes())
        self.assertEqual(*packed)
        # What libjpeg says of a broken one is an error of the file, not the end of the program.
        (folder / "b.jpg").write_bytes((folder / "b.jpg").read_bytes()[:60])
        result = self.run_here([self.bundle / "bin/trainer", "pack", "images", "--dir", folder.parent, "-o", target])
        self.assertEqual(result.returncode, 4, result.stderr)
        self.assertIn("b.jpg: cannot be read as an image", result.stderr)

    def test_it_is_small_and_says_what_it_needs(self):
        files = [path for path in self.bundle.rglob("*") if path.is_file()]
        # CUDA's own code is beside that: 19 MiB for three kinds of GPUs.
        size = sum(path.stat().st_size for path in files if path.name != "libtutti_cuda.so")
        self.assertLess(size, 60 * MIB)
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
