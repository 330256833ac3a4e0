"""distributed.bucket_policy: plans that are measured in the first steps, kept, found again, and resumed."""

import json

import system_test
from by_hand import RendezvousTest
from recipes import OwnCache

# Enough full updates to measure in: 2 + 4 + 15 for each of at most five plans.
STEPS = 82


class BucketPolicy(OwnCache, RendezvousTest):
    def setUp(self):
        super().setUp()
        self.cache = self.dir / "cache"
        self.data = self.small_data(240)

    def train(self, run, ranks=2, env=None, **settings):
        given = {"train__epochs": 9, "train__max_steps": STEPS, "model__hidden": "[16, 12, 8]", "train__batch_size": 4,
                 "distributed__bucket_policy": "auto", **settings}
        result = self.mpirun(ranks, self.settings(self.data, run, **given), env=env)
        self.assert_exit(result, 0)
        return result.stderr

    def profiles(self):
        return sorted(self.cache.glob("buckets-*.json"))

    def test_auto_chooses_says_why_and_later_runs_use_it(self):
        # Large enough that half a MiB is less than all of it: there is more than one plan to try.
        model = {"model__hidden": "[256, 256, 256, 256]"}
        said = self.train("first", **model)
        (path,) = self.profiles()
        self.assertRegex(said, r"buckets: \S.*, \d+ buckets? of .* MiB; a step takes .* ms, with .* ms; backward takes "
                               r".* ms, the all-reduce of all at once .* ms, .*; kept for later runs in ")
        profile = json.loads(path.read_text())
        self.assertEqual(profile["key"]["world"], 2)
        self.assertEqual(profile["key"]["ranks_by_host"], "2")
        self.assertEqual(profile["key"]["path"], "shared memory")
        steps = [trial["step_seconds"] for trial in profile["trials"]]
        self.assertIn(profile["chosen"], profile["trials"])
        self.assertGreater(min(steps), 0)
        self.assertEqual(len(profile["ready_seconds"]), 10)
        before = path.read_bytes()
        self.assertIn(f"measured by an earlier run ({path})", self.train("second", **model))
        self.assertEqual(path.read_bytes(), before)
        self.assertEqual(self.profiles(), [path])

    def test_on_two_ranks_no_policy_changes_a_bit(self):
        sums = set()
        for policy in ("auto", "cost_model", "ddp", "single", "per_layer"):
            said = self.train(policy, distributed__bucket_policy=policy)
            self.assertEqual("buckets: " in said, policy in ("auto", "cost_model"), said)
            sums.add(self.sha256(policy))
        self.assertEqual(len(sums), 1)

    def test_another_training_has_its_own_profile(self):
        self.train("one")
        self.assertNotIn("earlier run", self.train("wider", model__hidden="[20, 12]"))
        self.assertNotIn("earlier run", self.train("larger", train__batch_size=8))
        self.assertEqual(len(self.profiles()), 3)

    def test_a_damaged_or_foreign_profile_is_measured_again(self):
        self.train("one")
        (path,) = self.profiles()
        good = json.loads(path.read_text())
        foreign = {**good, "key": {**good["key"], "world": 64}}
        unfit = {**good, "chosen": {**good["chosen"], "ends": [1, 99]}}
        older = {**good, "tutti_bucket_profile": 1}
        for number, content in enumerate(["{", "", "[]", json.dumps(foreign), json.dumps(unfit),
                                             json.dumps(older)]):
            path.write_text(content)
            said = self.train(f"again{number}")
            self.assertIn(f"warning: bucket profile ignored: {path}", said)
            self.assertIn("kept for later runs", said)
            self.assertEqual(json.loads(path.read_text())["key"], good["key"])

    def test_a_cache_that_cannot_be_written_is_a_warning(self):
        (self.dir / "file").write_text("")
        said = self.train("run", env={"TUTTI_CACHE": str(self.dir / "file" / "cache")})
        self.assertIn("warning: the bucket profile is not kept: cannot write", said)

    def test_a_short_run_says_that_it_chose_nothing(self):
        said = self.train("run", train__max_steps=5)
        self.assertIn("buckets: the run ended before it had measured enough steps to choose", said)
        self.assertEqual(self.profiles(), [])

    def test_one_rank_has_nothing_to_choose(self):
        result = self.run_trainer(self.settings(self.data, "run", distributed__bucket_policy="auto"))
        self.assert_exit(result, 0)
        self.assertIn("one rank has nothing to send", result.stderr)
        self.assertEqual(self.profiles(), [])

    def test_a_resume_goes_on_with_the_buckets_of_its_checkpoint(self):
        # On three ranks the library's order of summation depends on the size of a transfer.
        self.train("measured", ranks=3)
        self.train("full", ranks=3, train__max_steps=STEPS + 10)
        self.train("resumed", ranks=3)
        for path in self.profiles():
            path.unlink()
        said = self.train("resumed", ranks=3, train__max_steps=STEPS + 10)
        self.assertRegex(said, r"buckets: .*, as when the checkpoint was saved")
        self.assertEqual(self.sha256("resumed"), self.sha256("full"))
        self.assertEqual(self.profiles(), [])

    def test_a_resume_on_another_way_of_the_sums_measures_again(self):
        same = {"distributed__across_steps": "false"}
        self.train("run", **same)
        other = {"distributed__backend": "gloo", **same}
        said = self.train("run", train__max_steps=2 * STEPS, **other)
        self.assertIn("buckets: measured anew, as the checkpoint's were not on this way (gloo, gloo, ranks by host: 2)", said)
        self.assertNotIn("as when the checkpoint was saved", said)
        self.assertIn("kept for later runs", said)
        said = self.train("run", train__max_steps=2 * STEPS + 2, **other)
        self.assertIn("as when the checkpoint was saved", said)

    def check_other_schedules(self, **settings):
        run, last = "run", 4 * STEPS  # eight plans, four of them with turns of up to four steps, take 306
        self.assertIn("kept for later runs",
                      self.train(run, train__epochs=99, train__max_steps=last, **settings))
        for across in ("true", "auto"):
            for path in self.profiles():
                path.unlink()
            said = []
            for more in (4 * STEPS, 2):
                last += more
                said.append(self.train(run, train__epochs=99, train__max_steps=last,
                                       distributed__across_steps=across, **settings))
            self.assertNotIn("as when the checkpoint was saved", said[0])
            self.assertIn("kept for later runs", said[0])
            self.assertIn("as when the checkpoint was saved", said[1])

    def test_a_resume_with_other_schedules_measures_again(self):
        # Through shared memory auto knows only the one within steps.
        self.check_other_schedules()

    def test_a_resume_with_other_schedules_measures_again_by_gloo(self):
        # Here auto may try both.
        self.requires_gloo()
        self.check_other_schedules(distributed__backend="gloo")


if __name__ == "__main__":
    system_test.main()
