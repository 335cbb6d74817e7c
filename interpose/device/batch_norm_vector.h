// What one thread of the kernel batch_norm does. interpose/device/batch_norm.cu makes a kernel of it, and
// tests run it on the processor; so it includes nothing, and each operation that rounds is spelt out.
//
// x and y are read as one row of elements, 16 bytes of each at a time: rows of 49 or 196 elements neither
// begin at 16 bytes nor fill a warp. Both are loaded before anything is computed, so that enough loads are
// under way. A thread goes through the tensor in strides of the whole grid. The stride is the same number of
// rows and elements each time, so that the channel of the next element comes of additions, and only the
// first one's of divisions; and tensors may have more than 2^32 elements.
#pragma once

#ifdef __CUDACC__
#define POOCH_BATCH_NORM __device__ __forceinline__
#define POOCH_BATCH_NORM_UNROLL _Pragma("unroll")
#define POOCH_BATCH_NORM_ROLL _Pragma("unroll 1")
#else
#include <bit>
#include <cmath>
#define POOCH_BATCH_NORM inline
#define POOCH_BATCH_NORM_UNROLL
#define POOCH_BATCH_NORM_ROLL
#endif

namespace pooch::batch_norm {

using u16 = unsigned short;
using u32 = unsigned;
using u64 = unsigned long long;

// As the kernel's parameters, but for `differs`.
struct Call {
  const void* x;
  void* y;
  const float *scale, *bias, *mean, *inverse;
  u64 rows;
  u32 row, channels, how;
};

enum : u32 { of_row_bit = 1, half_bit = 2, clip_shift = 2, drop_shift = 3, formula_shift = 4 };

// Rounded once each, and never fused: nvcc is free to fuse what operators write.
#ifdef __CUDACC__
POOCH_BATCH_NORM float difference(float a, float b) {
  return __fsub_rn(a, b);
}
POOCH_BATCH_NORM float product(float a, float b) {
  return __fmul_rn(a, b);
}
POOCH_BATCH_NORM float fused(float a, float b, float c) {
  return __fmaf_rn(a, b, c);
}
POOCH_BATCH_NORM u32 bits_of(float value) {
  return __float_as_uint(value);
}
POOCH_BATCH_NORM float float_of(u32 bits) {
  return __uint_as_float(bits);
}
POOCH_BATCH_NORM float widened(u16 half) {
  float value;
  asm("cvt.f32.f16 %0, %1;" : "=f"(value) : "h"(half));
  return value;
}
POOCH_BATCH_NORM u16 narrowed(float value) {
  u16 half;
  asm("cvt.rn.f16.f32 %0, %1;" : "=h"(half) : "f"(value));
  return half;
}
// The channels' numbers do not change while the kernel runs.
template <class T>
POOCH_BATCH_NORM T constant(const T* at) {
  return __ldg(at);
}
using Quad = float4;
#else
inline float difference(float a, float b) {
  return a - b;
}
inline float product(float a, float b) {
  return a * b;
}
inline float fused(float a, float b, float c) {
  return std::fma(a, b, c);
}
inline u32 bits_of(float value) {
  return std::bit_cast<u32>(value);
}
inline float float_of(u32 bits) {
  return std::bit_cast<float>(bits);
}
inline float widened(u16 half) {
  return static_cast<float>(std::bit_cast<_Float16>(half));
}
inline u16 narrowed(float value) {
  return std::bit_cast<u16>(static_cast<_Float16>(value));
}
template <class T>
T constant(const T* at) {
  return *at;
}
struct alignas(16) Quad {
  float x, y, z, w;
};
#endif

POOCH_BATCH_NORM u64 address(const void* at) {
  return reinterpret_cast<u64>(at);
}

struct alignas(16) Words {
  u32 word[4];
};

struct Floats {
  using Stored = float;
  static constexpr u32 of_word = 1;
  static POOCH_BATCH_NORM float read(u32 word, u32) { return float_of(word); }
  static POOCH_BATCH_NORM u32 bits(float value) { return bits_of(value); }
  static POOCH_BATCH_NORM float load(const void* at, u64 i) { return static_cast<const float*>(at)[i]; }
  static POOCH_BATCH_NORM u32 load_bits(const void* at, u64 i) { return static_cast<const u32*>(at)[i]; }
  static POOCH_BATCH_NORM void store(void* at, u64 i, float value) { static_cast<float*>(at)[i] = value; }
};

struct Halves {
  using Stored = u16;
  static constexpr u32 of_word = 2;
  static POOCH_BATCH_NORM float read(u32 word, u32 k) {
    return widened(static_cast<u16>(k == 0 ? word & 0xffff : word >> 16));
  }
  static POOCH_BATCH_NORM u32 bits(float value) { return narrowed(value); }
  static POOCH_BATCH_NORM float load(const void* at, u64 i) {
    return widened(static_cast<const u16*>(at)[i]);
  }
  static POOCH_BATCH_NORM u32 load_bits(const void* at, u64 i) { return static_cast<const u16*>(at)[i]; }
  static POOCH_BATCH_NORM void store(void* at, u64 i, float value) {
    static_cast<u16*>(at)[i] = narrowed(value);
  }
};

struct Channel {
  float scale, bias, mean, inverse;
};

// Of a thread: which formulas made other bits than there are.
struct Differences {
  u32 by[4] = {0, 0, 0, 0};
};

// All formulas as one: fma((x - centre) * factor, slope, offset). Nothing is rounded where 0 is taken away or
// where 1 multiplies, so each makes the bits that core/substitute.h means. What `how` says is selected and
// not branched on: it would be another copy of the loop each time.
struct Writer {
  static constexpr bool compares = false;
  float centre, factor, slope, offset;

