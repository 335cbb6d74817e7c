// Where images and labels come from, and how they reach the device: two page-locked slots, filled and copied
// while the device computes.
#pragma once

#include <cuda_runtime_api.h>

#include <array>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "context.h"
#include "random.h"

namespace train {

inline constexpr int slot_count = 2;

class Source {
 public:
  virtual ~Source() = default;
  virtual Shape image() const = 0;
  virtual int classes() const = 0;
  // Full batches in one pass over the data; 0: endless.
  virtual int batches_per_epoch() const = 0;
  // Writes one full batch. `images` still holds what this source wrote slot_count batches ago (at first:
  // nothing).
  virtual void fill(int batch, float* images, std::vector<int>& labels) = 0;
};

// Handwritten digits: every fifth image, the first included, is for testing (360), the rest for training
// (1437).
struct Digits {
  static constexpr int pixels = 64;
  std::vector<float> train_images, test_images;
  std::vector<int> train_labels, test_labels;
};
// Reads FOLDER/digits.csv.gz. Throws Failure naming the file and the line.
Digits read_digits(const std::string& folder);

// Training images in an order that `seed` shuffles anew each epoch. `digits` must outlive the source.
std::unique_ptr<Source> digits_source(const Digits& digits, int batch, std::uint64_t seed);
// Test images in order, from the first again after the last. `digits` must outlive the source.
std::unique_ptr<Source> digits_test_source(const Digits& digits, int batch);
// Two batches of seeded noise, used in turn.
std::unique_ptr<Source> synthetic_source(Shape image, int classes, int batch, std::uint64_t seed);

// One batch on the device. The compute stream must wait for `ready` first, if there is one.
struct Batch {
  Tensor images;
  Tensor targets;                            // one-hot rows
  const std::vector<int>* labels = nullptr;  // as many as images, or more
  cudaEvent_t ready = nullptr;
};

class Loader {
 public:
  // `source` must outlive the loader and give batches of `batch` images. `upload_once`: every batch is the
  // first one.
  Loader(Context& context, Source& source, int batch, bool upload_once);
  ~Loader();
  Loader(const Loader&) = delete;
  Loader& operator=(const Loader&) = delete;

  // Fills a slot and submits its copies to the copy stream. `images`: the shape of the batch, at most that of
  // a full one; its floats and labels are the first of those. The labels are valid until the second next
  // load. Waits only for the slot's copies of slot_count loads ago.
  Batch load(Shape images);

 private:
  struct Slot {
    float* images = nullptr;   // page-locked
    float* targets = nullptr;  // page-locked
    std::vector<int> labels;
    cudaEvent_t copied = nullptr;
    bool used = false;
  };

  Batch upload(Shape images, Shape targets);

  Context& context_;
  Source& source_;
  Shape images_, targets_;  // of a full batch
  bool upload_once_;
  Batch only_;     // where one is uploaded once
  int loads_ = 0;  // so far
  std::array<Slot, slot_count> slots_;
};

}  // namespace train
