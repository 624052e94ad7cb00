"""Training: jobs of one or several processes, and trainers on them."""

import atexit
import ctypes
import sys
from ctypes import byref, c_char_p, c_double, c_int32, c_void_p, sizeof
from typing import Any, Callable, Iterator, List, Mapping, NamedTuple, Optional, Sequence, Union

from . import _native
from ._errors import Error, InputError, Interrupted
from ._native import Handle, Keep, call, texts
from .config import Config, Overrides, Source


class Step(NamedTuple):
    """What one step did; the same on all processes."""

    step: int  #: its number, from 1
    loss: float  #: mean over the predicted tokens of the global batch
    grad_norm: float  #: before clipping
    learning_rate: float
    finite: bool  #: False: fp16 gradients overflowed, and the weights stayed as they were


class Summary(NamedTuple):
    """How a run ended."""

    steps: int  #: done, in all processes so far
    loss: float  #: of the last step
    valid_loss: float  #: of the last evaluation; 0 without one
    tokens_per_second: float
    seconds: float  #: spent in the steps of this trainer
    end: str  #: "done", "stopped" (as planned, or by the program) or "interrupted"


class Job(Handle):
    """This process alone, or one of those that mpirun or srun started: ``mpirun -n 4 python loop.py``.

    Of several processes it is made once, before anything that starts threads, and used in ``with``: at its end
    all leave together, and an error of one ends all of them with one message.
    """

    _kind = "job"

    def __init__(self, config: Optional[Source] = None):
        pointer = c_void_p()
        whole = None if config is None else config if isinstance(config, Config) else Config(config)
        call("job_open", whole._handle if whole else None, byref(pointer))
        self._own(pointer)

    @property
    def rank(self) -> int:
        """Number of this process, from 0."""
        return _native.library().trireme_job_rank(self._handle)

    @property
    def size(self) -> int:
        """Number of processes."""
        return _native.library().trireme_job_size(self._handle)

    @property
    def local_rank(self) -> int:
        """Number of this process among those on this machine."""
        return _native.library().trireme_job_local_rank(self._handle)

    @property
    def leads(self) -> bool:
        """Whether this is the first process, which prints and writes."""
        return self.rank == 0

    def sum(self, values: Union[float, Sequence[float]]) -> Any:
        """Sums over all processes, element by element: the same bits on each."""
        many = isinstance(values, Sequence)
        numbers = [float(one) for one in values] if isinstance(values, Sequence) else [float(values)]
        memory = (c_double * len(numbers))(*numbers)
        call("job_sum", self._handle, memory, len(numbers))
        return list(memory) if many else memory[0]

    def gather(self, value: float) -> List[float]:
        """The value of each process, by rank."""
        memory = (c_double * self.size)()
        call("job_gather", self._handle, value, memory)
        return list(memory)

    def max(self, value: float) -> float:
        return max(self.gather(value))

    def barrier(self) -> None:
        call("job_barrier", self._handle)

    def leave(self) -> None:
        """The orderly end of several processes; alone it does nothing."""
        call("job_leave", self._handle)

    def abort(self, error: BaseException) -> None:
        """Ends all processes with this error, of which one prints the sentence; alone it does nothing."""
        code = getattr(error, "code", 1)
        text = str(error) or type(error).__name__
        _native.library().trireme_job_abort(self._handle, code if isinstance(code, int) else 1, text.encode())

    def __exit__(self, kind: Any, error: Optional[BaseException], trace: Any) -> None:
        if error is None:
            self.leave()
        elif self.size > 1:
            sys.excepthook(type(error), error, trace)
            self.abort(error)
        self.close()


_shared_job: Optional[Job] = None


def _job_for(config: Config) -> Job:
    """A job of its own for a process that is alone; of several processes the one that all trainers share."""
    global _shared_job
    if _shared_job is not None:
        return _shared_job
    job = Job(config)
    if job.size == 1:
        return job
    _shared_job = job
    usual = sys.excepthook

    def end_all(kind: Any, error: BaseException, trace: Any) -> None:
        usual(kind, error, trace)
        job.abort(error)

    def leave() -> None:
        if not getattr(sys, "last_value", None):
            job.leave()

    sys.excepthook = end_all
    atexit.register(leave)
    return job


