// Loops over independent pieces on two threads. Each piece is computed whole by one of them, so results do
// not depend on the split. Plain std::thread: sanitizers understand it, unlike OpenMP's runtime.
#pragma once

#include <cstdint>
#include <functional>

namespace softgpu::cudnn {

// Calls part(begin, end) for two halves of [0, count), at the same time where the helper thread is free.
void in_two(std::int64_t count, const std::function<void(std::int64_t, std::int64_t)>& part);

}  // namespace softgpu::cudnn
