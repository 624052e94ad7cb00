"""ctypes bindings of the shared library's C interface (include/trireme/trireme.h)."""

import ctypes
import os
import sys
from array import array
from ctypes import POINTER, byref, c_char_p, c_double, c_float, c_int32, c_int64, c_size_t, c_uint8, c_uint64, c_void_p
from itertools import accumulate, chain

from ._errors import Error, InputError, Interrupted

C_VERSION = 1
_FILE = "libtrireme.so"


class Step(ctypes.Structure):
    _fields_ = [("step", c_int64), ("loss", c_double), ("grad_norm", c_double), ("learning_rate", c_double), ("finite", c_int32)]


class Progress(ctypes.Structure):
    _fields_ = [(name, c_int64) for name in ("step", "steps", "samples", "tokens", "planned_bytes")]


class Summary(ctypes.Structure):
    _fields_ = [
        ("steps", c_int64),
        ("loss", c_double),
        ("valid_loss", c_double),
        ("tokens_per_second", c_double),
        ("seconds", c_double),
        ("end", c_int32),
    ]


class Sample(ctypes.Structure):
    _fields_ = [
        ("length", c_int64),
        ("tokens", POINTER(c_int32)),
        ("targets", POINTER(c_int32)),
        ("loss_weights", POINTER(c_float)),
        ("positions", POINTER(c_int32)),
        ("first_visible", POINTER(c_int32)),
    ]


FillFunction = ctypes.CFUNCTYPE(c_int32, c_void_p, c_int64, POINTER(Sample))
LogFunction = ctypes.CFUNCTYPE(None, c_void_p, c_char_p)
RateFunction = ctypes.CFUNCTYPE(c_double, c_void_p, c_int64, c_int64, c_int64, c_int64, c_double)
ProgressFunction = ctypes.CFUNCTYPE(c_int32, c_void_p, c_int64)
TokenFunction = ctypes.CFUNCTYPE(c_int32, c_void_p, c_int64, c_int32)


class SamplesOfProgram(ctypes.Structure):
    _fields_ = [("size", c_int64), ("identity", c_char_p), ("fill", FillFunction), ("user", c_void_p)]


class TrainerOptions(ctypes.Structure):
    _fields_ = [
        ("size", c_size_t),
        ("train_data", POINTER(SamplesOfProgram)),
        ("valid_data", POINTER(SamplesOfProgram)),
        ("log", LogFunction),
        ("learning_rate", RateFunction),
        ("user", c_void_p),
        ("note_signals", c_int32),
    ]


class ModelInfo(ctypes.Structure):
    _fields_ = [("vocab_size", c_int64), ("seq_length", c_int64), ("max_length", c_int64), ("step", c_int64), ("next_token", c_int32)]


class GenerateOptions(ctypes.Structure):
    _fields_ = [
        ("size", c_size_t),
        ("max_new_tokens", c_int64),
        ("sample", c_int32),
        ("temperature", c_float),
        ("top_k", c_int64),
        ("top_p", c_float),
        ("repetition_penalty", c_float),
        ("seed", c_uint64),
        ("stop_ids", POINTER(c_int32)),
        ("stop_count", c_size_t),
        ("stop_at_end", c_int32),
        ("on_token", TokenFunction),
        ("user", c_void_p),
    ]


class TokenizerInfo(ctypes.Structure):
    _fields_ = [(name, c_int32) for name in ("vocab_size", "eod", "bos", "eos", "pad", "unk", "cls", "sep", "mask")] + [
        ("fingerprint", c_uint64)
    ]


class TokensInfo(ctypes.Structure):
    _fields_ = [("sequences", c_int64), ("documents", c_int64), ("tokens", c_int64), ("dtype", c_char_p), ("item_bytes", c_int32)]


class SamplesInfo(ctypes.Structure):
    _fields_ = [("size", c_int64), ("seq_length", c_int64), ("steps", c_int64)]


class Tensor(ctypes.Structure):
    _fields_ = [("name", c_char_p), ("dtype", c_char_p), ("rank", c_int32), ("shape", c_int64 * 4), ("bytes", c_int64)]


_P = c_void_p  # a handle or a memory address
_OUT = POINTER(c_void_p)
_TEXTS = POINTER(c_char_p)
_I32, _I64, _F64 = POINTER(c_int32), POINTER(c_int64), POINTER(c_double)

