// Device memory: one allocation per tensor, freed with its last reference, as a framework without a caching
// allocator would.
#pragma once

#include <cuda_runtime_api.h>

#include <compare>
#include <cstddef>
#include <memory>
#include <utility>

namespace train {

class Memory;

// One device allocation. Freed in the compute stream, behind the work that was submitted before.
class Buffer {
 public:
  Buffer(Memory& memory, void* data, std::size_t bytes) : memory_(memory), data_(data), bytes_(bytes) {}
  ~Buffer();
  Buffer(const Buffer&) = delete;
  Buffer& operator=(const Buffer&) = delete;

  void* data() const { return data_; }
  std::size_t bytes() const { return bytes_; }

 private:
  Memory& memory_;
  void* data_;
  std::size_t bytes_;
};

// Images are NCHW; clips have a depth, in memory between c and h.
struct Shape {
  int n = 1, c = 1, h = 1, w = 1;
  int d = 0;  // 0: images, which have no such dimension

  std::size_t positions() const { return std::size_t(d == 0 ? 1 : d) * h * w; }
  std::size_t count() const { return n * image_count(); }
  std::size_t image_count() const { return c * positions(); }
  std::size_t bytes() const { return count() * sizeof(float); }
  Shape per_image() const { return {1, c, h, w, d}; }
  // One value per channel, with as many dimensions.
  Shape per_channel() const { return {1, c, 1, 1, d == 0 ? 0 : 1}; }
  auto operator<=>(const Shape&) const = default;
};

// A tensor of floats: packed, or some channels of a packed one. Copies share the memory.
class Tensor {
 public:
  Tensor() = default;
  Tensor(std::shared_ptr<Buffer> buffer, Shape shape)
      : buffer_(std::move(buffer)), shape_(shape), image_stride_(shape.image_count()) {}

  explicit operator bool() const { return buffer_ != nullptr; }
  float* data() const { return static_cast<float*>(buffer_->data()) + offset_; }
  const Shape& shape() const { return shape_; }
  // Floats from one image to the next.
  std::size_t image_stride() const { return image_stride_; }
  bool packed() const { return image_stride_ == shape_.image_count(); }
  bool shared() const { return buffer_.use_count() > 1; }
  void reset() { buffer_.reset(); }

  // The first floats of a packed tensor, as another one.
  Tensor first(Shape shape) const {
    Tensor part = *this;
    part.shape_ = shape;
    part.image_stride_ = shape.image_count();
    return part;
  }
  // Some channels, in the same memory.
  Tensor channels(int first, int count) const {
    Tensor part = *this;
    part.offset_ += first * shape_.positions();
    part.shape_.c = count;
    return part;
  }

 private:
  std::shared_ptr<Buffer> buffer_;
  Shape shape_;
  std::size_t offset_ = 0;
  std::size_t image_stride_ = 0;
};

class Memory {
 public:
  // stream_ordered: cudaMallocAsync and cudaFreeAsync; plain: cudaMalloc and cudaFree.
  enum class Kind { stream_ordered, plain };

  Memory(Kind kind, cudaStream_t compute) : kind_(kind), compute_(compute) {}

  // Content is undefined. Throws Failure, Exit::out_of_memory.
  Tensor tensor(Shape shape) { return tensor(shape, compute_); }
  // For a tensor that is first used in another stream; the compute stream must wait for that use.
  Tensor tensor(Shape shape, cudaStream_t first_use);
  // nullptr for 0 bytes.
  std::shared_ptr<Buffer> buffer(std::size_t bytes, cudaStream_t first_use);
  std::shared_ptr<Buffer> workspace(std::size_t bytes) { return buffer(bytes, compute_); }

  // The most requested bytes that were alive at once.
  std::size_t peak_bytes() const { return peak_; }
  // Throws Failure if a free failed since the last call: destructors cannot.
  void check_frees();

 private:
  friend class Buffer;
  void free(void* data, std::size_t bytes) noexcept;

  Kind kind_;
  cudaStream_t compute_;
  std::size_t live_ = 0;
  std::size_t peak_ = 0;
  cudaError_t free_status_ = cudaSuccess;
};

}  // namespace train
