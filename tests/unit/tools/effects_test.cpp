// What kernels touch, from nvdisasm's text: pieces of kernels of our own, as they are or with one thing
// changed.
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>
#include <random>
#include <string>

#include "tools/effects/analysis.h"
#include "tools/effects/images.h"
#include "tools/effects/json.h"
#include "tools/effects/value.h"

namespace {

using namespace pooch::effects;

// The lines get addresses; what ends in a colon is a label.
std::string disassembly(const std::vector<std::string>& lines) {
  std::string text =
      "//--------------------- .text.kernel             --------------------------\n.text.kernel:\n";
  unsigned address = 0;
  for (const std::string& line : lines) {
    if (line.ends_with(':')) {
      text += line + "\n";
      continue;
    }
    char number[16];
    std::snprintf(number, sizeof number, "%04x", address);
    text += std::string("        /*") + number + "*/   " + line + " ;\n";
    address += 16;
  }
  return text;
}

Kernel kernel_of(std::uint32_t architecture) {
  Kernel kernel;
  kernel.name = "kernel";
  kernel.architecture = architecture;
  kernel.param_base = architecture >= 100 ? 0x380 : architecture >= 90 ? 0x210 : 0x160;
  kernel.params = {{0, 8}, {8, 8}, {16, 8}};
  return kernel;
}

KernelEffects effects_of(const std::vector<std::string>& lines, std::uint32_t architecture = 90) {
  const auto codes = read_disassembly(disassembly(lines));
  return analyse(kernel_of(architecture), codes.at(0));
}

// "0 load, 8 store", less what is derived.
std::string words(const KernelEffects& effects) {
  std::string text;
  for (const WordEffect& one : effects.words) {
    if (one.certainty == Certainty::derived) continue;
    text += (text.empty() ? "" : ", ") + std::to_string(one.offset) +
            (one.certainty == Certainty::sum ? "?" : "") + " " + text_of(one.effect);
  }
  return text;
}

std::string why(const KernelEffects& effects) {
  const auto& reasons = effects.unknown.empty() ? effects.hidden : effects.unknown;
  return reasons.empty() ? "" : reasons.front().why;
}

const std::vector<std::string> copies = {"S2R R9, SR_TID.X",           "LDC.64 R2, c[0x0][0x210]",
                                         "LDC.64 R4, c[0x0][0x218]",   "IMAD.WIDE R2, R9, 0x4, R2",
                                         "IMAD.WIDE R4, R9, 0x4, R4",  "LDG.E R7, desc[UR4][R2.64]",
                                         "STG.E desc[UR4][R4.64], R7", "EXIT"};

TEST(Sass, AnInstructionIsGuardNameModifiersAndOperands) {
  const Instruction one = read_instruction("@!P0 LDG.E.64 R4, desc[UR14][R2.64+-0x8] ;");
  EXPECT_EQ(one.name, "LDG");
  EXPECT_TRUE(one.has("64") && one.has("E"));
  ASSERT_TRUE(one.guard);
  EXPECT_EQ(*one.guard, (Predicate{false, true, 0}));
  ASSERT_EQ(one.operands.size(), 2U);
  EXPECT_EQ(one.operands[0].reg, (Register{false, 4}));
  EXPECT_EQ(one.operands[1].number, -8);
  ASSERT_EQ(one.operands[1].parts.size(), 1U);
  EXPECT_TRUE(one.operands[1].parts[0].pair);
}

TEST(Sass, NotesOfNewerArchitecturesAreNoPartOfIt) {
  const Instruction one = read_instruction("LDCU.64 UR8, c[0x0][UR5+0x380]      &req={1} &wr=0x1  ?trans1;");
  ASSERT_EQ(one.operands.size(), 2U);
  EXPECT_EQ(one.operands[1].kind, OperandKind::constant);
  EXPECT_EQ(one.operands[1].number, 0x380);
  EXPECT_EQ(one.operands[1].reg, (Register{true, 5}));
}

TEST(Sass, OperandsOfAllKinds) {
  EXPECT_EQ(read_operand("RZ").kind, OperandKind::reg);
  EXPECT_FALSE(read_operand("RZ").reg);
  EXPECT_TRUE(read_operand("-R5.reuse").negated);
  EXPECT_EQ(read_operand("|R5|").reg, (Register{false, 5}));
  EXPECT_EQ(read_operand("-0x10").number, -16);
  EXPECT_EQ(read_operand("1.5").kind, OperandKind::floating);
  EXPECT_EQ(read_operand("-QNAN").kind, OperandKind::floating);
  EXPECT_EQ(read_operand("!UPT").kind, OperandKind::predicate);
  EXPECT_EQ(read_operand("`(.L_x_1)").text, ".L_x_1");
  EXPECT_EQ(read_operand("cx[UR4][0x10]").kind, OperandKind::bindless);
  EXPECT_EQ(read_operand("what is this").kind, OperandKind::other);
}

TEST(Effects, AWordThatIsAnAddressIsLoadedOrStored) {
  const auto found = effects_of(copies);
  EXPECT_EQ(found.verdict, Verdict::foreseen);
  EXPECT_EQ(words(found), "0 load, 8 store");
  EXPECT_EQ(found.constants, (std::vector<std::uint32_t>{0, 4, 8, 12}));
  EXPECT_TRUE(is_strict(found));
}

TEST(Effects, AnUnknownInstructionMakesTheKernelUnknown) {
  auto lines = copies;
  lines.insert(lines.begin() + 5, "NEVERHEARDOF R7, R9");
  EXPECT_EQ(effects_of(lines).verdict, Verdict::unknown);
  EXPECT_EQ(why(effects_of(lines)), "an instruction that nobody knows");
}

TEST(Effects, AnAddressThatWasLoadedIsHidden) {
  auto lines = copies;
  lines[5] = "LDG.E.64 R4, desc[UR4][R2.64]";
  const auto found = effects_of(lines);
  EXPECT_EQ(found.verdict, Verdict::hidden);
  EXPECT_EQ(why(found), "an address loaded from memory");
}

TEST(Effects, APartOfAnAddressThatWasLoadedIsHiddenAsWell) {
  for (const char* const load : {"LDG.E.U8 R5, desc[UR4][R2.64]", "LDG.E.U16 R5, desc[UR4][R2.64]",
                                 "LDG.E R5, desc[UR4][R2.64]", "LDS R5, [RZ]", "ATOMS.EXCH R5, [RZ], R9"}) {
    auto lines = copies;
    lines[5] = load;
    EXPECT_NE(effects_of(lines).verdict, Verdict::foreseen) << load;
  }
}

TEST(Effects, WhereControlJoinsBothAddressesMayBeMeant) {
  const auto found = effects_of(
      {"LDC.64 R2, c[0x0][0x210]", "LDC R0, c[0x0][0x220]", "ISETP.NE.AND P0, PT, R0, RZ, PT",
       "@P0 BRA `(.L_x_0)", "LDC.64 R2, c[0x0][0x218]", ".L_x_0:", "STG.E desc[UR4][R2.64], R0", "EXIT"});
  EXPECT_EQ(found.verdict, Verdict::foreseen);
  EXPECT_EQ(words(found), "0 store, 8 store");
}

TEST(Effects, ALoopGoesRoundUntilNothingChanges) {
  const auto found =
      effects_of({"LDC.64 R2, c[0x0][0x210]", "LDC.64 R4, c[0x0][0x218]",
                  ".L_x_0:", "STG.E desc[UR4][R2.64], R0", "MOV R6, R2", "MOV R7, R3", "MOV R2, R4",
                  "MOV R3, R5", "MOV R4, R6", "MOV R5, R7", "@P0 BRA `(.L_x_0)", "EXIT"});
  EXPECT_EQ(words(found), "0 store, 8 store");
}

TEST(Effects, HalvesOfDifferentWordsAreNoAddress) {
  auto lines = copies;
  lines[4] = "MOV R4, R2";
  const auto found = effects_of(lines);
  EXPECT_EQ(found.verdict, Verdict::unknown);
  EXPECT_EQ(why(found), "an address whose halves come from different places");
}

TEST(Effects, WhatWasShiftedIsNoAddressButRemembered) {
  auto lines = copies;
  lines[4] = "SHF.L.U64.HI R5, R4, 0x4, R5";
  const auto found = effects_of(lines);
  EXPECT_EQ(found.verdict, Verdict::unknown);
  bool remembered = false;
  for (const WordEffect& one : found.words)
    remembered =
        remembered || (one.offset == 8 && one.certainty == Certainty::derived && one.effect == stores);
  EXPECT_TRUE(remembered);
}

TEST(Effects, AnAddressThatNothingSetsIsUnknown) {
  auto lines = copies;
  lines[4] = "NOP";
  lines[2] = "NOP";
  EXPECT_EQ(why(effects_of(lines)), "an address that nothing sets");
}

// As compilers keep numbers of 16 bits: R33 has no upper half, and nobody uses one.
TEST(Effects, HalfARegisterThatNothingSetsIsSomeNumber) {
  auto lines = copies;
  lines.insert(lines.begin() + 1, {"PRMT R33, R9, 0x7610, R33", "LOP3.LUT R9, R33, 0xffff, RZ, 0xc0, !PT"});
  const auto found = effects_of(lines);
  EXPECT_EQ(found.verdict, Verdict::foreseen) << why(found);
  EXPECT_EQ(words(found), words(effects_of(copies)));
}

TEST(Effects, AnAddressInTheCodeIsHiddenAndNothingIsAtZero) {
  auto lines = copies;
  lines[4] = "MOV R5, 0x7f12";
  EXPECT_EQ(why(effects_of({"MOV R4, 0x1000", "MOV R5, 0x7f12", "STG.E desc[UR4][R4.64], R7", "EXIT"})),
            "an address in the code");
  EXPECT_EQ(effects_of({"MOV R4, 0x10", "MOV R5, RZ", "STG.E desc[UR4][R4.64], R7", "EXIT"}).verdict,
            Verdict::foreseen);
}

TEST(Effects, ASumOfWordsNamesAllOfThem) {
  const auto found =
      effects_of({"LDC.64 R2, c[0x0][0x210]", "LDC.64 R4, c[0x0][0x218]", "IADD3 R2, P0, R2, R4, RZ",
                  "IADD3.X R3, R3, R5, RZ, P0, !PT", "STG.E desc[UR4][R2.64], R0", "EXIT"});
  EXPECT_EQ(words(found), "0? store, 8? store");
  EXPECT_FALSE(is_strict(found));
}

TEST(Effects, ACallOfNobodyKnowsWhatIsUnknown) {
  auto lines = copies;
  lines.insert(lines.end() - 1, "CALL.REL.NOINC R12 `(kernel)");
  EXPECT_EQ(why(effects_of(lines)), "a call of nobody knows what");
  lines[lines.size() - 2] = "CALL.ABS.NOINC `(somewhere)";
  EXPECT_EQ(why(effects_of(lines)), "a call of somewhere");
}

TEST(Effects, AFunctionIsFollowedFromEachCallByItself) {
  const auto found = effects_of({"LDC.64 R2, c[0x0][0x210]", "MOV R8, 0x30", "CALL.REL.NOINC `($f)",
                                 "LDC.64 R4, c[0x0][0x218]", "STG.E desc[UR4][R2.64], R0", "MOV R8, 0x70",
                                 "CALL.REL.NOINC `($f)", "EXIT", "$f:", "LDG.E R0, desc[UR4][R2.64]",
                                 "RET.REL.NODEC R8 `(kernel)"});
  EXPECT_EQ(found.verdict, Verdict::foreseen);
  EXPECT_EQ(words(found), "0 load+store");
}

TEST(Effects, ABranchToNobodyKnowsWhereIsUnknown) {
  auto lines = copies;
  lines.insert(lines.begin() + 3, "BRX R12 -0x40");
  EXPECT_EQ(effects_of(lines).verdict, Verdict::unknown);
}

TEST(Effects, CodeThatNothingLeadsToIsUnknownWhereItTouchesMemory) {
  auto lines = copies;
  lines.push_back("STG.E desc[UR4][R4.64], R7");
  EXPECT_EQ(why(effects_of(lines)), "code that nothing leads to");
}

TEST(Effects, ARegisterWrittenUnderAPredicateIsReadUnderIt) {
  const std::vector<std::string> lines = {"S2R R2, SR_TID.X", "ISETP.NE.AND P0, PT, R2, RZ, PT",
                                          "@P0 LDC.64 R2, c[0x0][0x210]", "@P0 STG.E desc[UR4][R2.64], R0",
                                          "EXIT"};
  EXPECT_EQ(effects_of(lines).verdict, Verdict::foreseen);
  EXPECT_EQ(words(effects_of(lines)), "0 store");
  // Asked anew, the predicate tells nothing of what was written before.
  auto changed = lines;
  changed.insert(changed.begin() + 3, "ISETP.EQ.AND P0, PT, R9, RZ, PT");
  EXPECT_EQ(effects_of(changed).verdict, Verdict::unknown);
}

TEST(Effects, ACopiedPredicateIsTheSame) {
  const std::vector<std::string> lines = {"S2R R2, SR_TID.X",
                                          "PLOP3.LUT P0, PT, PT, PT, UP1, 0x80, 0x8",
                                          "@UP1 ULDC.64 UR6, c[0x0][0x210]",
                                          "MOV R2, UR6",
                                          "MOV R3, UR7",
                                          "@P0 STG.E desc[UR4][R2.64], R0",
                                          "EXIT"};
  EXPECT_EQ(words(effects_of(lines)), "0 store");
  EXPECT_EQ(effects_of(lines).verdict, Verdict::foreseen);
}

// As nvcc writes it: the warp makes an address for the lanes that need it, then each uses it where it does.
TEST(Effects, AVoteSaysWhatItsLanesKnow) {
  const std::vector<std::string> lines = {"ULDC.64 UR6, c[0x0][0x210]", "VOTEU.ANY UP0, P0",
                                          "@UP0 ULDC.64 UR6, c[0x0][0x218]", "@P0 STG.E desc[UR4][UR6], R0",
                                          "EXIT"};
  EXPECT_EQ(words(effects_of(lines)), "8 store");
  auto asked_anew = lines;  // what it said of the register is still so
  asked_anew.insert(asked_anew.begin() + 3, "UISETP.EQ.AND UP0, UPT, UR9, URZ, UPT");
  EXPECT_EQ(words(effects_of(asked_anew)), "8 store");
  auto all = lines;
  all[1] = "VOTEU.ALL UP0, P0";
  all[2] = "@!UP0 ULDC.64 UR6, c[0x0][0x218]";
  all[3] = "@!P0 STG.E desc[UR4][UR6], R0";
  EXPECT_EQ(words(effects_of(all)), "8 store");
}

TEST(Effects, AVoteSaysNothingOfOtherLanes) {
  const std::vector<std::string> lines = {"ULDC.64 UR6, c[0x0][0x210]", "VOTEU.ANY UP0, P0",
                                          "@UP0 ULDC.64 UR6, c[0x0][0x218]", "@!P0 STG.E desc[UR4][UR6], R0",
                                          "EXIT"};
  EXPECT_EQ(words(effects_of(lines)), "0 store, 8 store");
  auto all = lines;  // of the warp they do not all hold, of this lane it does
  all[1] = "VOTEU.ALL UP0, P0";
  all[3] = "@P0 STG.E desc[UR4][UR6], R0";
  EXPECT_EQ(words(effects_of(all)), "0 store, 8 store");
  for (const char* const asked_anew :
       {"ISETP.EQ.AND P0, PT, R9, RZ, PT", "UISETP.EQ.AND UP0, UPT, UR9, URZ, UPT"}) {
    auto changed = lines;
    changed[3] = "@P0 STG.E desc[UR4][UR6], R0";
    changed.insert(changed.begin() + 2, asked_anew);
    EXPECT_EQ(words(effects_of(changed)), "0 store, 8 store") << asked_anew;
  }
}

TEST(Effects, AnAddressThatIsComparedWithNothingIsSomethingBehind) {
  const std::vector<std::string> lines = {"MOV R2, RZ",
                                          "MOV R3, RZ",
                                          "@P1 BRA `(.L_x_0)",
                                          "LDC.64 R2, c[0x0][0x210]",
                                          ".L_x_0:",
                                          "ISETP.NE.U32.AND P0, PT, RZ, R2, PT",
                                          "ISETP.NE.AND.EX P0, PT, RZ, R3, PT, P0",
                                          "@!P0 EXIT",
                                          "S2R R9, SR_TID.X",
                                          "IMAD.WIDE R4, R9, 0x4, R2",
                                          "STG.E desc[UR4][R4.64], R0",
                                          "EXIT"};
  EXPECT_EQ(effects_of(lines).verdict, Verdict::foreseen);
  EXPECT_EQ(words(effects_of(lines)), "0 store");
  auto untested = lines;
  untested[7] = "NOP";
  EXPECT_EQ(effects_of(untested).verdict, Verdict::unknown);
}

TEST(Effects, AUniformRegisterIsWhatAnyLaneMadeOfIt) {
  // A lane without P0 sees what the others wrote.
  const auto found = effects_of({"ULDC.64 UR6, c[0x0][0x210]", "LDC.64 R2, c[0x0][0x218]", "@P0 R2UR UR6, R2",
                                 "@P0 R2UR UR7, R3", "@!P0 STG.E desc[UR4][UR6], R0", "EXIT"});
  EXPECT_EQ(words(found), "0 store, 8 store");
}

TEST(Effects, WhatOtherLanesGiveIsGuardedByTheirPredicates) {
  for (const bool uniform : {false, true}) {
    const auto found =
        effects_of({"LDC.64 R2, c[0x0][0x210]", "@P0 LDC.64 R2, c[0x0][0x218]",
                    uniform ? "R2UR UR6, R2" : "SHFL.BFLY PT, R6, R2, 0x1, 0x1f",
                    uniform ? "R2UR UR7, R3" : "SHFL.BFLY PT, R7, R3, 0x1, 0x1f",
                    uniform ? "@P0 STG.E desc[UR4][UR6], R0" : "@P0 STG.E desc[UR4][R6.64], R0", "EXIT"});
    EXPECT_EQ(words(found), "0 store, 8 store") << uniform;
  }
}

TEST(Effects, ConstantsThatAreOnlyComparedAreRead) {
  const auto found =
      effects_of({"ISETP.GE.AND P0, PT, R0, c[0x0][0x210], PT", "DSETP.GEU.AND P1, PT, R2, c[0x0][0x218], PT",
                  "DFMA R2, R4, c[0x0][0x220], R6", "LDC.U8 R0, c[0x0][0x231]", "EXIT"});
  EXPECT_EQ(found.constants, (std::vector<std::uint32_t>{0, 8, 12, 16, 20, 32}));
  EXPECT_FALSE(found.all_constants);
}

TEST(Effects, ConversionsWriteAsManyRegistersAsTheirResultHas) {
  for (const char* const conversion : {"F2F.F32.F64 R3, R6", "F2I.F64.TRUNC R3, R6", "I2F.S64 R3, R6"}) {
    const auto found =
        effects_of({"LDC.64 R4, c[0x0][0x210]", conversion, "STG.E desc[UR4][R4.64], R3", "EXIT"});
    EXPECT_EQ(found.verdict, Verdict::foreseen) << conversion;
    EXPECT_EQ(words(found), "0 store") << conversion;
  }
  for (const char* const conversion :
       {"F2F.F64.F32 R3, R6", "F2I.S64.F64.TRUNC R3, R6", "I2F.F64.U32 R3, R6"})
    EXPECT_EQ(
        effects_of({"LDC.64 R4, c[0x0][0x210]", conversion, "STG.E desc[UR4][R4.64], R3", "EXIT"}).verdict,
        Verdict::unknown)
        << conversion;
}

TEST(Effects, TheStackKeepsAddresses) {
  const auto found =
      effects_of({"LDC R1, c[0x0][0x28]", "VIADD R1, R1, 0xfffffff0", "LDC.64 R2, c[0x0][0x210]",
                  "STL.64 [R1+0x8], R2", "LDL.64 R4, [R1+0x8]", "STG.E desc[UR4][R4.64], R0", "EXIT"});
  EXPECT_EQ(found.verdict, Verdict::foreseen);
  EXPECT_EQ(words(found), "0 store");
}

TEST(Effects, SharedMemoryKeepsAddressesAndWhatNobodyStoredIsUnknown) {
  const auto found = effects_of({"LDC.64 R2, c[0x0][0x210]", "STS.64 [R9], R2", "LDS.64 R4, [R8]",
                                 "STG.E desc[UR4][R4.64], R0", "EXIT"});
  EXPECT_EQ(words(found), "0 store");
  EXPECT_EQ(found.verdict, Verdict::foreseen);
  EXPECT_EQ(effects_of({"LDS.64 R4, [R8]", "STG.E desc[UR4][R4.64], R0", "EXIT"}).verdict, Verdict::unknown);
}

// First addresses are exchanged, then numbers; `turn` stands where the one ends and the other begins. R4:5 is
// the address found, and R12:13 the number.
std::vector<std::string> exchanges(const std::vector<std::string>& turn,
                                   const std::vector<std::string>& second = {"STS.64 [R0], R6"}) {
  std::vector<std::string> lines = {
      "S2R R0, SR_TID.X",    "S2R R1, SR_LANEID",           "LDC.64 R2, c[0x0][0x210]",
      "STS.64 [R0], R2",     "BAR.SYNC.DEFER_BLOCKING 0x0", "LDS.64 R4, [R1]",
      "LDG.E.64 R6, [R4.64]"};
  lines.insert(lines.end(), turn.begin(), turn.end());
  lines.insert(lines.end(), second.begin(), second.end());
  for (const char* const line : {"BAR.SYNC.DEFER_BLOCKING 0x0", "LDS.64 R12, [R1]",
                                 "LDC.64 R8, c[0x0][0x218]", "STG.E.64 [R8.64], R12", "EXIT"})
    lines.push_back(line);
  return lines;
}

const std::vector<std::string> a_barrier = {"BAR.SYNC.DEFER_BLOCKING 0x0"};

TEST(Effects, NumbersAndAddressesMayTakeTurnsInSharedMemory) {
  const auto found = effects_of(exchanges(a_barrier));
  EXPECT_EQ(found.verdict, Verdict::foreseen);
  EXPECT_EQ(words(found), "0 load, 8 store");
}

TEST(Effects, WithoutABarrierBetweenThemAnAddressMayBeANumber) {
  EXPECT_NE(effects_of(exchanges({})).verdict, Verdict::foreseen);
}

TEST(Effects, OnlyABarrierOfAllThreadsIsOne) {
  for (const char* const other : {"BAR.SYNC.DEFER_BLOCKING 0x1, 0x40", "BAR.ARV 0x0, 0x40", "WARPSYNC.ALL"})
    EXPECT_NE(effects_of(exchanges({other})).verdict, Verdict::foreseen) << other;
  EXPECT_NE(effects_of(exchanges({"@P0 BAR.SYNC.DEFER_BLOCKING 0x0"})).verdict, Verdict::foreseen);
}

// Then an address is exchanged again.
std::vector<std::string> three_exchanges(const std::vector<std::string>& second) {
  auto lines = exchanges({"LDC.64 R14, c[0x0][0x218]"}, {});
  lines.resize(8);
  for (const char* const line :
       {"BAR.SYNC.DEFER_BLOCKING 0x0", "STS.64 [R0], R6", "BAR.SYNC.DEFER_BLOCKING 0x0", "LDS.64 R12, [R1]",
        "BAR.SYNC.DEFER_BLOCKING 0x0"})
    lines.push_back(line);
  lines.insert(lines.end(), second.begin(), second.end());
  for (const char* const line :
       {"BAR.SYNC.DEFER_BLOCKING 0x0", "LDS.64 R16, [R1]", "STG.E.64 [R16.64], R12", "EXIT"})
    lines.push_back(line);
  return lines;
}

TEST(Effects, WhatIsStoredInTheSamePlaceReplacesWhatWasThere) {
  const auto found = effects_of(three_exchanges({"STS.64 [R0], R14"}));
  EXPECT_EQ(found.verdict, Verdict::foreseen);
  EXPECT_EQ(words(found), "0 load, 8 store");
}

TEST(Effects, ElsewhereOrOnlySometimesItDoesNot) {
  for (const std::vector<std::string>& second : std::vector<std::vector<std::string>>{
           {"STS.64 [R0+0x8], R14"},
           {"STS [R0], R14"},
           {"@P0 STS.64 [R0], R14"},
           {"IADD3 R0, R0, 0x8, RZ", "STS.64 [R0], R14"},
           {"@P0 BRA `(.L_x_1)", "STS.64 [R0], R14", ".L_x_1:"},
           {"@P0 EXIT", "STS.64 [R0], R14"},
           {".L_x_1:", "IADD3 R0, R0, 0x8, RZ", "STS.64 [R0], R14", "@P0 BRA `(.L_x_1)"}})
    EXPECT_EQ(effects_of(three_exchanges(second)).verdict, Verdict::hidden) << second.back();
}

// Where the first store's register was set in a loop it is another place in each round.
TEST(Effects, ARegisterThatALoopSetsIsNoPlace) {
  auto lines = three_exchanges({"STS.64 [R0], R14", "@P0 BRA `(.L_x_1)"});
  lines.insert(lines.begin(), ".L_x_1:");
  EXPECT_EQ(effects_of(lines).verdict, Verdict::hidden);
}

TEST(Effects, ThreadsThatMayMeetAtDifferentBarriersAreNotFollowed) {
  const auto found =
      effects_of(exchanges({"@P0 BRA `(.L_x_1)", "BAR.SYNC.DEFER_BLOCKING 0x0", "BRA `(.L_x_2)",
                            ".L_x_1:", "BAR.SYNC.DEFER_BLOCKING 0x0", ".L_x_2:"}));
  EXPECT_NE(found.verdict, Verdict::foreseen);
}

TEST(Effects, WhereAClusterOrAnEngineStoresTooSharedMemoryIsOnePlace) {
  for (const char* const other :
       {"UCGABAR_WAIT", "SYNCS.ARRIVE.TRANS64 RZ, [R1], RZ", "UBLKCP.S.G [UR4], [UR6], UR8"})
    EXPECT_NE(effects_of(exchanges({"BAR.SYNC.DEFER_BLOCKING 0x0", other})).verdict, Verdict::foreseen)
        << other;
}

TEST(Effects, ATableTellsWhichWordABlockTakes) {
  const auto found =
      effects_of({"S2UR UR5, SR_CTAID.X", "ULDC.U8 UR5, c[0x0][UR5+0xa10]", "USHF.L.U32 UR8, UR5, 0x3, URZ",
                  "ULDC.64 UR6, c[0x0][UR8+0x410]", "STG.E desc[UR4][UR6], R0", "EXIT"});
  ASSERT_EQ(found.tables.size(), 1U);
  EXPECT_EQ(found.tables[0].offset, 0x200);
  EXPECT_EQ(found.tables[0].index, "(p[CTAID.X + 2048].u8 * 0x8)");
  EXPECT_EQ(found.tables[0].effect, stores);
  EXPECT_EQ(found.verdict, Verdict::foreseen);
}

TEST(Effects, AnIndexThatNobodyKnowsMayTakeAnyWord) {
  const auto found = effects_of(
      {"LDG.E R0, desc[UR4][R2.64]", "LDC.64 R4, c[0x0][R0+0x210]", "STG.E desc[UR4][R4.64], R0", "EXIT"});
  ASSERT_EQ(found.tables.size(), 1U);
  EXPECT_EQ(found.tables[0].index, "?");
  EXPECT_TRUE(found.all_constants);
}

TEST(Effects, AtomicsAndReductionsUpdate) {
  const auto found =
      effects_of({"LDC.64 R2, c[0x0][0x210]", "LDC.64 R4, c[0x0][0x218]",
                  "ATOMG.E.ADD PT, R7, desc[UR4][R2.64], R9", "REDG.E.ADD desc[UR4][R4.64], R9", "EXIT"});
  EXPECT_EQ(words(found), "0 update, 8 update");
}

TEST(Effects, ATensorMapAmongTheParametersIsNamedByItsPlace) {
  const auto found =
      effects_of({"ULDC.64 UR4, c[0x0][0x198]", "UIADD3 UR4, UP0, UR4, 0x40, URZ",
                  "UIADD3.X UR5, URZ, UR5, URZ, UP0, !UPT", "UTMALDG.2D [UR8], [UR4]", "EXIT"});
  ASSERT_EQ(found.maps.size(), 1U);
  EXPECT_EQ(found.maps[0], (MapEffect{0x40, loads}));
  EXPECT_EQ(found.verdict, Verdict::foreseen);
  EXPECT_EQ(effects_of({"ULDC.64 UR4, c[0x0][0x210]", "UTMALDG.2D [UR8], [UR4]", "EXIT"}).verdict,
            Verdict::hidden);
}

TEST(Effects, CodeThatIsMissingMakesTheKernelUnknown) {
  const auto codes = read_disassembly(disassembly(copies));
  Kernel kernel = kernel_of(90);
  kernel.code_bytes = 16 * copies.size();
  EXPECT_EQ(analyse(kernel, codes.at(0)).verdict, Verdict::foreseen);
  kernel.code_bytes += 16;
  EXPECT_EQ(analyse(kernel, codes.at(0)).verdict, Verdict::unknown);
}

TEST(Effects, TexturesAreHidden) {
  EXPECT_EQ(effects_of({"TEX.B.LL RZ, R4, R2, UR4, 1D", "EXIT"}).verdict, Verdict::hidden);
}

TEST(Effects, JsonHasAllOfIt) {
  const auto json = to_json(effects_of(copies));
  EXPECT_EQ(json["verdict"], "foreseen");
  EXPECT_EQ(json["words"][1]["offset"], 8);
  EXPECT_EQ(json["code"].get<std::string>().size(), 16U);
}

TEST(Values, ManyAlternativesBecomeOneThatOnlyGrows) {
  Values values;
  ValueId all = Values::bottom;
  for (int i = 0; i < 40; ++i) all = values.join(all, values.of({Origin::word, false, 8 * i}));
  EXPECT_EQ(values[all].alternatives.size(), 16U) << "the first 25 are one";
  const ValueId again = values.join(all, values.of({Origin::word, false, 0}));
  EXPECT_EQ(again, all);
}

TEST(Values, WhatIsTakenAwayTwiceIsThere) {
  Values values;
  const ValueId a = values.of({Origin::word, false, 0}), b = values.of({Origin::word, false, 8});
  const ValueId difference = values.add(a, values.negate(b));
  EXPECT_EQ(values.add(a, values.negate(difference)), values.add(a, values.add(values.negate(a), b)));
  EXPECT_EQ(values.derive(values.add(a, b)), values.derive(a, b));
}

// Whatever text comes, reading it ends; a sanitizer sees what is read beside it.
TEST(Effects, DamagedTextIsReadToItsEnd) {
  std::mt19937 random(1);
  const std::string whole = disassembly(copies);
  for (int i = 0; i < 2000; ++i) {
    std::string damaged = whole;
    for (unsigned k = 0; k < 1 + random() % 6; ++k)
      damaged[random() % damaged.size()] = static_cast<char>(random() % 128);
    for (const Code& code : read_disassembly(damaged)) (void)analyse(kernel_of(90), code);
  }
}

TEST(Images, DamagedFilesGiveAnErrorOrFewerKernels) {
  namespace fs = std::filesystem;
  std::mt19937 random(1);
  const fs::path file = fs::path(testing::TempDir()) / ("damaged" + std::to_string(getpid()));
  for (const char* const name : {"plain.cubin", "zstd.fatbin", "lz4.fatbin"}) {
    std::ifstream in(fs::path(FATBIN_FOLDER) / name, std::ios::binary);
    const std::string whole{std::istreambuf_iterator<char>(in), {}};
    ASSERT_FALSE(whole.empty()) << name;
    for (int i = 0; i < 300; ++i) {
      std::string damaged = whole.substr(0, i % 3 == 0 ? 1 + random() % whole.size() : whole.size());
      for (unsigned k = 0; k < random() % 20; ++k)
        damaged[random() % std::min<std::size_t>(damaged.size(), i % 2 == 0 ? 512 : damaged.size())] =
            static_cast<char>(random());
      std::ofstream(file, std::ios::binary) << damaged;
      const auto opened = ImageFile::open(file);
      if (!opened) continue;
      for (const Image& image : opened->images()) (void)kernels_of(image.cubin());
    }
  }
  fs::remove(file);
}

TEST(Images, KernelsOfAFileHaveTheirParametersAndTheirHash) {
  const auto opened = ImageFile::open(std::filesystem::path(FATBIN_FOLDER) / "plain.cubin");
  ASSERT_TRUE(opened) << opened.error().message;
  ASSERT_EQ(opened->images().size(), 1U);
  bool found = false;
  for (const Kernel& kernel : kernels_of(opened->images()[0].cubin())) {
    if (kernel.name != "gather") continue;
    found = true;
    EXPECT_EQ(kernel.architecture, opened->images()[0].architecture);
    EXPECT_EQ(kernel.params.size(), 2U);
    EXPECT_NE(kernel.code_hash, 0U);
    EXPECT_GT(kernel.param_base, 0x100U);
  }
  EXPECT_TRUE(found);
  EXPECT_FALSE(ImageFile::open("/etc/passwd"));
  EXPECT_FALSE(ImageFile::open("/nowhere/at/all"));
}

}  // namespace