# Argument types of the functions that return a status.
_CALLS = {
    "config_parse": [c_char_p, c_char_p, _TEXTS, c_size_t, _OUT],
    "config_load": [c_char_p, _TEXTS, c_size_t, _OUT],
    "config_toml": [_P, _OUT],
    "config_json": [_P, _OUT],
    "job_open": [_P, _OUT],
    "job_sum": [_P, _F64, c_size_t],
    "job_gather": [_P, c_double, _F64],
    "job_barrier": [_P],
    "job_leave": [_P],
    "trainer_open": [_P, _P, POINTER(TrainerOptions), _OUT],
    "trainer_step": [_P, POINTER(Step)],
    "trainer_evaluate": [_P, _F64],
    "trainer_save": [_P],
    "trainer_should_stop": [_P, _I32],
    "trainer_log": [_P, _TEXTS, _F64, c_size_t],
    "trainer_config": [_P, _OUT],
    "trainer_finish": [_P, POINTER(Summary)],
    "trainer_run": [_P, POINTER(Summary)],
    "model_open": [c_char_p, _TEXTS, c_size_t, _OUT],
    "model_config": [_P, _OUT],
    "model_tokenizer": [_P, _OUT],
    "model_logits": [_P, _P, c_int64, _P, _P],
    "model_log_likelihoods": [_P, _I32, _I64, _I64, c_int64, _F64, POINTER(c_uint8), ProgressFunction, _P],
    "model_generate": [_P, _I32, _I64, c_int64, POINTER(GenerateOptions), _OUT, _I64],
    "tokenizer_open": [c_char_p, c_char_p, c_char_p, c_char_p, _OUT],
    "tokenizer_find": [c_char_p, _OUT],
    "tokenizer_encode": [_P, c_char_p, _I64, c_int64, c_int32, _OUT, _I64],
    "tokenizer_decode": [_P, _P, _I64, c_int64, c_int32, _OUT, _I64],
    "tokens_open": [c_char_p, _OUT],
    "tokens_sequence": [_P, c_int64, _OUT, _I64],
    "tokens_document": [_P, c_int64, _I64],
    "samples_open": [_P, c_char_p, c_int64, _OUT],
    "samples_of_step": [_P, c_int64, _I64, _I64],
    "samples_read": [_P, c_int64, c_int64, _P, _P, _P, _P, _P],
    "checkpoint_open": [c_char_p, _OUT],
    "checkpoint_tensor": [_P, c_int64, POINTER(Tensor)],
    "checkpoint_json": [_P, _OUT],
    "checkpoint_read": [_P, c_int64, c_int32, _P, c_int64],
    "plan": [_P, c_int64, c_char_p, c_char_p, _OUT],
    "search": [_P, c_int64, c_char_p, c_char_p, _OUT],
}
# Result and argument types of the other functions.
_OTHERS = {
    "c_version": (c_int32, []),
    "version": (c_char_p, []),
    "last_error": (c_char_p, []),
    "free": (None, [_P]),
    "job_rank": (c_int32, [_P]),
    "job_size": (c_int32, [_P]),
    "job_local_rank": (c_int32, [_P]),
    "job_abort": (None, [_P, c_int32, c_char_p]),
    "trainer_progress": (None, [_P, POINTER(Progress)]),
    "model_info_of": (None, [_P, POINTER(ModelInfo)]),
    "generate_defaults": (None, [POINTER(GenerateOptions)]),
    "tokenizer_info_of": (None, [_P, POINTER(TokenizerInfo)]),
    "tokens_info_of": (None, [_P, POINTER(TokensInfo)]),
    "samples_info_of": (None, [_P, POINTER(SamplesInfo)]),
    "checkpoint_count": (c_int64, [_P]),
    **{f"{kind}_close": (None, [_P]) for kind in ("config", "job", "trainer", "model", "tokenizer", "tokens", "samples", "checkpoint")},
}


def _installed_with(package):
    """Paths of the library in the wheel that installed this package, from the wheel's RECORD file."""
    site = os.path.dirname(package)
    for entry in os.listdir(site):
        if not (entry.startswith("trireme_llm-") and entry.endswith(".dist-info")):
            continue
        try:
            with open(os.path.join(site, entry, "RECORD"), encoding="utf-8") as record:
                for line in record:
                    path = line.split(",", 1)[0]
                    if path.endswith("lib/trireme/" + _FILE):
                        yield os.path.join(site, path)
        except OSError:
            continue


def _places():
    package = os.path.dirname(os.path.abspath(__file__))
    yield from _installed_with(package)
    for folder in (
        os.path.join(package, "..", "lib", "trireme"),  # pip install --target
        os.path.join(sys.prefix, "lib", "trireme"),
        os.path.join(package, "..", "..", "build", "release", "lib"),  # a source tree
    ):
        yield os.path.join(folder, _FILE)


def _find():
    given = os.environ.get("TRIREME_LIBRARY")
    if given:
        return given
    tried = []
    for path in _places():
        path = os.path.normpath(path)
        if os.path.exists(path):
            return path
        tried.append(path)
    raise ImportError(f"{_FILE} was not found in {', '.join(tried)}: install the wheel of trireme-llm, or name the file in TRIREME_LIBRARY")


def _load():
    path = _find()
    try:
        library = ctypes.CDLL(path)
        version = library.trireme_c_version()
    except (OSError, AttributeError) as error:
        raise ImportError(f"'{path}' cannot be loaded as Trireme's library: {error}") from None
    if version != C_VERSION:
        raise ImportError(f"'{path}' has version {version} of the C interface, and this package needs {C_VERSION}: install both from one wheel")
    for name, arguments in _CALLS.items():
        function = getattr(library, "trireme_" + name)
        function.argtypes, function.restype = arguments, c_int32
    for name, (result, arguments) in _OTHERS.items():
        function = getattr(library, "trireme_" + name)
        function.argtypes, function.restype = arguments, result
    return library