  POOCH_BATCH_NORM void set(const Channel& c, u32 how) {
    const bool odd = (how >> formula_shift & 1) != 0, late = (how >> formula_shift & 2) != 0;
    const float both = product(c.scale, c.inverse), first = odd ? c.inverse : c.scale,
                second = odd ? c.scale : c.inverse;
    factor = late ? 1.0F : first;
    slope = late ? both : second;
    centre = odd && late ? 0.0F : c.mean;
    offset = odd && late ? difference(c.bias, product(c.mean, both)) : c.bias;
  }
  POOCH_BATCH_NORM float make(float x, u32 how) const {
    const float y = fused(product(difference(x, centre), factor), slope, offset);
    const u32 clips = 0U - (how >> clip_shift & 1), drops = clips & (0U - (how >> drop_shift & 1));
    return float_of(bits_of(y) & ~((y <= 0.0F ? clips : 0U) | (y != y ? drops : 0U)));
  }
};

struct Comparer {
  static constexpr bool compares = true;
  Channel c;
  float slope, offset;

  POOCH_BATCH_NORM void set(const Channel& channel, u32) {
    c = channel;
    slope = product(c.scale, c.inverse);
    offset = difference(c.bias, product(c.mean, slope));
  }
  template <class Element>
  POOCH_BATCH_NORM void hold(float x, u32 there, Differences& differs) const {
    const float centred = difference(x, c.mean);
    differs.by[0] |= Element::bits(fused(product(centred, c.scale), c.inverse, c.bias)) ^ there;
    differs.by[1] |= Element::bits(fused(product(centred, c.inverse), c.scale, c.bias)) ^ there;
    differs.by[2] |= Element::bits(fused(centred, slope, c.bias)) ^ there;
    differs.by[3] |= Element::bits(fused(x, slope, offset)) ^ there;
  }
};

// Where an element is: in its row, and the channel of the row.
struct Place {
  u32 in_row, channel;
};

// (a + b) % modulus for numbers below it, where their sum may not fit.
POOCH_BATCH_NORM u32 sum_below(u32 a, u32 b, u32 modulus) {
  return a >= modulus - b ? a - (modulus - b) : a + b;
}

template <class Number>
POOCH_BATCH_NORM Place place_of(Number element, const Call& call) {
  return {static_cast<u32>(element % call.row), static_cast<u32>(element / call.row % call.channels)};
}

POOCH_BATCH_NORM Place moved(Place at, Place by, const Call& call) {
  const bool next = at.in_row >= call.row - by.in_row;
  const u32 channel = sum_below(at.channel, by.channel, call.channels);
  return {next ? at.in_row - (call.row - by.in_row) : at.in_row + by.in_row,
          next ? sum_below(channel, 1 % call.channels, call.channels) : channel};
}

POOCH_BATCH_NORM Channel channel_at(const Call& call, u32 c) {
  return {constant(call.scale + c), constant(call.bias + c), constant(call.mean + c),
          constant(call.inverse + c)};
}

// Element k of word w, from x's word and to or with y's.
template <class Element, class Maker>
POOCH_BATCH_NORM void run_element(const Maker& maker, u32 how, u32 x, u32& y, u32 k, Differences& differs) {
  const float value = Element::read(x, k);
  if constexpr (Maker::compares) {
    const u32 there = Element::of_word == 1 ? y : k == 0 ? y & 0xffff : y >> 16;
    maker.template hold<Element>(value, there, differs);
  } else {
    const u32 made = Element::bits(maker.make(value, how));
    y = k == 0 ? made : y | made << 16;
  }
}

// Rows that belong to a channel: one channel for most vectors. In others each channel's part is computed in
// turn, so that the numbers of one channel take registers at a time.
template <class Element, class Maker>
POOCH_BATCH_NORM void run_of_row(const Call& call, const Words& x, Words& y, Place place,
                                 Differences& differs) {
  constexpr u32 width = 4 * Element::of_word;
  u32 begin = 0, end = call.row - place.in_row;
  POOCH_BATCH_NORM_ROLL
  for (;;) {
    Maker maker;
    maker.set(channel_at(call, place.channel), call.how);
    POOCH_BATCH_NORM_UNROLL
    for (u32 e = 0; e < width; ++e) {
      if (begin <= e && e < end)
        run_element<Element>(maker, call.how, x.word[e / Element::of_word], y.word[e / Element::of_word],
                             e % Element::of_word, differs);
    }
    if (end >= width) return;
    begin = end;
    end += call.row < width ? call.row : width;
    place.channel = place.channel + 1 == call.channels ? 0 : place.channel + 1;
  }
}

// Each element has its channel, the next one the next. One load takes the numbers of four channels. Halves of
// a vector come in turn to its first words, so that the numbers of four channels take registers at a time.
template <class Element, class Maker>
POOCH_BATCH_NORM void run_of_element(const Call& call, Words x, Words& y, u32 c, Differences& differs) {
  POOCH_BATCH_NORM_ROLL
  for (u32 part = 0; part < Element::of_word; ++part) {
    const auto four = [c](const float* at) { return constant(reinterpret_cast<const Quad*>(at + c)); };
    const Quad scale = four(call.scale), bias = four(call.bias), mean = four(call.mean),
               inverse = four(call.inverse);
    const auto run = [&](u32 e, const Channel& channel) {
      Maker maker;
      maker.set(channel, call.how);
      run_element<Element>(maker, call.how, x.word[e / Element::of_word], y.word[e / Element::of_word],
                           e % Element::of_word, differs);
    };
    run(0, {scale.x, bias.x, mean.x, inverse.x});
    run(1, {scale.y, bias.y, mean.y, inverse.y});
    run(2, {scale.z, bias.z, mean.z, inverse.z});
    run(3, {scale.w, bias.w, mean.w, inverse.w});
    if (Element::of_word == 2) {
      x = {{x.word[2], x.word[3], x.word[0], x.word[1]}};
      y = {{y.word[2], y.word[3], y.word[0], y.word[1]}};
    }
    c = c + 4 == call.row ? 0 : c + 4;
  }
}

template <class Element, class Maker, bool of_row>
POOCH_BATCH_NORM void run_vectors(const Call& call, u64 whole, u32 thread, u32 threads,
                                  Differences& differs) {
  constexpr u32 width = 4 * Element::of_word;
  const Place stride = place_of(threads * width, call);
  Place place = place_of(thread * width, call);
  POOCH_BATCH_NORM_ROLL
  for (u64 v = thread; v < whole; v += threads) {
    const Words x = static_cast<const Words*>(call.x)[v];
    Words* const to = static_cast<Words*>(call.y) + v;
    Words y = {};
    if constexpr (Maker::compares) y = *to;
    if constexpr (of_row) {
      run_of_row<Element, Maker>(call, x, y, place, differs);
    } else {
      run_of_element<Element, Maker>(call, x, y, place.in_row, differs);
    }
    if constexpr (!Maker::compares) *to = y;
    place = moved(place, stride, call);
  }
}

// One element at a time, with any alignment: what is left of a tensor, or all of one that is not aligned.
template <class Element, class Maker>
POOCH_BATCH_NORM void run_elements(const Call& call, u64 first, u64 elements, u32 threads,
                                   Differences& differs) {
  if (first >= elements) return;
  const Place stride = place_of(threads, call);
  Place place = place_of(first, call);
  POOCH_BATCH_NORM_ROLL
  for (u64 e = first; e < elements; e += threads, place = moved(place, stride, call)) {
    Maker maker;
    maker.set(channel_at(call, (call.how & of_row_bit) != 0 ? place.channel : place.in_row), call.how);
    const float x = Element::load(call.x, e);
    if constexpr (Maker::compares) {
      maker.template hold<Element>(x, Element::load_bits(call.y, e), differs);
    } else {
      Element::store(call.y, e, maker.make(x, call.how));
    }
  }
}

template <class Element, class Maker>
POOCH_BATCH_NORM void run_type(const Call& call, u32 thread, u32 threads, Differences& differs) {
  constexpr u32 width = 4 * Element::of_word;
  const u64 elements = call.rows * call.row;
  const bool of_row = (call.how & of_row_bit) != 0;
  u64 places = address(call.x) | address(call.y);
  if (!of_row)
    places |= address(call.scale) | address(call.bias) | address(call.mean) | address(call.inverse) |
              u64{call.row} * sizeof(float);
  const u64 whole = places % 16 == 0 ? elements / width : 0;
  if (of_row) {
    run_vectors<Element, Maker, true>(call, whole, thread, threads, differs);
  } else {
    run_vectors<Element, Maker, false>(call, whole, thread, threads, differs);
  }
  run_elements<Element, Maker>(call, whole * width + thread, elements, threads, differs);
}

// What `thread` of `threads` does, in a grid of fewer than 2^29 threads: numbers of elements that all of them
// take at once fit in 32 bits.
template <class Maker>
POOCH_BATCH_NORM void run_thread(const Call& call, u32 thread, u32 threads, Differences& differs) {
  if ((call.how & half_bit) != 0) {
    run_type<Halves, Maker>(call, thread, threads, differs);
  } else {
    run_type<Floats, Maker>(call, thread, threads, differs);
  }
}

}  // namespace pooch::batch_norm

#undef POOCH_BATCH_NORM
#undef POOCH_BATCH_NORM_UNROLL
#undef POOCH_BATCH_NORM_ROLL
