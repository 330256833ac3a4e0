"""Where a machine has CUDA's libraries that the CUDA module of a program or a bundle wants."""

import glob
import os
import pathlib
import re
import shutil
import subprocess
import sys

# Opened by name when they are wanted, beside those that the module links: NCCL, and the compiler of cuDNN's engines.
OPENED = ("libnccl.so.2", "libnvrtc.so.")
SYSTEM = ("/lib/x86_64-linux-gnu", "/usr/lib/x86_64-linux-gnu", "/usr/lib64", "/lib64")


def module_of(trainer):
    """libtutti_cuda.so of a build or of a bundle, whose bin/trainer starts libexec/trainer; or None."""
    for folder in (trainer.parent, trainer.parent.parent / "libexec"):
        if (folder / "libtutti_cuda.so").exists():
            return folder / "libtutti_cuda.so"
    return None


def wanted_by(module):
    """Names of CUDA's libraries among the file's needed ones: "libcudnn.so.9". Read from its bytes, as no tool may be there."""
    text = module.read_bytes() if module else b""
    return sorted(name.decode() for name in set(re.findall(rb"lib(?:cublasLt|cudnn)\.so\.\d+", text)))


def folders(python=None):
    """Where they may be, the most particular first."""
    found = []
    for name in ("TUTTI_CUDA_LIBRARIES", "LD_LIBRARY_PATH"):
        found += os.environ.get(name, "").split(":")
    # Wheels of NVIDIA's, as those that PyTorch brings.
    asked = [program for program in dict.fromkeys((str(python or ""), sys.executable, shutil.which("python3") or "")) if program]
    for program in asked:
        said = subprocess.run([program, "-c", "import sys; print('\\n'.join(sys.path))"], capture_output=True, text=True,
                              timeout=60, check=False).stdout
        for folder in said.split("\n"):
            if folder:
                found += sorted(glob.glob(f"{folder}/nvidia/*/lib"), reverse=True)
    found += sorted(glob.glob("/usr/local/cuda*/lib64") + glob.glob("/usr/local/cuda*/targets/x86_64-linux/lib"), reverse=True)
    found += sorted(glob.glob("/opt/conda/lib") + glob.glob("/opt/nvidia/*/lib*"))
    return [folder for folder in dict.fromkeys([*found, *SYSTEM]) if folder and os.path.isdir(folder)]


def find(trainer, python=None):
    """{name: file or None} of what the program wants, and the environment in which it finds them."""
    places, files = folders(python), {}
    for name in (*wanted_by(module_of(trainer)), *OPENED):
        candidates = [path for folder in places for path in sorted(glob.glob(f"{folder}/{name}*"), reverse=True)]
        files[name.rstrip(".")] = candidates[0] if candidates else None
    own = [str(pathlib.Path(path).parent) for path in files.values() if path]
    paths = [folder for folder in dict.fromkeys(own) if folder not in SYSTEM]
    inherited = [os.environ["LD_LIBRARY_PATH"]] if os.environ.get("LD_LIBRARY_PATH") else []
    return files, {"TUTTI_CUDA_LIBRARIES": ":".join(paths), "LD_LIBRARY_PATH": ":".join(paths + inherited)}
