"""How far the first two cores were from each other during a measurement, and what was measured near and far alone.

On a virtual machine the host moves the virtual processors: for seconds to minutes two of them have an L3 cache in
common, or have not, and what two threads or ranks reach depends on it. bench_core_distance (core_distance.cpp) is asked
before and after each measurement; where the two answers differ in kind, the measurement is of neither.
"""

import statistics
import subprocess

# Nanoseconds of a round trip; between the two states of an AMD EPYC's virtual cores, 90 and 450.
FAR = 250


def now(program):
    """The round trip in nanoseconds; None without the program, or where it fails."""
    try:
        said = subprocess.run([program], stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=20, check=True)
        return float(said.stdout)
    except (OSError, ValueError, subprocess.SubprocessError):
        return None


def kind(*nanoseconds):
    """near or far, if all these round trips are; else None."""
    if not nanoseconds or None in nanoseconds:
        return None
    kinds = {"far" if one >= FAR else "near" for one in nanoseconds}
    return kinds.pop() if len(kinds) == 1 else None


def cell(sides):
    """The range of all round trips and each side's median. sides: name -> [(before, after) of each round]."""
    known = {name: [one for pair in pairs for one in pair if one is not None] for name, pairs in sides.items()}
    known = {name: ones for name, ones in known.items() if ones}
    if not known:
        return "–"
    every = [one for ones in known.values() for one in ones]
    return (f"{min(every):.0f} to {max(every):.0f} (" +
            ", ".join(f"{name} {statistics.median(ones):.0f}" for name, ones in known.items()) + ")")


def apart(ratios, kinds):
    """'near 1.84 (2 rounds), far 1.58 (1 round)': medians of the rounds of a kind, and how many were of none."""
    parts = []
    for which in ("near", "far", None):
        ones = [ratio for ratio, this in zip(ratios, kinds) if this == which]
        rounds = f"{len(ones)} round{'s' * (len(ones) != 1)}"
        if ones:
            parts.append(f"{which} {statistics.median(ones):.2f} ({rounds})" if which else f"{rounds} of neither")
    return ", ".join(parts)
