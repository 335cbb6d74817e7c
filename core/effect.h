// What an op does to the bytes of one operand.
//
//            read_write            unknown: may read, may write
//            /        |
//         read      write          write: changes some of the bytes, reads none it did not write
//                     |
//                 overwrite        every byte gets a new value
//                     |
//                  scratch         ... and nothing reads it afterwards
//
// Upwards is always safe: an effect above the true one costs copies, never correctness.
#pragma once

#include <cstdint>

namespace pooch {

enum class Effect : std::uint8_t { read, write, overwrite, read_write, scratch };

// The op needs the old bytes.
constexpr bool needs_content(Effect e) {
  return e == Effect::read || e == Effect::write || e == Effect::read_write;
}
// The bytes may differ afterwards.
constexpr bool changes_content(Effect e) {
  return e != Effect::read;
}
// The bytes are content afterwards.
constexpr bool leaves_content(Effect e) {
  return e != Effect::scratch;
}

// The least effect that covers both, for an operand that appears twice in one op.
constexpr Effect join(Effect a, Effect b) {
  if (a == b) return a;
  if (a == Effect::scratch) return b == Effect::read ? Effect::read_write : b;
  if (b == Effect::scratch) return a == Effect::read ? Effect::read_write : a;
  if (a == Effect::read || b == Effect::read) return Effect::read_write;
  if (a == Effect::read_write || b == Effect::read_write) return Effect::read_write;
  return Effect::write;  // write with overwrite
}

static_assert(join(Effect::read, Effect::overwrite) == Effect::read_write);
static_assert(join(Effect::write, Effect::overwrite) == Effect::write);
static_assert(join(Effect::scratch, Effect::overwrite) == Effect::overwrite);
static_assert(join(Effect::scratch, Effect::read) == Effect::read_write);
static_assert(needs_content(Effect::write), "a partial write keeps the rest of the region");

}  // namespace pooch
