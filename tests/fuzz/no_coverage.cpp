// Stubs for the callbacks of modules compiled for fuzz targets (tests/fuzz), needed in every
// program that links them: basic blocks, and comparisons of floats, which g++ reports but libFuzzer
// does not know.

// Fuzz targets use libFuzzer's own function.
extern "C" [[gnu::weak]] void __sanitizer_cov_trace_pc() {}

extern "C" void __sanitizer_cov_trace_cmpf(float, float) {}

extern "C" void __sanitizer_cov_trace_cmpd(double, double) {}
