"""Tests of the package `trireme` against the program: same bits, same messages. Run by tests/python/run with a build's
library (TRIREME_LIBRARY) and program (TRIREME_PROGRAM)."""

import json
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
import unittest
from pathlib import Path

import trireme

try:
    import numpy
except ImportError:
    numpy = None
needs_numpy = unittest.skipUnless(numpy, "NumPy is not there")

PROGRAM = os.environ["TRIREME_PROGRAM"]
TINY = {
    "run": {"precision": "fp32"},
    "model": {"family": "llama", "num_layers": 1, "hidden_size": 32, "num_heads": 2, "seq_length": 16},
    "train": {"micro_batch_size": 2, "iters": 6, "eval_interval": 3, "eval_iters": 1, "log_interval": 1},
    "optimizer": {"lr": 1e-2},
}


def program(*words, code=0):
    result = subprocess.run([PROGRAM, *map(str, words)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, encoding="utf-8", errors="replace")
    assert result.returncode == code, (words, result.returncode, result.stdout, result.stderr)
    return result.stdout


class Counting:
    """Sample i counts up from 3 i."""

    identity = "counting"

    def __init__(self, broken=-1):
        self.broken = broken

    def __len__(self):
        return 1000

    def __getitem__(self, index):
        if index == self.broken:
            raise KeyError("sample of a program's own")
        return [(3 * index + i) % 32 for i in range(17)]


class Trained(unittest.TestCase):
    """Everything that needs a run: text, a tokenizer, token files and a trained model, created once."""

    @classmethod
    def setUpClass(cls):
        cls.scratch = tempfile.TemporaryDirectory()
        cls.folder = Path(cls.scratch.name)
        text = "".join(f"{i} and {i + 1} are {2 * i + 1}; so it is said in line {i}.\n\n" for i in range(400))
        (cls.folder / "text.txt").write_text(text)
        program("tokenizer", "train", "--input", cls.folder / "text.txt", "--vocab-size", 300, "--output", cls.folder / "tokenizer")
        files = {"vocab_file": cls.folder / "tokenizer/vocab.json", "merge_file": cls.folder / "tokenizer/merges.txt"}
        program(
            *("preprocess", "--input", cls.folder / "text.txt", "--documents", "paragraph", "--append-eod", "--tokenizer-type", "gpt2"),
            *("--vocab-file", files["vocab_file"], "--merge-file", files["merge_file"], "--output-prefix", cls.folder / "text"),
        )
        cls.prefix = cls.folder / "text_text_document"
        cls.settings = {**TINY, "data": {"path": [str(cls.prefix)], "tokenizer": "gpt2", **{key: str(path) for key, path in files.items()}}}
        cls.config = trireme.Config(cls.settings)
        (cls.folder / "run.toml").write_text(cls.config.to_toml())
        program("train", cls.folder / "run.toml", f"run.dir={cls.folder / 'program'}")
        cls.run_dir = str(cls.folder / "program")

    @classmethod
    def tearDownClass(cls):
        cls.scratch.cleanup()

    def losses_of(self, run):
        lines = [json.loads(line) for line in (Path(run) / "metrics.jsonl").read_text().splitlines()]
        return [line["loss"] for line in lines if "loss" in line]

    def test_a_loop_gives_the_bits_of_the_program(self):
        with trireme.Trainer(self.folder / "run.toml", {"run.dir": str(self.folder / "loop")}, log=False) as trainer:
            losses = [step.loss for step in trainer]
            self.assertTrue(trainer.done)
            trainer.log(own=1.5)
            trainer.save()
        self.assertEqual(losses, self.losses_of(self.run_dir))
        self.assertIn('"own":1.5', (self.folder / "loop/metrics.jsonl").read_text().replace(" ", ""))
        with trireme.Checkpoint(self.folder / "loop") as saved:
            self.assertEqual(saved.step, 6)

    def test_a_run_in_two_parts_resumes(self):
        overrides = {"run.dir": str(self.folder / "parts"), "train.exit_interval": 2}
        ends = []
        for _ in range(3):
            with trireme.Trainer(self.config, overrides, log=False) as trainer:
                ends.append(trainer.run().end)
        self.assertEqual(ends, ["stopped", "stopped", "done"])
        self.assertEqual(self.losses_of(self.folder / "parts"), self.losses_of(self.run_dir))

    def test_lines_of_the_log_arrive(self):
        lines = []
        with trireme.Trainer(self.config, {"run.dir": str(self.folder / "log"), "train.iters": 1}, log=lines.append) as trainer:
            trainer.run()
        self.assertTrue(any("done at step 1" in line for line in lines), lines)

    def test_ctrl_c_saves_a_run(self):
        overrides = {"run.dir": str(self.folder / "stopped"), "train.iters": 1000000}
        threading.Thread(target=self._interrupt_when_it_trains, args=(self.folder / "stopped/metrics.jsonl",)).start()
        with self.assertRaises(trireme.Interrupted):
            with trireme.Trainer(self.config, overrides, log=False) as trainer:
                trainer.run()
        self.assertGreater(trireme.Checkpoint(self.folder / "stopped").step, 0)

    def _interrupt_when_it_trains(self, metrics):
        while not metrics.exists() or not metrics.read_text():
            time.sleep(0.01)
        os.kill(os.getpid(), signal.SIGINT)

    def test_tokenizer_as_the_program(self):
        texts = ["1 and 2 are 3", "", "naïve 東京", "line"]
        with trireme.Tokenizer(self.folder / "tokenizer") as tokenizer:
            batch = tokenizer.encode_batch(texts)
            flags = ("--tokenizer-type", "gpt2", "--vocab-file", self.folder / "tokenizer/vocab.json", "--merge-file", self.folder / "tokenizer/merges.txt")
            for text, ids in zip(texts, batch):
                self.assertEqual(ids, json.loads(program("tokenizer", "encode", *flags, "--text", text)))
            self.assertEqual(tokenizer.decode_batch(batch), texts)
            self.assertEqual(tokenizer.encode_batch([]), [])
            with self.assertRaisesRegex(trireme.InputError, "300"):
                tokenizer.decode([300])

    @needs_numpy
    def test_ids_as_arrays(self):
        tokenizer = trireme.Tokenizer(self.folder / "tokenizer")
        ids, places = tokenizer.encode_arrays(["1 and 2", "are 3"])
        self.assertEqual([ids[a:b].tolist() for a, b in zip(places, places[1:])], tokenizer.encode_batch(["1 and 2", "are 3"]))
        self.assertEqual(tokenizer.decode(ids[: places[1]]), "1 and 2")

    @needs_numpy
    def test_token_files_are_mapped(self):
        with trireme.TokenFile(self.prefix) as tokens:
            tokenizer = trireme.Tokenizer(self.run_dir)
            self.assertEqual(len(tokens), 400)
            self.assertEqual(tokens[7].tolist(), tokenizer.encode("7 and 8 are 15; so it is said in line 7.", "document") + [tokenizer.special.eod])
            self.assertEqual(list(tokens.document(7)), [7])
            self.assertFalse(tokens[7].flags.writeable)
            with self.assertRaises(IndexError):
                tokens[400]

    @needs_numpy
    def test_samples_of_a_step(self):
        dataset = trireme.Dataset(self.config)
        batch = dataset.step(1)
        self.assertEqual(batch["tokens"].shape, (2, 16))
        self.assertTrue((batch["tokens"][:, 1:] == batch["targets"][:, :-1]).all())
        self.assertTrue((dataset[0]["tokens"] == batch["tokens"][0]).all())
        with self.assertRaisesRegex(trireme.InputError, "steps 1 to 6"):
            dataset.step(7)

    @needs_numpy
    def test_logits_and_likelihoods_agree(self):
        with trireme.Model(self.run_dir) as model:
            text = "7 and 8 are"
            (found,) = model.log_likelihoods([("7 and 8", " are")])
            ids, given = model.tokenizer.encode(text), len(model.tokenizer.encode("7 and 8"))
            logits = model.logits(text).astype(numpy.float64)
            self.assertEqual(logits.shape, (len(ids), model.vocab_size))
            logs = logits - numpy.log(numpy.exp(logits).sum(1, keepdims=True))
            expected = sum(logs[i - 1, ids[i]] for i in range(given, len(ids)))
            self.assertAlmostEqual(found.log, expected, places=5)
            (ids_of,) = model.log_likelihoods([(ids[:given], ids[given:])])
            self.assertEqual(ids_of, found)

    def test_generation_as_the_program(self):
        expected = program("generate", self.run_dir, "--prompt", "1 and", "--max-new-tokens", 12, "--seed", 5)
        with trireme.Model(self.run_dir) as model:
            self.assertEqual(model.generate("1 and", 12, seed=5) + "\n", expected)
            self.assertEqual(model.generate(["1 and", "1 and"], 12, seed=5)[0] + "\n", expected)
            drawn = []

            def fails_at_the_third(_sequence, token):
                drawn.append(token)
                if len(drawn) == 3:
                    raise ZeroDivisionError

            with self.assertRaises(ZeroDivisionError):
                model.generate("1 and", 12, on_token=fails_at_the_third)
            self.assertEqual(len(drawn), 3)
            with self.assertRaisesRegex(trireme.InputError, "prompts are .* not int"):
                model.generate(17)

    @needs_numpy
    def test_checkpoints_of_other_programs_have_the_same_tensors(self):
        program("convert", "--to", "hf", self.run_dir, self.folder / "hf")
        own, foreign = trireme.Checkpoint(self.run_dir), trireme.Checkpoint(self.folder / "hf")
        self.assertEqual((own.format, foreign.format), ("trireme", "hf"))
        self.assertTrue(foreign.names())
        for name in foreign:
            self.assertTrue((foreign[name] == own.read(name, as_f32=True)).all(), name)
            self.assertEqual(foreign.info(name).shape, own.info(name).shape)
        model, same = trireme.Model(self.folder / "hf", {"run.precision": "fp32"}), trireme.Model(self.run_dir)
        self.assertTrue((model.logits([1, 2, 3]) == same.logits([1, 2, 3])).all())
        with self.assertRaisesRegex(KeyError, "did you mean"):
            own["layers.0.mlp.down.weigth"]

    def test_plans_as_the_program(self):
        self.assertEqual(trireme.plan(self.config, ranks=2), json.loads(program("plan", "--json", "--ranks", 2, self.folder / "run.toml")))
        recipe = Path(__file__).resolve().parents[2] / "recipes/llama3_8b.toml"
        plan = trireme.plan(recipe, {"run.device": "cuda"}, ranks=64, machine="h100")
        self.assertIn("seconds", plan["time"])

    def test_a_thousand_handles_leave_nothing(self):
        """Objects of all kinds except trainers and jobs, which are limited to one per process; half closed, half collected."""
        kinds = (
            lambda: trireme.Config(self.folder / "run.toml"),
            lambda: trireme.Tokenizer(self.folder / "tokenizer"),
            lambda: trireme.TokenFile(self.prefix),
            lambda: trireme.Dataset(self.config),
            lambda: trireme.Checkpoint(self.run_dir),
            lambda: trireme.Model(self.run_dir),
        )
        left = []
        for number in range(1008):
            handle = kinds[number % len(kinds)]()
            if number // len(kinds) % 2:
                handle.close()
            del handle
            if number % 504 == 503:
                memory = int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
                left.append((memory, len(os.listdir("/proc/self/fd"))))
        self.assertEqual(left[1][1], left[0][1], "files are left open")
        if "libasan" not in os.environ.get("LD_PRELOAD", ""):  # it quarantines freed memory
            self.assertLess(left[1][0] - left[0][0], 8 << 20, "memory is not given back")


class Errors(unittest.TestCase):
    def test_wrong_input_has_the_sentence_of_the_program(self):
        for make, words in (
            (lambda: trireme.Config({"train.itters": 3}), "train.iters"),
            (lambda: trireme.Config({"train": {"iters": "many"}}), "train.iters"),
            (lambda: trireme.Config("no/such.toml"), "no/such.toml"),
            (lambda: trireme.Config("."), "is a folder"),
            (lambda: trireme.Model("no/such/folder"), "no/such/folder"),
            (lambda: trireme.Checkpoint("."), "not in a supported format"),
            (lambda: trireme.Tokenizer(type="gtp2"), "gpt2"),
            (lambda: trireme.TokenFile("no/such"), "no/such"),
            (lambda: trireme.plan({"model.num_layers": 3}), "model"),
        ):
            with self.assertRaisesRegex(trireme.InputError, words) as caught:
                make()
            self.assertEqual(caught.exception.code, 2)
            self.assertIsInstance(caught.exception, ValueError)

    def test_dicts_and_toml_are_the_same(self):
        config = trireme.Config({"train.iters": 7, "optimizer": {"lr": 0.1}, "data": {"path": ['a "b"', "c"]}}, {"run.dir": "x y"})
        self.assertEqual(config["train.iters"], 7)
        self.assertEqual(config["data.path"], ['a "b"', "c"])
        self.assertEqual(config["run.dir"], "x y")
        self.assertEqual(trireme.Config.parse(config.to_toml()).to_dict(), config.to_dict())
        with self.assertRaises(KeyError):
            config["train.itters"]

    def test_a_closed_handle_is_refused(self):
        config = trireme.Config()
        config.close()
        config.close()
        with self.assertRaisesRegex(trireme.InputError, "closed"):
            config.to_toml()


class OwnData(unittest.TestCase):
    def setUp(self):
        self.scratch = tempfile.TemporaryDirectory()
        self.settings = {**TINY, "model": {**TINY["model"], "vocab_size": 32}}

    def tearDown(self):
        self.scratch.cleanup()

    def losses(self, name, **options):
        overrides = {"run.dir": os.path.join(self.scratch.name, name)}
        with trireme.Trainer(self.settings, overrides, train_data=Counting(), valid_data=Counting(), log=False, **options) as trainer:
            losses = [step.loss for step in trainer]
            trainer.evaluate()
        return losses

    def test_a_dataset_of_a_program(self):
        losses = self.losses("one")
        self.assertLess(losses[-1], losses[0])
        self.assertEqual(self.losses("two"), losses)

    def test_a_learning_rate_of_a_program(self):
        still = self.losses("still", learning_rate=lambda step, steps, samples, tokens, configured: 0.0)
        self.assertNotEqual(still, self.losses("moving"))

    def test_an_error_of_a_program_comes_out_as_it_is(self):
        with self.assertRaisesRegex(KeyError, "of a program's own"):
            with trireme.Trainer(self.settings, {"run.dir": os.path.join(self.scratch.name, "broken")}, train_data=Counting(5), log=False) as trainer:
                for _ in trainer:
                    pass


class Import(unittest.TestCase):
    def test_it_loads_nothing(self):
        code = "import sys, trireme; print(any(name in sys.modules for name in ('ctypes', 'numpy', 'trireme._native')))"
        self.assertEqual(subprocess.run([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True).stdout.strip(), "False")

    def test_arrays_without_numpy_are_refused_in_a_sentence(self):
        code = "import sys; sys.modules['numpy'] = None; import trireme._native as n\ntry: n.numpy()\nexcept ImportError as error: print(error)"
        out = subprocess.run([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True).stdout
        self.assertIn("pip install numpy", out)

    def test_a_library_that_is_not_there_is_named(self):
        code = "import trireme\ntry: trireme.Config()\nexcept ImportError as error: print(error)"
        env = {**os.environ, "TRIREME_LIBRARY": "/no/such/lib.so"}
        out = subprocess.run([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True, env=env).stdout
        self.assertIn("/no/such/lib.so", out)


class TestDescription(unittest.TestCase):
    def described(self, error):
        from trireme.trainer import _description
        try:
            raise error
        except BaseException as raised:
            return _description(raised)

    def test_an_error_is_a_line_and_its_traceback_without_the_line(self):
        text = self.described(ValueError("too small"))
        self.assertTrue(text.startswith("ValueError: too small\nTraceback"), text)
        self.assertEqual(text.count("too small"), 1)

    @unittest.skipIf(sys.version_info < (3, 11), "groups of exceptions need Python 3.11")
    def test_a_group_names_its_causes_also_with_a_note(self):
        group = ExceptionGroup("two", [ValueError("first cause"), OSError("second cause")])  # noqa: F821
        for _ in range(2):
            text = self.described(group)
            self.assertIn("first cause", text)
            self.assertIn("second cause", text)
            group.add_note("with a note")


if __name__ == "__main__":
    unittest.main()
