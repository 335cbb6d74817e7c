// The part of the spy that sees which kind of handle a runtime launches kernels with.
#pragma once

// Stands before `found`, which somebody was given for `name`, where that gives out kernels or launches them;
// nullptr for any other. Each kernel leaves a line behind at its first launch:
//
//   launch cuLaunchKernel kernel -400 3
//
// the kind of its handle as the driver gave it out (function, kernel, or unknown), then what
// cuFuncGetParamInfo and cuKernelGetParamInfo say of it: how many parameters, or the status that refuses it,
// negative.
void* watched(const char* name, bool per_thread, void* found);

// Of the C library; dlsym is the spy's own.
void* next_symbol(void* handle, const char* name);
// Appends to the file that LOOKUP_SPY names.
void write_line(const char* line, int length);
