"""Features of the seconds of videos, in which segments can be found."""

import json
import random
import struct


def npy(rows, kind="f", version=1):
    """A .npy file by the specification of its format; kind: of struct, f is 32 bits and e 16."""
    header = f"{{'descr': '<f{struct.calcsize(kind)}', 'fortran_order': False, 'shape': ({len(rows)}, {len(rows[0])}), }}"
    before = 10 if version == 1 else 12
    header += " " * (63 - (before + len(header)) % 64) + "\n"
    return (b"\x93NUMPY" + bytes((version, 0)) + struct.pack("<H" if version == 1 else "<I", len(header)) + header.encode() +
            b"".join(struct.pack(f"<{len(row)}{kind}", *row) for row in rows))


FOLDERS = ("picture", "sound", "text")


def write_videos(folder, count, seed=3):
    """Videos of 40 to 70 seconds, with a segment of 10 to 25 seconds that is bright and loud in each but the last: list.json
    and FOLDERS, of 2, 2 and 1 features. The list."""
    numbers = random.Random(seed)
    parts = []
    for name in FOLDERS:
        (folder / name).mkdir(exist_ok=True)
    for index in range(count):
        seconds = numbers.randrange(40, 71)
        begin = numbers.randrange(0, seconds - 25)
        segments = [[begin, begin + numbers.randrange(10, 26)]] if index + 1 < count else []
        inside = [any(low <= t < high for low, high in segments) for t in range(seconds)]
        rows = {"picture": [[2 * one + numbers.uniform(-0.5, 0.5), numbers.uniform(-1, 1)] for one in inside],
                "sound": [[numbers.uniform(-1, 1), 2 * one + numbers.uniform(-0.5, 0.5)] for one in inside],
                "text": [[numbers.uniform(-1, 1)] for _ in inside]}
        for name, values in rows.items():
            (folder / name / f"v{index}.npy").write_bytes(npy(values))
        parts.append({"youtube_id": f"v{index}", "timeRange": [0, seconds], "segments": segments})
    (folder / "list.json").write_text(json.dumps(parts))
    return parts


def packing(folder, target, *more):
    """The words of a command that packs them."""
    return ["pack", "features", "--sequences", "--labels", folder / "list.json", "--features",
            ",".join(str(folder / name) for name in FOLDERS), "-o", target, *more]
