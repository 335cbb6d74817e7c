// What a communicator knows by address for longer than a call: registered memory, which stays on the device
// as long as it is registered, and numbers that operators multiply by.
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include "interpose/hooks/errors.h"
#include "interpose/hooks/libraries.h"
#include "interpose/nccl/collectives.h"
#include "interpose/nccl/facts.h"
#include "interpose/sessions/context.h"
#include "interpose/sessions/served.h"

using namespace pooch;
using namespace pooch::interpose;

namespace {

struct Registration {
  runtime::Session* session;
  std::vector<runtime::Kept> held;
};

struct Book {
  std::mutex mutex;  // a leaf
  std::multimap<std::pair<ncclComm_t, const void*>, Registration>
      registrations;                                          // by communicator and handle
  std::map<std::pair<ncclComm_t, int>, const void*> scalars;  // by communicator and operator
};
Book& book() {
  static auto* const one = new Book;  // never destroyed, like all that hooks use
  return *one;
}

// `handle`: where the call writes the handle; in a group that is when it ends.
template <class Handle, class Launch>
ncclResult_t register_memory(const Scope& scope, const char* function, ncclComm_t comm, const void* memory,
                             std::size_t bytes, Handle* handle, Launch&& launch) {
  runtime::Session* const session =
      scope.outermost() ? session_owning(Address{reinterpret_cast<std::uintptr_t>(memory)}) : nullptr;
  if (session == nullptr || bytes == 0 || handle == nullptr) return launch();
  auto made = std::make_shared<Registration>(Registration{session, {}});
  {
    const InContext there(scope, *session);
    const Access whole{Address{reinterpret_cast<std::uintptr_t>(memory)}, bytes, Effect::read_write};
    if (const Status held = session->hold({&whole, 1}, made->held); !held) {
      report_refused(function, held.error());
      return ncclUnhandledCudaError;
    }
  }
  const ncclResult_t status = launch();
  if (status != ncclSuccess && status != ncclInProgress) {
    session->let_go(made->held);
    return status;
  }
  when_group_has_ended([comm, handle, made] {
    const std::lock_guard lock(book().mutex);
    book().registrations.emplace(std::pair(comm, static_cast<const void*>(*handle)), std::move(*made));
  });
  return status;
}

template <class Launch>
ncclResult_t deregister_memory(const Scope& scope, ncclComm_t comm, const void* handle, Launch&& launch) {
  const ncclResult_t status = launch();
  if (!scope.outermost() || (status != ncclSuccess && status != ncclInProgress)) return status;
  Registration gone{};
  {
    const std::lock_guard lock(book().mutex);
    const auto found = book().registrations.find({comm, handle});
    if (found == book().registrations.end()) return status;
    gone = std::move(found->second);
    book().registrations.erase(found);
  }
  gone.session->let_go(gone.held);
  return status;
}

// The communicator goes away, and with it all that it knows.
template <class Launch>
ncclResult_t end_communicator(const Scope& scope, ncclComm_t comm, Launch&& launch) {
  const ncclResult_t status = launch();
  if (!scope.outermost() || (status != ncclSuccess && status != ncclInProgress)) return status;
  std::vector<Registration> gone;
  {
    const std::lock_guard lock(book().mutex);
    std::erase_if(book().scalars, [&](const auto& scalar) { return scalar.first.first == comm; });
    std::erase_if(book().registrations, [&](auto& registration) {
      if (registration.first.first != comm) return false;
      gone.push_back(std::move(registration.second));
      return true;
    });
  }
  for (const Registration& each : gone) each.session->let_go(each.held);
  return status;
}

template <class Launch>
ncclResult_t create_operator(const ncclRedOp_t* op, const void* scalar, ncclScalarResidence_t residence,
                             ncclComm_t comm, Launch&& launch) {
  const ncclResult_t status = launch();
  if (status != ncclSuccess || residence != ncclScalarDevice) return status;
  const std::lock_guard lock(book().mutex);
  book().scalars.insert_or_assign({comm, static_cast<int>(*op)}, scalar);
  return status;
}

template <class Launch>
ncclResult_t destroy_operator(ncclRedOp_t op, ncclComm_t comm, Launch&& launch) {
  const ncclResult_t status = launch();
  if (status != ncclSuccess) return status;
  const std::lock_guard lock(book().mutex);
  book().scalars.erase({comm, static_cast<int>(op)});
  return status;
}

}  // namespace

const void* pooch::interpose::nccl_scalar(ncclComm_t comm, ncclRedOp_t op) {
  if (op < ncclNumOps) return nullptr;
  const std::lock_guard lock(book().mutex);
  const auto found = book().scalars.find({comm, static_cast<int>(op)});
  return found == book().scalars.end() ? nullptr : found->second;
}

POOCH_NCCL_HOOKS(ncclCommRegister, (const ncclComm_t comm, void* buff, size_t size, void** handle),
                 (comm, buff, size, handle),
                 return register_memory(scope, "ncclCommRegister", comm, buff, size, handle, launch);)
POOCH_NCCL_HOOKS(ncclCommWindowRegister,
                 (ncclComm_t comm, void* buff, size_t size, ncclWindow_t* win, int winFlags),
                 (comm, buff, size, win, winFlags),
                 return register_memory(scope, "ncclCommWindowRegister", comm, buff, size, win, launch);)
POOCH_NCCL_HOOKS(ncclCommDeregister, (const ncclComm_t comm, void* handle), (comm, handle),
                 return deregister_memory(scope, comm, handle, launch);)
POOCH_NCCL_HOOKS(ncclCommWindowDeregister, (ncclComm_t comm, ncclWindow_t win), (comm, win),
                 return deregister_memory(scope, comm, win, launch);)
POOCH_NCCL_HOOKS(ncclCommDestroy, (ncclComm_t comm), (comm), return end_communicator(scope, comm, launch);)
POOCH_NCCL_HOOKS(ncclCommAbort, (ncclComm_t comm), (comm), return end_communicator(scope, comm, launch);)
POOCH_NCCL_HOOKS(ncclRedOpCreatePreMulSum,
                 (ncclRedOp_t * op, void* scalar, ncclDataType_t datatype, ncclScalarResidence_t residence,
                  ncclComm_t comm),
                 (op, scalar, datatype, residence, comm),
                 return create_operator(op, scalar, residence, comm, launch);)
POOCH_NCCL_HOOKS(ncclRedOpDestroy, (ncclRedOp_t op, ncclComm_t comm), (op, comm),
                 return destroy_operator(op, comm, launch);)
