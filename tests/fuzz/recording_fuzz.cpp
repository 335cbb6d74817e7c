// Any bytes, in pieces: a recording is read to its end, or refused with one line, and never yields what its
// own writer could not have written.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>

#include "core/recording.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace pooch;
  std::size_t at = 0;
  const auto fail = [](const Error& error) {
    if (error.message.empty() || error.message.find('\n') != std::string::npos) std::abort();
    return 0;
  };
  auto reader = RecordingReader::open([&](std::span<char> into) -> Result<std::size_t> {
    const std::size_t piece = std::min({into.size(), size - at, std::size_t{7}});
    std::copy_n(data + at, piece, into.begin());
    at += piece;
    return piece;
  });
  if (!reader) return fail(reader.error());
  std::uint64_t sum = 0;
  for (;;) {
    const auto record = reader->next();
    if (!record) return fail(record.error());
    if (!*record) break;
    if (const auto* call = std::get_if<Call>(&**record)) {
      sum += call->function.size() + call->mode.size() + name(call->kind).size();
      for (const Access& access : call->accesses)
        if (access.bytes > ~raw(access.address) || access.shape.rank > max_rank) std::abort();
    } else if (const auto* made = std::get_if<RecordedAllocation>(&**record)) {
      if (made->bytes == 0) std::abort();
    }
    if (reader->offset() > size) std::abort();
  }
  return sum == ~std::uint64_t{0} ? 1 : 0;
}
