// Why a plan is not taken.
#pragma once

#include <string>
#include <utility>

#include "core/result.h"

namespace pooch::runtime {

inline Error refused(std::string why) {
  return {ErrorCode::invalid_argument, std::move(why)};
}

}  // namespace pooch::runtime
