// A GPU plug-in as another version of the program would have it.
extern "C" __attribute__((visibility("default"))) int trireme_device_version() {
  return 0;
}
