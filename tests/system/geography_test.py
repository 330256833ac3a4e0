"""Places on the earth through the program: kilometres in evaluations and predictions."""

import csv
import json
import math
import random
import statistics

import system_test
from recipes import TrainingTest, png
from sequences import npy

HEIGHT, WIDTH, TILE = 40, 60, 32
RADII = (25, 50, 100, 200)
REGRESSION = ["model.name=mlp", "model.hidden=[16]", "optim.name=adam", "optim.momentum=0", "optim.lr=1e-3", "train.batch_size=6",
              "train.epochs=4", "train.checkpoint.best=val/km"]
LOCATOR = ["model.name=locator", "optim.name=adamw", "optim.momentum=0", "optim.lr=1e-3", "train.batch_size=8", "train.epochs=1",
           "train.heatmap_sigma=4"]


def position(x, y):
    """Degrees north and east of pixel (x, y) of the picture, as a satellite might see them."""
    return 46 - 0.3 * y + 0.002 * x, 350 + 0.35 * x + 0.004 * y


def kilometres(a, b):
    """Along the great circle, by the angle between the directions; on positions in degrees."""
    def direction(latitude, longitude):
        latitude, longitude = math.radians(latitude), math.radians(longitude)
        return math.cos(latitude) * math.cos(longitude), math.cos(latitude) * math.sin(longitude), math.sin(latitude)
    u, v = direction(*a), direction(*b)
    cross = (u[1] * v[2] - u[2] * v[1], u[2] * v[0] - u[0] * v[2], u[0] * v[1] - u[1] * v[0])
    return 6371.0088 * math.atan2(math.hypot(*cross), sum(x * y for x, y in zip(u, v)))


