// What modules that are compiled for fuzz targets (tests/fuzz) call in every program, and nobody
// listens to there: the blocks of code, and the comparisons of floats, which libFuzzer does not
// know and g++ reports.

// A fuzz target has one of libFuzzer's own.
extern "C" [[gnu::weak]] void __sanitizer_cov_trace_pc() {}

extern "C" void __sanitizer_cov_trace_cmpf(float, float) {}

extern "C" void __sanitizer_cov_trace_cmpd(double, double) {}
