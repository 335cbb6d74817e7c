// The part of `pooch doctor` that needs a driver: a child asks, the parent judges. The prototypes are written
// out because tools/ is built without CUDA's headers.
#include <dlfcn.h>
#include <fmt/format.h>

#include <cstdint>
#include <cstring>
#include <fstream>
#include <initializer_list>

#include "doctor_findings.h"

namespace pooch::tools {
namespace {

constexpr int cuda_version = 13000;  // of the interface that pooch was built for

template <class Function>
Function* symbol(void* library, const char* name) {
  return reinterpret_cast<Function*>(dlsym(library, name));
}

std::string object_of(void* address) {
  Dl_info info;
  if (address == nullptr || dladdr(address, &info) == 0) return "nobody";
  const char* const slash = std::strrchr(info.dli_fname, '/');
  return slash != nullptr ? slash + 1 : info.dli_fname;
}

void* open_first(std::initializer_list<const char*> names) {
  for (const char* name : names)
    if (void* const found = dlopen(name, RTLD_LAZY | RTLD_LOCAL)) return found;
  return nullptr;
}

std::string path_of(void* address) {
  Dl_info info;
  return address != nullptr && dladdr(address, &info) != 0 ? info.dli_fname : "";
}

// Both roads on which a CUDA runtime reaches an allocation function.
void ask_hooks(void* driver, nlohmann::json& answers) {
  answers["by_dlsym"] = object_of(dlsym(driver, "cuMemAlloc_v2"));
  void* found = nullptr;
  int status = 0;
  if (auto* const get =
          symbol<int(const char*, void**, int, std::uint64_t, int*)>(driver, "cuGetProcAddress_v2")) {
    (void)get("cuMemAlloc", &found, cuda_version, 0, &status);
  }
  answers["by_proc_address"] = object_of(found);
}

void ask_driver(void* driver, nlohmann::json& answers) {
  int version = 0, device = 0;
  if (auto* const get = symbol<int(int*)>(driver, "cuDriverGetVersion")) (void)get(&version);
  answers["driver_version"] = version;
  auto* const init = symbol<int(unsigned)>(driver, "cuInit");
  const int status = init != nullptr ? init(0) : -1;
  answers["init"] = status;
  auto* const get_device = symbol<int(int*, int)>(driver, "cuDeviceGet");
  if (status != 0 || get_device == nullptr || get_device(&device, 0) != 0) return;
  char text[256] = "";
  if (auto* const name = symbol<int(char*, int, int)>(driver, "cuDeviceGetName"))
    if (name(text, sizeof text, device) == 0) answers["device"] = text;
  if (auto* const bus = symbol<int(char*, int, int)>(driver, "cuDeviceGetPCIBusId"))
    if (bus(text, sizeof text, device) == 0) answers["bus_id"] = text;
}

void ask_libraries(nlohmann::json& answers) {
  if (void* const runtime = open_first({"libcudart.so.13", "libcudart.so.12"})) {
    int version = 0;
    auto* const get = symbol<int(int*)>(runtime, "cudaRuntimeGetVersion");
    if (get != nullptr && get(&version) == 0) answers["runtime_version"] = version;
    answers["runtime"] = path_of(reinterpret_cast<void*>(get));
  }
  if (void* const cudnn = open_first({"libcudnn.so.9"})) {
    // By the library's own address: under the preload this name may lead to a wrapper.
    auto* const get = symbol<std::size_t()>(cudnn, "cudnnGetVersion");
    if (get != nullptr) answers["cudnn_version"] = get();
  }
  if (void* const cupti =
          open_first({"libcupti.so.13", "/usr/local/cuda/extras/CUPTI/lib64/libcupti.so.13"})) {
    answers["cupti"] = path_of(dlsym(cupti, "cuptiGetVersion"));
  }
}

std::string dotted(int version) {
  return fmt::format("{}.{}", version / 1000, version % 1000 / 10);
}

Finding judge_driver(const nlohmann::json& answers) {
  if (!answers.contains("driver_version")) {
    return {"driver", Level::problem, "no CUDA driver (libcuda.so.1) is found",
            "install the GPU's driver, or use a software GPU: --device soft:v100-pcie3"};
  }
  const int version = answers["driver_version"];
  if (const int status = answers.value("init", -1); status != 0) {
    return {"driver", Level::problem,
            fmt::format("version {}, but cuInit fails with {}", dotted(version), status),
            "make nvidia-smi work first (in a container: give it the GPU); without a GPU: --device "
            "soft:v100-pcie3"};
  }
  const std::string text = fmt::format("version {}", dotted(version));
  if (version < cuda_version) {
    return {"driver", Level::warning, text,
            fmt::format("update the driver: pooch was built for {}", dotted(cuda_version))};
  }
  return {"driver", Level::ok, text, ""};
}

Finding judge_hooks(const nlohmann::json& answers) {
  const std::string by_name = answers.value("by_dlsym", "nobody");
  const std::string by_address = answers.value("by_proc_address", "nobody");
  const std::string text =
      fmt::format("cuMemAlloc by dlsym is {}'s, by cuGetProcAddress {}'s", by_name, by_address);
  if (by_name == "libpooch.so" && by_address == "libpooch.so") return {"hooks", Level::ok, text, ""};
  return {"hooks", Level::problem, text,
          "look for another library in LD_PRELOAD, or LD_AUDIT, that takes dlsym, and leave it out"};
}

void judge_libraries(const nlohmann::json& answers, Findings& all) {
  if (answers.contains("runtime")) {
    const int version = answers.value("runtime_version", 0);
    all.push_back({"runtime", Level::ok,
                   fmt::format("{}{}", answers["runtime"].get<std::string>(),
                               version != 0 ? ", version " + dotted(version) : ""),
                   ""});
  } else {
    all.push_back(
        {"runtime", Level::ok, "no libcudart on the library path; programs with a static one need none", ""});
  }
  if (const auto version = answers.value("cudnn_version", std::size_t{0}); version != 0) {
    all.push_back({"cuDNN", Level::ok,
                   fmt::format("version {}.{}.{}", version / 10000, version % 10000 / 100, version % 100),
                   ""});
  } else {
    all.push_back({"cuDNN", Level::warning, "libcudnn.so.9 is not found",
                   "put its folder on LD_LIBRARY_PATH, if the program uses it"});
  }
  if (answers.contains("cupti")) {
    all.push_back({"CUPTI", Level::ok, answers["cupti"], ""});
  } else {
    all.push_back({"CUPTI", Level::warning, "libcupti.so.13 is not found",
                   "install it with the toolkit for exact times; without it they are taken with events"});
  }
}

}  // namespace

int probe(const std::string& file) {
  nlohmann::json answers = nlohmann::json::object();
  const auto save = [&] {
    std::ofstream out(file);
    out << answers.dump() << '\n';
    return out.good();
  };
  if (void* const driver = open_first({"libcuda.so.1"})) {
    ask_hooks(driver, answers);
    // Kept in case the driver takes this process down.
    if (!save()) return 1;
    ask_driver(driver, answers);
  }
  ask_libraries(answers);
  return save() ? 0 : 1;
}

Findings judge_probe(const nlohmann::json& answers, bool software_device, bool preloaded) {
  Findings all;
  all.push_back(judge_driver(answers));
  const bool driver_loads = answers.contains("by_dlsym");
  if (driver_loads && preloaded) all.push_back(judge_hooks(answers));
  if (answers.contains("device"))
    all.push_back({"device", Level::ok, answers["device"].get<std::string>(), ""});
  judge_libraries(answers, all);
  if (software_device) {
    all.push_back({"bus", Level::ok, "a software GPU has no NUMA node and no link", ""});
  } else if (answers.contains("bus_id")) {
    for (Finding& one : look_at_bus(answers["bus_id"])) all.push_back(std::move(one));
  }
  return all;
}

}  // namespace pooch::tools
