#include "interpose/calls/call_builder.h"

#include <algorithm>
#include <atomic>
#include <new>
#include <utility>

#include "core/log.h"
#include "interpose/hooks/libraries.h"
#include "interpose/sessions/across.h"
#include "interpose/sessions/inside.h"
#include "interpose/sessions/served.h"

namespace pooch::interpose {
namespace {

// Part of the span keeps its bytes, so a full overwrite of the operand is a partial one of the span.
Effect for_span(Effect effect, bool dense) {
  return !dense && (effect == Effect::overwrite || effect == Effect::scratch) ? Effect::write : effect;
}

// Whether one begins inside of the other. Neither is empty.
bool overlap(const Access& a, Address address, std::uint64_t bytes) {
  return address - a.address < a.bytes || a.address - address < bytes;
}

}  // namespace

void CallBuilder::add(Address address, const Extent& extent, Effect effect) {
  if (raw(address) == 0 || extent.bytes == 0) return;
  if (extent.anywhere) return add_everything();
  traits_ = mix(traits_, extent.traits);
  if (extent.filter) filter_ = extent.shape;
  Address begin = address + extent.offset;
  std::uint64_t bytes = extent.bytes;
  effect = for_span(effect, extent.dense);
  if (!extent.known) {
    const auto allocation = session_.find_known(address);
    if (!allocation) return;
    begin = allocation->base;
    bytes = allocation->bytes;
    effect = effect == Effect::read ? Effect::read : Effect::read_write;
  }
  if (begin + bytes <= low_ || begin >= high_) return append(begin, bytes, effect, extent.shape);
  for (Access& earlier : mutable_accesses()) {
    if (!overlap(earlier, begin, bytes)) continue;
    if (earlier.address == begin && earlier.bytes == bytes) {
      earlier.effect = join(earlier.effect, effect);
      return;
    }
    // The parts differ in what happens to them; the safe answer for both.
    if (changes_content(earlier.effect)) earlier.effect = Effect::read_write;
    if (changes_content(effect)) effect = Effect::read_write;
  }
  append(begin, bytes, effect, extent.shape);
}

// The addresses that the call works on are nowhere to be seen, so it may read and write whatever is alive.
void CallBuilder::add_everything() {
  if (std::exchange(everything_, true)) return;
  for (const runtime::Extent& allocation : session_.allocations())
    append(allocation.base, allocation.bytes, Effect::read_write, {});
}

[[gnu::hot]] int CallBuilder::run(const Answers& answers, FunctionRef<int()> launch) {
  if (captured(scope_, stream_)) {
    const auto held = hold_captured(scope_, session_, function_, stream_, accesses(), unforeseen_);
    if (held) return launch();
    return held.error().code == ErrorCode::out_of_memory ? answers.out_of_memory : answers.not_made;
  }
  bool refused = false;
  if (const Unwatched passes(scope_); passes) {
    const int status = launch();
    refused = status == answers.out_of_memory && may_be_made_again(answers.driver);
    if (!refused) return status;
  }
  // What may leave the device for the call's sake can be told once calls are watched.
  if (refused) session_.watch();
  Call call{function_, kind_, stream_, accesses(), blocks_, trial_, traits_, mode_};
  if (window_.rank > 0) call.window = &window_;
  if (filter_.rank > 0) call.filter = &filter_;
  if (keep_ && !trial_) call.keep = &*keep_;
  if (substitute_ && !trial_) call.substitute = &*substitute_;
  call.clip = clip_;
  call.unforeseen = unforeseen_;
  if (session_.wants_call_sites()) call.site = call_site();
  call.tried = tried_;
  const runtime::Refusal refusal(answers.out_of_memory, answers.not_made);
  const auto submit_here = [&]() -> int {
    const SubmitGuard guard(scope_, session_, accesses());
    return session_.submit(
        call, [&] { return make(answers, launch); }, refusal);
  };
  runtime::Session* const other = other_owner(session_, accesses());
  const int status =
      other == nullptr ? submit_here() : submit_across(scope_, session_, *other, call, submit_here, refusal);
  if (everything_ && status == answers.out_of_memory) explain_refusal();
  return status;
}

[[gnu::hot]] int CallBuilder::make(const Answers& answers, FunctionRef<int()> launch) {
  const int status = launch();
  if (answers.driver || status != answers.out_of_memory || !may_be_made_again(/*driver=*/false))
    return status;
  (void)session_.relieve_device(0);
  return launch();
}

bool CallBuilder::may_be_made_again(bool driver) const {
  return driver || (kind_ != OpKind::collective &&
                    std::none_of(accesses().begin(), accesses().end(), [](const Access& access) {
                      return changes_content(access.effect) && needs_content(access.effect);
                    }));
}

void CallBuilder::explain_refusal() const {
  static constinit std::atomic<bool> explained{false};
  if (explained.exchange(true)) return;
  log::warn(
      "{}: the addresses of its operands lie in device memory, where nobody looks: all that the program has "
      "allocated must fit under the cap at once; calls batched by strides need their operands alone",
      function_);
}

// Made where it stays: a copy that follows at once would wait for each of its parts to be written.
void CallBuilder::append(Address address, std::uint64_t bytes, Effect effect, const Shape& shape) {
  low_ = std::min(low_, address), high_ = std::max(high_, address + bytes);
  if (spilled_.empty() && count_ < fixed_.size()) {
    ::new (&fixed_[count_++]) Access{address, bytes, effect, shape};
    return;
  }
  if (spilled_.empty()) spilled_.assign(fixed_.begin(), fixed_.end());
  spilled_.push_back({address, bytes, effect, shape});
}

// --- what copies carry

namespace {

POOCH_REAL(cuda, cuPointerGetAttribute);

// Memory that the driver does not know is the host's; what it cannot tell is left alone.
bool on_host(const Scope& scope, CUdeviceptr address) {
  if (address == 0 || session_owning(Address{address}) != nullptr) return false;
  auto* const ask = real_cuPointerGetAttribute.get_if_present(scope);
  unsigned int type = 0;
  const CUresult status =
      ask == nullptr ? CUDA_ERROR_UNKNOWN : ask(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, address);
  return status == CUDA_ERROR_INVALID_VALUE || (status == CUDA_SUCCESS && type == CU_MEMORYTYPE_HOST);
}

void note_box(const Scope& scope, runtime::Session& session, const Side& from, HostBlock block) {
  if (from.address == 0 || from.extent.bytes == 0 || !on_host(scope, from.address)) return;
  block.first = reinterpret_cast<const std::byte*>(from.address) + from.extent.offset;
  session.pin_addresses_in(block);
}

HostBlock box_of(std::uint64_t width, std::uint64_t height, std::uint64_t depth, std::uint64_t pitch,
                 std::uint64_t slice) {
  HostBlock block;
  block.width = width, block.height = height, block.depth = depth;
  block.pitch = pitch, block.slice = slice;
  return block;
}

}  // namespace

void note_carried(const Scope&, runtime::Session& session, CUdeviceptr to, const void* from,
                  std::size_t bytes) {
  if (from == nullptr) return;
  HostBlock block({static_cast<const std::byte*>(from), bytes});
  block.skipped = (0 - to) % sizeof(CUdeviceptr);  // a kernel reads whole words where they are aligned
  session.pin_addresses_in(block);
}

void note_carried(const Scope& scope, runtime::Session& session, CUdeviceptr to, CUdeviceptr from,
                  std::size_t bytes) {
  if (on_host(scope, from)) note_carried(scope, session, to, reinterpret_cast<const void*>(from), bytes);
}

void note_carried(const Scope& scope, runtime::Session& session, const CUDA_MEMCPY2D& copy) {
  note_box(scope, session, source_of(copy), box_of(copy.WidthInBytes, copy.Height, 1, copy.srcPitch, 0));
}

void note_carried(const Scope& scope, runtime::Session& session, const CUDA_MEMCPY3D& copy) {
  note_box(scope, session, source_of(copy),
           box_of(copy.WidthInBytes, copy.Height, copy.Depth, copy.srcPitch, copy.srcPitch * copy.srcHeight));
}

void note_carried(const Scope& scope, runtime::Session& session, const CUDA_MEMCPY3D_PEER& copy) {
  note_box(scope, session, source_of(copy),
           box_of(copy.WidthInBytes, copy.Height, copy.Depth, copy.srcPitch, copy.srcPitch * copy.srcHeight));
}

void note_carried(const Scope& scope, runtime::Session& session, const CUDA_MEMCPY3D_BATCH_OP& copy) {
  const auto& from = copy.src.op.ptr;
  const std::uint64_t pitch = from.rowLength == 0 ? copy.extent.width : from.rowLength;
  if (copy.dst.type != CU_MEMCPY_OPERAND_TYPE_POINTER) return;  // an array holds no table
  note_box(scope, session, source_of(copy),
           box_of(copy.extent.width, copy.extent.height, copy.extent.depth, pitch,
                  pitch * (from.layerHeight == 0 ? copy.extent.height : from.layerHeight)));
}

}  // namespace pooch::interpose
