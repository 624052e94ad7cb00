// Owns the precompiled header that all test programs use (tests/CMakeLists.txt).
int main() {}
