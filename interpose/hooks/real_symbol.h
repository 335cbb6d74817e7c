// The dynamic linker's own dlsym, whoever else exports that name (libpooch.so does).
#pragma once

namespace pooch::interpose {

using DlsymFunction = void* (*)(void* handle, const char* name);

// Never null: the process is ended with a message where the C library has no dlsym of a known version.
// Not instrumented, like everything on the way of every dlsym of the process: sanitizers call dlsym while
// they start.
#ifdef __clang__
#define POOCH_UNSANITIZED [[clang::no_sanitize("thread", "address", "undefined")]]
#else
#define POOCH_UNSANITIZED [[gnu::no_sanitize("thread", "address", "undefined")]]
#endif
POOCH_UNSANITIZED DlsymFunction real_dlsym();

// A handle of an already loaded library, or nullptr. The library stays loaded from then on.
void* loaded_library(const char* soname);

}  // namespace pooch::interpose
