"""Tests of a Python program on several ranks, under each mpirun that is found: same bits as the program in one process, the
same values on all ranks, and one message for an error. Run by tests/python/run like test_trireme."""

import os
import shutil
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

import trireme
from test_trireme import TINY, numpy, program

LAUNCHERS = [path for path in map(shutil.which, ("mpirun.openmpi", "mpiexec.mpich")) if path] or [path for path in [shutil.which("mpirun")] if path]
SETTINGS = {
    **TINY,
    "model": {**TINY["model"], "num_layers": 2},
    "train": {**TINY["train"], "micro_batch_size": 2, "global_batch_size": 4},
    "parallel": {"numerics": "exact", "exact_block": 16, "exact_leaves": 2},
}
LAYOUTS = ("parallel.zero=2", "parallel.pp=2", "parallel.tp=2")

LOOP = """
import sys, trireme
with trireme.Trainer(sys.argv[1], sys.argv[2:], log=False) as trainer:
    job = trainer.job
    for step in trainer:
        assert job.gather(step.loss) == [step.loss] * 2, "the ranks have different losses"
        if step.step % 3 == 0:
            loss = trainer.evaluate()
            assert job.gather(loss) == [loss] * 2, "the ranks have different evaluations"
    assert job.sum([1.0, job.rank]) == [2.0, 1.0]
    trainer.save()
"""
WHOLE = "import sys, trireme; trireme.Trainer(sys.argv[1], sys.argv[2:], log=False).run()"
OWN_DATA = """
import os, sys, trireme
sys.path.insert(0, os.environ["TESTS"])
from test_trireme import Counting
trainer = trireme.Trainer(sys.argv[1], sys.argv[2:], train_data=Counting(), valid_data=Counting(), log=False)
trainer.run()
"""
FAILS = """
import sys, trireme
with trireme.Trainer(sys.argv[1], sys.argv[2:], log=False) as trainer:
    for step in trainer:
        if step.step == 2 and trainer.job.rank == 1:
            raise ZeroDivisionError("an error of the program's own")
"""


@unittest.skipUnless(LAUNCHERS, "no mpirun was found")
class Ranks(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.scratch = tempfile.TemporaryDirectory()
        cls.folder = Path(cls.scratch.name)
        (cls.folder / "text.txt").write_text("".join(f"{i} and {i + 1} are {2 * i + 1}.\n\n" for i in range(400)))
        program("tokenizer", "train", "--input", cls.folder / "text.txt", "--vocab-size", 300, "--output", cls.folder / "tokenizer")
        files = {"vocab_file": str(cls.folder / "tokenizer/vocab.json"), "merge_file": str(cls.folder / "tokenizer/merges.txt")}
        program(
            *("preprocess", "--input", cls.folder / "text.txt", "--documents", "paragraph", "--append-eod", "--tokenizer-type", "gpt2"),
            *("--vocab-file", files["vocab_file"], "--merge-file", files["merge_file"], "--output-prefix", cls.folder / "text"),
        )
        cls.config = cls.folder / "run.toml"
        settings = {**SETTINGS, "data": {"path": [str(cls.folder / "text_text_document")], "tokenizer": "gpt2", **files}}
        cls.config.write_text(trireme.Config(settings).to_toml())
        program("train", cls.config, f"run.dir={cls.folder / 'program'}")

    @classmethod
    def tearDownClass(cls):
        cls.scratch.cleanup()

    def start(self, launcher, code, *words, config=None):
        """Runs Python code on two ranks and returns the finished process."""
        env = {**os.environ, "TRIREME_THREADS": "1", "TESTS": str(Path(__file__).parent), "OMPI_ALLOW_RUN_AS_ROOT": "1",
               "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1", "OMPI_MCA_rmaps_base_oversubscribe": "1", "OMPI_MCA_mpi_yield_when_idle": "1",
               "OMPI_MCA_hwloc_base_binding_policy": "none"}
        command = [launcher, "-n", "2", sys.executable, "-c", code, str(config or self.config), *words]
        return subprocess.run(command, env=env, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL, encoding="utf-8",
                              errors="replace", timeout=300)

    def each(self, *layouts):
        """Returns each launcher with each layout, and a folder for a run."""
        return [(launcher, layout, self.folder / f"{self.id()}-{Path(launcher).name}-{layout}") for launcher in LAUNCHERS for layout in layouts]

    def expect_bits_of_the_program(self, run):
        losses = [[line for line in (folder / "metrics.jsonl").read_text().splitlines() if '"loss"' in line] for folder in (run, self.folder / "program")]
        self.assertEqual(losses[0], losses[1])
        if numpy:
            mine, its = trireme.Checkpoint(run), trireme.Checkpoint(self.folder / "program")
            self.assertEqual((mine.step, mine.names()), (6, its.names()))
            for name in mine:
                self.assertTrue((mine[name] == its[name]).all(), name)

    def test_a_loop_has_the_bits_of_the_program(self):
        for launcher, layout, run in self.each(*LAYOUTS):
            ended = self.start(launcher, LOOP, layout, f"run.dir={run}")
            self.assertEqual(ended.returncode, 0, ended.stdout)
            self.expect_bits_of_the_program(run)

    def test_a_whole_run_writes_the_bytes_of_the_program_and_either_resumes_the_other(self):
        for launcher, layout, run in self.each("parallel.zero=2"):
            words = (layout, f"run.dir={run}", "train.exit_interval=2")
            for _ in range(2):
                self.assertEqual(self.start(launcher, WHOLE, *words).returncode, 0)
            program("train", self.config, f"run.dir={run}")
            self.expect_bits_of_the_program(run)
            self.assertEqual((run / "metrics.jsonl").read_bytes(), (self.folder / "program/metrics.jsonl").read_bytes())

    def test_data_of_a_program_is_divided(self):
        config = self.folder / "own.toml"
        config.write_text(trireme.Config({**SETTINGS, "model": {**SETTINGS["model"], "vocab_size": 32}}).to_toml())
        one = self.folder / "own-one"
        alone = {**os.environ, "TESTS": str(Path(__file__).parent)}
        subprocess.run([sys.executable, "-c", OWN_DATA, str(config), f"run.dir={one}"], env=alone, check=True)
        for launcher, layout, run in self.each("parallel.zero=2"):
            ended = self.start(launcher, OWN_DATA, layout, f"run.dir={run}", config=config)
            self.assertEqual(ended.returncode, 0, ended.stdout)
            self.assertEqual((run / "metrics.jsonl").read_bytes(), (one / "metrics.jsonl").read_bytes())

    def test_an_error_on_one_rank_ends_all_with_one_message(self):
        for launcher, layout, run in self.each("parallel.zero=2"):
            ended = self.start(launcher, FAILS, layout, f"run.dir={run}")
            self.assertEqual(ended.returncode, 1, ended.stdout)
            self.assertEqual(ended.stdout.count("ZeroDivisionError: an error of the program's own"), 1, ended.stdout)
            self.assertRegex(ended.stdout, r'trireme: rank 1 \(.*\): ZeroDivisionError: .*\n(.*\n)*  File "<string>", line 6, in <module>')

    def test_wrong_input_ends_all_with_the_sentence_of_the_program(self):
        for launcher, layout, run in self.each("parallel.tp=3"):
            ended = self.start(launcher, LOOP, layout, f"run.dir={run}")
            self.assertEqual(ended.returncode, 2, ended.stdout)
            self.assertEqual(ended.stdout.count("trireme.InputError: parallel.tp = 3 does not divide the 2 ranks"), 1, ended.stdout)
