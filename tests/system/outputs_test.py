"""jobs/outputs.md and jobs/measurements.md against what the commands write: every field is in their tables with its type,
and every field of theirs is there. A type that is a link stands for an object with that section's fields.
"""

import csv
import json
import os
import pathlib
import re

import system_test
from documentation_test import anchors
from recipes import TrainingTest, png
from sequences import npy, packing, write_videos

PAGES = [pathlib.Path(__file__).resolve().parents[2] / "jobs" / name for name in ("outputs.md", "measurements.md")]
TYPES = {"integer": int, "number": (int, float), "text": str, "boolean": bool, "null": type(None), "object": dict}


OF_OUTPUTS = ("target_name_K", "output_name_K", "earth_name_K")


class Field:
    """A member of a JSON object, as a table has it."""

    def __init__(self):
        self.kinds, self.optional, self.repeats, self.members = [], False, False, {}

    def below(self, path):
        """The field at `path`, such as plans[].step.min."""
        field = self
        for name in path.split("."):
            field = field.members.setdefault(name.removesuffix("[]"), Field())
            field.repeats |= name.endswith("[]")
        return field

    def is_needed(self):
        return not self.optional if self.kinds else any(member.is_needed() for member in self.members.values())

    def member(self, name):
        """By its name, or by one whose capitals at the end stand for others: topK."""
        patterns = (key for key in self.members if re.search("[A-Z]$", key) and
                    re.fullmatch(re.sub("[A-Z]+$", "", key) + ".+", name))
        return self.members.get(name) or self.members.get(next(patterns, None))


def tables():
    """Anchor of a heading -> the rows of the table below it, as lists of cells."""
    found = {}
    for page in PAGES:
        parts = re.split(r"^#+ .*$", page.read_text(encoding="utf-8"), flags=re.M)[1:]
        for name, part in zip(anchors(page), parts, strict=True):
            rows = [line.strip("|").split("|") for line in part.splitlines() if line.startswith("|")]
            found[name] = [[cell.strip() for cell in row] for row in rows[2:]]  # without the head and its rule
    return found


def described(everything, section, root=None):
    """The fields of a section as one object's."""
    root = root or Field()
    for names, kinds, *_ in everything[section]:
        for path in re.findall(r"`([^`]+)`", names):
            field = root.below(path)
            field.optional = kinds.endswith(", optional")
            kinds = kinds.removesuffix(", optional")
            link = re.match(r"\[[^]]*\]\([^)#]*#([^)]+)\)", kinds)
            if link:
                described(everything, link[1], field)
                kinds = "object" + kinds[link.end():]
            field.kinds = re.split(", | or ", kinds)
    return root


def has_type(value, kind):
    if kind.startswith(("list of ", "lists of ")):
        return isinstance(value, list) and all(has_type(item, kind.split(" of ", 1)[1]) for item in value)
    if isinstance(value, bool):
        return kind == "boolean"
    return isinstance(value, TYPES[kind.removesuffix("s")])


