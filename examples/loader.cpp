#include <algorithm>

#include "check.h"
#include "data.h"

namespace train {
namespace {

class SyntheticSource final : public Source {
 public:
  SyntheticSource(Shape image, int classes, int batch, std::uint64_t seed)
      : image_(image), classes_(classes), batch_(batch), random_(seed) {}

  Shape image() const override { return image_; }
  int classes() const override { return classes_; }
  int batches_per_epoch() const override { return 0; }

  void fill(int batch, float* images, std::vector<int>& labels) override {
    if (batch >= slot_count) return;  // the slot still holds its batch
    const std::size_t count = image_.count() * batch_;
    for (std::size_t i = 0; i < count;) {
      // Four pixels in [-1, 1) from one draw.
      for (std::uint64_t word = random_.bits(), part = 0; part < 4 && i < count; ++part, word >>= 16, ++i) {
        images[i] = static_cast<float>(word & 0xFFFF) / 32768.0F - 1.0F;
      }
    }
    for (int& label : labels) label = static_cast<int>(random_.bits() % static_cast<std::uint64_t>(classes_));
  }

 private:
  Shape image_;
  int classes_;
  int batch_;
  Random random_;
};

float* page_locked(std::size_t bytes) {
  void* data = nullptr;
  check(cudaMallocHost(&data, bytes), "cudaMallocHost of " + readable_bytes(bytes));
  return static_cast<float*>(data);
}

}  // namespace

std::unique_ptr<Source> synthetic_source(Shape image, int classes, int batch, std::uint64_t seed) {
  return std::make_unique<SyntheticSource>(image, classes, batch, seed);
}

Loader::Loader(Context& context, Source& source, int batch, bool upload_once)
    : context_(context), source_(source), upload_once_(upload_once) {
  images_ = source.image();
  images_.n = batch;
  targets_ = {batch, source.classes(), 1, 1};
  for (Slot& slot : slots_) {
    slot.images = page_locked(images_.bytes());
    slot.targets = page_locked(targets_.bytes());
    slot.labels.resize(batch);
    check(cudaEventCreateWithFlags(&slot.copied, cudaEventDisableTiming), "cudaEventCreateWithFlags");
  }
}

Loader::~Loader() {
  cudaStreamSynchronize(context_.copy());
  for (const Slot& slot : slots_) {
    if (slot.copied != nullptr) cudaEventDestroy(slot.copied);
    cudaFreeHost(slot.targets);
    cudaFreeHost(slot.images);
  }
}

Batch Loader::load(Shape images) {
  Shape targets = targets_;
  targets.n = images.n;
  if (!upload_once_) return upload(images, targets);
  if (!only_.images) {
    only_ = upload(images_, targets_);
  } else {
    only_.ready = nullptr;  // whoever got the first has waited
  }
  return {only_.images.first(images), only_.targets.first(targets), only_.labels, only_.ready};
}

Batch Loader::upload(Shape images, Shape targets) {
  const int load = loads_++;
  Slot& slot = slots_[load % slot_count];
  if (slot.used) check(cudaEventSynchronize(slot.copied), "cudaEventSynchronize");
  slot.used = true;
  source_.fill(load, slot.images, slot.labels);
  std::fill_n(slot.targets, targets.count(), 0.0F);
  for (int i = 0; i < targets.n; ++i) slot.targets[std::size_t(i) * targets.c + slot.labels[i]] = 1.0F;

  const cudaStream_t copy = context_.copy();
  Batch batch{context_.memory.tensor(images, copy), context_.memory.tensor(targets, copy), &slot.labels,
              slot.copied};
  try {
    check(cudaMemcpyAsync(batch.images.data(), slot.images, images.bytes(), cudaMemcpyHostToDevice, copy),
          "cudaMemcpyAsync to the device");
    check(cudaMemcpyAsync(batch.targets.data(), slot.targets, targets.bytes(), cudaMemcpyHostToDevice, copy),
          "cudaMemcpyAsync to the device");
    check(cudaEventRecord(slot.copied, copy), "cudaEventRecord");
  } catch (...) {
    cudaStreamSynchronize(copy);  // the tensors are freed on the other stream
    throw;
  }
  return batch;
}

}  // namespace train
