// Kernels: images (softgpu/image.h) loaded as libraries or modules, and the handles for what is in them.
#pragma once

#include <cuda.h>

#include <cstdint>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "softgpu/image.h"

namespace softgpu {

struct Library;

// A CUkernel points to one of these, a CUfunction to its `function`.
struct Kernel {
  struct Function {
    Kernel* kernel;
  };
  const KernelEntry* entry;
  const char* name;  // lives as long as the process
  Library* library;
  std::vector<std::uint32_t> offsets;  // of each parameter in the packed form
  std::uint32_t packed_bytes;
  std::map<CUfunction_attribute, int> attributes;  // what was set
  Function function;
};

struct Library {
  std::map<std::string, std::unique_ptr<Kernel>> kernels;
};

class Modules {
 public:
  // `code`: a softgpu::Image, or PTX text, whose kernels are those that have a host function
  // (host_kernels.h). CUDA_ERROR_INVALID_IMAGE where it is neither, CUDA_ERROR_INVALID_PTX.
  CUresult load(const void* code, Library** out);
  bool unload(Library* library);
  bool known(Library* library) const { return libraries_.count(library) != 0; }
  // A launch takes a CUfunction, or a CUkernel cast to one. Null: neither.
  Kernel* kernel(const void* handle) const;

 private:
  void add(const KernelEntry& entry, Library& library);

  std::map<Library*, std::unique_ptr<Library>> libraries_;
  std::map<const void*, Kernel*> handles_;
  std::set<std::string> names_;
};

}  // namespace softgpu
