// Small stream-ordered allocations from the device's default pool. Frameworks make one for each small tensor,
// and a call of the driver's for each would cost more than all else here: blocks are cut from slabs of the
// pool's instead, by stream.
//
// A block is used again by its own stream alone: at once where it was freed in that, else when the freeing
// stream has come so far. What a stream that is destroyed leaves goes back to the driver.
#pragma once

#include "interpose/hooks/driver_api.h"

#include <cstdint>
#include <optional>

#include "interpose/hooks/scope.h"
#include "interpose/sessions/pool_accounts.h"
#include "runtime/session/session.h"

namespace pooch::interpose {

// Where the allocation can be a block, and there is memory for one: its address. The session knows of it.
std::optional<CUdeviceptr> take_block(const Scope& scope, runtime::Session& session, PoolAccount& pool,
                                      std::uint64_t bytes, StreamHandle stream);
// A block that the session knows no longer. Without a stream the device is waited for; where that fails the
// block is still taken.
CUresult give_block(const Scope& scope, const Origin& origin, CUdeviceptr block, std::uint64_t bytes,
                    std::optional<StreamHandle> stream);

// The session of a block that contains the address; nullptr: there is none.
runtime::Session* session_of_block(CUdeviceptr address);
// Slabs that are idle as a whole go back to the pool.
void release_blocks(const Scope& scope);
// Ahead of the driver's own call.
void stream_leaves_blocks(const Scope& scope, StreamHandle stream);

}  // namespace pooch::interpose
