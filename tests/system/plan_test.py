"""trainer plan: other numbers of ranks, predicted from a real trainer bench buckets."""

import json
import os

import system_test
from recipes import TrainingTest


class Plan(TrainingTest):
    def measure(self, ranks, *more):
        self.pack(*self.synthetic_idx(160, classes=4, side=8))
        (self.dir / "c.yaml").write_text(f"data: {{train: {self.dir}/data.h5, workers: 0}}\n")
        arguments = ["bench", "buckets", "--steps", 4, "--warmup", 1, "--out", "out", "-c", "c.yaml",
                     "train.batch_size=8", "model.name=mlp", "model.hidden=[32,16]", "distributed.strategy=ddp", *more]
        self.assert_exit(self.run_trainer(arguments) if ranks == 1 else self.mpirun(ranks, arguments), 0)
        return json.loads((self.dir / "out" / "buckets.json").read_text(encoding="utf-8"))

    def plan(self, *more, worlds="2,3,8"):
        return self.run_trainer(["plan", "--from", "out/buckets.json", "--world", worlds, *more])

    def change(self, edit):
        path = self.dir / "out" / "buckets.json"
        document = json.loads(path.read_text(encoding="utf-8"))
        edit(document)
        path.write_text(json.dumps(document), encoding="utf-8")

    def test_from_a_measurement_on_two_ranks(self):
        measured = self.measure(2)
        result = self.plan("--json", "--out", "plans")
        self.assert_exit(result, 0)
        document = json.loads(result.stdout)
        self.assertEqual(json.loads((self.dir / "plans" / "plan.json").read_text()), document)
        self.assertEqual(document["measured_world_size"], 2)
        self.assertEqual(document["measured_steps"], 4)

        # On the ranks that were measured it is the bench's own prediction, and the error is against its median.
        self.assertEqual(len(document["check"]["plans"]), len(measured["plans"]))
        for check, plan in zip(document["check"]["plans"], measured["plans"]):
            self.assertAlmostEqual(check["predicted"], plan["predicted"], delta=1e-9)
            self.assertEqual(check["measured"], plan["step"]["median"])
            self.assertAlmostEqual(check["error_percent"],
                                   100 * (check["predicted"] / check["measured"] - 1), places=9)

        fit = measured["all_reduce"]["fit"]["pieces"]
        ways = [(world["world_size"], world["all_reduce"]) for world in document["worlds"]]
        self.assertEqual(ways, [(2, "measured"), (3, "ring"), (3, "tree"), (8, "ring"), (8, "tree")])
        for world in document["worlds"]:
            steps = [plan["step"] for plan in world["plans"]]
            searched = [plan["searched"] for plan in world["plans"]]
            self.assertEqual(world["best"], steps.index(min(steps)))
            self.assertEqual(world["step"], steps[world["best"]])
            self.assertTrue(all(step > one - 1e-12 for step, one in zip(steps, searched)))
            self.assertGreaterEqual(world["step"], world["compute"])
            self.assertAlmostEqual(world["samples_per_second"], 8 * world["world_size"] / world["step"], places=6)
            for plan in world["plans"]:
                self.assertAlmostEqual(plan["step"] - plan["exposed"], world["compute"], places=9)
        # A ring of 8 has 7 times the messages of one of 2, and 1.75 times its bytes.
        ring = document["worlds"][3]["fit"]["pieces"]
        self.assertAlmostEqual(ring[0]["alpha"], 7 * fit[0]["alpha"], places=12)
        self.assertAlmostEqual(ring[-1]["seconds_per_byte"], 1.75 * fit[-1]["seconds_per_byte"], places=15)

        text = self.plan(worlds="1,2,8").stdout
        for words in ("mlp, 8 samples of a rank in an update, ", "assumed:", "check: the 2 ranks", "% off; the worst", "ring", "tree",
                      "ddp 0.25 MiB"):
            self.assertIn(words, text)
        self.assertFalse((self.dir / "plan.json").exists())

    def put_on_hosts(self, each, path="shared memory and direct exchange"):
        """As if the measured ranks had been on several hosts, so many on each."""
        def edit(document):
            document["all_reduce"]["path"] = path
            for row in document["provenance"]["ranks"]:
                row["host"], row["local_rank"] = f"node{row['rank'] // each}", row["rank"] % each
        self.change(edit)

    def test_ranks_that_add_up_within_hosts_are_predicted_by_the_number_of_hosts(self):
        fit = self.measure(4)["all_reduce"]["fit"]["pieces"]
        self.assertIn("all measured ranks were on one host", self.plan(worlds="8").stdout)
        self.put_on_hosts(2)
        result = self.plan("--json", worlds="1,2,4,8,32")
        self.assert_exit(result, 0)
        document = json.loads(result.stdout)
        self.assertEqual(document["measured_hosts"], 2)
        ways = [(world["world_size"], world["hosts"], world["all_reduce"]) for world in document["worlds"]]
        self.assertEqual(ways, [(1, 1, None), (2, 2, "measured"), (4, 2, "measured"), (8, 4, "ring"), (32, 16, "ring")])
        # Of h hosts 2(h - 1) messages and 2(h - 1)/h of the bytes; of 4 ranks each on its own it would be 7/3 and 7/6.
        for world, messages, volume in (document["worlds"][3], 3, 1.5), (document["worlds"][4], 15, 1.875):
            self.assertAlmostEqual(world["fit"]["pieces"][0]["alpha"], messages * fit[0]["alpha"], places=12)
            self.assertAlmostEqual(world["fit"]["pieces"][-1]["seconds_per_byte"], volume * fit[-1]["seconds_per_byte"],
                                   places=15)
        text = self.plan(worlds="2,8").stdout
        for words in ("measured on 4 ranks, 2 on each of 2 hosts", "every two hosts are joined",
                      "each host has 2 ranks, as there", "2(h-1)/h S/B", "hosts x each", " 4 x 2  ring",
                      " 2 x 1  measured"):
            self.assertIn(words, text)
        self.assertNotIn("all measured ranks were on one host", text)
        self.assertNotIn("tree", text)

        # Gloo's messages between hosts are as many, and their ranks add up first, too.
        self.put_on_hosts(2, "shared memory and gloo")
        world, = json.loads(self.plan("--json", worlds="8").stdout)["worlds"]
        self.assertEqual((world["hosts"], world["all_reduce"]), (4, "ring"))
        self.put_on_hosts(2)

        result = self.plan("--json", "--out", "plans", worlds="8,5")
        self.assert_exit(result, 2)
        self.assertIn("5 ranks do not come out even on 3 hosts", result.stderr)
        self.assertIn("give 4 or 6", result.stderr)
        self.assertEqual(result.stdout, "")
        self.assertFalse((self.dir / "plans" / "plan.json").exists())

    def test_ranks_that_do_not_add_up_within_hosts_are_predicted_by_their_number(self):
        fit = self.measure(4)["all_reduce"]["fit"]["pieces"]

        def ring_of_8():
            document = json.loads(self.plan("--json", worlds="8").stdout)
            world = document["worlds"][0]
            self.assertAlmostEqual(world["fit"]["pieces"][0]["alpha"], 7 / 3 * fit[0]["alpha"], places=12)
            self.assertIsNone(world["hosts"])
            return document["measured_hosts"]
        for each, path in (1, "direct exchange"), (2, "direct exchange"), (2, "MPI_Iallreduce"), (2, "NCCL 2.28.9"):
            self.put_on_hosts(each, path)
            self.assertEqual(ring_of_8(), 4 // each)
            text = self.plan(worlds="5,8").stdout
            self.assertIn("every two ranks are joined", text)
            self.assertNotIn("hosts x each", text)
        # Of gradients on GPUs, and of a file that does not say where its ranks were.
        self.put_on_hosts(2, "shared memory and direct exchange, through pinned host memory")
        self.assertEqual(json.loads(self.plan("--json", worlds="8").stdout)["worlds"][0]["hosts"], 4)
        self.change(lambda document: document["provenance"].pop("ranks"))
        self.assertIsNone(ring_of_8())

    def test_says_where_all_reduces_go_another_way_than_the_measured_one(self):
        self.measure(4)

        def paths(worlds):
            document = json.loads(self.plan("--json", worlds=worlds).stdout)
            return {world["world_size"]: world["all_reduce_path"] for world in document["worlds"]}
        two_levels, direct, mpi = "shared memory and direct exchange", "direct exchange", "MPI_Iallreduce"
        self.assertEqual(paths("1,4,64"), {1: None, 4: "shared memory", 64: "shared memory"})
        self.assertNotIn("another way", self.plan(worlds="4,64").stdout)
        self.put_on_hosts(2)
        self.assertEqual(paths("2,4,64,66,128"), {2: direct, 4: two_levels, 64: two_levels, 66: mpi, 128: mpi})
        said = [line for line in self.plan(worlds="2,4,64,66,128").stdout.splitlines() if "another way" in line]
        self.assertEqual(said, [f"  all-reduces of 66, 128 ranks go by {mpi}: the forecast is of another way, {two_levels}",
                                f"  all-reduces of 2 ranks go by {direct}: the forecast is of another way, {two_levels}"])
        # One on each host, and all on one whose ranks do not have memory in common.
        for each, last in (1, 32), (4, 8):
            self.put_on_hosts(each, direct)
            self.assertEqual(paths(f"{last},{last + 1}"), {last: direct, last + 1: mpi})
            self.assertIn(f"all-reduces of {last + 1} ranks go by {mpi}: the forecast is of another way, {direct}\n",
                          self.plan(worlds=f"{last},{last + 1}").stdout)
            # MPI would round every partial sum of bf16.
            self.change(lambda document: document.update(compress="bf16"))
            self.assertEqual(paths("64"), {64: direct})
            self.change(lambda document: document.update(compress="none"))

    def test_a_tree_is_shown_where_a_library_may_make_one(self):
        self.measure(4)
        for path, ways in (("direct exchange", ["ring"]), ("gloo", ["ring"]), ("MPI_Iallreduce", ["ring", "tree"]),
                           ("NCCL 2.28.9", ["ring", "tree"])):
            self.put_on_hosts(1, path)
            document = json.loads(self.plan("--json", worlds="8").stdout)
            self.assertEqual([world["all_reduce"] for world in document["worlds"]], ways, path)
            text = self.plan(worlds="8").stdout
            self.assertEqual("or by a tree" in text, "tree" in ways, path)
            self.assertEqual("an all-reduce goes between every two" in text, "tree" not in ways, path)

    def test_the_first_bucket_is_as_large_as_in_the_measurement(self):
        def buckets():
            return json.loads(self.plan("--json", worlds="2,3").stdout)["worlds"][-1]["plans"][0]["bucket_bytes"]

        # The last layers' gradients, 2384 bytes of 11 KiB, reach this size.
        measured = self.measure(2, "distributed.first_bucket_mb=0.001")
        self.assertEqual(measured["first_bucket_mb"], 0.001)
        bytes_of = [bucket["bytes"] for bucket in measured["plans"][0]["buckets"]]
        self.assertEqual(len(bytes_of), 2)
        self.assertEqual(buckets(), bytes_of)
        self.assertIn("at most 0.001 MiB (distributed.first_bucket_mb)", self.plan().stdout)
        # Files of older versions do not say it.
        self.change(lambda document: document.pop("first_bucket_mb"))
        self.assertEqual(buckets(), [sum(bytes_of)])

    def test_the_best_plan_counts_what_transfers_take_from_the_processor(self):
        self.measure(2)

        # Bytes cost, messages nothing, so many buckets hide more; but a call may take as long as a step.
        def edit(document, per_transfer):
            document["all_reduce"]["fit"] |= {"pieces": [{"from_bytes": 0, "alpha": 0, "seconds_per_byte": 1e-7}],
                                              "processor": {"per_transfer": per_transfer, "seconds_per_byte": 0}}
        names = {}
        for per_transfer in 0, 0.01:
            self.change(lambda document, seconds=per_transfer: edit(document, seconds))
            world, = json.loads(self.plan("--json", worlds="2").stdout)["worlds"]
            best = world["plans"][world["best"]]
            self.assertEqual(world["step"], best["step"])
            self.assertEqual(best["step"], min(plan["step"] for plan in world["plans"]))
            names[per_transfer] = best["names"][0]["text"]
            row = self.plan(worlds="2").stdout.split("\npredicted: ")[1].splitlines()[2]
            self.assertIn(f" measured  {names[per_transfer]} ", row)
            self.assertIn(f" {1e3 * best['step']:.3f} ", row)
        self.assertNotEqual(*names.values())

    def test_says_where_the_check_has_a_shorter_step_than_the_rows(self):
        measured = self.measure(2)
        # Bytes cost, messages nothing: in one bucket nothing is hidden.
        self.change(lambda document: document["all_reduce"].update(
            fit={"pieces": [{"from_bytes": 0, "alpha": 0, "seconds_per_byte": 1e-7}]}))
        words = "of the 2 ranks the check has a shorter prediction, "
        self.assertGreater(len(measured["plans"]), 1)
        least = min(json.loads(self.plan("--json").stdout)["check"]["plans"], key=lambda plan: plan["predicted"])
        self.assertIn(f"{words}{least['plan']} with {1e3 * least['predicted']:.3f} ms",
                      self.plan("--policies", "single").stdout)
        self.assertNotIn(words, self.plan("--policies", "single", worlds="4").stdout)
        self.assertNotIn(words, self.plan().stdout)

    def test_names_plans_of_older_files_as_its_own(self):
        self.measure(2)

        def edit(document):
            names = document["plans"][0]["names"]
            names[0]["text"] = names[0]["text"].replace("MiB", "MB")
        self.change(edit)
        self.assertEqual(json.loads(self.plan("--json").stdout)["check"]["plans"][0]["plan"], "ddp 0.25 MiB")
        self.assertNotIn(" MB", self.plan().stdout)

    def test_says_when_the_measurement_does_not_bear_it_out(self):
        predicted = [plan["predicted"] for plan in self.measure(2)["plans"]]
        for factor, borne_out in ((1.1, True), (1.3, False), (0.8, False)):
            def edit(document, factor=factor):
                for plan, seconds in zip(document["plans"], predicted):
                    plan["step"]["median"] = factor * seconds
            self.change(edit)
            check = json.loads(self.plan("--json").stdout)["check"]
            self.assertEqual(check["borne_out"], borne_out, factor)
            self.assertAlmostEqual(check["best_plan_error_percent"], 100 * (1 / factor - 1), places=6)
            self.assertEqual("NOT BORNE OUT" in self.plan().stdout, not borne_out, factor)

    def test_names_a_file_that_is_not_utf_8(self):
        self.measure(2)
        odd = os.fsencode(self.dir) + b"/\xff.json"
        os.rename(self.dir / "out" / "buckets.json", odd)
        result = self.run_trainer(["plan", "--from", os.fsdecode(odd), "--world", "2", "--json"])
        self.assert_exit(result, 0)
        self.assertTrue(json.loads(result.stdout)["plan_of"].endswith("\N{REPLACEMENT CHARACTER}.json"))

    def test_under_a_launcher_one_rank_answers(self):
        self.measure(2)
        result = self.mpirun(2, ["plan", "--from", "out/buckets.json", "--world", "4"])
        self.assert_exit(result, 0)
        self.assertEqual(result.stdout.count("assumed:"), 1)

    def test_refuses_worlds_that_are_none(self):
        for worlds in ("0", "2,-2", "two", "2,,4", "", "1e3", "2000000", "99999999999999999999"):
            result = self.plan(worlds=worlds)
            self.assert_exit(result, 2)
            self.assertIn("number" if worlds else "--world", result.stderr, worlds)
        self.assert_exit(self.run_trainer(["plan", "--world", "2"]), 2)
        self.assert_exit(self.run_trainer(["plan", "--from", "out/buckets.json"]), 2)

    def test_refuses_files_that_tell_nothing(self):
        self.assert_exit(self.plan(), 4)
        (self.dir / "out").mkdir()
        path = self.dir / "out" / "buckets.json"
        for text in ("", "no json", "[]", "{}", '{"benchmark": "allreduce"}', '{"benchmark": 3}'):
            path.write_text(text)
            result = self.plan()
            self.assert_exit(result, 4)
            self.assertIn("not a buckets.json", result.stderr)
            self.assertIn("bench buckets", result.stderr)
            self.assertEqual("no JSON, from byte" in result.stderr, not text.endswith(("]", "}")))

    def test_says_why_a_file_cannot_be_read(self):
        (self.dir / "out").mkdir()
        bench = ["bench", "buckets", "--synthetic", "model.name=mlp", "--replay"]
        for name, reason in (("out", "Is a directory"), ("none", "No such file or directory")):
            for arguments in (["plan", "--world", "2", "--from"], bench):
                result = self.run_trainer([*arguments, name])
                self.assert_exit(result, 4)
                self.assertIn(f"error: {name}: cannot be read: {reason}; ", result.stderr)

    def test_refuses_a_measurement_on_one_rank(self):
        self.measure(1)
        result = self.plan()
        self.assert_exit(result, 4)
        self.assertIn("measured on one rank", result.stderr)

    def test_refuses_a_measurement_that_lacks_or_contradicts_something(self):
        self.measure(2)
        whole = (self.dir / "out" / "buckets.json").read_text()

        def drop(*path):
            def edit(document):
                for key in path[:-1]:
                    document = document[key]
                del document[path[-1]]
            return edit

        def put(value, *path):
            def edit(document):
                for key in path[:-1]:
                    document = document[key]
                document[path[-1]] = value
            return edit

        edits = {"older version, which": drop("measurement"),
                 "older version, whose computation": drop("measurement", "steps"),
                 "fit": drop("all_reduce", "fit"),
                 "not a cost model": put([{"from_bytes": 1, "alpha": 0, "seconds_per_byte": 0}], "all_reduce", "fit",
                                         "pieces"),
                 "a time is": put(-1, "parameters", 0, "ready"),
                 "overlaps": put(0, "parameters", 1, "offset"),
                 "element_bytes is 0": put(0, "element_bytes"),
                 "rest is 1e+308": put(1e308, "measurement", "rest"),
                 "a time is 1e+300": put(1e300, "plans", 0, "step", "median"),
                 "steps is -1": put(-1, "measurement", "steps"),
                 "batch_size is 2.5": put(2.5, "batch_size"),
                 "world_size is 4294967298": put(4294967298, "provenance", "world_size"),
                 "offset is 9223372036854775807": put(2**63 - 1, "parameters", 1, "offset"),
                 "an all-reduce of 0 bytes or more takes 1e+308 s": put(1e308, "all_reduce", "fit", "pieces", 0, "alpha"),
                 "not as many on each of several hosts": put("shared memory and direct exchange", "all_reduce", "path"),
                 "bucket plan": put([], "plans", 0, "buckets"),
                 "size of a bucket": put(0, "first_bucket_mb"),
                 "no plans": put([], "plans"),
                 "no parameters": put([], "parameters")}
        for words, edit in edits.items():
            (self.dir / "out" / "buckets.json").write_text(whole)
            self.change(edit)
            result = self.plan()
            self.assert_exit(result, 4)
            self.assertIn("out/buckets.json: ", result.stderr)
            self.assertIn(words, result.stderr)
            if " is " in words or "takes" in words:
                self.assertIn("; trainer bench buckets --out FOLDER writes such a file", result.stderr)


if __name__ == "__main__":
    system_test.main()
