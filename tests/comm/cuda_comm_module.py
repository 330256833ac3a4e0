"""The module's streams and copies for communication: there with a GPU, and without one the reason. Prints TAP.

    cuda_comm_module.py MODULE
"""

import ctypes
import re
import sys


def main(module):
    library = ctypes.CDLL(module)
    library.tutti_cuda_device_count.restype = ctypes.c_int
    gpus = library.tutti_cuda_device_count()
    names = ("tutti_cuda_make_side_stream", "tutti_cuda_make_staging")
    library.tutti_cuda_visible_gpus.restype = ctypes.c_char_p
    uuids = [line for line in library.tutti_cuda_visible_gpus().decode().split("\n") if line]
    shown = len(uuids) == gpus and all(re.fullmatch("GPU(-[0-9a-f]+){5}", uuid) for uuid in uuids)
    print(f"1..{len(names) + 1}\n{'ok' if shown else 'not ok'} 1 - one UUID per GPU")
    failed = not shown
    for number, name in enumerate(names, 2):
        make = getattr(library, name)
        make.restype = ctypes.c_void_p
        problem = ctypes.c_char_p()
        made = make(None, ctypes.byref(problem))
        reason = (problem.value or b"").decode()
        good = bool(made) and not reason if gpus > 0 else not made and "cuda" in reason and "nvidia-smi" in reason
        failed |= not good
        print(f"{'ok' if good else 'not ok'} {number} - {name}: {reason or 'made'}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