_FIELDS = ("tokens", "targets", "loss_weights", "positions", "first_visible")


def _put(sample: _native.Sample, field: str, values: Any) -> None:
    """Writes the first values of a field of a sample."""
    kind = ctypes.c_float if field == "loss_weights" else c_int32
    count = len(values)
    if count > sample.length:
        raise InputError(f"a sample has {count} {field}, and model.seq_length is {sample.length}")
    address = ctypes.addressof(getattr(sample, field).contents)
    target = (kind * count).from_address(address)
    if hasattr(values, "__array__"):
        numpy = _native.numpy()
        numpy.frombuffer(target, dtype=numpy.float32 if kind is ctypes.c_float else numpy.int32)[:] = values
    else:
        target[:] = list(values)


def _predict_next(sample: _native.Sample, text: Any) -> None:
    """Position i predicts text[i + 1]; positions that have nothing to predict do not count."""
    length = sample.length
    count = min(len(text), length)
    predicted = min(max(len(text) - 1, 0), length)
    _put(sample, "tokens", text[:count])
    _put(sample, "targets", text[1 : predicted + 1])
    for i in range(predicted, length):
        sample.loss_weights[i] = 0.0


class _Samples:
    """A sequence of a program's as samples for the library."""

    def __init__(self, data: Any, keep: Keep):
        self._data = data
        self._fill = _native.FillFunction(keep.guard(self.fill, 1))
        identity = str(getattr(data, "identity", "")).encode()
        self.struct = _native.SamplesOfProgram(len(data), identity, self._fill, None)

    def fill(self, _user: Any, index: int, pointer: Any) -> int:
        sample, item = pointer.contents, self._data[index]
        if not isinstance(item, Mapping):
            _predict_next(sample, item)
            return 0
        unknown = set(item) - set(_FIELDS)
        if unknown:
            raise InputError(f"a sample has {sorted(unknown)[0]!r}: expected some of {', '.join(_FIELDS)}")
        for field, values in item.items():
            _put(sample, field, values)
        return 0


