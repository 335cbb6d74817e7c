#include "tests/unit/interpose/replay_session.h"

#include <cuda_runtime_api.h>

#include <cstdlib>
#include <utility>

#include "runtime/session/session.h"

namespace replay_test {
namespace {

std::vector<KeptOp> all_ops;
using Extents = std::vector<std::pair<std::uint64_t, std::uint64_t>>;
Extents owned, known;

std::optional<pooch::runtime::Extent> containing(const Extents& all, pooch::Address address) {
  for (const auto& [base, bytes] : all)
    if (raw(address) >= base && raw(address) - base < bytes)
      return pooch::runtime::Extent{pooch::Address{base}, bytes};
  return std::nullopt;
}
bool with_snapshots = true;

void* pointer(pooch::Address address) {
  return reinterpret_cast<void*>(raw(address));
}

// The wrappers are not behind cudart here, so these copies are no calls of the program's.
std::vector<Bytes> contents(const std::vector<pooch::Access>& accesses) {
  std::vector<Bytes> all;
  for (const pooch::Access& access : accesses) {
    Bytes bytes(access.bytes);
    if (cudaMemcpy(bytes.data(), pointer(access.address), access.bytes, cudaMemcpyDeviceToHost) !=
        cudaSuccess)
      std::abort();
    all.push_back(std::move(bytes));
  }
  return all;
}

}  // namespace

std::vector<KeptOp>& ops() {
  return all_ops;
}
void snapshots(bool yes) {
  with_snapshots = yes;
}
void own(const void* memory, std::uint64_t bytes) {
  owned.emplace_back(reinterpret_cast<std::uintptr_t>(memory), bytes);
}
void know(const void* memory, std::uint64_t bytes) {
  known.emplace_back(reinterpret_cast<std::uintptr_t>(memory), bytes);
}
void forget_owned() {
  owned.clear();
  known.clear();
}

}  // namespace replay_test

namespace pooch::runtime {

struct Session::Impl {};

Session::Session(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Session::~Session() = default;

Result<std::unique_ptr<Session>> Session::open(const Config&, Device&) {
  return std::unique_ptr<Session>(new Session(std::make_unique<Impl>()));
}

bool Session::said_shortage() const {
  return false;
}
bool Session::failed() const {
  return false;
}
bool Session::manages(std::uint64_t) const {
  return false;
}
Result<Address> Session::allocate(std::uint64_t, std::optional<StreamHandle>, void*) {
  std::abort();
}
Result<Freed> Session::free(Address, std::optional<StreamHandle>) {
  return Error{ErrorCode::invalid_argument, "nothing is managed here"};
}
Status Session::admit_pass_through(std::uint64_t) {
  return Done{};
}
void Session::passed_through(Address, std::uint64_t, bool, void*) {}
void Session::refund(std::uint64_t) {}
bool Session::relieve_device(std::uint64_t) {
  return false;
}
Result<std::optional<Freed>> Session::pass_through_freed(Address) {
  return std::optional<Freed>();
}
void Session::pass_through_kept(Address, const Freed&) {}
void Session::passed_through(std::uint64_t) {}
void Session::placed(Address, std::uint64_t, bool, void*) {}
void* Session::origin_of(Address) const {
  return nullptr;
}

void Session::capture_begins() {}
Status Session::hold(std::span<const Access>, std::vector<Kept>&) {
  return Done{};
}
void Session::let_go(std::span<const Kept>) {}
bool Session::owns(Address address) const {
  return find(address).has_value();
}
std::vector<Extent> Session::allocations() const {
  std::vector<Extent> all;
  for (const auto& [base, bytes] : replay_test::owned) all.push_back({Address{base}, bytes});
  return all;
}
std::optional<Extent> Session::find(Address address) const {
  return replay_test::containing(replay_test::owned, address);
}
std::optional<Extent> Session::find_known(Address address) const {
  const auto managed = find(address);
  return managed ? managed : replay_test::containing(replay_test::known, address);
}
void Session::pin_addresses_in(const HostBlock&) {}
MemoryInfo Session::memory_info() const {
  return {0, 0, 0, 0};
}
std::uint64_t Session::device_bytes() const {
  return 0;
}

Watch& Session::passing() {
  static Watch watch(/*on=*/true);
  return watch;
}
void Session::watch() {}

int Session::submit(const Call& call, FunctionRef<int()> launch, Refusal) {
  using namespace replay_test;
  KeptOp op;
  op.function = call.function;
  op.kind = call.kind;
  op.accesses.assign(call.accesses.begin(), call.accesses.end());
  op.offered = call.keep != nullptr;
  if (with_snapshots) op.before = contents(op.accesses);
  if (call.keep != nullptr) op.recipe = (*call.keep)();
  op.status = launch();
  if (with_snapshots) {
    if (cudaDeviceSynchronize() != cudaSuccess) std::abort();
    op.after = contents(op.accesses);
  }
  all_ops.push_back(std::move(op));
  return all_ops.back().status;
}
bool Session::wants_details() const {
  return false;
}
bool Session::wants_call_sites() const {
  return false;
}
void Session::note_host_blocking(StreamHandle) {}
void Session::stream_destroyed(StreamHandle) {}
Summary Session::summary() const {
  return {};
}
void Session::begin_live(std::int32_t) {}
void Session::end_live() {}
void Session::finish_profile() {}
Profile Session::profile() const {
  return {};
}
void Session::write_trace_so_far(FunctionRef<bool()>) const {}

}  // namespace pooch::runtime
