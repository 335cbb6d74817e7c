// Profiles of well-known networks from their arithmetic alone: what the tracker would see of a program whose
// ReLUs and additions work in place, on a device with the given rates. Nothing is measured.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "core/profile.h"

namespace pooch::test {

// Rates as in softgpu/models/*.json.
struct Machine {
  std::string name;
  std::uint64_t memory_bytes;
  double flops_per_s;  // convolutions and matrix products
  double bytes_per_s;  // everything else
  double link_bytes_per_s;
  double link_latency_us;
};
Machine v100_pcie3();
Machine v100_nvlink2();
Machine titanx();

Profile resnet_profile(const Machine& machine, int batch, std::vector<int> blocks = {3, 4, 6, 3});
inline Profile resnet50_profile(const Machine& machine, int batch) {
  return resnet_profile(machine, batch);
}
// (height x width) x frames
Profile resnext101_3d_profile(const Machine& machine, int batch, int height, int width, int frames);
Profile vgg16_profile(const Machine& machine, int batch, int more_per_block = 0);
Profile alexnet_profile(const Machine& machine, int batch);
Profile googlenet_profile(const Machine& machine, int batch);
// `layers` convolutions with a ReLU each, all of one shape.
Profile chain_profile(const Machine& machine, int batch, int layers, int channels = 64, int side = 56);

}  // namespace pooch::test
