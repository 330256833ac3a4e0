"""Every kernel is in the build's table of registers and spills, and none spills. Prints TAP.

    kernel_resources.py TABLE ARCHITECTURES KERNEL...
"""

import pathlib
import sys


def main(table, architectures, kernels):
    head, *rows = [line.split(maxsplit=6) for line in pathlib.Path(table).read_text(encoding="utf-8").splitlines()]
    rows = [dict(zip(head, row)) for row in rows]
    print(f"1..{len(kernels)}")
    good = True
    for number, kernel in enumerate(kernels, 1):
        mine = [row for row in rows if row["source"] == kernel]
        found = {row["arch"].removeprefix("sm_") for row in mine}
        missing = sorted(set(architectures.split(",")) - found)
        spilling = [row["kernel"] for row in mine if row["spill_stores"] != "0" or row["spill_loads"] != "0"]
        most = max((int(row["registers"]) for row in mine), default=0)
        fine = not missing and not spilling and 0 < most <= 255
        good = good and fine
        print(f"{'ok' if fine else 'not ok'} {number} - {kernel}: {len(mine)} kernels, at most {most} registers")
        if missing:
            print(f"# no code for {', '.join(missing)}")
        for name in spilling:
            print(f"# spills: {name}")
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], sys.argv[2], sys.argv[3:]))
