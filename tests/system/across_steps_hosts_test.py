"""Between two hosts: one that dies while what a step left for the next one's forward is on a slow network; and runs that
try both schedules."""

import json

import system_test
import two_hosts
from recipes import TrainingTest

# Rank 1 dies as soon as rank 0 has written that the first step is done: 13 MB of gradients then have two seconds of the
# network before them. mpirun is not told before the survivor has spoken.
DIES = """#!/bin/sh
if [ "$OMPI_COMM_WORLD_RANK" != 1 ]; then exec {trainer} "$@"; fi
{trainer} "$@" &
tries=0
until grep -q '"step": 1,' {run}/metrics.jsonl 2> /dev/null || [ $tries -eq 3000 ]; do sleep 0.01; tries=$((tries + 1)); done
kill -KILL $!
wait $!
tries=0
until grep -q waited {run}/log.txt || [ $tries -eq 200 ]; do sleep 0.1; tries=$((tries + 1)); done
exit 1
"""


class AcrossStepsOnHosts(TrainingTest):
    @classmethod
    def setUpClass(cls):
        two_hosts.start(cls, "--rate", "50mbit")

    def test_a_peer_that_is_killed_while_a_bucket_is_deferred_ends_the_other(self):
        data = self.small_data(240, classes=4, side=16)
        program = self.dir / "dies.sh"
        program.write_text(DIES.format(trainer=self.quoted_trainer, run=self.dir / "run"))
        program.chmod(0o755)
        settings = self.settings(data, "run", train__epochs=100000, train__log_every=1, model__hidden="[512, 6144]",
                                 distributed__bucket_policy="per_layer", distributed__across_steps="true",
                                 distributed__timeout=3)
        command = [two_hosts.NETLAB, "run", self.lab, "--ppn", "1", "--wdir", self.dir, program, *settings]
        result = self.machine.run(command, 120, env=two_hosts.environment(self))
        self.assertNotEqual(result.returncode, 0)
        self.assertIn("Killed", result.stderr)
        # It waits for these sums, or for the next step's where the dead one's system had all in its queues; where it still
        # sends, Open MPI ends it before it can speak.
        self.assertRegex(result.stderr, r"error: .*all_reduce of .*waited|mca_btl_tcp_frag_send")
        self.assertEqual([row["step"] for row in self.metrics("run", "step")], [1])
        self.assertEqual(list((self.dir / "run/checkpoints").glob("*")), [])

    def train(self, run, steps, **settings):
        data, val = self.dir / "data.h5", self.dir / "val.h5"
        if not data.exists():
            self.small_data(240, classes=4, side=16)
            self.small_data(40, "val.h5", classes=4, side=16)
        # Transfers of 20 ms beside hardly any computation, so no schedule is clearly better.
        given = {"data__val": val, "train__max_steps": steps, "train__epochs": 1000, "train__batch_size": 12,
                 "train__log_every": 1, "model__hidden": "[128]", "optim__name": "adam", "optim__lr": 0.001,
                 "optim__momentum": 0, "train__ema": 0.9, "distributed__bucket_policy": "auto", **settings}
        command = [two_hosts.NETLAB, "run", self.lab, "--ppn", "1", "--wdir", self.dir, "-x",
                   f"TUTTI_CACHE={self.dir / 'cache'}", self.trainer, *self.settings(data, run, **given)]
        result = self.machine.run(command, 120, env=two_hosts.environment(self))
        self.assertEqual(result.returncode, 0, result.stderr)
        return result.stderr

    def test_what_is_tried_changes_no_bit_and_later_runs_need_not_try(self):
        # Enough for 15 rounds of eight plans, half of them across steps with turns of four steps each: nothing that the
        # clock says makes the trials longer than the run.
        steps = 320
        self.train("plain", steps, distributed__bucket_policy="ddp", distributed__across_steps="false")
        # An evaluation after every tenth step, a checkpoint after every seventh.
        said = self.train("tried", steps, train__checkpoint__every="7 steps")
        self.assertEqual(self.outcome("tried"), self.outcome("plain"))
        self.assertRegex(said, r"buckets are tried under both schedules: .* by the model")
        self.assertRegex(said, r"buckets: .+ (across|within) steps, .* MiB; a step takes .* ms, with .*; kept for later")
        (path,) = (self.dir / "cache").glob("buckets-*.json")
        profile = json.loads(path.read_text())
        self.assertIn(profile["chosen"], profile["trials"])
        self.assertEqual({trial["schedule"] for trial in profile["trials"]}, {"within steps", "across steps"})
        again = self.train("again", 5)
        self.assertIn(f"measured by an earlier run ({path})", again)
        self.assertIn(f'buckets: {profile["chosen"]["name"]} {profile["chosen"]["schedule"]}, ', again)
        path.unlink()
        # Ends among the trials, which begin after six steps and take ten more at the least, and begins with them once more.
        self.assertIn("before it had measured enough", self.train("resumed", 15))
        self.assertIn("kept for later", self.train("resumed", steps + 15))
        self.train("tried", steps + 15)
        self.assertEqual(self.outcome("resumed")[1], self.outcome("tried")[1])

    def test_the_bench_measures_the_best_plans_of_the_other_schedule_too(self):
        data = self.small_data(240, classes=4, side=16)
        command = [two_hosts.NETLAB, "run", self.lab, "--ppn", "1", "--wdir", self.dir, self.trainer, "bench", "buckets",
                   "--steps", 4, "--warmup", 1, "--out", self.dir / "out", f"data.train={data}", "train.batch_size=12",
                   "model.name=mlp", "model.hidden=[128]", "optim.lr=0.001"]
        result = self.machine.run([str(word) for word in command], 120, env=two_hosts.environment(self))
        self.assertEqual(result.returncode, 0, result.stderr)
        report = json.loads((self.dir / "out/buckets.json").read_text(encoding="utf-8"))
        self.assertRegex(result.stdout, r"Buckets are tried under both schedules: .* for comparison")
        others = {"within steps", "across steps"} - {report["schedule"]}
        said = {name["text"] for plan in report["plans"] for name in plan["names"] if {plan["schedule"]} == others}
        self.assertIn(f"cost_model {others.pop()}", said)
        self.assertIn(report["schedule"], {plan["schedule"] for plan in report["plans"]})
        # Across steps buckets are done in the next one, unless this rank's step went on for as long: not in every plan.
        done_later = {plan["names"][0]["text"]: max(bucket["done"] for bucket in plan["timeline"]["buckets"]) >
                      plan["timeline"]["step"] for plan in report["plans"]}
        across = {plan["names"][0]["text"] for plan in report["plans"] if plan["schedule"] == "across steps"}
        self.assertTrue(any(done_later[name] for name in across), done_later)
        self.assertFalse(any(later for name, later in done_later.items() if name not in across), done_later)


if __name__ == "__main__":
    system_test.main()
