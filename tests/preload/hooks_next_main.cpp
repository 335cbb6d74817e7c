// Prints what the wrapped function answers.
#include <cstdio>

extern "C" int answer();

int main() {
  std::printf("%d\n", answer());
}
