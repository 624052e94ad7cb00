"""Exceptions: each has the message that the program would print and the exit code that it would return."""


class Error(Exception):
    """A failure while running: a full disk, a NaN, a lost process.

    ``code`` is the program's exit code for this kind of error: 1, or 2 for `InputError`.
    """

    code = 1


class InputError(Error, ValueError):
    """A file, a key or an argument is wrong. The message says what was expected, what was found, and where."""

    code = 2


class Interrupted(KeyboardInterrupt):
    """A signal or a callback ended a call.

    `Trainer.run` raises it after the current step, when everything is saved: the same configuration resumes there.
    `Model.generate` raises it if `on_token` returned True. ``code`` is 3.
    """

    code = 3


for _one in (Error, InputError, Interrupted):
    _one.__module__ = "trireme"  # the name under which tracebacks show it, and programs import it
