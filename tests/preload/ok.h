// For plain programs of the tests: ends the program where a call of CUDA's libraries does.
#pragma once

#include <cstdio>
#include <cstdlib>

#define OK(call)                                                  \
  do {                                                            \
    if (const int status = static_cast<int>(call); status != 0) { \
      std::fprintf(stderr, "%s gives %d\n", #call, status);       \
      std::exit(1);                                               \
    }                                                             \
  } while (false)
