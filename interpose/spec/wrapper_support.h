// What generated wrappers include: the vendors' prototypes by exact name, and the means to describe a call.
#pragma once

// First: the other vendor headers must not pull in cuda.h without its internal names.
#include "interpose/hooks/driver_api.h"

#include <cublas_v2.h>
#include <cudnn.h>

#include "core/call.h"
#include "interpose/calls/call_builder.h"
#include "interpose/calls/extent.h"
#include "interpose/cublas/facts.h"
#include "interpose/cudnn/facts.h"
#include "interpose/driver/outside.h"
#include "interpose/hooks/libraries.h"
#include "interpose/hooks/stream.h"
#include "interpose/sessions/inside.h"
#include "interpose/sessions/served.h"
#include "interpose/sessions/sessions.h"

namespace pooch::interpose {

// For copies whose sides may be host or device memory: what is managed is on the device, the rest is taken
// for host memory unless both are managed.
inline OpKind kind_of_copy(const runtime::Session& session, CUdeviceptr to, CUdeviceptr from) {
  if (!session.owns(Address{from})) return OpKind::copy_in;
  return session.owns(Address{to}) ? OpKind::copy_device : OpKind::copy_out;
}
inline OpKind kind_of_copy(const runtime::Session& session, const Side& to, const Side& from) {
  return kind_of_copy(session, to.address, from.address);
}

}  // namespace pooch::interpose
