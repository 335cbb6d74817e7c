// As core/precompiled/standard.h, for programs of GoogleTest.
#pragma once

#include "core/precompiled/standard.h"

#include <gtest/gtest.h>
