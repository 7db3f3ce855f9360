// Small files of the kernel's, and their lines.
#include "base/kernel_file.hpp"

#include <gtest/gtest.h>
#include <unistd.h>

#include <fstream>

namespace hymn::test {
namespace {

class KernelFile : public testing::Test {
 protected:
  ~KernelFile() override { ::unlink(path_.c_str()); }
  void write(const std::string& text) const { std::ofstream(path_) << text; }

  std::string path_ = testing::TempDir() + "hymn_kernel_file_" + std::to_string(getpid());
};

TEST_F(KernelFile, IsReadWholeHoweverLongItIs) {
  for (const std::size_t length : {0u, 1u, 4095u, 4096u, 4097u, 100000u}) {
    const std::string text(length, 'x');
    write(text);
    EXPECT_EQ(kernel_file(path_), text) << length;
  }
}

TEST_F(KernelFile, ThatIsNotThereIsNothing) {
  EXPECT_FALSE(kernel_file(path_));
  EXPECT_FALSE(kernel_file("/proc/self")) << "it is a folder";
  EXPECT_EQ(first_line_of(path_), "");
}

TEST_F(KernelFile, IsOneOfTheKernelsWhoseSizeIsNotKnown) {
  EXPECT_TRUE(first_line_of("/proc/self/stat").starts_with(std::to_string(getpid()) + " "));
}

TEST_F(KernelFile, HasAFirstLine) {
  write("one\ntwo\n");
  EXPECT_EQ(first_line_of(path_), "one");
  write("only");
  EXPECT_EQ(first_line_of(path_), "only");
  write("\nsecond");
  EXPECT_EQ(first_line_of(path_), "");
}

TEST(NextPart, TakesOnePartAfterTheOther) {
  std::string_view text = "12  3\n";
  EXPECT_EQ(next_part(text, ' '), "12");
  EXPECT_EQ(next_part(text, ' '), "");
  EXPECT_EQ(next_part(text, '\n'), "3");
  EXPECT_EQ(text, "");
  EXPECT_EQ(next_part(text, '\n'), "");
}

}  // namespace
}  // namespace hymn::test
