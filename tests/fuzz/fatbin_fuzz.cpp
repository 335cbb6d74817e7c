// Any bytes as device code, by the first of them: a cubin, PTX text, or a container that is as long as it
// says.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <string_view>
#include <vector>

#include "softgpu/driver/code/fatbin.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace softgpu;
  if (size == 0) return 0;
  const auto* code = reinterpret_cast<const std::byte*>(data + 1);
  --size;
  if (data[0] == 'e') {
    (void)cubin_kernels(code, size);
  } else if (data[0] == 'p') {
    (void)ptx_entries({reinterpret_cast<const char*>(code), size});
  } else if (size >= 16) {
    // A driver is told no length but the one in the head, which is the loader's to vouch for.
    std::vector<std::byte> container(code, code + size);
    std::uint16_t head = 0;
    std::memcpy(&head, container.data() + 6, sizeof head);
    if (head > size) return 0;
    const std::uint64_t bytes = size - head;
    std::memcpy(container.data() + 8, &bytes, sizeof bytes);
    const std::uint32_t magic = 0xba55ed50;
    std::memcpy(container.data(), &magic, sizeof magic);
    if (const auto opened = FatBinary::open(container.data(), 90)) (void)opened->kernels();
  }
  return 0;
}
