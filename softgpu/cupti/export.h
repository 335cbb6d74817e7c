// Every exported function: the compiler compares it with the vendor's prototype.
#pragma once

#include <cupti.h>

#include <cstddef>
#include <cstdint>

#define SOFTGPU_CUPTI extern "C" __attribute__((visibility("default"))) CUptiResult
