#include "softgpu/driver/checks/host_guard.h"

#include <signal.h>
#include <sys/mman.h>
#include <ucontext.h>

#include <algorithm>
#include <atomic>

namespace softgpu {
namespace {

constexpr std::uint64_t page = 4096;
std::uint64_t down(std::uint64_t address) {
  return address / page * page;
}
std::uint64_t up(std::uint64_t address) {
  return down(address + page - 1);
}

void set_protection(std::uint64_t begin, std::uint64_t end, int protection) {
  if (begin < end) mprotect(reinterpret_cast<void*>(begin), end - begin, protection);
}

std::atomic<HostGuard*> guard{nullptr};
struct sigaction previous {};
thread_local int driver_at_work = 0;

bool is_write(const void* context) {
#if defined(__x86_64__)
  constexpr greg_t write_bit = 2;  // of the page fault's error code
  return (static_cast<const ucontext_t*>(context)->uc_mcontext.gregs[REG_ERR] & write_bit) != 0;
#else
  (void)context;
  return false;
#endif
}

// Runs on the thread that faulted, in the middle of the program's own code, which holds no lock of ours.
void on_fault(int signal, siginfo_t* info, void* context) {
  HostGuard* const guards = guard.load();
  const auto address = reinterpret_cast<std::uint64_t>(info->si_addr);
  HostGuard::Guarded found{};
  const bool by_driver = driver_at_work != 0;  // in a kernel
  if (by_driver ? guards->take(address, found) : guards->accessed(address, is_write(context))) return;
  // Not ours: the fault happens again, for whoever was there before.
  sigaction(signal, &previous, nullptr);
}

// Turns faults on guarded pages into reports; other faults go to whoever was there before.
void catch_faults(HostGuard* wanted) {
  struct sigaction now {};
  sigaction(SIGSEGV, nullptr, &now);
  if ((now.sa_flags & SA_SIGINFO) != 0 && now.sa_sigaction == on_fault) return;
  guard.store(wanted);
  previous = now;
  struct sigaction ours {};
  ours.sa_sigaction = on_fault;
  ours.sa_flags = SA_SIGINFO | SA_RESTART | SA_ONSTACK;
  sigemptyset(&ours.sa_mask);
  sigaction(SIGSEGV, &ours, nullptr);
}

}  // namespace

DriverAtWork::DriverAtWork() {
  ++driver_at_work;
}
DriverAtWork::~DriverAtWork() {
  --driver_at_work;
}

void HostGuard::apply(std::uint64_t begin, std::uint64_t end) const {
  set_protection(begin, end, PROT_READ | PROT_WRITE);
  for (const bool written : {false, true})  // the stricter last
    for (const Guarded& g : guards_)
      if (g.written == written)
        set_protection(std::max(begin, g.begin), std::min(end, g.end), written ? PROT_NONE : PROT_READ);
}

void HostGuard::add(std::uint64_t address, std::uint64_t bytes, bool written, const Access& by) {
  const Pinned* const owner = host_.find(address);
  if (owner == nullptr || bytes == 0) return;
  // What shares a page with the buffer stays accessible; our own allocations have their last page to
  // themselves.
  const bool last_page_ours = !owner->registered && address + bytes == owner->base + owner->bytes;
  const Guarded made{up(address), last_page_ours ? up(address + bytes) : down(address + bytes), written, by};
  if (made.begin >= made.end) return;
  guards_.push_back(made);
  apply(made.begin, made.end);
}

void HostGuard::protect(const std::vector<CopyPart>& copies, const Access& by) {
  catch_faults(this);
  for (const CopyPart& part : copies) {
    add(part.to, part.bytes, /*written=*/true, by);
    add(part.from, part.bytes, /*written=*/false, by);
  }
}

void HostGuard::lift(const std::vector<CopyPart>& copies) {
  for (const CopyPart& part : copies)
    for (const std::uint64_t side : {part.to, part.from})
      for (const Guarded& g : guards_)
        set_protection(std::max(down(side), g.begin), std::min(up(side + part.bytes), g.end),
                       PROT_READ | PROT_WRITE);
}

void HostGuard::release(const VectorClock& host) {
  if (std::none_of(guards_.begin(), guards_.end(), [&](const Guarded& g) { return host.covers(g.by); }))
    return;
  const auto seen = std::stable_partition(guards_.begin(), guards_.end(),
                                          [&](const Guarded& g) { return !host.covers(g.by); });
  const std::vector<Guarded> gone(seen, guards_.end());
  guards_.erase(seen, guards_.end());
  for (const Guarded& g : gone) apply(g.begin, g.end);
}

void HostGuard::forget(std::uint64_t base, std::uint64_t bytes) {
  std::erase_if(guards_, [&](const Guarded& g) { return g.begin < up(base + bytes) && base < g.end; });
  apply(down(base), up(base + bytes));
}

bool HostGuard::take(std::uint64_t address, Guarded& out) {
  const auto covers = [&](const Guarded& g) { return g.begin <= address && address < g.end; };
  const auto found = std::find_if(guards_.begin(), guards_.end(), covers);
  if (found == guards_.end()) return false;
  out = *found;
  std::erase_if(guards_, covers);
  apply(out.begin, out.end);
  return true;
}

}  // namespace softgpu
