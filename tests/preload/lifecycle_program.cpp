// lifecycle_program SCENARIO: calls the CUDA part, with which it is linked.
extern "C" int run_scenario(const char* name);

int main(int count, char** arguments) {
  return count == 2 ? run_scenario(arguments[1]) : 2;
}
