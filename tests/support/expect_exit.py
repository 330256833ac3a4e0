#!/usr/bin/env python3
"""Runs a command that has to fail in a certain way: expect_exit.py CODE SECONDS TEXT COMMAND...

Passes when COMMAND ends within SECONDS with exit code CODE and its output contains TEXT."""

import os
import signal
import subprocess
import sys

code, seconds, text, command = int(sys.argv[1]), float(sys.argv[2]), sys.argv[3], sys.argv[4:]
# A session of its own, so that a launcher that hangs can be ended with all that it started.
process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                           errors="replace", start_new_session=True)
try:
    output, _ = process.communicate(timeout=seconds)
except subprocess.TimeoutExpired:
    os.killpg(process.pid, signal.SIGTERM)
    try:
        output, _ = process.communicate(timeout=5)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        output, _ = process.communicate()
    sys.exit(f"still running after {seconds} s; its output:\n{output}")
if process.returncode != code:
    sys.exit(f"exit code {process.returncode}, expected {code}; its output:\n{output}")
if text not in output:
    sys.exit(f"{text!r} is not in its output:\n{output}")
