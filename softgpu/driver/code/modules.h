// Kernels: images (softgpu/image.h) and device code loaded as libraries or modules, and the handles for what
// is in them.
#pragma once

#include <cuda.h>

#include <cstdint>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "softgpu/driver/code/fatbin.h"
#include "softgpu/image.h"

namespace softgpu {

struct Library;

// A CUkernel points to one of these, a CUfunction to its `function`.
struct Kernel {
  struct Function {
    Kernel* kernel;
  };
  const KernelEntry* entry;  // null for device code without a host function
  // Of device code: whose rule tells what it touches.
  const KernelFamily* family = nullptr;
  std::string demangled;
  bool family_asked = false;  // at the first launch
  const char* name;           // lives as long as the process
  std::uint64_t name_hash;
  Library* library;
  std::vector<KernelParam> params;
  std::uint32_t packed_bytes;
  std::uint64_t code_bytes;                        // that it takes where it is loaded
  std::uint32_t local_bytes;                       // of local memory for each thread
  std::uint32_t loaded_on;                         // a bit for each device
  std::map<CUfunction_attribute, int> attributes;  // what was set
  Function function;
};

struct Library {
  std::string file;                // what it was loaded from; empty: memory that is not the library's
  std::unique_ptr<FatBinary> fat;  // read when somebody asks for a kernel
  std::map<std::string, std::unique_ptr<Kernel>> kernels;
};

class Modules {
 public:
  // `code`: a softgpu::Image; PTX text, whose kernels are those that have a host function (host_kernels.h);
  // or device code (fatbin.h) for a device of this capability, 90 for 9.0, which must stay where it is.
  // CUDA_ERROR_INVALID_IMAGE where it is none of them, CUDA_ERROR_INVALID_PTX.
  CUresult load(const void* code, int capability, Library** out);
  // PTX text, a container or a cubin from a file; CUDA_ERROR_FILE_NOT_FOUND.
  CUresult load_file(const char* path, int capability, Library** out);
  bool unload(Library* library);
  bool known(Library* library) const { return libraries_.count(library) != 0; }
  Kernel* find(Library& library, const char* name);
  // All kernels of the library.
  const std::map<std::string, std::unique_ptr<Kernel>>& kernels(Library& library);
  // A launch takes a CUfunction, or a CUkernel cast to one. Null: neither.
  Kernel* kernel(const void* handle) const;

 private:
  CUresult read(const void* code, std::uint64_t available, int capability, Library& library);
  Library* keep(std::unique_ptr<Library> library);
  void add_image(const KernelEntry& entry, Library& library);
  Kernel& add(std::string_view name, DeviceKernel code, const KernelEntry* entry, Library& library);

  std::map<Library*, std::unique_ptr<Library>> libraries_;
  std::map<const void*, Kernel*> handles_;
  std::set<std::string> names_;
};

}  // namespace softgpu