class Geography(TrainingTest):
    def setUp(self):
        super().setUp()
        for index, name in enumerate(("latitudes", "longitudes")):
            (self.dir / f"{name}.npy").write_bytes(npy([[position(x, y)[index] for x in range(WIDTH)] for y in range(HEIGHT)], "d"))
        self.grid = [f"data.latitudes={self.dir / 'latitudes.npy'}", f"data.longitudes={self.dir / 'longitudes.npy'}"]

    def tiles(self, name, count, *more, target="x,y"):
        """Clips of two frames of noise, cut from the picture at the place that their name ends in."""
        numbers = random.Random(count)
        rows, folder = [], self.dir / name
        for index in range(count):
            x0, y0 = numbers.randrange(WIDTH - TILE + 1), numbers.randrange(HEIGHT - TILE + 1)
            clip = f"01-02-2020_{index:04}_{x0}_{y0}"
            (folder / clip).mkdir(parents=True)
            for frame in (1, 2):
                lines = [bytes(numbers.randrange(256) for _ in range(TILE)) for _ in range(TILE)]
                (folder / clip / f"img_{frame:05}.png").write_bytes(png(TILE, TILE, lines, 0))
            present = index % 3 != 2
            place = f"{numbers.randrange(4 * TILE) / 4},{numbers.randrange(4 * TILE) / 4}" if present or target == "x,y" else ","
            rows.append(f"{clip},{int(present)},{place}")
        table = self.dir / f"{name}.csv"
        table.write_text("\n".join(["path,presence,x,y", *rows]) + "\n")
        self.assert_exit(self.run_trainer(["pack", "clips", "--csv", table, "--dir", folder, "--frames", 2, "--target", target,
                                           *more, "-o", self.dir / f"{name}.h5"]), 0)
        return self.dir / f"{name}.h5"

    def train(self, data, recipe, *more, ranks=1, code=0):
        command = [f"data.train={data}", f"data.val={data}", f"run.dir={self.dir / 'run'}", *self.grid, *recipe, *more]
        result = self.mpirun(ranks, command) if ranks > 1 else self.run_trainer(command)
        self.assert_exit(result, code)
        return result

    def predictions(self, *more):
        file = self.dir / "out.csv"
        self.assert_exit(self.mpirun(3, ["predict", "--run", self.dir / "run", "-o", file, *more]), 0)
        with file.open(encoding="utf-8", newline="") as text:
            return list(csv.DictReader(text))

    def evaluated(self, ranks, *more):
        result = self.mpirun(ranks, ["eval", "--run", self.dir / "run", "--json", *more])
        self.assert_exit(result, 0)
        return json.loads(result.stdout.splitlines()[-1])

    def assert_kilometres(self, row, known):
        """row: of eval or metrics.jsonl; known: [kilometres]."""
        self.assertEqual(row["km_samples"], len(known))
        self.assertAlmostEqual(row["km"], sum(known) / len(known), delta=0.02)
        self.assertAlmostEqual(row["median_km"], statistics.median(known), delta=0.05)
        for radius in RADII:
            self.assertAlmostEqual(row["within_km"][str(radius)], sum(km <= radius for km in known) / len(known), delta=1e-9)

    def test_places_of_tiles_are_off_by_as_many_kilometres_on_any_number_of_ranks(self):
        data = self.tiles("clips", 22, "--placements", "name")
        self.assertIn("where each sample lies in a picture", self.run_trainer(["inspect", data]).stdout)
        said = self.train(data, REGRESSION, ranks=2).stderr
        self.assertRegex(said, r"validation loss .*distance [0-9.]+, [0-9.]+ km")
        table = self.predictions()
        self.assertEqual(list(table[0]), ["index", "path", "target_x", "target_y", "output_x", "output_y", "latitude", "longitude",
                                          "error_km"])
        known, distances = [], []
        for row in table:
            x0, y0 = (int(part) for part in row["path"].split("_")[-2:])

            def on_earth(kind):
                x, y = x0 + float(row[f"{kind}_x"]), y0 + float(row[f"{kind}_y"])
                # Outside of the picture the nearest place on its border.
                return position(min(max(x, 0), WIDTH - 1), min(max(y, 0), HEIGHT - 1))
            latitude, longitude = on_earth("output")
            self.assertAlmostEqual(float(row["latitude"]), latitude, delta=1e-3)
            self.assertAlmostEqual(float(row["longitude"]), (longitude + 180) % 360 - 180, delta=1e-3)
            known.append(kilometres((latitude, longitude), on_earth("target")))
            self.assertAlmostEqual(float(row["error_km"]), known[-1], delta=0.1)
            distances.append(math.hypot(*(float(row[f"output_{name}"]) - float(row[f"target_{name}"]) for name in "xy")))
        known = [float(row["error_km"]) for row in table]
        one, three = self.evaluated(1), self.evaluated(3)
        for row in (one, three):
            self.assert_kilometres(row, known)
            self.assertAlmostEqual(row["median_distance"], statistics.median(distances), delta=1e-4)
            self.assertAlmostEqual(row["distance"], statistics.mean(distances), delta=1e-4)
        evals = [json.loads(line) for line in (self.dir / "run/metrics.jsonl").read_text().splitlines() if '"eval"' in line]
        self.assert_kilometres(evals[-1], known)
        self.assertLess(evals[-1]["km"], evals[0]["km"])
        text = self.run_trainer(["eval", "--run", self.dir / "run"]).stdout
        self.assertRegex(text, rf"{one['km']:.1f} km on average over 22, median [0-9.]+, [0-9.]+ within 25, ")
        # HDF5 has the same, in full.
        self.assert_exit(self.run_trainer(["predict", "--run", self.dir / "run", "-o", self.dir / "out.h5"]), 0)
        self.assertRegex(self.run_trainer(["inspect", self.dir / "out.h5"]).stdout, r"earth +f64 +\[22, 3\]")
        # Without what is known of them.
        bare = self.dir / "bare.h5"
        self.assert_exit(self.run_trainer(["pack", "clips", "--csv", self.dir / "clips.csv", "--dir", self.dir / "clips", "--frames", 2,
                                           "--no-labels", "--placements", "name", "-o", bare]), 0)
        told = self.predictions("--data", bare)
        self.assertEqual(list(told[0])[-2:], ["latitude", "longitude"])
        self.assertEqual([row["latitude"] for row in told], [row["latitude"] for row in table])
        # And without a grid.
        plain = self.evaluated(2, "data.latitudes=null", "data.longitudes=null")
        self.assertNotIn("km", plain)
        self.assertEqual(plain["distance"], self.evaluated(2)["distance"])

    def test_a_locator_knows_kilometres_of_what_is_there(self):
        data = self.tiles("clips", 18, "--placements", "name", "--fill-targets", 0, target="presence,x,y")
        self.train(data, LOCATOR)
        table = self.predictions()
        self.assertEqual(list(table[0])[-3:], ["latitude", "longitude", "error_km"])
        known = [float(row["error_km"]) for row in table if row["target_presence"] == "1"]
        self.assertEqual(len(known), 12)
        for row in table:
            self.assertEqual(row["error_km"] == "nan", row["target_presence"] == "0")
        row = self.evaluated(2)
        self.assert_kilometres(row, known)
        distances = [math.hypot(*(float(row[f"output_{name}"]) - float(row[f"target_{name}"]) for name in "xy")) for row in table
                     if row["target_presence"] == "1"]
        self.assertAlmostEqual(row["median_distance"], statistics.median(distances), delta=1e-9)
        self.assertRegex(self.run_trainer(["eval", "--run", self.dir / "run"]).stdout, r"over 12 present, median [0-9.]+, ")

    def test_what_does_not_fit_is_refused(self):
        bare = self.tiles("bare", 12)
        placed = self.dir / "placed.h5"
        pack = ["pack", "clips", "--csv", self.dir / "bare.csv", "--dir", self.dir / "bare", "--frames", 2]
        self.assert_exit(self.run_trainer([*pack, "--target", "x,y", "--placements", "name", "-o", placed]), 0)
        classes = self.dir / "classes.h5"
        self.assert_exit(self.run_trainer([*pack, "--label", "presence", "-o", classes]), 0)
        short = self.dir / "short.npy"
        short.write_bytes((self.dir / "latitudes.npy").read_bytes()[:500])
        for data, settings, code, said in (
                (bare, [], 4, "does not say where its samples of 32 x 32 pixels lie in the picture of 40 x 60"),
                (classes, [], 2, "data.latitudes is for models that tell a place, but this one says classes"),
                (placed, ["data.longitudes=null"], 2, "data.latitudes is given without data.longitudes; give both, or none"),
                (placed, ["data.latitudes=null", "data.longitudes=null"], 2,
                 "train.checkpoint.best is val/km, but data.latitudes and data.longitudes are not set"),
                (placed, [f"data.latitudes={short}"], 4, "it is cut off"),
                (placed, [f"data.latitudes={self.dir / 'none.npy'}"], 4, "none.npy: No such file or directory"),
                (placed, [f"data.latitudes={placed}"], 4, "it is no .npy file")):
            recipe = [word for word in REGRESSION if "best" not in word or data is placed]
            result = self.train(data, recipe, *settings, ranks=2, code=code)
            self.assertIn(said, result.stderr)
            self.assertFalse((self.dir / "run").exists())
        for options, said in ((["--placements", "x"], "--placements x is neither image, name nor two columns"),
                              (["--placements", "x,z"], "has no column z"),
                              (["--placements", "x,presence,y"], "is neither image, name nor two columns")):
            result = self.run_trainer([*pack, "--target", "x,y", *options, "-o", self.dir / "no.h5"])
            self.assert_exit(result, 2)
            self.assertIn(said, result.stderr)
            self.assertFalse((self.dir / "no.h5").exists())
        self.assertIn("names columns, but there is no table", self.run_trainer(
            ["pack", "clips", "--dir", self.dir, "--placements", "x,y", "-o", self.dir / "no.h5"]).stderr)

    def test_another_grid_forgets_what_was_best_by_kilometres(self):
        data = self.tiles("clips", 12, "--placements", "name")
        self.train(data, REGRESSION)
        (self.dir / "other.npy").write_bytes(npy([[position(x, y)[0] / 2 for x in range(WIDTH)] for y in range(HEIGHT)]))
        again = self.train(data, REGRESSION, "train.epochs=5", f"data.latitudes={self.dir / 'other.npy'}")
        self.assertIn("data.latitudes", again.stdout + again.stderr)
        kept = json.loads(self.run_trainer(["eval", "--run", self.dir / "run", "--best", "--json"]).stdout)
        self.assertIn("step-00000010", kept["weights"])


if __name__ == "__main__":
    system_test.main()
