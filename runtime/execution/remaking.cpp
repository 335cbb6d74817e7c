#include "runtime/execution/remaking.h"

#include <fmt/core.h>

#include <algorithm>
#include <utility>

#include "core/bytes.h"
#include "core/effect.h"
#include "core/log.h"
#include "runtime/execution/replay_launch.h"

namespace pooch::runtime {
namespace {

// Buffers that would have to be made one after the other, all at once in memory.
constexpr std::uint32_t most_in_a_row = 6;
// One drop in so many of what is proven is compared again.
constexpr std::uint64_t sample_interval = 64;
// So much of the cap is to be free beside the largest op.
constexpr std::uint64_t spare_part = 64;
// Operands of a replay lie where no alignment is lost.
constexpr std::uint64_t alignment = 512;

bool overwrites(const tracker::Operand& operand, const Recipe& recipe) {
  return !needs_content(operand.effect) && operand.offset == 0 && operand.bytes >= recipe.bytes;
}

}  // namespace

// --- ops

std::optional<AllocationId> Remaking::next_lacking(const Call& call, const tracker::Op& op) const {
  if (recipes_.count_dropped() == 0) return std::nullopt;
  for (const tracker::Operand& operand : op.operands) {
    const Recipe* const mine = recipes_.of(operand.allocation);
    if (mine != nullptr && mine->dropped && !overwrites(operand, *mine)) return mine->buffer;
    // What a call of pooch's own is for may change unseen from then on.
    if (!changes_content(operand.effect) && !call.own) continue;
    for (const AllocationId buffer : recipes_.fed_by(operand.allocation)) {
      const Recipe& fed = *recipes_.of(buffer);
      if (fed.dropped && (fed.reads(operand.allocation) || call.own)) return buffer;
    }
  }
  return std::nullopt;
}

bool Remaking::lacks(const Call& call, const tracker::Op& op) const {
  return next_lacking(call, op).has_value();
}

Status Remaking::before(const Call& call, const tracker::Op& op, std::vector<Wanted>& wanted, Held& held) {
  // What the program or another device sees of this one's memory must not rest on a difference.
  const OpKind kind = op.description.kind;
  const bool shows = kind == OpKind::copy_out || kind == OpKind::collective;
  using Late = Verification::Late;
  if (!call.own)
    if (const auto settled = settle(shows ? Late::await : Late::where_known, held); !settled) return settled;
  if (allowed_ && !recipes_.empty() && !call.own && proofs_.on())
    if (const auto prepared = proofs_.prepare(held); !prepared) return prepared;
  const auto next = [&] { return next_lacking(call, op); };
  if (next())
    for (const tracker::Operand& operand : op.operands) wanted.emplace_back(wanted_, operand.allocation);
  // A stream of pooch's own is not behind the program's work.
  return make_while(next, call.own ? std::nullopt : std::optional(call.stream), wanted, held);
}

// What is made stays, or is copied, until all of it is made: dropped again, it would have to be made again.
Status Remaking::make_while(FunctionRef<std::optional<AllocationId>()> next,
                            std::optional<StreamHandle> stream, std::vector<Wanted>& wanted, Held& held) {
  while (next()) {
    const Turn::Taken turn = turn_.take(held);
    const auto buffer = next();
    if (!buffer) break;
    wanted.emplace_back(wanted_, *buffer);
    const StreamHandle in = stream.value_or(recipes_.of(*buffer)->calls.front()->stream);
    if (const auto made = make(*buffer, in, held); !made) return made;
  }
  return Done{};
}

std::optional<std::uint64_t> Remaking::begun(const Call& call, const tracker::Op& op, bool timed) {
  ++launching_;
  return timed && recipes_.wants(call, op) ? costs_.begin(op.local_key, call.stream) : std::nullopt;
}

void Remaking::ended(std::optional<std::uint64_t> number, const Call& call) {
  --launching_;
  if (number) costs_.end(*number, call.stream);
}

// Behind a copy to the host the program may have waited itself: that the device is idle then says nothing.
void Remaking::note_launch(const tracker::Op& op, Mark mark) {
  latest_op_ = op.description.kind == OpKind::copy_out ? std::nullopt : std::optional(mark);
}

bool Remaking::ran_dry(const std::vector<ChunkUse>& uses, std::uint64_t waits_before) const {
  if (recipes_.empty() || !latest_op_) return false;
  Mark arrival{parts_.residency.in_stream(), 0};  // of the last operand
  for (const ChunkUse& use : uses)
    for (const Mark& mark : use.chunk->before)
      if (mark.stream == arrival.stream) arrival.ticket = std::max(arrival.ticket, mark.ticket);
  const auto arrived = parts_.order.finished(arrival);
  if (arrived && *arrived && parts_.order.own_waits() == waits_before) return false;
  const auto finished = parts_.order.finished(*latest_op_);
  return finished && *finished;
}

void Remaking::launched(const Call& call, const tracker::Op& op, const std::vector<ChunkUse>& uses,
                        bool ran_dry) {
  costs_.collect();
  costs_.passed(ran_dry);
  std::uint64_t together = 0;
  for (const ChunkUse& use : uses) together += use.chunk->bytes;
  largest_ = std::max(largest_, together);
  std::shared_ptr<const KeptCall> kept;
  // Libraries take device memory for handles of ours: not where the largest op leaves none.
  const bool roomy = largest_ + parts_.pool.cap() / spare_part <= parts_.pool.limit();
  if (allowed_ && roomy && recipes_.wants(call, op))
    if (auto replay = (*call.keep)()) kept = std::make_shared<const KeptCall>(call, op, std::move(replay));
  if (kept != nullptr && !kept->has_all_places()) kept = nullptr;
  recipes_.launched(op, kept);
  // What a call of pooch's own is for may change unseen from now on.
  if (call.own)
    for (const tracker::Operand& operand : op.operands) recipes_.freed(operand.allocation);
  forget_lost();
}

void Remaking::forget_lost() {
  for (const std::uint32_t number : recipes_.take_lost()) proofs_.forget(number);
}

Result<bool> Remaking::freeing(AllocationId allocation, Held& held) {
  if (recipes_.empty()) return false;
  const std::uint64_t before = replays_;
  const auto next = [&]() -> std::optional<AllocationId> {
    for (const AllocationId buffer : recipes_.fed_by(allocation))
      if (recipes_.of(buffer)->dropped) return buffer;
    return std::nullopt;
  };
  std::vector<Wanted> wanted;
  if (const auto made = make_while(next, std::nullopt, wanted, held); !made) return made.error();
  recipes_.freed(allocation);
  forget_lost();
  return replays_ != before;
}

// What the program does next is not reported: what is there keeps no recipe. What is dropped keeps its own,
// since `before` is asked all the same.
void Remaking::look_away() {
  allowed_ = false;
  if (!recipes_.empty()) recipes_.forget_what_is_there();
}

Status Remaking::make_all(Held& held) {
  allowed_ = false;
  const auto next = [this] { return recipes_.any_dropped(); };
  std::vector<Wanted> wanted;
  if (const auto made = make_while(next, std::nullopt, wanted, held); !made) return made;
  recipes_.forget_all();
  return Done{};
}

// --- dropping

std::uint64_t Remaking::bytes_to_copy(const Recipe& recipe) {
  std::uint64_t bytes = 0;
  for (const Chunk& chunk : recipe.range->chunks)
    if (chunk.state == ChunkState::resident && chunk.live && !chunk.host_valid && chunk.occupied > 0)
      bytes += chunk.bytes;
  return bytes;
}

bool Remaking::can_drop(const Recipe& recipe, std::uint64_t gathering) const {
  if (recipe.dropped || recipe.range->pinned || wanted_.contains(recipe.buffer)) return false;
  if (recipe.number < trust_.refused.size() && trust_.refused[recipe.number]) return false;
  const bool in_use =
      std::any_of(recipe.range->chunks.begin(), recipe.range->chunks.end(), [&](const Chunk& chunk) {
        return chunk.pins > 0 || !chunk.frames.empty() || chunk.expendable || chunk.landed ||
               chunk.gathered_by == gathering;
      });
  if (in_use) return false;
  for (const auto& call : recipe.calls) {
    std::uint64_t together = 0;
    for (const tracker::Operand& operand : call->operands) {
      together += operand.bytes;
      // What it only writes may be gone.
      if (needs_content(operand.effect) && operand.backing != nullptr &&
          static_cast<const Range*>(operand.backing)->pinned)
        return false;
    }
    if (together > parts_.pool.limit() / 2) return false;
  }
  return true;
}

// With what it needs of that was dropped. Nothing: not known.
std::optional<double> Remaking::us_to_make(const Recipe& recipe) const {
  double us = 0;
  for (const std::uint64_t key : recipe.keys) {
    const auto known = costs_.us(key);
    if (!known) return std::nullopt;
    us += *known;
  }
  for (const Recipe::Input& input : recipe.inputs) {
    const Recipe* const from = recipes_.of(input.allocation);
    if (from == nullptr || !from->dropped || !input.read) continue;
    const auto more = us_to_make(*from);
    if (!more) return std::nullopt;
    us += *more;
  }
  return us;
}

// Dropped buffers in a row that it needs.
std::uint32_t Remaking::depth_below(const Recipe& recipe) const {
  std::uint32_t most = 0;
  for (const Recipe::Input& input : recipe.inputs)
    if (const Recipe* const from = recipes_.of(input.allocation); from != nullptr && from->dropped)
      most = std::max(most, 1 + depth_below(*from));
  return most;
}

// ... that need it.
std::uint32_t Remaking::depth_above(const Recipe& recipe) const {
  std::uint32_t most = 0;
  for (const AllocationId buffer : recipes_.fed_by(recipe.buffer))
    if (const Recipe* const fed = recipes_.of(buffer); fed->dropped)
      most = std::max(most, 1 + depth_above(*fed));
  return most;
}

Result<std::uint64_t> Remaking::drop(const Chunk& chunk, std::uint64_t gathering) {
  if (!allowed_ || launching_ > 0 || parts_.residency.landing() != nullptr) return std::uint64_t{0};
  Recipe* const recipe = recipes_.of(chunk.owner);
  if (recipe == nullptr || !can_drop(*recipe, gathering)) return std::uint64_t{0};
  const std::uint64_t bytes = bytes_to_copy(*recipe);
  const auto us = us_to_make(*recipe);
  if (!us || *us > costs_.us_per_byte() * static_cast<double>(bytes)) return std::uint64_t{0};
  if (depth_below(*recipe) + depth_above(*recipe) >= most_in_a_row) return std::uint64_t{0};
  // Without a comparison nothing is dropped that is not proven, unless nobody wants any.
  if (proofs_.on() && !proofs_.ready()) return std::uint64_t{0};
  const auto blocked = parts_.order.host_blocked();
  if (!blocked) return blocked.error();
  return *blocked ? Result<std::uint64_t>(std::uint64_t{0}) : begin_leaving(*recipe);
}

void Remaking::note_drop(std::uint32_t number) {
  if (trust_.compared.size() <= number) {
    trust_.compared.resize(number + 1);
    trust_.dropped.resize(number + 1);
    trust_.refused.resize(number + 1);
  }
  trust_.sampling = ++trust_.iterations % sample_interval == 0;  // which are drops here
  trust_.turn = number;
}

Result<std::uint64_t> Remaking::begin_leaving(Recipe& recipe) {
  note_drop(recipe.number);
  const std::string name = fmt::format("a buffer of {}", format_bytes(recipe.bytes));
  if (const auto noted = proofs_.dropping(recipe.number, name, *recipe.range, {{0, recipe.bytes}}); !noted)
    return noted.error();
  recipes_.set_dropped(recipe, true);
  std::uint64_t bytes = 0;
  for (Chunk& chunk : recipe.range->chunks) {
    if (chunk.state != ChunkState::resident || chunk.occupied == 0 || !chunk.live || chunk.host_valid)
      continue;
    parts_.residency.begin_drop(chunk);
    parts_.departures.add(chunk);
    bytes += chunk.bytes;
  }
  return bytes;
}

void Remaking::needed_for(AllocationId buffer, std::vector<Expected>& into) const {
  const Recipe* const recipe = recipes_.of(buffer);
  if (recipe == nullptr || !recipe->dropped) return;
  for (const auto& call : recipe->calls)
    for (const tracker::Operand& operand : call->operands)
      if (operand.managed && operand.effect == Effect::read && operand.allocation != buffer)
        into.push_back({operand.base, operand.allocation, operand.offset, operand.bytes});
}

// --- making again

// The turn is taken.
Status Remaking::make(AllocationId buffer, StreamHandle stream, Held& held) {
  const Recipe* recipe = recipes_.of(buffer);
  const auto calls = recipe->calls;
  std::vector<Wanted> wanted;
  wanted.emplace_back(wanted_, buffer);
  for (const Recipe::Input& input : recipe->inputs) wanted.emplace_back(wanted_, input.allocation);
  if (const auto inputs = make_inputs(buffer, stream, held); !inputs) return inputs;
  const auto lacks = [&] {
    recipe = recipes_.of(buffer);
    return recipe != nullptr && recipe->dropped;
  };
  for (const auto& call : calls) {
    if (!lacks()) return Done{};  // another thread has freed it
    if (const auto ran = run(buffer, *call, stream, held); !ran) return ran;
  }
  if (!lacks()) return Done{};
  recipes_.set_dropped(*recipes_.of(buffer), false);
  const auto noted = proofs_.restored(recipe->number, calls.back()->function);
  return noted ? settle(Verification::Late::where_known, held) : noted;
}

Status Remaking::make_inputs(AllocationId buffer, StreamHandle stream, Held& held) {
  for (;;) {
    const Recipe* const recipe = recipes_.of(buffer);
    if (recipe == nullptr || !recipe->dropped) return Done{};
    const auto lacking =
        std::find_if(recipe->inputs.begin(), recipe->inputs.end(), [&](const Recipe::Input& input) {
          const Recipe* const from = recipes_.of(input.allocation);
          return from != nullptr && from->dropped && input.read;
        });
    if (lacking == recipe->inputs.end()) return Done{};
    if (const auto made = make(lacking->allocation, stream, held); !made) return made;
  }
}

// What the call makes beside the buffer, and where it works, lies in memory of its own: nothing that the
// program may use is touched. nullptr: there is nothing like it.
Result<Range*> Remaking::place_outputs(AllocationId buffer, const KeptCall& call) {
  call_.begin(call);
  std::uint64_t bytes = 0;
  const auto is_apart = [&](const tracker::Operand& operand) {
    return operand.allocation != buffer && !needs_content(operand.effect);
  };
  for (const tracker::Operand& operand : call.operands)
    if (is_apart(operand)) bytes += round_up(operand.bytes, alignment);
  if (bytes == 0) return nullptr;
  const auto range = memory_.open(bytes);
  if (!range) return range.error();
  std::uint64_t offset = 0;
  for (std::size_t o = 0; o < call.operands.size(); ++o) {
    if (!is_apart(call.operands[o])) continue;
    call_.place_alone(o, **range, offset);
    offset += round_up(call.operands[o].bytes, alignment);
  }
  return *range;
}

Status Remaking::run(AllocationId buffer, const KeptCall& call, StreamHandle stream, Held& held) {
  const auto beside = place_outputs(buffer, call);
  if (!beside) return beside.error();
  std::vector<ChunkUse> uses;
  Status outcome = parts_.placement.place(call.function, call_.operands(), uses, held);
  const Recipe* const recipe = recipes_.of(buffer);
  const bool still = recipe != nullptr && recipe->dropped;
  if (outcome && still) outcome = Residency::has_content(uses, /*remaking=*/true);
  if (outcome && still) {
    const auto launched = launch_replay(parts_, {call_, call, nullptr, stream}, uses, trace_);
    if (!launched) outcome = launched.error();
    // Other streams know nothing of this work.
    if (launched)
      for (const ChunkUse& use : uses) use.chunk->before.add(*launched);
    replays_ += outcome ? 1 : 0;
  }
  if (*beside != nullptr)
    if (const auto closed = memory_.close(**beside); !closed && outcome) outcome = closed;
  return outcome;
}

Status Remaking::settle(Verification::Late late, Held& held) {
  const Status settled = proofs_.settle(late, held);
  for (const std::uint32_t number : proofs_.take_refused()) trust_.refused[number] = true;
  return settled;
}

}  // namespace pooch::runtime
