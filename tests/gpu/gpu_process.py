"""Processes of jobs/gpu_check.sh: none outlives its time, and what it said until then is kept."""

import concurrent.futures
import contextlib
import os
import pathlib
import re
import signal
import subprocess
import sys
import tempfile
import time


OUT_OF_TIME = "--minutes are over"
REAPED_WITHIN = 5  # seconds after it was killed
ENOUGH = 1  # second, to start anything


# What the program says where it does something else than the fastest: cuBLASLt or cuDNN refused, no graph; and what
# run.autotune has found.
NOTICE = re.compile(r"kernels? of (?:its|their) own|no fused |no CUDA graph|engines .*measured")
CLEAR_LINE = re.compile(r"\x1b\[2K")  # before each on a terminal


def notices(*texts):
    """The lines about that, each once."""
    lines = (line for text in texts for line in text.splitlines() if NOTICE.search(line))
    return list(dict.fromkeys(CLEAR_LINE.sub("", line).strip()[:400] for line in lines))


class Skipped(Exception):
    """Why a stage says nothing here."""


class Failed(Exception):
    """What went wrong in a stage."""


class OutOfTime(Exception):
    """The time of the whole check is over."""


@contextlib.contextmanager
def judged_by(verdict):
    """Pieces of a stage: `verdict` raises Failed for what they found, also where the time ends before the last one."""
    try:
        yield
    except OutOfTime:
        try:
            verdict()
        except Failed as failure:
            raise Failed(f"{OUT_OF_TIME}; {failure}") from None
        raise
    verdict()


class Ended:
    def __init__(self, returncode, stdout, stderr, late):
        self.returncode, self.stdout, self.stderr, self.late = returncode, stdout, stderr, late


def end_session(leader):
    """All that a process with a session of its own has started. Not by its group: mpirun gives each rank another one."""
    for stat in pathlib.Path("/proc").glob("[0-9]*/stat"):
        try:
            # After the name, which may hold anything: state, parent, group, session (proc(5)).
            fields = stat.read_text().rpartition(")")[2].split()
            if int(fields[3]) == leader:
                os.kill(int(stat.parent.name), signal.SIGKILL)
        except (OSError, ValueError):
            pass  # gone meanwhile


def reap(process):
    try:
        process.wait(REAPED_WITHIN)
    except subprocess.TimeoutExpired:
        return False
    return True


class Processes:
    """Starts them until `minutes` are over (None: no end). Threads may, at the same time."""

    def __init__(self, minutes=None):
        self.end = None if minutes is None else time.monotonic() + 60 * minutes
        self.environment = {}  # what all of them get beside ours
        self.running = set()  # leaders of their sessions

    def left(self):
        return float("inf") if self.end is None else self.end - time.monotonic()

    def stop(self):
        """Ends those that run, and starts no other: for a thread that is left by an error while others wait for theirs."""
        self.end = time.monotonic()
        for leader in list(self.running):
            end_session(leader)

    def each(self, pieces, work, keep, jobs):
        """work(piece) of all, `jobs` at a time in threads of their own, and here, as they end, keep(piece, what it gave).
        OutOfTime when the time was over for one."""
        late = False
        with concurrent.futures.ThreadPoolExecutor(jobs) as pool:
            try:
                begun = {pool.submit(work, piece): piece for piece in pieces}
                for future in concurrent.futures.as_completed(begun):
                    try:
                        found = future.result()
                    except OutOfTime:
                        late = True
                        continue
                    keep(begun[future], found)
            except BaseException as problem:
                if not isinstance(problem, Exception):
                    self.stop()  # the whole check is to end
                pool.shutdown(cancel_futures=True)
                raise
        if late:
            raise OutOfTime

    def wait(self, process, seconds):
        """Until it has ended, or the time is over."""
        try:
            process.wait(seconds)
        except subprocess.TimeoutExpired:
            pass

    def run(self, command, seconds=600, env=None):
        """Runs it for at most `seconds`, and returns an Ended whose returncode is None where it did not end. With all
        that it started: those of mpirun would keep its pipes, and the GPU."""
        limit = min(seconds, self.left())
        if limit <= ENOUGH:
            raise OutOfTime
        with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as errors:
            # Files: a pipe that a grandchild holds would be waited for.
            # Not in a `with`, whose end waits: what a driver holds does not end when it is killed.
            process = subprocess.Popen([str(word) for word in command], stdin=subprocess.DEVNULL, stdout=out, stderr=errors,
                                       env={**os.environ, **self.environment, **(env or {})}, start_new_session=True)
            self.running.add(process.pid)
            try:
                self.wait(process, limit)
            finally:
                self.running.discard(process.pid)
                returncode = process.poll()
                end_session(process.pid)
                survived = not reap(process)
            texts = []
            for file in (out, errors):
                file.seek(0)
                texts.append(file.read().decode(errors="replace"))
        if survived:
            texts[1] += f"\n{pathlib.Path(str(command[0])).name} has not ended {REAPED_WITHIN} s after SIGKILL: stuck in a driver?"
            print(f"gpu_check:{texts[1].rpartition(chr(10))[2]}", file=sys.stderr, flush=True)
        return Ended(returncode, *texts, late=returncode is None and (limit < seconds or self.left() <= 0))

    def check(self, command, seconds=600, env=None, ok=(0,)):
        """The same; Failed when it ends otherwise than expected."""
        done = self.run(command, seconds, env)
        name = pathlib.Path(str(command[0])).name
        if done.returncode is None:
            if done.late:
                raise OutOfTime
            raise Failed(f"{name} did not end within {seconds} s: {(done.stdout + done.stderr)[-2000:]}")
        if done.returncode not in ok:
            raise Failed(f"{name} ended with {done.returncode}: {(done.stdout + done.stderr)[-3000:]}")
        return done
