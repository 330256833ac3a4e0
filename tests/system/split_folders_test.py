"""Folders of training and of validation data are no classes."""

import system_test
from recipes import PackingTest, png


class SplitFolders(PackingTest):
    def add(self, *folders):
        for folder in folders:
            (self.dir / "photos" / folder).mkdir(parents=True)
            (self.dir / "photos" / folder / "0.png").write_bytes(png(2, 2, [bytes(6)] * 2, 2))

    def test_they_are_refused_by_packers_of_folders_and_each_can_be_packed(self):
        self.add("train/cat/1", "train/dog/1", "val/cat/1", "val/dog/1")
        photos, target = self.dir / "photos", self.dir / "data.h5"
        for kind in "images", "clips":
            refused = self.pack_from(2, kind, "--dir", photos, "-o", target)
            self.assertIn(f"--dir {photos} holds train, val, which are parts of a data set", refused.stderr)
            self.assertFalse(target.exists())
            for part in "train", "val":
                self.assertIn(f"--dir {photos / part}", refused.stderr)
                self.assertIn("2 classes", self.pack_from(0, kind, "--dir", photos / part, "-o", target).stdout)
            target.unlink()

    def test_other_folders_beside_them_make_it_a_warning(self):
        self.add("train/cat", "val/cat", "bus")
        packed = self.pack_from(0, "images", "--dir", self.dir / "photos", "-o", self.dir / "data.h5")
        self.assertIn("warning: ", packed.stderr)
        self.assertIn("holds train, val, which seem to be parts of a data set", packed.stderr)
        self.assertIn("3 classes", packed.stdout)


if __name__ == "__main__":
    system_test.main()
