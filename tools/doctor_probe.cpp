// The part of `pooch doctor` that needs a driver: a child asks, the parent judges. The prototypes are written
// out because tools/ is built without CUDA's headers.
#include <dlfcn.h>
#include <fmt/core.h>

#include <cstdint>
#include <cstring>
#include <initializer_list>
#include <limits>
#include <nlohmann/json.hpp>

#include "core/json_cursor.h"
#include "doctor_findings.h"
#include "text_file.h"

namespace pooch::tools {
namespace {

constexpr std::uint32_t cuda_version = 13000;  // of the interface that pooch was built for

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
void ask_hooks(void* driver, Answers& answers) {
  answers.by_dlsym = object_of(dlsym(driver, "cuMemAlloc_v2"));
  void* found = nullptr;
  int status = 0;
  if (auto* const get =
          symbol<int(const char*, void**, int, std::uint64_t, int*)>(driver, "cuGetProcAddress_v2")) {
    (void)get("cuMemAlloc", &found, static_cast<int>(cuda_version), 0, &status);
  }
  answers.by_proc_address = object_of(found);
}

void ask_driver(void* driver, Answers& answers) {
  int version = 0, device = 0;
  if (auto* const get = symbol<int(int*)>(driver, "cuDriverGetVersion")) (void)get(&version);
  answers.driver_version = static_cast<std::uint32_t>(version);
  auto* const init = symbol<int(unsigned)>(driver, "cuInit");
  if (init != nullptr) answers.init = static_cast<std::uint32_t>(init(0));
  auto* const get_device = symbol<int(int*, int)>(driver, "cuDeviceGet");
  if (answers.init != 0 || get_device == nullptr || get_device(&device, 0) != 0) return;
  char text[256] = "";
  if (auto* const name = symbol<int(char*, int, int)>(driver, "cuDeviceGetName"))
    if (name(text, sizeof text, device) == 0) answers.device = text;
  if (auto* const bus = symbol<int(char*, int, int)>(driver, "cuDeviceGetPCIBusId"))
    if (bus(text, sizeof text, device) == 0) answers.bus_id = text;
}

void ask_libraries(Answers& answers) {
  if (void* const runtime = open_first({"libcudart.so.13", "libcudart.so.12"})) {
    int version = 0;
    auto* const get = symbol<int(int*)>(runtime, "cudaRuntimeGetVersion");
    if (get != nullptr && get(&version) == 0) answers.runtime_version = static_cast<std::uint32_t>(version);
    answers.runtime = path_of(reinterpret_cast<void*>(get));
  }
  if (void* const cudnn = open_first({"libcudnn.so.9"})) {
    // By the library's own address: under the preload this name may lead to a wrapper.
    auto* const get = symbol<std::size_t()>(cudnn, "cudnnGetVersion");
    if (get != nullptr) answers.cudnn_version = get();
  }
  if (void* const cupti =
          open_first({"libcupti.so.13", "/usr/local/cuda/extras/CUPTI/lib64/libcupti.so.13"})) {
    answers.cupti = path_of(dlsym(cupti, "cuptiGetVersion"));
  }
}

std::string dotted(std::uint32_t version) {
  return fmt::format("{}.{}", version / 1000, version % 1000 / 10);
}

Finding judge_driver(const Answers& answers) {
  if (!answers.driver_version) {
    return {"driver", Level::problem, "no CUDA driver (libcuda.so.1) is found",
            "install the GPU's driver, or use a software GPU: --device soft:v100-pcie3"};
  }
  const std::uint32_t version = *answers.driver_version;
  if (answers.init != 0) {
    const std::string how =
        answers.init ? fmt::format("cuInit fails with {}", *answers.init) : "it has no cuInit";
    return {"driver", Level::problem, fmt::format("version {}, but {}", dotted(version), how),
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

Finding judge_hooks(const Answers& answers) {
  const std::string text = fmt::format("cuMemAlloc by dlsym is {}'s, by cuGetProcAddress {}'s",
                                       answers.by_dlsym, answers.by_proc_address);
  if (answers.by_dlsym == "libpooch.so" && answers.by_proc_address == "libpooch.so")
    return {"hooks", Level::ok, text, ""};
  return {"hooks", Level::problem, text,
          "look for another library in LD_PRELOAD, or LD_AUDIT, that takes dlsym, and leave it out"};
}

void judge_libraries(const Answers& answers, Findings& all) {
  if (!answers.runtime.empty()) {
    const std::uint32_t version = answers.runtime_version;
    all.push_back({"runtime", Level::ok,
                   fmt::format("{}{}", answers.runtime, version != 0 ? ", version " + dotted(version) : ""),
                   ""});
  } else {
    all.push_back(
        {"runtime", Level::ok, "no libcudart on the library path; programs with a static one need none", ""});
  }
  if (const std::uint64_t version = answers.cudnn_version; version != 0) {
    all.push_back({"cuDNN", Level::ok,
                   fmt::format("version {}.{}.{}", version / 10000, version % 10000 / 100, version % 100),
                   ""});
  } else {
    all.push_back({"cuDNN", Level::warning, "libcudnn.so.9 is not found",
                   "put its folder on LD_LIBRARY_PATH, if the program uses it"});
  }
  if (!answers.cupti.empty()) {
    all.push_back({"CUPTI", Level::ok, answers.cupti, ""});
  } else {
    all.push_back({"CUPTI", Level::warning, "libcupti.so.13 is not found",
                   "install it with the toolkit for exact times; without it they are taken with events"});
  }
}

using In = JsonCursor;

template <class Integer>
void number(In& in, Integer& out) {
  in.whole(out, std::numeric_limits<Integer>::max());
}
template <class Integer>
void number(In& in, std::optional<Integer>& out) {
  if (!in.null()) number(in, out.emplace());
}

constexpr JsonField<Answers> answer_fields[] = {
    {"by_dlsym", true, [](In& in, Answers& a) { in.text(a.by_dlsym); }},
    {"by_proc_address", true, [](In& in, Answers& a) { in.text(a.by_proc_address); }},
    {"driver_version", true, [](In& in, Answers& a) { number(in, a.driver_version); }},
    {"init", true, [](In& in, Answers& a) { number(in, a.init); }},
    {"device", true, [](In& in, Answers& a) { in.text(a.device); }},
    {"bus_id", true, [](In& in, Answers& a) { in.text(a.bus_id); }},
    {"runtime", true, [](In& in, Answers& a) { in.text(a.runtime); }},
    {"runtime_version", true, [](In& in, Answers& a) { number(in, a.runtime_version); }},
    {"cudnn_version", true, [](In& in, Answers& a) { number(in, a.cudnn_version); }},
    {"cupti", true, [](In& in, Answers& a) { in.text(a.cupti); }},
};

}  // namespace

std::string to_json(const Answers& answers) {
  nlohmann::ordered_json json = {{"by_dlsym", answers.by_dlsym},
                                 {"by_proc_address", answers.by_proc_address},
                                 {"driver_version", nullptr},
                                 {"init", nullptr},
                                 {"device", answers.device},
                                 {"bus_id", answers.bus_id},
                                 {"runtime", answers.runtime},
                                 {"runtime_version", answers.runtime_version},
                                 {"cudnn_version", answers.cudnn_version},
                                 {"cupti", answers.cupti}};
  if (answers.driver_version) json["driver_version"] = *answers.driver_version;
  if (answers.init) json["init"] = *answers.init;
  // The driver's name for a device may be any bytes.
  return json.dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace) + "\n";
}

Result<Answers> answers_from_json(std::string_view text) {
  Answers answers;
  JsonCursor in(text);
  in.object(answers, answer_fields);
  in.finish();
  if (!in.good()) return Error{ErrorCode::invalid_argument, in.error()};
  return answers;
}

int probe(const std::string& file) {
  Answers answers;
  const auto save = [&] { return static_cast<bool>(write_text(file, to_json(answers))); };
  if (void* const driver = open_first({"libcuda.so.1"})) {
    ask_hooks(driver, answers);
    // Kept in case the driver takes this process down.
    if (!save()) return 1;
    ask_driver(driver, answers);
  }
  ask_libraries(answers);
  return save() ? 0 : 1;
}

Findings judge_probe(const Answers& answers, bool software_device, bool preloaded) {
  Findings all;
  all.push_back(judge_driver(answers));
  const bool driver_loads = !answers.by_dlsym.empty();
  if (driver_loads && preloaded) all.push_back(judge_hooks(answers));
  if (!answers.device.empty()) all.push_back({"device", Level::ok, answers.device, ""});
  judge_libraries(answers, all);
  if (software_device) {
    all.push_back({"bus", Level::ok, "a software GPU has no NUMA node and no link", ""});
  } else if (!answers.bus_id.empty()) {
    for (Finding& one : look_at_bus(answers.bus_id)) all.push_back(std::move(one));
  }
  return all;
}

}  // namespace pooch::tools
