// Runs the tests that need a GPU; where there is none, says so.
#include <gtest/gtest.h>

#include <cstdio>
#include <cstdlib>
#include <string>
#include <string_view>

#include "tests/gpu/real_gpu.hpp"

int main(int argc, char** argv) {
  testing::InitGoogleTest(&argc, argv);
  const std::string why = hymn::test::why_no_gpu();
  if (why.empty()) return RUN_ALL_TESTS();
  const char* const required = std::getenv("HYMN_REQUIRE_GPU");
  const bool fails = required != nullptr && std::string_view(required) == "1";
  std::printf("%s: no GPU that can be used: %s\n", fails ? "FAILED" : "SKIPPED", why.c_str());
  constexpr int skipped = 77;  // as tests/gpu/CMakeLists.txt says
  return fails ? 1 : skipped;
}
