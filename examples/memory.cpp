#include "memory.h"

#include <fmt/core.h>

#include <algorithm>
#include <exception>
#include <utility>

#include "check.h"

namespace train {

Buffer::~Buffer() {
  memory_.free(data_, bytes_);
}

std::shared_ptr<Buffer> Memory::buffer(std::size_t bytes, cudaStream_t first_use) {
  if (bytes == 0) return nullptr;
  void* data = nullptr;
  if (kind_ == Kind::stream_ordered) {
    check(cudaMallocAsync(&data, bytes, first_use),
          fmt::format("cudaMallocAsync of {}", readable_bytes(bytes)));
  } else {
    check(cudaMalloc(&data, bytes), fmt::format("cudaMalloc of {}", readable_bytes(bytes)));
  }
  live_ += bytes;
  peak_ = std::max(peak_, live_);
  return std::make_shared<Buffer>(*this, data, bytes);
}

Tensor Memory::tensor(Shape shape, cudaStream_t first_use) {
  return Tensor(buffer(shape.bytes(), first_use), shape);
}

void Memory::free(void* data, std::size_t bytes) noexcept {
  live_ -= bytes;
  // An exception may come before this stream waits for what another one writes here.
  if (std::uncaught_exceptions() > 0) (void)cudaDeviceSynchronize();
  const cudaError_t status = kind_ == Kind::stream_ordered ? cudaFreeAsync(data, compute_) : cudaFree(data);
  if (free_status_ == cudaSuccess) free_status_ = status;
}

void Memory::check_frees() {
  const cudaError_t status = std::exchange(free_status_, cudaSuccess);
  check(status, kind_ == Kind::stream_ordered ? "cudaFreeAsync" : "cudaFree");
}

}  // namespace train
