// A call of the program that will be replayed, and the operands of one replay of it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string_view>
#include <vector>

#include "core/call.h"
#include "core/device.h"
#include "core/replay.h"
#include "runtime/memory/chunk.h"
#include "runtime/script/script.h"
#include "tracker/tracker.h"

namespace pooch::runtime {

struct KeptCall {
  KeptCall(const Call& call, const tracker::Op& op, std::unique_ptr<Replay> replay);

  // Whether each of its addresses is known by its operand: else an operand could not lie elsewhere.
  bool has_all_places() const;

  std::unique_ptr<Replay> replay;
  std::vector<tracker::Operand> operands;
  std::vector<Address> accesses;          // of the call
  std::vector<std::uint32_t> operand_of;  // by access: index of the operand, or none
  StreamHandle stream{};
  std::string_view function;
  std::optional<Substitute> substitute;  // if a replay of it uses one
};

// Where everything lies this time. Its storage is reused.
class ReplayCall {
 public:
  // The call's operands, where they were.
  void begin(const KeptCall& kept) { operands_ = kept.operands; }
  // The operand lies in other memory; `offset`: of its buffer there.
  void place(std::size_t operand, Range& range, std::uint64_t offset);
  // ... lies there, at `offset`, without the rest of its buffer.
  void place_alone(std::size_t operand, Range& range, std::uint64_t offset);
  // The substitute is launched, not the call.
  void use_substitute(const KeptCall& kept);
  const std::vector<tracker::Operand>& operands() const { return operands_; }
  // Launches what the step names.
  Status run(const ScriptReplay& step, const KeptCall& kept, Device& device, StreamHandle stream);
  Status run(const KeptCall& kept, StreamHandle stream);

 private:
  void find_addresses(const KeptCall& kept);
  Status normalise(const ScriptReplay& step, const Substitute& by, Device& device, StreamHandle stream) const;

  std::vector<tracker::Operand> operands_;
  std::vector<Address> addresses_;  // by access of the call
};

}  // namespace pooch::runtime
