// The one place that knows the order of stages. interpose/ talks to nothing else.
//
// Lock order: the session's mutex, then the leaf that guards the list of allocations. The mutex makes "decide
// and launch" atomic; it is never held while the host waits for the device (except when watching begins,
// while small memory is searched for addresses, while the idle device is measured, and where a comment says
// so), nor taken by a query: a library may ask about a pointer from inside the very call that holds it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "core/call.h"
#include "core/config.h"
#include "core/device.h"
#include "core/function_ref.h"
#include "core/host_block.h"
#include "core/profile.h"
#include "core/result.h"
#include "core/summary.h"
#include "runtime/memory/memory_limits.h"
#include "runtime/session/answers.h"
#include "runtime/session/watch.h"

namespace pooch::runtime {

class Session {
 public:
  // `device` must outlive the session. Errors: invalid_argument (a cap below the smallest that works, …) or
  // what the device said.
  static Result<std::unique_ptr<Session>> open(const Config& config, Device& device);
  ~Session();

  // --- allocation

  // Whether pooch serves an allocation of this size. Others are passed through.
  bool manages(std::uint64_t bytes) const;
  // An address for `bytes`; nothing is backed yet. `stream` for a stream-ordered allocation, whose content is
  // usable from that stream's next work on. `origin`: what it is allocated from, for the caller to be told
  // again. Error out_of_memory: cap and host budget together cannot hold it.
  Result<Address> allocate(std::uint64_t bytes, std::optional<StreamHandle> stream, void* origin = nullptr);
  // Ends an allocation. Without `stream` the call keeps cudaFree's promise: it returns after all submitted
  // work finished. Error invalid_argument: not the start of a live managed allocation.
  Result<Freed> free(Address address, std::optional<StreamHandle> stream);
  // Brackets an allocation the real driver serves, so that it counts against the cap: call before it, with
  // room made where needed (error out_of_memory where none can be), and `passed_through` with its address
  // after it, or `refund`.
  Status admit_pass_through(std::uint64_t bytes);
  // `by_program`: the program or its framework asked for it, so it counts as need.
  void passed_through(Address address, std::uint64_t bytes, bool by_program, void* origin = nullptr);
  // The same without an address: memory that is no allocation as a whole, a slab that blocks are cut from or
  // what the program's cuMemCreate makes.
  void passed_through(std::uint64_t bytes);
  // An allocation within such memory.
  void placed(Address address, std::uint64_t bytes, bool by_program, void* origin);
  // Takes a charge back: the driver refused, or memory without an address was given back.
  void refund(std::uint64_t bytes);
  // The driver itself refused `bytes`, or what it needs for a call (0), for want of memory: takes memory of
  // pooch's off the device, evicting where it must, so that asking once more may help. False: nothing is left
  // to give. Also from within `launch` of a submit, whose operands stay.
  bool relieve_device(std::uint64_t bytes);
  // The driver is about to free it; nothing: not known here. `pass_through_kept`: it did not; notes it again,
  // under a new id. Dropped content that is recomputed from it is recomputed first; the device has read it
  // then. Error: that failed, it must not be freed.
  Result<std::optional<Freed>> pass_through_freed(Address address);
  void pass_through_kept(Address address, const Freed& what);

  // --- addresses that no call shows
  // The program copies `memory`, which the host can read, to the device. Managed allocations that words in it
  // point into stay on the device until they are freed: kernels may reach them from there, and no call would
  // show it. If the cap has no room for one, logs that once and goes on. May wait for the device.
  // address_table.h says what is taken for an address.
  void pin_addresses_in(const HostBlock& memory);

  // --- graphs
  // A stream is about to be captured: records the events that would be needed in it later.
  void capture_begins();
  // What a captured call touches, or what is registered, stays on the device from now on, until it is let go
  // or freed; adds to `kept` what is not there yet. May wait for the device. Errors: out_of_memory, there is
  // no room for it beside all else that stays; device, reported already: managed memory cannot be used any
  // more.
  Status hold(std::span<const Access> accesses, std::vector<Kept>& kept);
  void let_go(std::span<const Kept> kept);

  // --- queries

  // Whether it lies in the arena. One comparison.
  bool owns(Address address) const;
  // The live managed allocation that contains `address`.
  std::optional<Extent> find(Address address) const;
  // The origin of the live allocation at `base`; nullptr if its caller gave none.
  void* origin_of(Address base) const;
  // The extent of any allocation that pooch knows of, managed or not.
  std::optional<Extent> find_known(Address address) const;
  // All live allocations that pooch knows of, managed or not.
  std::vector<Extent> allocations() const;
  MemoryInfo memory_info() const;
  // The device size that the program is told.
  std::uint64_t device_bytes() const;

  // --- work

  // Far from short of memory, and if nothing asked for needs them, calls need not be submitted: those that
  // this lets pass. While one is on its way, its thread calls nothing else here but what may also be called
  // inside of `submit`.
  Watch& passing();
  // Calls that use device memory are refused from now on, and a line has said so.
  bool failed() const;
  // A line has said that memory is short.
  bool said_shortage() const;
  // From now on all calls are to be submitted. May wait for the device. Needed before work that waits for the
  // program is put into a stream, and before another device may use memory of this one.
  void watch();

  // Makes the call's operands resident, orders its stream behind what they wait for, runs `launch` and notes
  // the use. Returns launch's own result; `refusal.out_of_memory` where the operands cannot be made resident
  // together; `refusal.failed` where the device refused something that pooch asked of it, and from then on
  // for every call that may read managed memory. Operands outside managed memory cost nothing.
  int submit(const Call& call, FunctionRef<int()> launch, Refusal refusal);
  // Whether more of the next call is read than what tells it from others. False without a report, and in
  // phases that are known well enough.
  bool wants_details() const;
  // ... its call site is read.
  bool wants_call_sites() const;
  // A host function or wait-value was put into `stream`: later work there may wait for the program itself.
  void note_host_blocking(StreamHandle stream);
  // The program destroys a stream it may have used: call before the driver does.
  void stream_destroyed(StreamHandle stream);

  Summary summary() const;
  // `pooch top` shows what it does on the CUDA device of this number, until end_live().
  void begin_live(std::int32_t device);
  void end_live();
  // What was learnt of the program. finish_profile() first waits for the last times, where no stream
  // is held up by the program itself, and ends all measuring and recording.
  void finish_profile();
  // The ops' sites and trials are as the calls gave them.
  Profile profile() const;
  // Writes the timeline's file with what the device has told by now; does not ask it. Gives up once `wanted`
  // says no. If the file cannot be replaced at the end, nothing is written.
  void write_trace_so_far(FunctionRef<bool()> wanted) const;

 private:
  struct Impl;
  enum class Pinned : std::uint8_t { by_address, by_name };
  void pin(const Extent& allocation, Pinned why);
  void pin_addresses_in(const HostBlock& memory, bool single_words);
  explicit Session(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace pooch::runtime
