#include "interpose/nccl/collectives.h"

#include <algorithm>
#include <chrono>
#include <functional>
#include <thread>
#include <utility>
#include <vector>

#include "core/log.h"
#include "core/per_thread.h"
#include "interpose/hooks/libraries.h"
#include "interpose/nccl/facts.h"
#include "interpose/sessions/context.h"

namespace pooch::interpose {
namespace {

POOCH_REAL(nccl, ncclCommGetAsyncError);

// All that a group does in one stream.
struct Part {
  runtime::Session* session;
  StreamHandle stream;
  const char* function;  // static storage
  std::uint64_t traits;
  std::vector<Access> accesses;
};

struct Group {
  int depth = 0;        // of ncclGroupStart
  bool broken = false;  // its work lies in NCCL, which will not start it any more
  std::vector<Part> parts;
  std::vector<ncclComm_t> communicators;
  std::vector<std::function<void()>> afterwards;
};

Group& threads_group() {
  return per_thread<Group>();
}

void note(Group& group, const CallBuilder& call, ncclComm_t comm) {
  if (std::find(group.communicators.begin(), group.communicators.end(), comm) == group.communicators.end())
    group.communicators.push_back(comm);
  const auto part = std::find_if(group.parts.begin(), group.parts.end(), [&](const Part& p) {
    return p.session == &call.session() && p.stream == call.stream();
  });
  const auto accesses = call.accesses();
  if (part == group.parts.end()) {
    group.parts.push_back(
        {&call.session(), call.stream(), call.function(), call.traits(), {accesses.begin(), accesses.end()}});
    return;
  }
  if (part->function != call.function()) part->function = "ncclGroupEnd";
  part->traits = mix(part->traits, call.traits());
  part->accesses.insert(part->accesses.end(), accesses.begin(), accesses.end());
}

// Until NCCL's own thread has launched what it was given.
ncclResult_t started(const Scope& scope, std::span<const ncclComm_t> communicators) {
  auto* const ask = real_ncclCommGetAsyncError.get(scope);
  if (ask == nullptr) return ncclSystemError;
  for (const ncclComm_t comm : communicators) {
    ncclResult_t state = ncclInProgress;
    while (state == ncclInProgress) {
      if (const ncclResult_t asked = ask(comm, &state); asked != ncclSuccess) return asked;
      if (state == ncclInProgress) std::this_thread::sleep_for(std::chrono::microseconds(50));
    }
    if (state != ncclSuccess) return state;
  }
  return ncclSuccess;
}

ncclResult_t submit_parts(const Scope& scope, std::span<const Part> parts,
                          FunctionRef<ncclResult_t()> launch) {
  if (parts.empty()) return launch();
  const Part& part = parts.front();
  const InContext there(scope, *part.session);
  CallBuilder call(scope, *part.session, part.function, OpKind::collective, part.stream);
  for (const Access& access : part.accesses) call.add(access.address, access.bytes, access.effect);
  call.trait(part.traits);
  call.blocks(true);
  const auto rest = [&] { return submit_parts(scope, parts.subspan(1), launch); };
  return call.submit(ncclUnhandledCudaError, rest);
}

// The group is over: starts what was noted.
ncclResult_t end(const Scope& scope, Group& group, FunctionRef<ncclResult_t()> launch) {
  const auto parts = std::exchange(group.parts, {});
  const auto communicators = std::exchange(group.communicators, {});
  const auto afterwards = std::exchange(group.afterwards, {});
  CUcontext const programs = parts.empty() ? nullptr : current_context(scope);
  bool launched = false;
  const auto launch_all = [&] {
    const InContext own(scope, programs);
    launched = true;
    const ncclResult_t status = launch();
    return status == ncclInProgress && !communicators.empty() ? started(scope, communicators) : status;
  };
  const ncclResult_t status = submit_parts(scope, parts, launch_all);
  group.broken = group.broken || (group.depth > 0 && !launched);
  if (status == ncclSuccess || status == ncclInProgress)
    for (const auto& act : afterwards) act();
  return status;
}

template <class Launch>
ncclResult_t end_group(const Scope& scope, Launch&& launch, bool simulated) {
  Group& group = threads_group();
  if (!scope.outermost() || group.depth == 0) return launch();
  if (group.broken) return ncclUnhandledCudaError;
  if (group.depth > 1 || simulated) {
    if (--group.depth == 0) group = {};
    return launch();
  }
  const ncclResult_t status = end(scope, group, launch);
  group.depth = 0;
  return status;
}

template <class Launch>
ncclResult_t start_group(const Scope& scope, Launch&& launch) {
  Group& group = threads_group();
  if (scope.outermost() && group.broken) return ncclUnhandledCudaError;
  const ncclResult_t status = launch();
  if (scope.outermost() && status == ncclSuccess) ++group.depth;
  return status;
}

}  // namespace

ncclResult_t submit_collective(const Scope& scope, const CallBuilder& call, ncclComm_t comm,
                               FunctionRef<ncclResult_t()> launch) {
  Group& group = threads_group();
  if (group.broken) return ncclUnhandledCudaError;
  if (group.depth == 0) {
    note(group, call, comm);
    return end(scope, group, launch);
  }
  const ncclResult_t status = launch();
  if (status == ncclSuccess || status == ncclInProgress) note(group, call, comm);
  return status;
}

void when_group_has_ended(std::function<void()> act) {
  Group& group = threads_group();
  if (group.depth == 0) return act();
  group.afterwards.push_back(std::move(act));
}

}  // namespace pooch::interpose

using namespace pooch;
using namespace pooch::interpose;

POOCH_NCCL_HOOKS(ncclGroupStart, (), (), return start_group(scope, launch);)
POOCH_NCCL_HOOKS(ncclGroupEnd, (), (), return end_group(scope, launch, /*simulated=*/false);)
POOCH_NCCL_HOOKS(ncclGroupSimulateEnd, (ncclSimInfo_t * simInfo), (simInfo),
                 return end_group(scope, launch, /*simulated=*/true);)