class Trainer(Handle):
    """Trains as `trireme train` does, step by step or as a whole, with the same files in run.dir and the same bits.

    `config`: a TOML file, a dict or a `Config`; `overrides` as for `Config`. A run that has a checkpoint resumes.

    `train_data`, `valid_data`: in the place of [data], anything with ``len(data)`` and ``data[i]``, which gives the
    sample ``i``: ids of a text, whose positions each predict the next one, or a dict of arrays ``tokens``,
    ``targets`` (int32), ``loss_weights`` (float32), ``positions``, ``first_visible``, each of up to model.seq_length
    elements. A sample must depend on nothing but its index. It is asked for in background threads.

    `learning_rate`: a pure function of (step, steps, samples, tokens, configured) that gives the rate.
    `log`: takes the printed lines; None: standard output; False: nothing.
    `note_signals`: SIGINT, SIGTERM, SIGHUP and SIGUSR1 make `should_stop()` true instead of raising, so that a
    loop can save; without it Ctrl-C raises KeyboardInterrupt after the step at hand.
    `job`: of several processes, where the program made one.

    A loop of one's own::

        with trireme.Trainer("run.toml") as trainer:
            for step in trainer:
                if step.step % 100 == 0:
                    trainer.log(perplexity=math.exp(trainer.evaluate()))
                    trainer.save()          # nothing else saves in such a loop
            trainer.save()
    """

    _kind = "trainer"

    def __init__(
        self,
        config: Source,
        overrides: Overrides = None,
        *,
        job: Optional[Job] = None,
        train_data: Any = None,
        valid_data: Any = None,
        learning_rate: Optional[Callable[[int, int, int, int, float], float]] = None,
        log: Union[None, bool, Callable[[str], Any]] = None,
        note_signals: bool = False,
    ):
        whole = Config(config, overrides)
        self._keep = Keep()
        self._ended = False
        self.job = job if job is not None else _job_for(whole)  #: the processes that train together
        self._options = self._make_options(train_data, valid_data, learning_rate, log, note_signals)
        pointer = c_void_p()
        self._keep.call("trainer_open", self.job._handle, whole._handle, byref(self._options), byref(pointer))
        self._own(pointer)

    def _make_options(self, train_data: Any, valid_data: Any, learning_rate: Any, log: Any, note_signals: bool) -> Any:
        options = _native.TrainerOptions(size=sizeof(_native.TrainerOptions), note_signals=int(note_signals))
        self._samples = []  # which the options point to
        for field, data in (("train_data", train_data), ("valid_data", valid_data)):
            if data is None:
                continue
            samples = _Samples(data, self._keep)
            self._samples.append(samples)
            setattr(options, field, ctypes.pointer(samples.struct))
        if log is not None and log is not True:

            def line(_user: Any, text: bytes) -> None:
                if log:
                    log(text.decode("utf-8", "replace"))

            options.log = _native.LogFunction(self._keep.guard(line, None))
        if learning_rate is not None:

            def rate(_user: Any, *at: Any) -> float:
                return float(learning_rate(*at))

            options.learning_rate = _native.RateFunction(self._keep.guard(rate, float("nan")))
        return options

    def _progress(self) -> Any:
        progress = _native.Progress()
        _native.library().trireme_trainer_progress(self._handle, byref(progress))
        return progress

    @property
    def step_number(self) -> int:
        """Steps done."""
        return self._progress().step

    @property
    def steps(self) -> int:
        """Steps of the whole run."""
        return self._progress().steps

    @property
    def done(self) -> bool:
        """Whether all steps are done."""
        progress = self._progress()
        return progress.step >= progress.steps

    @property
    def consumed_samples(self) -> int:
        return self._progress().samples

    @property
    def consumed_tokens(self) -> int:
        return self._progress().tokens

    @property
    def planned_bytes(self) -> int:
        """Memory of this process's part of the run."""
        return self._progress().planned_bytes

    @property
    def config(self) -> Config:
        """With what followed from the tokenizer."""
        pointer = c_void_p()
        call("trainer_config", self._handle, byref(pointer))
        return Config._of(pointer)

    def step(self) -> Step:
        """One optimizer step over the next train.global_batch_size samples, accumulation and clipping included."""
        result = _native.Step()
        self._keep.call("trainer_step", self._handle, byref(result))
        return Step(result.step, result.loss, result.grad_norm, result.learning_rate, bool(result.finite))

    def __iter__(self) -> Iterator[Step]:
        """Steps until all are done or `should_stop()`."""
        while not self.done:
            yield self.step()
            if not self.done and self.should_stop():
                return

    def evaluate(self) -> float:
        """The mean loss over train.eval_iters batches of the validation data."""
        loss = c_double()
        self._keep.call("trainer_evaluate", self._handle, byref(loss))
        return loss.value

    def save(self) -> None:
        """A checkpoint of this step, as [checkpoint] says."""
        self._keep.call("trainer_save", self._handle)

    def should_stop(self) -> bool:
        """Whether a signal (with `note_signals`), train.exit_interval or exit_duration_minutes ask for an end."""
        stop = c_int32()
        self._keep.call("trainer_should_stop", self._handle, byref(stop))
        return bool(stop.value)

    def log(self, **metrics: float) -> None:
        """Values of one's own for the step last done, in metrics.jsonl and TensorBoard."""
        values = (c_double * len(metrics))(*[float(value) for value in metrics.values()])
        call("trainer_log", self._handle, texts(list(metrics)), values, len(metrics))

    def finish(self) -> Summary:
        """Waits for what is still written, and says in run.dir how the run ended."""
        return self._end("trainer_finish")

    def run(self) -> Summary:
        """All of it: steps, evaluations and checkpoints at their intervals.

        Ctrl-C and SIGTERM end it after the step at hand; it is then saved, and `Interrupted` is raised.
        """
        summary = self._end("trainer_run")
        if summary.end == "interrupted":
            raise Interrupted("interrupted and saved; the same configuration resumes there")
        return summary

    def _end(self, name: str) -> Summary:
        s = _native.Summary()
        self._keep.call(name, self._handle, byref(s))
        self._ended = True
        return Summary(s.steps, s.loss, s.valid_loss, s.tokens_per_second, s.seconds, ("done", "stopped", "interrupted")[s.end])

    def __exit__(self, kind: Any, error: Optional[BaseException], trace: Any) -> None:
        if error is None and not self._ended:
            self.finish()
        self.close()


__all__ = ["Error", "Job", "Step", "Summary", "Trainer"]
