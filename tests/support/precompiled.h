// As core/precompiled/standard.h, for programs of GoogleTest.

#include "core/precompiled/standard.h"

#include <gtest/gtest.h>
