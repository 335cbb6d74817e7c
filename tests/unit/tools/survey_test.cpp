// Which of the code in a fat binary is looked at. A script stands in for nvdisasm: it prints the same text
// for every image.
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include "tools/effects/survey.h"

namespace {

using namespace pooch;
using namespace pooch::effects;
namespace fs = std::filesystem;

// The header of a cubin: where its architecture is, and how long the two heads of a fat binary are.
constexpr std::size_t flags_at = 48, architecture_at = flags_at + 1, container_head = 16, entry_head = 64;

std::string plain_cubin() {
  std::ifstream in(fs::path(FATBIN_FOLDER) / "plain.cubin", std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

// The same kernels for another architecture.
std::string cubin_for(std::uint8_t architecture) {
  std::string cubin = plain_cubin();
  cubin[architecture_at] = static_cast<char>(architecture);
  return cubin;
}

template <class T>
void put(std::string& text, std::size_t at, T value) {
  std::memcpy(text.data() + at, &value, sizeof value);
}

std::string fat_binary(const std::vector<std::uint8_t>& architectures) {
  std::string entries;
  for (const std::uint8_t architecture : architectures) {
    std::string head(entry_head, '\0');
    const std::string cubin = cubin_for(architecture);
    put(head, 0, std::uint16_t{2});  // machine code
    put(head, 4, static_cast<std::uint32_t>(entry_head));
    put(head, 8, static_cast<std::uint64_t>(cubin.size()));
    put(head, 28, std::uint32_t{architecture});
    entries += head + cubin;
  }
  std::string whole(container_head, '\0');
  put(whole, 0, std::uint32_t{0xba55ed50});
  put(whole, 4, std::uint16_t{1});
  put(whole, 6, static_cast<std::uint16_t>(container_head));
  put(whole, 8, static_cast<std::uint64_t>(entries.size()));
  return whole + entries;
}

class AnalyseKernel : public testing::Test {
 protected:
  AnalyseKernel() : program_(fs::path(testing::TempDir()) / ("disassembler" + std::to_string(getpid()))) {}
  ~AnalyseKernel() override { fs::remove(program_); }

  void SetUp() override {
    write(
        "#!/bin/sh\ncat <<'END'\n"
        ".text.none:\n"
        "        /*0000*/  LDC.64 R2, c[0x0][0x210] ;\n"
        "        /*0010*/  STG.E desc[UR4][R2.64], R0 ;\n"
        "        /*0020*/  EXIT ;\n"
        "END\n");
  }
  void write(const char* text) {
    std::ofstream(program_) << text;
    fs::permissions(program_, fs::perms::owner_all);
  }
  Result<KernelEffects> analyse(const std::string& code, std::uint32_t device,
                                const std::string& name = "none") {
    return analyse_kernel(code, name, device, program_);
  }

  fs::path program_;
};

TEST_F(AnalyseKernel, TheHighestMinorThatIsNotAboveTheDevicesIsTaken) {
  const std::string code = fat_binary({80, 89, 86, 90});
  for (const auto& [device, taken] : {std::pair{80u, 80u}, {87u, 86u}, {89u, 89u}, {90u, 90u}}) {
    const auto found = analyse(code, device);
    ASSERT_TRUE(found) << found.error().message;
    EXPECT_EQ(found->kernel.architecture, taken) << "for " << device;
  }
}

TEST_F(AnalyseKernel, CodeOfAnotherMajorVersionDoesNotRun) {
  for (const std::uint32_t device : {75u, 100u, 120u}) {
    const auto found = analyse(fat_binary({80, 90}), device);
    ASSERT_FALSE(found);
    EXPECT_EQ(found.error().code, ErrorCode::invalid_argument);
  }
}

TEST_F(AnalyseKernel, ACubinIsLookedAtAsItIs) {
  const auto found = analyse(plain_cubin(), 90);
  ASSERT_TRUE(found) << found.error().message;
  EXPECT_EQ(found->kernel.name, "none");
  EXPECT_FALSE(analyse("no code at all", 90));
  EXPECT_FALSE(analyse("", 90));
}

TEST_F(AnalyseKernel, WhatLiesBehindTheFatBinaryIsNotLookedAt) {
  EXPECT_FALSE(analyse(fat_binary({80}) + fat_binary({90}), 90));
}

TEST_F(AnalyseKernel, ANameThatNoKernelHasIsAnError) {
  const auto found = analyse(plain_cubin(), 90, "nobody");
  ASSERT_FALSE(found);
  EXPECT_EQ(found.error().code, ErrorCode::invalid_argument);
}

// What went wrong once may go well the next time: it is no property of the kernel.
TEST_F(AnalyseKernel, ADisassemblerThatFailsIsAnErrorAndNotAnUnknownKernel) {
  write("#!/bin/sh\nexit 1\n");
  const auto found = analyse(plain_cubin(), 90);
  ASSERT_FALSE(found);
  EXPECT_EQ(found.error().code, ErrorCode::internal);
}

TEST_F(AnalyseKernel, AKernelThatTheDisassemblerDoesNotPrintIsUnknown) {
  const auto found = analyse(plain_cubin(), 90, "gather");
  ASSERT_TRUE(found);
  EXPECT_EQ(found->verdict, Verdict::unknown);
}

}  // namespace
