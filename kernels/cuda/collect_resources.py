"""Puts the resource tables of all kernels (compile_kernel.py) into one: collect_resources.py OUTPUT TABLE..."""

import pathlib
import sys

HEAD = ("source", "arch", "registers", "shared", "spill_stores", "spill_loads", "kernel")


def main(output, tables):
    rows = [HEAD]
    for table in tables:
        for line in pathlib.Path(table).read_text(encoding="utf-8").splitlines():
            rows.append(tuple(line.split(" ", len(HEAD) - 1)))
    widths = [max(len(row[column]) for row in rows) for column in range(len(HEAD) - 1)]
    with open(output, "w", encoding="utf-8") as file:
        for row in rows:
            cells = [cell.ljust(width) for cell, width in zip(row, widths)]
            print("  ".join(cells + [row[-1]]), file=file)


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2:])
