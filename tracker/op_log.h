// The latest part of a program's call stream, as far back as iterations have to be recognised and described.
//
// A *step* is an op that counts: the program's own work in its order. Copies between host and device and
// trials of algorithms are no steps; such copies are logged between two steps.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <span>
#include <string_view>
#include <vector>

#include "core/call.h"
#include "core/ids.h"
#include "core/shape.h"
#include "tracker/producer.h"

namespace pooch::tracker {

struct Allocation;

// A region of a live allocation and what the op does to it.
struct Operand {
  AllocationId allocation;
  Address base;  // the allocation's
  std::uint64_t offset, bytes;
  Effect effect;
  bool managed;                       // pooch moves the allocation
  std::uint64_t born;                 // the allocation's
  void* backing = nullptr;            // the allocation's, valid while it lives
  const Allocation* owner = nullptr;  // the allocation; once that has ended, its id is another
};

// A part of an operand's old content, and where it came from.
struct Source {
  std::uint32_t operand;
  std::uint64_t offset, bytes;
  Producer producer;
};

// For a call that has a substitute (core/substitute.h): indices of its operands.
struct SubstituteOperands {
  bool known = false;
  BatchNormOperands<std::uint8_t> at{};
};

// What a call says of itself.
struct Description {
  std::string_view function;
  OpKind kind = OpKind::bare_launch;
  std::string_view mode{};
  Shape shape{};  // of its result
  Shape filter{};
  Window window{};
  std::uint32_t site = 0;           // the call's
  TriedAlgorithm tried{};           // the call's
  Clip clip = Clip::none;           // the call's
  SubstituteOperands substitute{};  // known only if the call was asked for it
};

// How steps are compared: as they are, or by their form, whatever sizes they have.
enum class Likeness : std::uint8_t { exact, form };

struct StepKeys {
  std::uint64_t exact = 0;  // Op::local_key
  std::uint64_t form = 0;   // Op::form_key
  std::uint64_t by(Likeness likeness) const { return likeness == Likeness::exact ? exact : form; }
};

struct LoggedOp {
  StepKeys keys;
  std::uint32_t stream;  // ordinal
  std::uint32_t first_operand, operands;
  std::uint32_t first_source, sources;
  Description description;
};

// A host copy between two steps.
struct LoggedCopy {
  StepIndex before;
  std::uint64_t number;  // among all such copies of the run
  bool to_device;
  std::uint32_t stream;
  Operand operand;
};

struct LoggedAllocation {
  StepIndex before;
  AllocationId allocation;
  std::uint64_t bytes;
  bool managed;
  bool allocated;  // else freed
};

class OpLog {
 public:
  StepIndex begin() const { return begin_; }
  StepIndex end() const { return begin_ + (ops_.size() - dead_); }
  bool has(StepIndex step) const { return step >= begin() && step < end(); }

  const LoggedOp& at(StepIndex step) const { return ops_[dead_ + (step - begin_)]; }
  std::span<const Operand> operands(StepIndex step) const;
  std::span<const Source> sources(StepIndex step) const;
  const std::deque<LoggedCopy>& copies() const { return copies_; }
  const std::deque<LoggedAllocation>& allocations() const { return allocations_; }

  void add_step(const StepKeys& keys, std::uint32_t stream, const Description& description,
                std::span<const Operand> operands, std::span<const Source> sources);
  void add_copy(const LoggedCopy& copy) { copies_.push_back(copy); }
  void add_allocation(const LoggedAllocation& event) { allocations_.push_back(event); }
  // Steps before `step` may be dropped.
  void forget_before(StepIndex step);
  // Forgets everything; the next step is `next`.
  void restart(StepIndex next);

 private:
  // Steps and their parts in one vector each: forgetting only moves `begin_` until half of them are dead.
  StepIndex begin_ = 0;
  std::size_t dead_ = 0;  // steps before `begin_`
  std::vector<LoggedOp> ops_;
  std::vector<Operand> operands_;
  std::vector<Source> sources_;
  std::deque<LoggedCopy> copies_;
  std::deque<LoggedAllocation> allocations_;
};

// The key, within an iteration that began at `start`, of an op with this key of its own and these sources.
std::uint64_t key_of(std::uint64_t own, std::span<const Source> sources, StepIndex start);
// The step's key within an iteration that began at `start`: its own key and the positions of the producers of
// what it reads. What was there before the iteration, or came from the host, has no position.
std::uint64_t key_within(const OpLog& log, StepIndex step, StepIndex start, Likeness likeness);

}  // namespace pooch::tracker
