"""run.trace writes one file that Perfetto reads: all ranks, what nests nests, every bucket once, clocks aligned."""

import collections
import json
import signal

import system_test
from recipes import TrainingTest


class Trace(TrainingTest):
    def settings_for(self, run="run", **settings):
        data = self.small_data(240)
        given = {"run__trace": "true", "model__hidden": "[16, 12]", "distributed__bucket_policy": "per_layer",
                 "train__epochs": 2, **settings}
        return self.settings(data, run, **given)

    def trace(self, run="run"):
        text = (self.dir / run / "trace.json").read_text(encoding="utf-8")
        # Numbers stay text: sums and comparisons below are exact, in nanoseconds.
        trace = json.loads(text, parse_float=lambda number: int(number.replace(".", "")))
        self.assertEqual(list((self.dir / run).glob("*.tmp")), [])
        return trace

    def slices(self, trace, rank):
        return [event for event in trace["traceEvents"] if event["ph"] == "X" and event["pid"] == rank]

    def check_nesting(self, slices):
        """Slices of one thread either lie inside each other or apart; the children of each name, by parent."""
        children = collections.defaultdict(list)
        open_ones = []
        for event in sorted(slices, key=lambda event: (event["ts"], -event["dur"])):
            begin, end = event["ts"], event["ts"] + event["dur"]
            while open_ones and open_ones[-1][1] <= begin and not (open_ones[-1][1] == begin == end):
                open_ones.pop()
            if open_ones:
                self.assertLessEqual(end, open_ones[-1][1], (event, open_ones[-1]))
                children[open_ones[-1][0]].append(event["name"])
            open_ones.append((event["name"], end))
        return children

    def check(self, ranks, steps, trace):
        names = {event["args"]["name"] for event in trace["traceEvents"] if event["name"] == "process_name"}
        self.assertEqual(len(names), ranks)
        for rank in range(ranks):
            self.assertTrue(any(name.startswith(f"rank {rank} (") for name in names), names)
            slices = self.slices(trace, rank)
            counts = collections.Counter((event["cat"], event["name"]) for event in slices)
            self.assertEqual([name for kind, name in counts if kind == "step"],
                             [f"step {number}" for number in range(1, steps + 1)])
            for part in ("data", "forward", "backward", "communication", "optimizer"):
                self.assertEqual(counts[part, part], steps)
            children = self.check_nesting(slices)
            # A parent and its child may begin and end in the same nanosecond; then either may seem to hold the other.
            self.assertGreaterEqual(set(children["step 1"]), {"data", "forward", "backward", "optimizer"})
            self.check_buckets(trace, rank, steps)
            for name in ("fc1", "fc2", "fc3"):
                self.assertEqual((counts["forward", name], counts["backward", name]), (steps, steps))

    def check_buckets(self, trace, rank, steps):
        by_id = collections.defaultdict(list)
        for event in trace["traceEvents"]:
            if event["ph"] in "be" and event["pid"] == rank:
                by_id[event["id"]].append(event)
        self.assertEqual(len(by_id), 3 * steps)
        seen = collections.Counter()
        spans = {event["args"]["step"]: event for event in by_id.values() for event in event if "args" in event}
        self.assertEqual(sorted(spans), list(range(1, steps + 1)))
        for ready, issued, done, end in by_id.values():
            self.assertEqual([event["ph"] for event in (ready, issued, done, end)], ["b", "b", "e", "e"])
            self.assertEqual((issued["name"], done["name"], end["name"]), ("all-reduce", "all-reduce", ready["name"]))
            self.assertLessEqual(ready["ts"], issued["ts"])
            self.assertLessEqual(issued["ts"], done["ts"])
            self.assertGreater(ready["args"]["bytes"], 0)
            seen[ready["args"]["step"], ready["name"]] += 1
        self.assertEqual(set(seen.values()), {1})
        self.assertEqual({name for _, name in seen}, {"bucket 0", "bucket 1", "bucket 2"})

    def check_clocks(self, trace, ranks):
        clocks = trace["otherData"]["clocks_in_seconds"]
        self.assertEqual([clock["rank"] for clock in clocks], list(range(ranks)))
        for clock in clocks:
            # One host, one clock.
            for end in ("", "_at_end"):
                self.assertLessEqual(abs(clock["offset" + end]), clock["round_trip" + end] / 2 + 2)

    def run_ranks(self, ranks, settings):
        result = self.mpirun(ranks, settings) if ranks > 1 else self.run_trainer(settings)
        self.assert_exit(result, 0)
        return result

    def check_at(self, ranks):
        result = self.run_ranks(ranks, self.settings_for(run__trace_steps=6))
        self.assertIn(f"trace of 6 updates on {ranks} rank", result.stderr)
        trace = self.trace()
        self.check(ranks, 6, trace)
        self.check_clocks(trace, ranks)

    def test_one_rank(self):
        self.check_at(1)

    def test_two_ranks(self):
        self.check_at(2)

    def test_three_ranks(self):
        self.check_at(3)

    def test_four_ranks(self):
        self.check_at(4)

    def test_a_shorter_run_is_traced_to_its_end(self):
        self.run_ranks(2, self.settings_for(train__max_steps=4))
        self.check(2, 4, self.trace())

    def test_a_signal_ends_the_trace_in_good_order(self):
        # Long enough for the signal to come in the middle.
        settings = self.settings_for(train__epochs=100000, run__trace_steps=10000, train__log_every=1)
        with self.start_mpirun(2, settings) as job:
            job.wait_for_metrics(self.dir / "run")
            job.signal(signal.SIGUSR1)
            result = job.wait()
        self.assert_exit(result, 75)
        trace = self.trace()
        steps = len([event for event in self.slices(trace, 0) if event["cat"] == "step"])
        self.assertGreaterEqual(steps, 1)
        self.assertEqual(steps, len([event for event in self.slices(trace, 1) if event["cat"] == "step"]))

    def test_changes_no_bit_and_comes_with_measured_buckets(self):
        env = {"TUTTI_CACHE": str(self.dir / "cache")}
        sums = set()
        for run, more in (("plain", {"run__trace": "false"}), ("traced", {}),
                          ("measured", {"distributed__bucket_policy": "auto"})):
            self.assert_exit(self.mpirun(2, self.settings_for(run, **more), env=env), 0)
            sums.add(self.sha256(run))
        self.assertEqual(len(sums), 1)
        self.assertFalse((self.dir / "plain" / "trace.json").exists())
        self.assertTrue((self.dir / "measured" / "trace.json").exists())


if __name__ == "__main__":
    system_test.main()