class Outputs(TrainingTest):
    def setUp(self):
        super().setUp()
        self.tables = tables()

    def compare(self, section, value, field=None, place=""):
        """`value`, an object, has the fields of that section, and no others."""
        field = field or described(self.tables, section)
        for name, member in value.items():
            of_table, path = field.member(name), f"{place}{name}"
            self.assertTrue(of_table, f"no table of #{section} names {path}: {json.dumps(member)[:80]}")
            if of_table.repeats:
                self.assertIsInstance(member, list, path)
            elif of_table.kinds:
                self.assertTrue(any(has_type(member, kind) for kind in of_table.kinds),
                                f"{path} of #{section} is no {' or '.join(of_table.kinds)}: {json.dumps(member)[:80]}")
            if of_table.members:
                for item in member if of_table.repeats else [member] if member is not None else []:
                    self.compare(section, item, of_table, f"{path}{'[]' if of_table.repeats else ''}.")
        missing = [name for name, member in field.members.items()
                   if member.is_needed() and not any(field.member(found) is member for found in value)]
        self.assertEqual(missing, [], f"#{section} names them below {place or 'the object'}, where they are not")

    def output(self, arguments, code=0, ranks=1):
        result = self.mpirun(ranks, arguments) if ranks > 1 else self.run_trainer(arguments)
        self.assert_exit(result, code)
        return result.stdout

    def report(self, name, arguments, ranks=1):
        """Of a command that writes a file into --out."""
        self.output([*arguments, "--out", self.dir / "out"], ranks=ranks)
        return json.loads((self.dir / "out" / name).read_text())

    def compare_rows(self, run, *kinds):
        rows = self.metrics(run)
        self.assertEqual({row["type"] for row in rows}, set(kinds))
        for row in rows:
            self.compare(f"rows-of-type-{row['type']}", row)
        epochs = self.epochs(run)
        self.assertNotEqual(epochs, [])
        for row in epochs:
            self.compare("epochsjsonl", row)

    def compare_predictions(self, run, columns, objects, without=OF_OUTPUTS):
        """Columns of the CSV file, and data sets of the HDF5 file, which trainer inspect lists."""
        predict = ["predict", "--run", run]
        self.output([*predict, "-o", "out.csv", *(["--embeddings"] if "embeddings" in objects else [])])
        with open(self.dir / "out.csv", newline="") as file:
            names = next(csv.reader(file))
        table = Field()
        for row in self.tables["csv"]:
            table.below(row[0].strip("`"))
        for name in names:
            self.assertTrue(table.member(name), f"no table names the column {name}")
        self.assertEqual({re.sub("_.*", "", name) for name in names}, columns)
        self.output([*predict, "-o", "out.h5"])
        shown = re.findall(r"^ +(\w+) +(?:[fi]\d\d|text) +\[", self.output(["inspect", "out.h5"]), re.M)
        self.assertEqual(set(shown), objects)
        self.assertLessEqual(objects, {row[0].strip("`") for row in self.tables["hdf5"]})
        self.compare_attributes("out.h5", "hdf5", without)

    def compare_attributes(self, file, section, without=()):
        """Names stand in HDF5 files as they are, between zeros: all that the table has are there. (Not whether there are
        more.)"""
        content = (self.dir / file).read_bytes()
        for names, kinds, *_ in self.tables[section]:
            if names.startswith("attribute") and "optional" not in kinds:
                for name in set(re.findall(r"`([^`]+)`", names)) - set(without):
                    name = re.sub("_K$", "_0", name)
                    self.assertTrue(b"\0" + name.encode() + b"\0" in content, f"{file} has no attribute {name}")

    def test_a_run_directory_of_classes(self):
        data = self.small_data(count=64, classes=2)
        more = ["train.confusion=true", "train.topk=2", "optim.clip_norm=1", "train.nan_policy=skip",
                "data.on_error=skip", "train.checkpoint.best=val/accuracy", "train.ema={decay: 0.9}", "run.trace=true"]
        for settings in ([], more):
            run = f"run{len(settings)}"
            self.output([*self.settings(data, run, data__val=data, train__log_every=1), *settings], ranks=2)
            self.compare_rows(run, "step", "eval", "memory")
            self.compare("provenancejson", json.loads((self.dir / run / "provenance.json").read_text()))
            self.compare("eval---json", json.loads(self.output(["eval", "--json", "--run", run])))
        self.compare("tracejson", json.loads((self.dir / run / "trace.json").read_text()))
        self.compare_attributes(self.latest(run), "checkpoints")
        self.compare_predictions(run, {"index", "label", "prediction", "logit", "embedding"},
                                 {"labels", "predictions", "logits", "embeddings"})
        known = {re.sub("/.*", "", name) for row in self.tables["the-run-directory"] for name in re.findall(r"`([^`]+)`", row[0])}
        self.output([*self.settings(data, run, data__val=data), "run.resume=never"])
        for folder in (run, f"{run}/old-1"):
            self.assertLessEqual({path.name for path in (self.dir / folder).iterdir()}, known)

    def test_predictions_with_paths(self):
        for label in "01":
            image = self.dir / "in" / label / "1.png"
            image.parent.mkdir(parents=True)
            image.write_bytes(png(8, 8, [bytes(range(8))] * 8))
        self.output(["pack", "images", "--dir", self.dir / "in", "-o", "images.h5"])
        self.output(self.settings(self.dir / "images.h5", data__val=self.dir / "images.h5", train__epochs=1, train__batch_size=2))
        self.compare_predictions("run", {"index", "path", "label", "prediction", "logit", "embedding"},
                                 {"labels", "predictions", "logits", "embeddings", "paths"})

    def test_a_run_directory_of_targets_and_of_a_failed_step(self):
        data = self.numbers_with_targets(count=32)
        self.output(self.settings(data, data__val=data, train__log_every=1))
        self.compare_rows("run", "step", "eval", "memory")
        self.compare("eval---json", json.loads(self.output(["eval", "--json", "--run", "run"])))
        self.compare_predictions("run", {"index", "target", "output", "embedding"}, {"outputs", "targets", "embeddings"},
                                 (*OF_OUTPUTS, "class_name_K"))
        self.output(self.settings(data, "failed", optim__lr=1e30), code=1)
        (failed,) = (self.dir / "failed").glob("failed-step-*.h5")
        self.compare("replay---json", json.loads(self.output(["replay", failed, "--json"], code=1)))
        text = re.search(rb'\{"step":.*?"gradient_norm":[^}]*\}', failed.read_bytes())
        self.compare("runfailed_step", json.loads(text[0]))

    def test_a_run_directory_of_a_locator(self):
        data = self.images_with_places(8)
        for name, step in (("latitudes", 0.5), ("longitudes", 0.25)):
            (self.dir / f"{name}.npy").write_bytes(npy([[step * (x + y) for x in range(32)] for y in range(32)]))
        self.output([*self.settings(data, data__val=data, model__name="locator", model__hidden="null", train__log_every=1,
                                    optim__lr=1e-5, data__latitudes="latitudes.npy", data__longitudes="longitudes.npy")])
        self.compare_rows("run", "step", "eval", "memory")
        self.compare("eval---json", json.loads(self.output(["eval", "--json", "--run", "run"])))
        self.compare_predictions("run", {"index", "path", "target", "output", "latitude", "longitude", "error"},
                                 {"outputs", "targets", "earth", "paths"}, ("class_name_K",))

    def test_a_run_directory_of_segments(self):
        write_videos(self.dir, 8)
        data = self.dir / "data.h5"
        self.output(packing(self.dir, data))
        self.output([*self.settings(data, data__val=data, model__name="temporal_transformer", model__hidden="null", model__dim=8,
                                    model__depth=1, model__heads=2, train__log_every=1)])
        self.compare_rows("run", "step", "eval", "memory")
        self.compare("eval---json", json.loads(self.output(["eval", "--json", "--run", "run"])))
        self.compare_predictions("run", {"index", "path", "output"}, {"outputs", "paths"}, ("class_name_K", "target_name_K", "earth_name_K"))

    def test_measurements(self):
        tiny = ["--synthetic", "--steps", "2", "--warmup", "0", "model.name=mlp", "model.hidden=[16]", "train.batch_size=4"]
        self.compare("stepjson", self.report("step.json", ["bench", "step", *tiny, "--products=32"]))
        data = self.small_data(count=32)
        for cold in ("0", "1"):
            read = ["bench", "loader", f"data.train={data}", "train.batch_size=8", "--rounds", "1", "--cold-rounds", cold]
            self.compare("loaderjson", self.report("loader.json", read))
        plans = ["--bucket-mb", "1", "--policies", "ddp,per_layer"]
        for ranks in (1, 2):
            reduced = self.report("allreduce.json", ["bench", "allreduce", "--sizes", "4K,64K", "--iterations", "2"], ranks)
            self.compare("allreducejson", reduced)
            self.compare("bucketsjson", self.report("buckets.json", ["bench", "buckets", *tiny, *plans], ranks))
        predicted = ["plan", "--from", self.dir / "out/buckets.json", "--world", "1,2,4", *plans]
        self.compare("planjson", self.report("plan.json", predicted))
        self.compare("bench-kernels---json", json.loads(self.output(["bench", "kernels", "--json"])))

    def test_the_report_of_doctor(self):
        for variables in ({}, {"OMP_NUM_THREADS": str(os.cpu_count() + 1), "NCCL_SOCKET_IFNAME": "lo"}):
            result = self.run_trainer(["doctor", "--json"], env=variables)
            report = json.loads(result.stdout)
            self.assert_exit(result, 0 if report["healthy"] else 1)
            self.compare("doctor---json", report)
        self.assertNotEqual(report["problems"], [], "more threads than cores")

    def test_bucket_profiles(self):
        data = self.small_data(count=64)
        cache = {"TUTTI_CACHE": str(self.dir / "cache")}
        for policy in ("auto", "cost_model"):
            result = self.mpirun(2, self.settings(data, policy, distributed__bucket_policy=policy, train__epochs=30,
                                                  distributed__first_bucket_mb=2,
                                                  distributed__strategy="ddp", train__batch_size=2), env=cache)
            self.assert_exit(result, 0)
        profiles = list((self.dir / "cache").glob("buckets-*.json"))
        self.assertEqual(len(profiles), 2)
        for profile in profiles:
            self.compare("bucket-profiles", json.loads(profile.read_text()))


if __name__ == "__main__":
    system_test.main()
