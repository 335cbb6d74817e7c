// Device code in files: cubins, fat binaries, and libraries and programs that have some in them.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "core/result.h"
#include "softgpu/driver/code/fatbin.h"
#include "tools/effects/kernel.h"
#include "tools/effects/mapped_file.h"

namespace pooch::effects {

// The code of a file for one architecture.
struct Image {
  std::uint32_t architecture = 0;
  softgpu::FatEntry entry{};  // into the file

  // As a cubin; empty where it is damaged.
  std::string cubin() const { return entry.unpack(); }
};

class ImageFile {
 public:
  // Error: invalid_argument, the reason without the file's name.
  static Result<ImageFile> open(const std::filesystem::path& path);

  // Machine code alone. PTX text is counted.
  const std::vector<Image>& images() const { return images_; }
  std::size_t ptx_texts() const { return ptx_texts_; }

 private:
  bool read(std::string_view bytes);
  void read_containers(std::string_view bytes);

  std::shared_ptr<const MappedFile> mapping_;
  std::vector<Image> images_;
  std::size_t ptx_texts_ = 0;
};

// The machine code of one fat binary, which begins at the first byte, or of one cubin. It points into `code`.
// Empty: it is neither, or is damaged.
std::vector<Image> images_of(std::string_view code);

// The kernels of a cubin, by number of their symbol. Empty: it has none, or is damaged.
std::vector<Kernel> kernels_of(std::string_view cubin);

}  // namespace pooch::effects
