// Machine code as nvdisasm writes it, taken apart.
//
//   /*0210*/  @!P0 LDG.E.64 R4, desc[UR14][R2.64+0x8] ;
//             ───┬ ─┬─ ──┬─ ─┬  ───────────┬─────────
//            guard  name │   register     memory: registers and a constant to be added up
//                     modifiers
//
// What is not understood is an operand of the kind `other`, which as a source may be anything.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace pooch::effects {

// A general register, or a uniform one, which a warp has together.
struct Register {
  bool uniform = false;
  std::uint16_t number = 0;

  auto operator<=>(const Register&) const = default;
};

// P0…P6 or UP0…UP6, as it is or negated.
struct Predicate {
  bool uniform = false, negated = false;
  std::uint8_t number = 0;

  auto operator<=>(const Predicate&) const = default;
  Predicate opposite() const { return {uniform, !negated, number}; }
};

enum class OperandKind : std::uint8_t {
  reg,            // nothing: RZ or URZ, which is 0
  predicate,      // nothing: PT or UPT; `negated` is theirs too
  predicate_set,  // PR or UPR: all predicates
  immediate,      // `number`, of up to 64 bits
  floating,       // a number with a point; `number` is nothing to rely on
  constant,       // bank, offset and an index
  bindless,       // a constant bank that a register names
  memory,         // [ … ]
  special,        // SR_…
  barrier,        // B0…B15
  label,          // `(.L_x_1)
  symbol,         // 32@lo(name) and the like
  other,
};

struct MemoryPart {
  Register reg;
  bool pair = false;    // 64 bits: the next register has the upper half
  bool scaled = false;  // .X4 and the like
};

struct Operand {
  OperandKind kind = OperandKind::other;
  bool negated = false;         // - or ~, or ! of a predicate
  bool high_is_sign = false;    // of a 64-bit operand: .U32 or .S32, only the lower half is there
  std::optional<Register> reg;  // of a register, and of a constant's index
  std::optional<Predicate> predicate;
  std::int64_t number = 0;  // an immediate; a constant's or memory's offset
  std::uint32_t bank = 0;
  std::vector<MemoryPart> parts;  // of memory
  std::string text;               // of what has a name
};

struct Instruction {
  std::uint32_t address = 0;
  std::optional<Predicate> guard;  // nothing: always
  bool never = false;              // under !PT
  std::string name;                // without modifiers
  std::vector<std::string> modifiers;
  std::vector<Operand> operands;
  std::vector<std::string> targets;  // of an indirect branch, where nvdisasm found them
  std::string text;

  bool has(std::string_view modifier) const;
};

// One section of code: a kernel and the functions that came with it.
struct Code {
  std::string name;
  std::vector<Instruction> instructions;
  std::map<std::string, std::size_t, std::less<>> labels;  // to the instruction behind

  std::optional<std::size_t> at(std::uint64_t address) const;
};

// All sections of a disassembly (nvdisasm -c).
std::vector<Code> read_disassembly(std::string_view text);

// One instruction without its address. No name: it is not understood.
Instruction read_instruction(std::string_view text);
Operand read_operand(std::string_view text);

}  // namespace pooch::effects
