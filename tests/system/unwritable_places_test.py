"""Full disks, and places where nothing can be written."""

import system_test
from recipes import TrainingTest


class UnwritablePlaces(TrainingTest):
    def test_a_run_directory_that_is_a_file_is_refused(self):
        data = self.small_data(64)
        (self.dir / "file").write_text("")
        result = self.mpirun(2, self.settings(data, "file"))
        self.assert_exit(result, 2)
        [error] = [line for line in result.stderr.splitlines() if "error: " in line]
        self.assertIn("file", error)

    def test_packing_on_a_full_disk_says_so_and_leaves_no_file(self):
        images, labels = self.synthetic_idx(200)
        program = self.dir / "limited.sh"
        program.write_text(f'#!/bin/sh\ntrap "" XFSZ\nulimit -f 100\nexec {self.quoted_trainer} "$@"\n')
        program.chmod(0o755)
        self.trainer = program
        result = self.run_trainer(["pack", "idx", "--images", images, "--labels", labels, "-o", "out.h5"])
        self.assert_exit(result, 1)
        self.assertRegex(result.stderr, "out.h5: writing failed: .*File too large.*; check the free space")
        self.assertEqual(list(self.dir.glob("out*")), [])

    def in_full_folder(self, *arguments):
        """What the trainer says where no file can be made in the folder "full", which must stay empty."""
        (self.dir / "full").mkdir(exist_ok=True)
        # One inode, for the folder itself.
        full = f'mount -t tmpfs -o nr_inodes=1 tmpfs {self.dir}/full || exit 77; "$@"; code=$?; ls -A {self.dir}/full; exit $code'
        with self._start(["unshare", "--mount", "sh", "-c", full, "sh", self.trainer, *map(str, arguments)], None) as job:
            result = job.wait()
        if result.exit_code == 77 or "unshare failed" in result.stderr:
            self.skipTest("no mounts here: " + result.stderr)
        self.assertEqual(result.stdout, "", "nothing is left")
        return result

    def test_packing_where_no_file_can_be_made_any_more_is_a_failed_write(self):
        images, labels = self.synthetic_idx(20)
        for target in "out.h5", "new/out.h5":
            result = self.in_full_folder("pack", "idx", "--images", images, "--labels", labels, "-o", self.dir / "full" / target)
            self.assert_exit(result, 1)
            self.assertRegex(result.stderr, "out.h5: writing failed: No space left on device; check the free space")

    def test_a_place_where_nothing_can_be_written_is_a_mistake_and_a_full_disk_is_none(self):
        data = self.small_data()
        (self.dir / "file").write_text("")
        bench = ["bench", "loader", f"data.train={data}", "train.batch_size=8", "--out"]
        for place, code in (("full", 1), ("full/below", 1), ("file/below", 2)):
            result = self.in_full_folder(*self.settings(data, self.dir / place))
            self.assert_exit(result, code)
            self.assertRegex(result.stderr, f"cannot write into {self.dir}/{place}: .* give run.dir a directory that can be written")
            self.assertEqual("check the free space" in result.stderr, code == 1)
            result = self.in_full_folder(*bench, self.dir / place)
            self.assert_exit(result, code)
            self.assertIn(f"cannot write into {self.dir}/{place}: ", result.stderr)
            self.assertEqual("check the free space" in result.stderr, code == 1)

    def test_a_run_directory_that_has_become_read_only_is_refused_before_anything_is_done(self):
        settings = self.settings(self.small_data(), self.dir / "run")
        self.assert_exit(self.run_trainer(settings), 0)
        log = (self.dir / "run/log.txt").read_text()
        read_only = 'mount --bind "$0" "$0" && mount -o remount,ro,bind "$0" || exit 77; exec "$@"'
        for folder in self.dir / "run", self.dir / "run/checkpoints":
            for more in [], ["run.resume=never"], ["train.epochs=9"]:
                command = ["unshare", "--mount", "sh", "-c", read_only, folder, self.trainer, *settings, *more]
                with self._start(list(map(str, command)), None) as job:
                    result = job.wait()
                if result.exit_code == 77 or "unshare failed" in result.stderr:
                    self.skipTest("no mounts here: " + result.stderr)
                self.assert_exit(result, 2)
                self.assertRegex(result.stderr, f"(?m)^error: cannot write into {folder}: Read-only file system; give .*run.dir")
        self.assertEqual((self.dir / "run/log.txt").read_text(), log)
        self.assertEqual(list(self.dir.glob("run/old-*")), [])


if __name__ == "__main__":
    system_test.main()
