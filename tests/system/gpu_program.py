"""The program itself with the CUDA module on tests/support/fake_gpu beside it: training on GPUs that are not there."""

import os

from recipes import TrainingTest

BATCH = 12  # of all ranks
MODELS = {
    "mlp": ["model.name=mlp", "model.hidden=[16]"],
    "lenet": ["model.name=lenet"],
    "batch_norm": ["model.name=null", "model.layers=[{conv2d: {out: 4, kernel: 3}}, {batch_norm2d: {}}, {relu: {}}, {flatten: {}},"
                   " {linear: {out: 4}}]"],
}


class GpuProgramTest(TrainingTest):
    def setUp(self):
        super().setUp()
        # The program looks for its module where it is itself, and a link is another place.
        folder = self.dir / "program"
        folder.mkdir()
        program = folder / "trainer"
        try:
            os.link(self.trainer, program)
        except OSError:  # another file system
            program.write_bytes(self.trainer.read_bytes())
            program.chmod(0o755)
        self.trainer = program
        (folder / "libtutti_cuda.so").symlink_to(os.environ["TUTTI_FAKE_MODULE"])
        (folder / "libcuda.so.1").symlink_to(os.environ["TUTTI_FAKE_DRIVER"])
        # What the loader finds first, and cannot open.
        (folder / "libnccl.so.2").write_text("not a library")
        self.libraries = {"LD_LIBRARY_PATH": str(folder)}
        self.data = self.small_data(96)

    def start_on(self, device, ranks, name, model="mlp", gpus=1, **settings):
        """Three steps; a Job."""
        given = {"device": device, "train.batch_size": BATCH // ranks, "train.max_steps": 3, "train.log_every": 1,
                 "optim.lr": 0.1, "data.train": self.data, "run.dir": self.dir / name}
        given.update({key.replace("__", "."): value for key, value in settings.items()})
        return self.start_mpirun(ranks, MODELS[model] + [f"{key}={value}" for key, value in given.items()],
                                 env={**self.libraries, "TUTTI_FAKE_GPUS": str(gpus)})

    def run_on(self, *arguments, **settings):
        """The same; a Result."""
        with self.start_on(*arguments, **settings) as job:
            return job.wait()

    def with_nccl(self):
        if "TUTTI_FAKE_NCCL" not in os.environ:
            self.skipTest("built without NCCL's header")
        library = self.dir / "program/libnccl.so.2"
        library.unlink()
        library.symlink_to(os.environ["TUTTI_FAKE_NCCL"])
