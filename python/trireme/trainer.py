"""Training: jobs of one or several processes, and their trainers."""

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
    """Result of one optimizer step; the same on all processes."""

    step: int  #: number of the step, from 1
    loss: float  #: mean over the predicted tokens of the global batch
    grad_norm: float  #: L2 norm of the gradients before clipping
    learning_rate: float
    finite: bool  #: False if fp16 gradients overflowed: the step was skipped and the weights did not change


class Summary(NamedTuple):
    """Result of a run."""

    steps: int  #: steps done so far, including earlier runs that this one resumed
    loss: float  #: of the last step
    valid_loss: float  #: of the last evaluation; 0 if there was none
    tokens_per_second: float
    seconds: float  #: time spent in this trainer's steps
    end: str  #: "done", "stopped" (as configured or by the program) or "interrupted" (by a signal)


class Job(Handle):
    """The processes that train together: this one, or those that mpirun or srun started (``mpirun -n 4 python loop.py``).

    `Trainer` creates a job if none is given, so most programs need only `Trainer.job`. With several processes, create
    a job at most once, before anything that starts threads, and use it in ``with``: at its end all processes leave
    together, and an error in one ends all of them, with one message.

    `config`: gives run.device and train.timeout_s; None: "cpu" and ten minutes. `sum`, `gather`, `max`, `barrier` and
    `leave` are collective: all processes call them in the same order. One thread at a time may use a job.
    """

    _kind = "job"

    def __init__(self, config: Optional[Source] = None):
        pointer = c_void_p()
        whole = None if config is None else config if isinstance(config, Config) else Config(config)
        call("job_open", whole._handle if whole else None, byref(pointer))
        self._own(pointer)

    @property
    def rank(self) -> int:
        """Rank of this process, from 0."""
        return _native.library().trireme_job_rank(self._handle)

    @property
    def size(self) -> int:
        """Number of processes."""
        return _native.library().trireme_job_size(self._handle)

    @property
    def local_rank(self) -> int:
        """Rank of this process among those on this machine, from 0."""
        return _native.library().trireme_job_local_rank(self._handle)

    @property
    def leads(self) -> bool:
        """Whether this is rank 0, which prints and writes."""
        return self.rank == 0

    def sum(self, values: Union[float, Sequence[float]]) -> Any:
        """Sums a number, or each element of a list, over all processes (all-reduce); the result has the same bits on each."""
        many = isinstance(values, Sequence)
        numbers = [float(one) for one in values] if isinstance(values, Sequence) else [float(values)]
        memory = (c_double * len(numbers))(*numbers)
        call("job_sum", self._handle, memory, len(numbers))
        return list(memory) if many else memory[0]

    def gather(self, value: float) -> List[float]:
        """Returns the value of each process, by rank (all-gather)."""
        memory = (c_double * self.size)()
        call("job_gather", self._handle, value, memory)
        return list(memory)

    def max(self, value: float) -> float:
        """Returns the maximum over all processes."""
        return max(self.gather(value))

    def barrier(self) -> None:
        """Waits until all processes have called it."""
        call("job_barrier", self._handle)

    def leave(self) -> None:
        """Ends a job of several processes in order: waits until all have called it. Does nothing for one process."""
        call("job_leave", self._handle)

    def abort(self, error: BaseException) -> None:
        """Ends all processes with this error; one of them prints the message and where it comes from. Does nothing for one process."""
        code = getattr(error, "code", 1)
        _native.library().trireme_job_abort(self._handle, code if isinstance(code, int) else 1, _description(error).encode("utf-8", "replace"))

    def __exit__(self, kind: Any, error: Optional[BaseException], trace: Any) -> None:
        if error is None:
            self.leave()
        elif self.size > 1:
            self.abort(error)
        self.close()


def _description(error: BaseException) -> str:
    """The error in one line, then the traceback."""
    from traceback import format_exception, format_exception_only

    line = "".join(format_exception_only(type(error), error)).strip()
    whole = "".join(format_exception(type(error), error, error.__traceback__)).rstrip()
    if whole == line:
        return line
    # Groups of exceptions do not end with the line: their traceback also tells the causes.
    return f"{line}\n{whole.removesuffix(line).rstrip()}"


_shared_job: Optional[Job] = None


def _job_for(config: Config) -> Job:
    """Returns a new job for a single process, or the job that all trainers share for several processes."""
    global _shared_job
    if _shared_job is not None:
        return _shared_job
    job = Job(config)
    if job.size == 1:
        return job
    _shared_job = job
    usual = sys.excepthook

    def end_all(kind: Any, error: BaseException, trace: Any) -> None:
        if usual is not sys.__excepthook__:  # the default one would print the traceback on each process
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
    """Writes values to the beginning of a field of a sample."""
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
    """Makes position i predict text[i + 1]; positions with nothing to predict get loss weight 0."""
    length = sample.length
    count = min(len(text), length)
    predicted = min(max(len(text) - 1, 0), length)
    _put(sample, "tokens", text[:count])
    _put(sample, "targets", text[1 : predicted + 1])
    for i in range(predicted, length):
        sample.loss_weights[i] = 0.0


