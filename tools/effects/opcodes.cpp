#include "tools/effects/opcodes.h"

#include <algorithm>
#include <charconv>
#include <map>
#include <string_view>

namespace pooch::effects {
namespace {

using enum Action;

struct Row {
  Action action;
  std::string_view names;  // separated by spaces
};

constexpr Row rows[] = {
    {none,
     "NOP BAR DEPBAR LDGDEPBAR MEMBAR ERRBAR YIELD NANOSLEEP BREAK FENCE CGAERRBAR UCGABAR_ARV UCGABAR_WAIT "
     "WARPGROUP WARPGROUPSET WARPGROUPDEPBAR USETMAXREG SETMAXREG ENDCOLLECTIVE PMTRIG ACQBULK ACQSHMINIT "
     "PREEXIT "
     "ARRIVES UTMACMDFLUSH UTMACCTL UTMAPF UBLKPF CCTLL CCTLT BPT UTCBAR UTCHMMA UTCIMMA UTCQMMA UTCOMMA "
     "UTCMMA "
     "UTCCP UTCSHIFT UVIRTCOUNT"},
    {predicate,
     "ISETP FSETP DSETP HSETP2 PLOP3 UPLOP3 UISETP UFSETP PSETP UPSETP FCHK R2P QSPC ISBEWR CSMTEST UR2UP"},
    {data,
     "FADD FMUL FFMA FFMA2 FADD2 FMUL2 MUFU HADD2 HMUL2 HMMA IMMA DMMA BMMA QMMA OMMA HGMMA IGMMA QGMMA "
     "BGMMA DADD "
     "DMUL DFMA FMNMX FMNMX3 HMNMX2 F2F F2FP F2I F2IP I2F I2FP I2I I2IP FRND FSWZADD FSET HSET2 DSET POPC "
     "FLO BREV "
     "VOTE VOTEU UVOTE VABSDIFF VABSDIFF4 BMSK UBMSK SGXT USGXT UFLO UPOPC UBREV IDP IDP4A P2R P2UR UP2UR "
     "REDUX "
     "UREDUX CREDUX MATCH B2R LEPC ELECT MOVM UFMUL UFADD UFFMA UFSEL UFSET UF2F UI2F UI2FP UF2I UF2FP UFRND "
     "UFMNMX "
     "UF2IP UI2I UI2IP SYNCS UGETNEXTWORKID PIXLD IABS UIABS VIADDMNMX UVIADDMNMX VHMNMX UTCATOMSWS HADD2_32 "
     "GETLMEMBASE FMUL32I FADD32I FFMA32I IMUL UIMUL UIDP SHFCNT DMNMX FADD3 MUFU2"},
    {move, "MOV UMOV R2UR UMOV32I MOV32I RPCMOV"},
    {select, "SEL USEL FSEL IMNMX UIMNMX VIMNMX UVIMNMX VIMNMX3 UVIMNMX3"},
    {add, "IADD3 UIADD3 IADD UIADD VIADD UVIADD IADD32I"},
    {multiply_add, "IMAD UIMAD"},
    {shift_add, "LEA ULEA"},
    {shift, "SHF USHF SHL SHR USHL USHR"},
    {logic, "LOP3 ULOP3 LOP ULOP LOP32I"},
    {permute, "PRMT UPRMT"},
    {shuffle, "SHFL"},
    {constant_load, "LDC ULDC LDCU"},
    {special, "S2R S2UR CS2R CS2UR"},
    {half, "HFMA2 UHFMA2 HFMA2_MMA"},
    {load, "LDG LD LDGMC"},
    {store, "STG ST"},
    {atomic, "ATOMG ATOM"},
    {reduction, "RED REDG"},
    {copy_in, "LDGSTS"},
    {bulk_copy, "UBLKCP"},
    {bulk_reduction, "UBLKRED"},
    {tensor_load, "UTMALDG"},
    {tensor_store, "UTMASTG"},
    {tensor_reduction, "UTMAREDG"},
    {shared_load, "LDS LDSM LDT LDTM"},
    {shared_store, "STS STSM STAS STT STTM REDAS"},
    {shared_atomic, "ATOMS"},
    {local_load, "LDL"},
    {local_store, "STL"},
    {cache_control, "CCTL"},
    {texture, "TEX TLD TLD4 TXQ TMML TXD SUATOM SULD SUST SURED SUQUERY"},
    {branch, "BRA JMP"},
    {indirect_branch, "BRX BRXU JMX JMXU"},
    {diverge, "BSSY"},
    {converge, "BSYNC"},
    {barrier_move, "BMOV"},
    {collective, "WARPSYNC"},
    {call, "CALL"},
    {ret, "RET"},
    {Action::exit, "EXIT KILL"},
};

const std::map<std::string_view, Action>& table() {
  static const auto* const made = [] {
    auto* all = new std::map<std::string_view, Action>;
    for (const Row& row : rows)
      for (std::string_view rest = row.names; !rest.empty();) {
        const std::size_t end = rest.find(' ');
        all->emplace(rest.substr(0, end), row.action);
        rest.remove_prefix(end == std::string_view::npos ? rest.size() : end + 1);
      }
    return all;
  }();
  return *made;
}

// Half of what an accumulator of N columns needs: 64 rows by 128 threads.
unsigned matrix_registers(const Instruction& one) {
  constexpr unsigned most = 128;
  for (const std::string& modifier : one.modifiers) {
    const std::size_t begin = modifier.find('x');
    if (begin == std::string::npos) continue;
    unsigned columns = 0;
    const char* const end = modifier.data() + modifier.size();
    if (std::from_chars(modifier.data() + begin + 1, end, columns).ec == std::errc() && columns != 0)
      return std::clamp(columns / 2, 1U, most);
  }
  return most;
}

// ".x32": of tensor memory.
unsigned tensor_memory_registers(const Instruction& one) {
  unsigned count = 4;
  for (const std::string& modifier : one.modifiers) {
    if (modifier.size() < 2 || modifier.front() != 'x') continue;
    unsigned times = 0;
    (void)std::from_chars(modifier.data() + 1, modifier.data() + modifier.size(), times);
    count = std::max(count, std::min(times, 128U));
  }
  return count;
}

// A conversion's modifiers name the result's type before the source's; integers of 32 bits are not named.
unsigned converted_registers(const Instruction& one) {
  if (one.name == "F2I") return one.has("S64") || one.has("U64") ? 2 : 1;
  if (one.name == "I2F") return one.has("F64") ? 2 : 1;
  for (const std::string& modifier : one.modifiers)
    if (modifier == "F16" || modifier == "BF16" || modifier == "F32" || modifier == "F64")
      return modifier == "F64" ? 2 : 1;
  return 2;
}

unsigned data_registers(const Instruction& one) {
  const std::string& name = one.name;
  if (name == "F2F" || name == "F2I" || name == "I2F") return converted_registers(one);
  if (name.ends_with("GMMA")) return matrix_registers(one);
  if (name.ends_with("MMA")) return 4;
  if (name == "DADD" || name == "DMUL" || name == "DFMA" || name == "LEPC" || name == "GETLMEMBASE" ||
      name == "DMNMX" || name == "FFMA2" || name == "FADD2" || name == "FMUL2")
    return 2;
  if (name == "UGETNEXTWORKID") return 4;
  for (const char* const wide : {"64", "F64", "S64", "U64", "WIDE"})
    if (one.has(wide)) return 2;
  return 1;
}

unsigned memory_registers(const Instruction& one) {
  if (one.has("128") || one.has("256")) return 4;
  return one.has("64") ? 2 : 1;
}

}  // namespace

std::optional<Action> action_of(const Instruction& one) {
  const auto found = table().find(one.name);
  if (found == table().end()) return std::nullopt;
  return found->second;
}

bool ends_block(Action action) {
  switch (action) {
    case branch:
    case indirect_branch:
    case converge:
    case collective:
    case call:
    case ret:
    case Action::exit:
      return true;
    default:
      return false;
  }
}

unsigned register_count(const Instruction& one, Action action) {
  switch (action) {
    case load:
    case store:
    case atomic:
    case constant_load:
    case shared_atomic:
    case local_load:
    case local_store:
      return memory_registers(one);
    case shared_load:
    case shared_store:
      if (one.name.starts_with("LDT") || one.name.starts_with("STT")) return tensor_memory_registers(one);
      if (one.name.ends_with("SM")) return one.has("4") ? 4 : one.has("2") ? 2 : 1;
      return memory_registers(one);
    case texture:
      return 4;
    case data:
      return data_registers(one);
    case special:
      return one.name == "CS2R" && !one.has("32") ? 2 : 1;
    case multiply_add:
      return one.has("WIDE") ? 2 : 1;
    case shift:
      return one.name == "SHF" || one.name == "USHF" || !one.has("64") ? 1 : 2;
    default:
      return one.has("64") ? 2 : 1;
  }
}

unsigned element_bytes(const Instruction& one) {
  if (one.has("U8") || one.has("S8")) return 1;
  return one.has("U16") || one.has("S16") ? 2 : 4;
}

}  // namespace pooch::effects
