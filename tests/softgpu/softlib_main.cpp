#include <gtest/gtest.h>

#include <cstdlib>

int main(int argc, char** argv) {
  setenv("SOFTGPU_DEVICE", "v100-pcie3:compute", 0);
  ::testing::InitGoogleTest(&argc, argv);
  return RUN_ALL_TESTS();
}
