// Nothing: the library is there for its name.
extern "C" void pooch_test_c10_cuda() {}
