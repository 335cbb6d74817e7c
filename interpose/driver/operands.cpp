#include "interpose/driver/operands.h"

#include <algorithm>

namespace pooch::interpose {

void add_values(CallBuilder& call, std::span<const CUstreamBatchMemOpParams> ops) {
  for (const CUstreamBatchMemOpParams& op : ops) {
    switch (op.operation) {
      case CU_STREAM_MEM_OP_WAIT_VALUE_32:
        call.add(op.waitValue.address, sizeof(cuuint32_t), Effect::read);
        break;
      case CU_STREAM_MEM_OP_WAIT_VALUE_64:
        call.add(op.waitValue.address, sizeof(cuuint64_t), Effect::read);
        break;
      case CU_STREAM_MEM_OP_WRITE_VALUE_32:
        call.add(op.writeValue.address, sizeof(cuuint32_t), Effect::overwrite);
        break;
      case CU_STREAM_MEM_OP_WRITE_VALUE_64:
        call.add(op.writeValue.address, sizeof(cuuint64_t), Effect::overwrite);
        break;
      case CU_STREAM_MEM_OP_BARRIER:
      case CU_STREAM_MEM_OP_FLUSH_REMOTE_WRITES:
        break;
      default:  // of a later driver: an address, if it has one, lies where the others have theirs
        call.add(op.writeValue.address, Extent::unknown(), Effect::read_write);
        call.unforeseen();
    }
  }
}

bool waits_for_value(std::span<const CUstreamBatchMemOpParams> ops) {
  return std::any_of(ops.begin(), ops.end(), [](const CUstreamBatchMemOpParams& op) {
    return op.operation == CU_STREAM_MEM_OP_WAIT_VALUE_32 || op.operation == CU_STREAM_MEM_OP_WAIT_VALUE_64;
  });
}

}  // namespace pooch::interpose
