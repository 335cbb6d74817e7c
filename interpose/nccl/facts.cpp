#include "interpose/nccl/facts.h"

#include <optional>

#include "interpose/hooks/libraries.h"
#include "interpose/sessions/served.h"
#include "interpose/sessions/sessions.h"

namespace pooch::interpose {
namespace {

POOCH_REAL(nccl, ncclCommCuDevice);
POOCH_REAL(nccl, ncclCommCount);
POOCH_REAL(nccl, ncclCommUserRank);

using Question = Real<ncclResult_t(ncclComm_t, int*)>;

std::optional<int> answer(const Scope& scope, Question& question, ncclComm_t comm) {
  auto* const ask = comm == nullptr ? nullptr : question.get(scope);
  int found = 0;
  return ask != nullptr && ask(comm, &found) == ncclSuccess ? std::optional(found) : std::nullopt;
}

}  // namespace

runtime::Session* session_of_communicator(const Scope& scope, ncclComm_t comm) {
  runtime::Session* const current = session_for_library_call(scope);
  if (open_session() == nullptr) return nullptr;
  const auto device = answer(scope, real_ncclCommCuDevice, comm);
  return device ? session_on(*device) : current;
}

Extent nccl_elements(std::uint64_t count, ncclDataType_t datatype) {
  constexpr std::uint8_t bytes[] = {1, 1, 4, 4, 8, 8, 2, 4, 8, 2, 1, 1};  // by enumerator
  const auto type = static_cast<std::size_t>(datatype);
  if (count == 0) return {};
  return type < sizeof bytes ? Extent(count * bytes[type]) : Extent::unknown();
}

Extent nccl_elements_of_all(const Scope& scope, ncclComm_t comm, std::uint64_t count,
                            ncclDataType_t datatype) {
  const auto ranks = answer(scope, real_ncclCommCount, comm);
  if (!ranks) return count == 0 ? Extent() : Extent::unknown();
  return nccl_elements(count * static_cast<std::uint64_t>(*ranks), datatype);
}

Extent nccl_at_root(const Scope& scope, ncclComm_t comm, int root, const Extent& extent) {
  const auto rank = answer(scope, real_ncclCommUserRank, comm);
  return rank && *rank != root ? Extent() : extent;
}

}  // namespace pooch::interpose