class _Samples:
    """Passes the program's dataset to the library."""

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
    """Trains a model as `trireme train` does, one step at a time or a whole run, with the same files and the same bits.

    The constructor checks the configuration, allocates memory, opens the data, and resumes from the newest checkpoint
    in run.dir if there is one. Forward, backward, gradient accumulation, clipping, the optimizer and the learning-rate
    schedule are all part of `step()`.

    `config`: a TOML file, a dict or a `Config`; `overrides`: as for `Config`.

    `train_data`, `valid_data`: samples to use instead of [data]: any object with ``len(data)`` and ``data[i]``.
    ``data[i]`` is a sequence of token ids, in which each position predicts the next id (up to model.seq_length + 1 ids
    are used); or a dict of sequences with up to model.seq_length elements each:

    - ``tokens``, ``targets``: ids (int32) in [0, vocab_size); targets are not shifted again
    - ``loss_weights``: float32, 0 or 1 (default 1)
    - ``positions``: int32, position ids; others than 0, 1, 2 ... need data.reset_position_ids
    - ``first_visible``: int32, the first position that each may attend to; others than 0 need data.reset_attention_mask

    A sample must depend only on its index, so that a resumed run has the same bits, and there must be at least as many as
    the run takes. ``data.identity``, a str, distinguishes the dataset: a run that resumes with another one warns. Samples
    are read ahead in background threads, several at the same time.

    `learning_rate`: a pure function (step, steps, samples, tokens, configured) -> rate, the same on all processes:
    steps done, steps of the run, samples and tokens so far, and the rate that [optimizer] gives.
    `log`: a function that receives each printed line; None or True: standard output; False: no output.
    `note_signals`: SIGINT, SIGTERM, SIGHUP and SIGUSR1 make `should_stop()` true instead of ending the program, so that a
    loop can save. Without it, Ctrl-C raises KeyboardInterrupt after the current step.
    `job`: the program's `Job`, if it created one.

    With several processes, all of them make the same calls in the same order. One thread at a time may use a trainer.
    After an error in `step()`, the trainer can only be closed; checkpoints are not affected. At the end of ``with``,
    `finish()` is called, unless an exception ended it.

    Your own training loop::

        with trireme.Trainer("run.toml") as trainer:
            for step in trainer:
                if step.step % 100 == 0:
                    trainer.log(perplexity=math.exp(trainer.evaluate()))
                    trainer.save()          # in your own loop, nothing else saves
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
        self.job = job if job is not None else _job_for(whole)  #: the `Job` of this trainer
        self._options = self._make_options(train_data, valid_data, learning_rate, log, note_signals)
        pointer = c_void_p()
        self._keep.call("trainer_open", self.job._handle, whole._handle, byref(self._options), byref(pointer))
        self._own(pointer)

    def _make_options(self, train_data: Any, valid_data: Any, learning_rate: Any, log: Any, note_signals: bool) -> Any:
        options = _native.TrainerOptions(size=sizeof(_native.TrainerOptions), note_signals=int(note_signals))
        self._samples = []  # keeps alive what the options point to
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
        """Number of steps done."""
        return self._progress().step

    @property
    def steps(self) -> int:
        """Number of steps of the whole run."""
        return self._progress().steps

    @property
    def done(self) -> bool:
        """Whether all steps are done."""
        progress = self._progress()
        return progress.step >= progress.steps

    @property
    def consumed_samples(self) -> int:
        """Number of samples trained on so far."""
        return self._progress().samples

    @property
    def consumed_tokens(self) -> int:
        """Number of tokens trained on so far."""
        return self._progress().tokens

    @property
    def planned_bytes(self) -> int:
        """Planned memory of this process, in bytes."""
        return self._progress().planned_bytes

    @property
    def config(self) -> Config:
        """The configuration in use, including what follows from the tokenizer, such as model.vocab_size."""
        pointer = c_void_p()
        call("trainer_config", self._handle, byref(pointer))
        return Config._of(pointer)

    def step(self) -> Step:
        """Runs one optimizer step over the next global batch, with gradient accumulation and clipping.

        Raises InputError after the last step, and for samples that are out of range.
        """
        result = _native.Step()
        self._keep.call("trainer_step", self._handle, byref(result))
        return Step(result.step, result.loss, result.grad_norm, result.learning_rate, bool(result.finite))

    def __iter__(self) -> Iterator[Step]:
        """Runs steps and yields each `Step`, until all are done or `should_stop()` is true."""
        while not self.done:
            yield self.step()
            if not self.done and self.should_stop():
                return

    def evaluate(self) -> float:
        """Returns the mean loss over train.eval_iters batches of the validation data."""
        loss = c_double()
        self._keep.call("trainer_evaluate", self._handle, byref(loss))
        return loss.value

    def save(self) -> None:
        """Saves a checkpoint of the current step, as configured by [checkpoint]; with checkpoint.async it is written in the background."""
        self._keep.call("trainer_save", self._handle)

    def should_stop(self) -> bool:
        """Whether a signal (with `note_signals`), train.exit_interval or train.exit_duration_minutes requests a stop."""
        stop = c_int32()
        self._keep.call("trainer_should_stop", self._handle, byref(stop))
        return bool(stop.value)

    def log(self, **metrics: float) -> None:
        """Writes your own metrics of the last step to metrics.jsonl and, with log.tensorboard, to TensorBoard."""
        values = (c_double * len(metrics))(*[float(value) for value in metrics.values()])
        call("trainer_log", self._handle, texts(list(metrics)), values, len(metrics))

    def finish(self) -> Summary:
        """Waits for writes in progress and records in run.dir how the run ended."""
        return self._end("trainer_finish")

    def run(self) -> Summary:
        """Runs all remaining steps, with evaluations and checkpoints at their intervals, as `trireme train` does.

        Ctrl-C and SIGTERM end it after the current step: a checkpoint is saved and `Interrupted` is raised.
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
