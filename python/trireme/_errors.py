"""What calls raise: the program's sentence, and the exit code that it would end with."""


class Error(Exception):
    """Something went wrong while it ran: a full disk, a NaN, a lost process.

    ``code`` is the exit code of the program for it: 1, or 2 for `InputError`.
    """

    code = 1


class InputError(Error, ValueError):
    """A file, a key or an argument is wrong. The sentence says what was expected, what was found and where."""

    code = 2


class Interrupted(KeyboardInterrupt):
    """A signal ended a run after its step, and everything was saved."""

    code = 3