_library = None


def library():
    global _library
    if _library is None:
        _library = _load()
    return _library


def program_version():
    return library().trireme_version().decode()


def call(name, *arguments):
    """Calls a function that returns a status, and raises Error, InputError or Interrupted if it failed."""
    code = getattr(library(), "trireme_" + name)(*arguments)
    if code:
        raise {2: InputError, 3: Interrupted}.get(code, Error)(library().trireme_last_error().decode("utf-8", "replace"))


def take_text(pointer):
    """Returns a text allocated by the library as str, and frees it."""
    try:
        return ctypes.string_at(pointer).decode("utf-8", "replace")
    finally:
        library().trireme_free(pointer)


def text_from(name, *arguments):
    text = c_void_p()
    call(name, *arguments, byref(text))
    return take_text(text)


def texts(values):
    """Converts a list of str to an array of C strings (UTF-8)."""
    return (c_char_p * len(values))(*[value.encode() for value in values])


def path_bytes(path):
    return os.fsencode(path)


def i64s(values):
    return _numbers("q", c_int64, values)


def i32s(values):
    """Converts ids to a C array; a writable contiguous buffer of 32-bit integers is not copied."""
    try:
        view = memoryview(values)
        if view.format == "i" and view.contiguous and not view.readonly:
            return (c_int32 * (view.nbytes // 4)).from_buffer(view)
    except (TypeError, ValueError):
        pass
    return _numbers("i", c_int32, values)


def _numbers(code, kind, values):
    """Converts integers to a C array. array() rejects other types and integers out of range, which ctypes would truncate."""
    try:
        numbers = array(code, values)
    except (OverflowError, TypeError) as error:
        raise InputError(f"ids and places are whole numbers: {error}") from None
    return (kind * len(numbers)).from_buffer(numbers)


def places_of(items):
    """Offsets of concatenated items: int64 [items + 1], of which the last is the total length."""
    return i64s(accumulate(map(len, items), initial=0))


def ragged_i32s(lists):
    """Concatenates lists of ids: returns the ids, int32 [n], and the offsets, int64 [lists + 1]."""
    return i32s(lists[0] if len(lists) == 1 else chain.from_iterable(lists)), places_of(lists)


def take_i32_lists(pointer, offsets):
    """Splits ids allocated by the library into lists, and frees them."""
    try:
        count = offsets[len(offsets) - 1]
        ids = memoryview((c_int32 * count).from_address(pointer.value)).cast("B").cast("i").tolist()
        places = memoryview(offsets).cast("B").cast("q").tolist()
        return [ids[begin:end] for begin, end in zip(places, places[1:])]
    finally:
        library().trireme_free(pointer)


class Owned:
    """Memory allocated by the library, freed when this object is collected."""

    def __init__(self, pointer):
        import weakref

        self.address = pointer.value
        weakref.finalize(self, library().trireme_free, pointer)

    def view(self, count):
        """A memoryview of the ids, int32 [count]; this object must outlive it."""
        return memoryview((c_int32 * count).from_address(self.address)).cast("B").cast("i")

    def array(self, dtype, count):
        """A NumPy array [count] of this memory without a copy; the array keeps the memory alive."""
        np = numpy()
        interface = {"data": (self.address, False), "shape": (count,), "typestr": np.dtype(dtype).str, "version": 3}
        holder = _ArrayHolder()
        holder.__array_interface__ = interface
        holder.memory = self
        return np.asarray(holder)


class _ArrayHolder:
    pass


def numpy():
    try:
        import numpy as module
    except ImportError:
        raise ImportError("arrays need NumPy, which is not installed: pip install numpy") from None
    return module


class Handle:
    """An object of the library. It is closed once: by `close()`, at the end of ``with``, or when it is collected."""

    _kind = ""

    def _own(self, pointer):
        import weakref

        self._pointer = pointer
        self._finalizer = weakref.finalize(self, getattr(library(), f"trireme_{self._kind}_close"), pointer)

    @property
    def _handle(self):
        if not self._finalizer.alive:
            raise InputError(f"this {type(self).__name__} is closed")
        return self._pointer

    def close(self):
        """Frees the object's memory. Later calls raise InputError; closing it again does nothing."""
        self._finalizer()

    def __enter__(self):
        return self

    def __exit__(self, *error):
        self.close()


class Keep:
    """Keeps an exception that a callback raised, and raises it again after the library has returned."""

    def __init__(self):
        self.error = None

    def guard(self, body, failed):
        """Wraps `body` as a callback for C: if it raises, the first exception is kept and `failed` is returned."""

        def guarded(*arguments):
            try:
                return body(*arguments)
            except BaseException as error:
                if self.error is None:
                    self.error = error
                return failed

        return guarded

    def call(self, name, *arguments):
        try:
            call(name, *arguments)
        except BaseException:
            if self.error is not None:
                kept, self.error = self.error, None
                raise kept from None
            raise
        if self.error is not None:
            kept, self.error = self.error, None
            raise kept
