#include "completion.h"

#include <fmt/core.h>

namespace pooch::tools {
namespace {

std::string options_of(const CLI::App& command) {
  std::string options;
  for (const CLI::Option* option : command.get_options())
    if (!option->get_group().empty())
      for (const std::string& name : option->get_lnames()) options += " --" + name;
  return options;
}

}  // namespace

// Behind "--" stands a command of the user's, which is completed as one.
std::string bash_completion(const CLI::App& app) {
  std::string commands, cases;
  for (const CLI::App* command : app.get_subcommands([](const CLI::App*) { return true; })) {
    commands += " " + command->get_name();
    cases += fmt::format("    {}) words=\"{}\" ;;\n", command->get_name(), options_of(*command));
  }
  return fmt::format(R"(# Completion of pooch's commands and options: source <(pooch completion)
_pooch() {{
  local i words=""
  for ((i = 1; i < COMP_CWORD; ++i)); do
    if [ "${{COMP_WORDS[i]}}" = -- ]; then
      _command_offset $((i + 1)) 2>/dev/null
      return
    fi
  done
  case "${{COMP_WORDS[1]}}" in
{}  esac
  if [ "$COMP_CWORD" = 1 ]; then
    words="{}{}"
  elif [[ "${{COMP_WORDS[COMP_CWORD]}}" != -* ]]; then
    words=""
  fi
  mapfile -t COMPREPLY < <(compgen -W "$words" -- "${{COMP_WORDS[COMP_CWORD]}}")
}}
complete -o default -F _pooch pooch
)",
                     cases, commands.substr(1), options_of(app));
}

}  // namespace pooch::tools
