// Runs the tests of one file of a program that is made of several: `PROGRAM NAME` runs those of
// NAME_test.cpp, each file in a process of its own. Without a name it runs all.
#include <cstdio>
#include <filesystem>
#include <string>

#include <gtest/gtest.h>

namespace {

// "NAME" of ".../NAME_test.cpp".
std::string subject(const char* file) {
  const std::string stem = std::filesystem::path(file).stem();
  const std::size_t end = stem.rfind("_test");
  return stem.substr(0, end);
}

// The tests of the file, as a filter; empty: there is none.
std::string tests_of(const std::string& name) {
  std::string tests;
  const ::testing::UnitTest& all = *::testing::UnitTest::GetInstance();
  for (int s = 0; s < all.total_test_suite_count(); ++s) {
    const ::testing::TestSuite& suite = *all.GetTestSuite(s);
    for (int t = 0; t < suite.total_test_count(); ++t) {
      const ::testing::TestInfo& test = *suite.GetTestInfo(t);
      if (subject(test.file()) == name) tests += std::string(suite.name()) + '.' + test.name() + ':';
    }
  }
  return tests;
}

}  // namespace

int main(int argc, char** argv) {
  ::testing::InitGoogleTest(&argc, argv);
  std::string& filter = ::testing::GTEST_FLAG(filter);
  for (int i = 1; i < argc; ++i) {
    const std::string tests = tests_of(argv[i]);
    if (tests.empty()) {
      std::fprintf(stderr, "%s: no tests are in %s_test.cpp\n", argv[0], argv[i]);
      return 2;
    }
    // What the caller leaves out stays out; what it asks for by name is run alone.
    if (filter == "*")
      filter = tests;
    else if (filter[0] == '-')
      filter = tests + filter;
  }
  const int status = RUN_ALL_TESTS();
  if (::testing::UnitTest::GetInstance()->test_to_run_count() > 0) return status;
  std::fprintf(stderr, "%s: no test is %s\n", argv[0], filter.c_str());
  return 2;
}
