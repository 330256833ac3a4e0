"""The ranks of one PyTorch job as processes that a benchmark starts, commands and always ends."""

import json
import os
import pathlib
import selectors
import shutil
import signal
import socket
import subprocess
import tempfile
import time

# What a careful user sets: as many threads as cores, memory kept instead of returned to the system after each step (a
# fresh page costs a fault), denormals aside.
TUNED = {"OMP_PROC_BIND": "false", "KMP_BLOCKTIME": "1",
         "MALLOC_MMAP_THRESHOLD_": str(1 << 30), "MALLOC_TRIM_THRESHOLD_": str(1 << 34), "MALLOC_TOP_PAD_": str(64 << 20),
         "MALLOC_ARENA_MAX": "1"}
JEMALLOC = ("/usr/lib/x86_64-linux-gnu/libjemalloc.so.2", "/usr/lib/aarch64-linux-gnu/libjemalloc.so.2")
JEMALLOC_KEEPS = "background_thread:false,metadata_thp:auto,dirty_decay_ms:-1,muzzy_decay_ms:-1"
_FOREIGN = ("OMP_", "KMP_", "MKL_", "MALLOC_", "OMPI_", "PMIX_", "SLURM_", "TORCH", "LD_PRELOAD")


# MKL, which PyTorch's packages bring, has kernels for processors that say they are Intel's, and asks this function; on
# AMD's its products are 2.3 times as fast with those for AVX-512 (Zen 5, n = 1024), and as fast with those for AVX2 (Zen 3).
MKL_SHIM = "int mkl_serv_intel_cpu_true(void) { return 1; }\n"


class Failed(Exception):
    """What ended a job; short enough for a table."""


def mkl_shim(folder):
    """A library to preload on AMD processors, made in `folder`; None elsewhere or without a C compiler."""
    compiler = shutil.which("cc") or shutil.which("gcc")
    if compiler is None or "AuthenticAMD" not in pathlib.Path("/proc/cpuinfo").read_text(encoding="utf-8"):
        return None
    source, library = folder / "mkl_shim.c", folder / "mkl_shim.so"
    source.write_text(MKL_SHIM, encoding="utf-8")
    subprocess.run([compiler, "-shared", "-fPIC", "-o", library, source], check=True)
    return library


def environment_of(variant, rank, ranks, port, cache, shim=None, threads=1):
    environment = {name: value for name, value in os.environ.items() if not name.startswith(_FOREIGN)}
    if variant != "installed":
        environment |= TUNED | {"OMP_NUM_THREADS": str(threads), "MKL_NUM_THREADS": str(threads)}
        jemalloc = next((path for path in JEMALLOC if os.path.exists(path)), None)
        environment |= {"LD_PRELOAD": ":".join(str(path) for path in (jemalloc, shim) if path),
                        "MALLOC_CONF": JEMALLOC_KEEPS}
    if variant == "compiled":
        # Kernels are shared by the ranks and by later jobs; no pool of compiling processes that would outlive this one.
        environment |= {"TORCHINDUCTOR_CACHE_DIR": str(cache), "TORCHINDUCTOR_COMPILE_THREADS": "1"}
    if ranks > 1:
        # Without an interface gloo looks up the host's name, which a container may not be able to answer.
        environment |= {"RANK": str(rank), "WORLD_SIZE": str(ranks), "LOCAL_RANK": str(rank), "MASTER_ADDR": "127.0.0.1",
                        "MASTER_PORT": str(port), "GLOO_SOCKET_IFNAME": "lo"}
    return environment


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


class TorchRanks:
    """Ranks that wait for commands; each on cores of its own, one a thread. What they say on standard error is kept for messages."""

    def __init__(self, python, script, ranks, variant, cache, arguments, shim=None, threads=1):
        port, cores = free_port(), sorted(os.sched_getaffinity(0))
        self.errors = tempfile.TemporaryFile()
        self.processes = []
        for rank in range(ranks):
            mine = ",".join(str(cores[(rank * threads + i) % len(cores)]) for i in range(threads))
            self.processes.append(subprocess.Popen(
                ["taskset", "-c", mine, python, "-B", str(script), *map(str, arguments)],
                env=environment_of(variant, rank, ranks, port, cache, shim, threads), stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                stderr=self.errors, start_new_session=True, bufsize=0, cwd=pathlib.Path(script).parent))

    def ready(self, seconds):
        """The facts of rank 0, when all have said theirs."""
        return self._answers(seconds)[0]

    def steps(self, count, seconds):
        """Seconds of so many steps, the slowest rank's each."""
        for process in self.processes:
            try:
                process.stdin.write(f"{count}\n".encode())
            except BrokenPipeError:
                raise self._ended() from None
        return [max(times) for times in zip(*self._answers(seconds))]

    def _answers(self, seconds):
        deadline = time.monotonic() + seconds
        lines = {process: b"" for process in self.processes}
        with selectors.DefaultSelector() as selector:
            for process in self.processes:
                selector.register(process.stdout, selectors.EVENT_READ, process)
            while selector.get_map():
                ready = selector.select(max(deadline - time.monotonic(), 0))
                if not ready:
                    raise Failed(f"failed: no answer within {seconds:.0f} s")
                for key, _ in ready:
                    part = os.read(key.fd, 1 << 16)
                    if not part:
                        raise self._ended()
                    lines[key.data] += part
                    if part.endswith(b"\n"):
                        selector.unregister(key.fileobj)
        return [json.loads(lines[process]) for process in self.processes]

    def _ended(self):
        self.errors.seek(0, os.SEEK_END)
        self.errors.seek(max(self.errors.tell() - 4000, 0))
        said = [line for line in self.errors.read().decode(errors="replace").splitlines() if line.strip()]
        return Failed("failed: ended" + (f" ({said[-1].strip()[:120].replace('|', '/')})" if said else ""))

    def end(self):
        """Ends every process of every rank, compilers that they started, too."""
        ending, self.processes = self.processes, []
        for process in ending:
            try:
                os.killpg(process.pid, signal.SIGKILL)
            except ProcessLookupError:
                pass
            process.wait()
            process.stdin.close()
            process.stdout.close()
        self.errors.close()
