"""What of the data a run brings into memory: a few steps not the whole file."""

import ctypes
import mmap
import os

import system_test
from recipes import TrainingTest

LIBC = ctypes.CDLL(None, use_errno=True)
LIBC.mmap.restype = ctypes.c_void_p
LIBC.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_int, ctypes.c_int, ctypes.c_long]
LIBC.munmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t]
LIBC.mincore.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_void_p]


def share_in_memory(path):
    """The share of a file's pages that is in the page cache (mincore(2))."""
    size = path.stat().st_size
    pages = ctypes.create_string_buffer(-(-size // mmap.PAGESIZE))
    with open(path, "rb") as file:
        address = LIBC.mmap(None, size, mmap.PROT_READ, mmap.MAP_SHARED, file.fileno(), 0)
    try:
        if LIBC.mincore(address, size, pages) != 0:
            raise OSError(ctypes.get_errno(), "mincore")
    finally:
        LIBC.munmap(address, size)
    return sum(page & 1 for page in pages.raw) / len(pages.raw)


class FilesInMemory(TrainingTest):
    def evict(self, path):
        with open(path, "rb") as file:
            os.fsync(file.fileno())
            os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
        if share_in_memory(path) > 0.1:
            self.skipTest(f"{path} cannot be evicted from memory")

    def share_after(self, data, run, ranks, **settings):
        self.evict(data)
        result = self.mpirun(ranks, self.settings(data, run, train__log_every=1, model__hidden="[8]", **settings))
        self.assert_exit(result, 0)
        return share_in_memory(data)

    def test_a_few_steps_leave_the_file_on_the_disk_and_an_epoch_brings_it_in(self):
        data = self.small_data(2000, side=64)  # 8 MB, as much as 63 samples that are read on their own
        for ranks in (1, 2):
            self.assertLess(self.share_after(data, f"few{ranks}", ranks, train__max_steps=2), 0.5)
            self.assertGreater(self.share_after(data, f"all{ranks}", ranks), 0.9)
            self.assertEqual(self.losses(f"few{ranks}"), self.losses(f"all{ranks}")[:2])

    def test_memory_is_stated_for_files_that_a_run_brings_in(self):
        data = self.small_data(2000, side=64)
        (self.dir / "c.yaml").write_text(f"data: {{train: {data}, val: {data}}}\nmodel: {{name: mlp, hidden: [8]}}\n")
        for settings, mapped in ((["train.epochs=1"], "15.6 MiB"), (["train.max_steps=1", "train.batch_size=4"], "7.8 MiB")):
            result = self.run_trainer(["inspect", "-c", "c.yaml", *settings])
            self.assert_exit(result, 0)
            line = next(line for line in result.stdout.splitlines() if line.split()[:1] == ["data"])
            self.assertIn(mapped, line)


if __name__ == "__main__":
    system_test.main()
