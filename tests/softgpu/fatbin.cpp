// Device code that nvcc packed: which kernels it has, and where their parameters are. fatbin/kernels.cu is
// the source of what is read here; POOCH_TORCH names a folder with PyTorch's libraries, whose code is read
// too.
#include <elf.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <random>
#include <string>
#include <utility>

#include "softgpu/driver/code/fatbin.h"
#include "tests/softgpu/driver.h"

using namespace softgpu_test;

namespace {

using Layout = std::vector<std::pair<std::size_t, std::size_t>>;  // offset and size

std::string contents(const char* name) {
  std::ifstream file(std::filesystem::path(FATBIN_FOLDER) / name, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

// Through the driver, parameter by parameter; one of (-1, -1) where there is no such kernel.
Layout layout(CUlibrary from, const char* name) {
  CUkernel kernel = nullptr;
  if (cuLibraryGetKernel(&kernel, from, name) != CUDA_SUCCESS) return {{-1, -1}};
  Layout all;
  std::size_t offset = 0, size = 0;
  for (; cuKernelGetParamInfo(kernel, all.size(), &offset, &size) == CUDA_SUCCESS;)
    all.push_back({offset, size});
  CUfunction function = nullptr;
  EXPECT_EQ(cuKernelGetFunction(&function, kernel), CUDA_SUCCESS);
  if (!all.empty()) {
    EXPECT_EQ(cuFuncGetParamInfo(function, 0, &offset, &size), CUDA_SUCCESS);
    EXPECT_EQ(std::pair(offset, size), all[0]);
  }
  return all;
}

void expect_kernels(const char* file) {
  static std::string code;  // a library reads it later
  code = contents(file);
  ASSERT_FALSE(code.empty());
  CUlibrary from = nullptr;
  ASSERT_EQ(cuLibraryLoadData(&from, code.data(), nullptr, nullptr, 0, nullptr, nullptr, 0), CUDA_SUCCESS);
  EXPECT_EQ(layout(from, "_Z5scaleIfEvPT_PKS0_iS0_"), (Layout{{0, 8}, {8, 8}, {16, 4}, {20, 4}}));
  EXPECT_EQ(layout(from, "gather"), (Layout{{0, 32}, {32, 2}}));
  EXPECT_EQ(layout(from, "aligned"), (Layout{{0, 1}, {16, 16}, {32, 8}}));
  EXPECT_EQ(layout(from, "large"), (Layout{{0, 4}, {8, 20008}, {20016, 1}}));
  EXPECT_EQ(layout(from, "calls"), (Layout{{0, 8}}));
  EXPECT_EQ(layout(from, "none"), Layout());
  EXPECT_EQ(layout(from, "helper"), (Layout{{-1, -1}})) << "no kernel";
  unsigned count = 0;
  EXPECT_EQ(cuLibraryGetKernelCount(&count, from), CUDA_SUCCESS);
  EXPECT_EQ(count, 6u) << "the function that a kernel calls is none";
}

TEST(SoftgpuFatbin, ParametersOfACubinOfTheRightArchitecture) {
  ON_DEVICE("h200:timing", "", expect_kernels("plain.cubin"););
}
TEST(SoftgpuFatbin, ParametersOfCubinsPackedByZstd) {
  ON_DEVICE("h200:timing", "", expect_kernels("zstd.fatbin"););
}
TEST(SoftgpuFatbin, ParametersOfTextPackedByLz4) {
  ON_DEVICE("h200:timing", "", expect_kernels("lz4.fatbin"););
}
TEST(SoftgpuFatbin, ADeviceWithoutCodeOfItsOwnTakesTheNearest) {
  ON_DEVICE("p100-pcie3:timing", "", expect_kernels("zstd.fatbin"););
}

TEST(SoftgpuFatbin, FilesAreLoadedAndNeedNotStay) {
  ON_DEVICE("h200:timing", "", {
    const auto path = std::filesystem::temp_directory_path() / ("softgpu_fatbin" + std::to_string(getpid()));
    for (const char* name : {"plain.cubin", "zstd.fatbin", "lz4.fatbin"}) {
      std::filesystem::copy_file(std::filesystem::path(FATBIN_FOLDER) / name, path);
      CUmodule module = nullptr;
      CUlibrary library = nullptr;
      EXPECT_EQ(cuModuleLoad(&module, path.c_str()), CUDA_SUCCESS);
      EXPECT_EQ(cuLibraryLoadFromFile(&library, path.c_str(), nullptr, nullptr, 0, nullptr, nullptr, 0),
                CUDA_SUCCESS);
      std::filesystem::remove(path);
      EXPECT_EQ(layout(library, "gather"), (Layout{{0, 32}, {32, 2}}));
      CUfunction function = nullptr;
      std::size_t offset = 0, size = 0;
      EXPECT_EQ(cuModuleGetFunction(&function, module, "gather"), CUDA_SUCCESS);
      EXPECT_EQ(cuFuncGetParamInfo(function, 1, &offset, &size), CUDA_SUCCESS);
      EXPECT_EQ(std::pair(offset, size), std::pair(std::size_t{32}, std::size_t{2}));
      EXPECT_EQ(cuModuleGetFunction(&function, module, "helper"), CUDA_ERROR_NOT_FOUND);
      EXPECT_EQ(cuModuleUnload(module), CUDA_SUCCESS);
    }
  });
}

TEST(SoftgpuFatbin, FilesOfAnotherKindAreRefused) {
  ON_DEVICE("h200:timing", "", {
    const auto path = std::filesystem::temp_directory_path() / ("softgpu_fatbin" + std::to_string(getpid()));
    CUmodule module = nullptr;
    EXPECT_EQ(cuModuleLoad(&module, path.c_str()), CUDA_ERROR_FILE_NOT_FOUND);
    // The last is the wrapper of a container, whose address another process had.
    const std::string cut = contents("zstd.fatbin").substr(0, 100);
    for (const std::string& text : {std::string(), std::string("no"), std::string(100, 'x'), cut,
                                    std::string("\xb1\x43\x62\x46\1\0\0\0\0\x10\0\0\0\0\0\0", 16)}) {
      std::ofstream(path, std::ios::binary) << text;
      EXPECT_EQ(cuModuleLoad(&module, path.c_str()), CUDA_ERROR_INVALID_IMAGE) << text.size();
    }
    std::filesystem::remove(path);
  });
}

TEST(SoftgpuDeviceCode, ATensorMapBelongsToAnAddressAndHasLimits) {
  ON_DEVICE("h200:timing", "", {
    const CUdeviceptr tensor = allocate(4 * MiB);
    const auto encode = [&](CUtensorMap* map, CUdeviceptr at, std::uint64_t stride, unsigned box) {
      const cuuint64_t dimensions[] = {512, 64}, strides[] = {stride};
      const cuuint32_t boxes[] = {box, 64}, steps[] = {1, 1};
      return cuTensorMapEncodeTiled(map, CU_TENSOR_MAP_DATA_TYPE_FLOAT32, 2, reinterpret_cast<void*>(at),
                                    dimensions, strides, boxes, steps, CU_TENSOR_MAP_INTERLEAVE_NONE,
                                    CU_TENSOR_MAP_SWIZZLE_NONE, CU_TENSOR_MAP_L2_PROMOTION_NONE,
                                    CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);
    };
    CUtensorMap map{};
    CUtensorMap other{};
    EXPECT_EQ(encode(&map, tensor, 2048, 32), CUDA_SUCCESS);
    EXPECT_EQ(encode(&other, tensor + 2048, 2048, 32), CUDA_SUCCESS);
    EXPECT_NE(std::memcmp(&map, &other, sizeof map), 0);
    EXPECT_EQ(cuTensorMapReplaceAddress(&map, reinterpret_cast<void*>(tensor + 2048)), CUDA_SUCCESS);
    EXPECT_EQ(std::memcmp(&map, &other, sizeof map), 0);
    EXPECT_EQ(encode(&map, tensor + 4, 2048, 32), CUDA_ERROR_INVALID_VALUE) << "not aligned";
    EXPECT_EQ(encode(&map, tensor, 2044, 32), CUDA_ERROR_INVALID_VALUE) << "rows that are not aligned";
    EXPECT_EQ(encode(&map, tensor, 2048, 257), CUDA_ERROR_INVALID_VALUE) << "too large a box";
  });
}

TEST(SoftgpuDeviceCode, ClustersFillTheMultiprocessors) {
  ON_DEVICE("h200:timing", "", {
    const std::string code = contents("plain.cubin");
    CUmodule module = nullptr;
    CUfunction function = nullptr;
    ASSERT_EQ(cuModuleLoadData(&module, code.data()), CUDA_SUCCESS);
    ASSERT_EQ(cuModuleGetFunction(&function, module, "gather"), CUDA_SUCCESS);
    int multiprocessors = 0, clusters = 0;
    EXPECT_EQ(cuDeviceGetAttribute(&multiprocessors, CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT, 0),
              CUDA_SUCCESS);
    CUlaunchAttribute attribute{};
    attribute.id = CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION;
    attribute.value.clusterDim = {2, 2, 1};
    CUlaunchConfig config{};
    config.gridDimX = config.gridDimY = config.gridDimZ = config.blockDimX = config.blockDimY =
        config.blockDimZ = 1;
    config.attrs = &attribute;
    config.numAttrs = 1;
    EXPECT_EQ(cuOccupancyMaxActiveClusters(&clusters, function, &config), CUDA_SUCCESS);
    EXPECT_EQ(clusters, multiprocessors / 4);
  });
}

TEST(SoftgpuFatbin, ALaunchWithoutAHostFunctionSaysWhichKernelWhereThereIsSomethingToCompute) {
  ON_DEVICE("h200:compute:memory=64MiB", "no host function for the kernel none", {
    const std::string code = contents("plain.cubin");
    CUlibrary from = nullptr;
    CUkernel kernel = nullptr;
    ASSERT_EQ(cuLibraryLoadData(&from, code.data(), nullptr, nullptr, 0, nullptr, nullptr, 0), CUDA_SUCCESS);
    ASSERT_EQ(cuLibraryGetKernel(&kernel, from, "none"), CUDA_SUCCESS);
    EXPECT_EQ(
        cuLaunchKernel(reinterpret_cast<CUfunction>(kernel), 1, 1, 1, 1, 1, 1, 0, nullptr, nullptr, nullptr),
        CUDA_ERROR_NOT_SUPPORTED);
  });
}

// scale(float* out, const float* in, int count, float by) of kernels.cu
CUresult launch_scale(CUdeviceptr out, CUdeviceptr in, unsigned blocks, CUstream stream) {
  static const std::string code = contents("plain.cubin");
  static const CUkernel kernel = [] {
    CUlibrary from = nullptr;
    CUkernel found = nullptr;
    EXPECT_EQ(cuLibraryLoadData(&from, code.data(), nullptr, nullptr, 0, nullptr, nullptr, 0), CUDA_SUCCESS);
    EXPECT_EQ(cuLibraryGetKernel(&found, from, "_Z5scaleIfEvPT_PKS0_iS0_"), CUDA_SUCCESS);
    return found;
  }();
  int count = 1;
  float by = 2;
  void* params[] = {&out, &in, &count, &by};
  return cuLaunchKernel(reinterpret_cast<CUfunction>(kernel), blocks, 1, 1, 256, 1, 1, 0, stream, params,
                        nullptr);
}

// What a launch takes whose operands are the begins of two allocations.
float scale_milliseconds(std::size_t bytes, unsigned blocks) {
  const CUstream stream = new_stream();
  const CUevent begin = new_event();
  const CUevent end = new_event();
  const CUdeviceptr out = allocate(bytes);
  const CUdeviceptr in = allocate(bytes);
  float taken = 0;
  EXPECT_EQ(launch_scale(out, in, blocks, stream), CUDA_SUCCESS);
  EXPECT_EQ(cuEventRecord(begin, stream), CUDA_SUCCESS);
  EXPECT_EQ(launch_scale(out, in, blocks, stream), CUDA_SUCCESS);
  EXPECT_EQ(cuEventRecord(end, stream), CUDA_SUCCESS);
  EXPECT_EQ(cuEventSynchronize(end), CUDA_SUCCESS);
  EXPECT_EQ(cuEventElapsedTime(&taken, begin, end), CUDA_SUCCESS);
  return taken;
}

TEST(SoftgpuDeviceCode, CostsByItsThreadsAndOperandsAndNotByTheAllocation) {
  ON_DEVICE("h200:timing", "", {
    // 2^17 blocks of 256 threads, 32 bytes each, twice: 2 GiB at 3936 GB/s.
    EXPECT_NEAR(scale_milliseconds(std::size_t{2} << 30, 1U << 17), 0.547, 0.01);
    EXPECT_NEAR(scale_milliseconds(std::size_t{1} << 30, 1U << 17), 0.547, 0.01);
    // Not more than there is.
    EXPECT_NEAR(scale_milliseconds(std::size_t{512} << 20, 1U << 17), 0.274, 0.01);
  });
}

TEST(SoftgpuDeviceCode, WhoseTouchesAreKnownCostsByThemWhateverLiesBehindAndHoweverManyThreads) {
  ON_DEVICE("h200:timing", "", {
    setenv("SOFTGPU_KERNELS", FAMILY_FOLDER, 1);
    // 64 MiB twice at 3936 GB/s, the gap before a launch and an event.
    EXPECT_NEAR(scale_milliseconds(std::size_t{2} << 30, 1U << 17), 0.0361, 0.0005);
    EXPECT_NEAR(scale_milliseconds(std::size_t{64} << 20, 1U << 17), 0.0361, 0.0005);
    EXPECT_NEAR(scale_milliseconds(std::size_t{2} << 30, 1), 0.0361, 0.0005);
  });
}

TEST(SoftgpuDeviceCode, AnOperandThatIsGoneIsReported) {
  ON_DEVICE("h200:timing", "freed: op A \\(_Z5scaleIfEvPT_PKS0_iS0_", {
    const CUdeviceptr out = allocate(4 * MiB);
    const CUdeviceptr in = allocate(4 * MiB);
    EXPECT_EQ(launch_scale(out, in, 1, nullptr), CUDA_SUCCESS);
    EXPECT_EQ(cuMemFree(in), CUDA_SUCCESS);
    EXPECT_EQ(launch_scale(out, in, 1, nullptr), CUDA_SUCCESS);
    EXPECT_EQ(cuCtxSynchronize(), CUDA_ERROR_ILLEGAL_ADDRESS);
  });
}

TEST(SoftgpuDeviceCode, MemoryThatMovesUnderALaunchIsARace) {
  ON_DEVICE("h200:timing", "race: ", {
    const CUdeviceptr out = allocate(4 * MiB);
    const CUdeviceptr in = allocate(4 * MiB);
    const CUstream first = new_stream();
    const CUstream second = new_stream();
    EXPECT_EQ(launch_scale(out, in, 1, first), CUDA_SUCCESS);
    EXPECT_EQ(cuMemsetD8Async(in, 0, 4 * MiB, second), CUDA_SUCCESS);
    EXPECT_EQ(cuCtxSynchronize(), CUDA_ERROR_ILLEGAL_ADDRESS);
  });
}

TEST(SoftgpuDeviceCode, TwoLaunchesAloneAreNoRaceAndWhatTheyMayHaveWrittenCanBeRead) {
  ON_DEVICE("h200:timing", "", {
    const CUdeviceptr out = allocate(4 * MiB);
    const CUdeviceptr in = allocate(4 * MiB);
    EXPECT_EQ(launch_scale(out, in, 1, new_stream()), CUDA_SUCCESS);
    EXPECT_EQ(launch_scale(out, in, 1, new_stream()), CUDA_SUCCESS);
    EXPECT_EQ(read(out, MiB), CUDA_SUCCESS);
    EXPECT_EQ(cuCtxSynchronize(), CUDA_SUCCESS);
  });
}

// large(int a, Large b, char c), whose second parameter has 20000 bytes behind its address
TEST(SoftgpuDeviceCode, WhatLiesInUnusedPlacesOfATableIsNoAccess) {
  ON_DEVICE("h200:timing", "", {
    const std::string code = contents("plain.cubin");
    CUlibrary from = nullptr;
    CUkernel kernel = nullptr;
    ASSERT_EQ(cuLibraryLoadData(&from, code.data(), nullptr, nullptr, 0, nullptr, nullptr, 0), CUDA_SUCCESS);
    ASSERT_EQ(cuLibraryGetKernel(&kernel, from, "large"), CUDA_SUCCESS);
    const CUdeviceptr used = allocate(4 * MiB);
    const CUdeviceptr gone = allocate(4 * MiB);
    const CUdeviceptr others = allocate(4 * MiB);
    EXPECT_EQ(cuMemFree(gone), CUDA_SUCCESS);
    std::vector<CUdeviceptr> table(20008 / sizeof(CUdeviceptr));
    table[0] = used;
    table[1] = gone;
    table[2] = others;
    int a = 0;
    char c = 0;
    void* params[] = {&a, table.data(), &c};
    EXPECT_EQ(cuLaunchKernel(reinterpret_cast<CUfunction>(kernel), 1, 1, 1, 32, 1, 1, 0, new_stream(), params,
                             nullptr),
              CUDA_SUCCESS);
    EXPECT_EQ(cuMemsetD8Async(others, 0, 4 * MiB, new_stream()), CUDA_SUCCESS);
    EXPECT_EQ(cuCtxSynchronize(), CUDA_SUCCESS);
  });
}

// Whatever is in a damaged file, reading it ends; a sanitizer sees what is read beside it.
TEST(SoftgpuFatbin, DamagedCodeIsNeitherBelievedNorReadBeyondItsEnd) {
  std::mt19937 random(1);
  for (const char* name : {"zstd.fatbin", "lz4.fatbin", "plain.cubin"}) {
    const std::string whole = contents(name);
    const std::string head = whole.substr(0, 16);
    for (int i = 0; i < 300; ++i) {
      std::string damaged = whole;
      for (int hit = 0; hit < 3; ++hit)
        damaged[16 + random() % (i < 200 ? 240 : damaged.size() - 16)] = static_cast<char>(random());
      // A cubin's length is not in its container, so what lies behind it must be readable: all of the offsets
      // in it may be anything.
      const bool bare = whole.starts_with("\177ELF");
      const auto kernels =
          bare ? softgpu::cubin_kernels(reinterpret_cast<const std::byte*>(damaged.data()), damaged.size())
               : [&] {
                   const auto opened = softgpu::FatBinary::open(damaged.data(), 90);
                   return opened == nullptr ? softgpu::FatBinary::Kernels() : opened->kernels();
                 }();
      EXPECT_LE(kernels.size(), 7u);
    }
  }
}

TEST(SoftgpuFatbin, CodeAndLocalMemoryOfACubinsKernels) {
  const std::string plain = contents("plain.cubin");
  const auto kernels = [](const std::string& cubin) {
    return softgpu::cubin_kernels(reinterpret_cast<const std::byte*>(cubin.data()), cubin.size());
  };
  for (const auto& [name, kernel] : kernels(plain)) {
    EXPECT_GE(kernel.code_bytes, 0x100u) << name;
    EXPECT_EQ(kernel.local_bytes, 0u) << name;
  }
  EXPECT_EQ(kernels(plain).at("gather").code_bytes, 0x200u);
  // FRAME_SIZE of symbol 29, which is gather.
  const std::string head("\x04\x11\x08\0\x1d\0\0\0", 8);
  std::string deep = plain;
  ASSERT_NE(deep.find(head), std::string::npos);
  deep[deep.find(head) + head.size() + 1] = 0x20;
  EXPECT_EQ(kernels(deep).at("gather").local_bytes, 0x2000u);
  EXPECT_EQ(kernels(deep).at("large").local_bytes, 0u);
}

// --- the public wheel, where it is installed

// The section of device code in a shared library.
std::string_view device_code(const char* file, std::size_t bytes) {
  const auto* const head = reinterpret_cast<const Elf64_Ehdr*>(file);
  const auto* const sections = reinterpret_cast<const Elf64_Shdr*>(file + head->e_shoff);
  const char* const names = file + sections[head->e_shstrndx].sh_offset;
  for (int i = 0; i < head->e_shnum; ++i)
    if (std::string_view(names + sections[i].sh_name) == ".nv_fatbin" &&
        sections[i].sh_offset + sections[i].sh_size <= bytes)
      return {file + sections[i].sh_offset, sections[i].sh_size};
  return {};
}

TEST(SoftgpuFatbin, KernelsOfThePytorchWheel) {
  const char* const folder = std::getenv("POOCH_TORCH");
  if (folder == nullptr) GTEST_SKIP() << "POOCH_TORCH is not set";
  const auto path = std::filesystem::path(folder) / "libtorch_cuda.so";
  const std::size_t bytes = std::filesystem::file_size(path);
  std::FILE* const file = std::fopen(path.c_str(), "rb");
  void* const mapped = mmap(nullptr, bytes, PROT_READ, MAP_PRIVATE, fileno(file), 0);
  ASSERT_NE(mapped, MAP_FAILED);
  std::string_view code = device_code(static_cast<const char*>(mapped), bytes);
  std::size_t containers = 0, kernels = 0;
  std::vector<softgpu::KernelParam> fill;
  while (code.size() >= 16) {
    if (!softgpu::FatBinary::recognises(code.data())) {
      code.remove_prefix(8);  // between containers
      continue;
    }
    const auto opened = softgpu::FatBinary::open(code.data(), 90);
    ASSERT_NE(opened, nullptr);
    ++containers;
    kernels += opened->kernels().size();
    for (const auto& [name, kernel] : opened->kernels())
      if (name.starts_with("_ZN2at6native29vectorized_elementwise_kernelILi4ENS0_11FillFunctorIfEE"))
        fill = kernel.params;
    std::uint64_t behind = 0;
    std::memcpy(&behind, code.data() + 8, sizeof behind);
    code.remove_prefix(16 + behind);
  }
  std::printf("%zu containers, %zu kernels\n", containers, kernels);
  EXPECT_GT(kernels, 20000u);
  // (int N, FillFunctor<float>, std::array<char*, 1>)
  EXPECT_EQ(fill, (std::vector<softgpu::KernelParam>{{0, 4}, {4, 4}, {8, 8}}));
}

}  // namespace
