#include "path_command.h"

#include <fmt/core.h>

#include <cstdio>

#include "install.h"
#include "run_command.h"
#include "text_file.h"

namespace pooch::tools {

int path_command() {
  const auto path = library_to_preload(find_install());
  if (path) return print_text("path", *path + "\n");
  say("pooch: error: path: {}\n", path.error().message);
  return exit_failed;
}

}  // namespace pooch::tools
